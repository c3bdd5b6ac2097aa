"""Tells the recommender's model what changed in the cluster since it was last told.

Strategy: a snapshot is compared with what the model knows, so nothing can be missed and nothing
is told twice. Topmost controllers are looked for once per owner, until a controller of the
namespace changes or the answer is old. A target that may be unknown for want of time alone is not
told of for a while; what was known of its VPA stays.

What needs an owner that has to be looked up is told last: all look-ups are begun before the first
one is waited for, and namespaces take turns in that, another one first each time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from app.model.kinds import ObjectKey, OwnerReference
from app.model.pod_roles import as_acting
from app.model.pods import Pod
from app.model.snapshot import EMPTY_VIEW, NamespaceView, Snapshot, in_turns
from app.model.vpa import Vpa
from app.model.workloads import Absent, Failed, Lookup, LookupResult, Workload
from app.ports import Clock, Owners
from app.recommender.core.model import RecommenderModel
from app.recommender.core.targets import ObservedVpa, VpaKey, handles
from app.recommender.core.tracked import NO_OWNER, PodKey
from app.recommender.variants import OURS, Variant
from app.sizing.matching import LookupNeeded, MatchReason, topmost

_UNRESOLVED_SECONDS: Final = 180.0  # for which there may be no time for a target
_BELIEVED_SECONDS: Final = 600.0  # owners of custom kinds change without a sign


@dataclass(slots=True)
class _Place:
    """What the model was told of one namespace."""

    view: NamespaceView = EMPTY_VIEW
    tops: dict[ObjectKey, ObjectKey] = field(default_factory=dict)  # of owners
    told: dict[str, tuple[Pod, ObjectKey | None]] = field(default_factory=dict)
    since: float = 0.0  # when the first of these tops was looked for


class ClusterFeed:
    """Compares snapshots with what one model was told."""

    def __init__(
        self,
        model: RecommenderModel,
        owners: Owners,
        clock: Clock,
        ignored_namespaces: frozenset[str] = frozenset(),
        variant: Variant = OURS,
    ) -> None:
        self.model = model
        self._owners = owners
        self._clock = clock
        self._ignored = ignored_namespaces
        self._places: dict[str, _Place] = {}
        self._vpas: dict[VpaKey, ObservedVpa] = {}
        self._unresolved_since: dict[VpaKey, float] = {}  # as there was no time for them
        self._known: dict[str, dict[ObjectKey, LookupResult]] = {}  # by namespace, for one round
        self._resolve = variant.resolve
        self._seconds = self._spare_seconds = variant.lookup_seconds
        self._until = 0.0
        self._looks = 0

    @property
    def vpas(self) -> Mapping[VpaKey, ObservedVpa]:
        """The VPAs that the model knows."""
        return self._vpas

    def tell_vpas(self, snapshot: Snapshot, now: datetime) -> None:
        """Tell of VPAs that came and changed."""
        self._begin(self._seconds)
        self._spare_seconds = self._seconds
        self._looks += 1
        postponed = dict[str, list[tuple[Vpa, NamespaceView]]]()
        for namespace, view in snapshot.namespaces.items():
            for vpa in filter(self._handles, view.vpas.values()):
                if not self._guarded_vpa(vpa, view, now, waits=False):
                    postponed.setdefault(namespace, []).append((vpa, view))
        for vpa, view in in_turns(postponed, self._looks):
            self._guarded_vpa(vpa, view, now)

    def tell_gone_vpas(self, snapshot: Snapshot, now: datetime) -> None:
        """Tell of VPAs that went, or that another recommender serves now."""
        for key in [*self._unresolved_since, *self._vpas]:
            vpa = snapshot.of(key[0]).vpas.get(key[1])
            if vpa is None or not self._handles(vpa):
                self._unresolved_since.pop(key, None)
                if key in self._vpas:
                    self._lose_vpa(key, now)

    def tell_gone_pods(self, snapshot: Snapshot) -> None:
        """Tell of pods that went."""
        for namespace, place in list(self._places.items()):
            for name in place.told.keys() - snapshot.of(namespace).pods.keys():
                self._lose_pod(namespace, name)
            if namespace not in snapshot.namespaces:
                del self._places[namespace]

    def tell_pods(self, snapshot: Snapshot, now: datetime) -> None:
        """Tell of pods that came and changed."""
        postponed = dict[str, list[tuple[Pod, _Place]]]()
        for namespace, view in snapshot.namespaces.items():
            place = self._place(namespace, view)
            for pod in view.pods.values():
                is_told = True
                with self.model.skipped.guard("pod", namespace, pod.name):
                    is_told = self._tell_pod(pod, place, now, waits=False)
                if not is_told:
                    postponed.setdefault(namespace, []).append((pod, place))
        for pod, place in in_turns(postponed, self._looks):
            with self.model.skipped.guard("pod", pod.namespace, pod.name):
                self._tell_pod(pod, place, now)

    def tell_some_pods(self, snapshot: Snapshot, keys: Iterable[PodKey], now: datetime) -> None:
        """Tell of some pods that changed or went, in namespaces that are known.

        From one `tell_vpas` to the next, no more time in all is spent on that than on one round's
        look-ups.
        """
        began = self._clock.monotonic()
        self._begin(self._spare_seconds)
        for namespace, name in keys:
            with self.model.skipped.guard("pod", namespace, name):
                if namespace not in self._places:
                    continue  # its VPAs come first, with the next look
                view = snapshot.of(namespace)
                place = self._place(namespace, view)
                if (pod := view.pods.get(name)) is not None:
                    self._tell_pod(pod, place, now)
                elif name in place.told:
                    self._lose_pod(namespace, name)
        self._spare_seconds -= min(self._clock.monotonic() - began, self._spare_seconds)

    def _begin(self, seconds: float) -> None:
        self._known.clear()
        self._until = self._clock.monotonic() + seconds

    def _handles(self, vpa: Vpa) -> bool:
        return vpa.namespace not in self._ignored and handles(vpa, self.model.rules.name)

    def _guarded_vpa(
        self, vpa: Vpa, view: NamespaceView, now: datetime, *, waits: bool = True
    ) -> bool:
        """Tell of a VPA, unless that has to wait; return whether it need not be told again."""
        with self.model.skipped.guard("VPA", vpa.namespace, vpa.name):
            found = self._resolved(vpa, view, waits=waits)
            if found is None:
                return False
            self._tell_vpa(found, now)
        return True

    def _lose_vpa(self, key: VpaKey, now: datetime) -> None:
        del self._vpas[key]
        with self.model.skipped.guard("VPA", *key):
            self.model.vpa_gone(key, now)

    def _lose_pod(self, namespace: str, name: str) -> None:
        del self._places[namespace].told[name]
        self.model.pod_gone(namespace, name)

    def _tell_vpa(self, found: ObservedVpa, now: datetime) -> None:
        if self._is_undecided(found) or _is_same(found, self._vpas.get(found.key)):
            return
        self._vpas[found.key] = found
        try:
            self.model.vpa_seen(found, now)
        except Exception:
            self.model.vpa_gone(found.key, now)  # half known, it would be said to have no pods
            raise

    def _is_undecided(self, found: ObservedVpa) -> bool:
        """Whether a target may be unknown for want of time, which is not believed at once."""
        moment = self._clock.monotonic()
        if found.selector is not None or moment < self._until:
            self._unresolved_since.pop(found.key, None)
            return False
        return moment - self._unresolved_since.setdefault(found.key, moment) < _UNRESOLVED_SECONDS

    def _place(self, namespace: str, view: NamespaceView) -> _Place:
        """Return what is known of a namespace, with the tops that still hold."""
        moment = self._clock.monotonic()
        place = self._places.setdefault(namespace, _Place(since=moment))
        is_old = moment - place.since >= _BELIEVED_SECONDS
        if is_old or place.view.workloads is not view.workloads:
            place.tops, place.since = {}, moment
        place.view = view
        return place

    def _tell_pod(self, pod: Pod, place: _Place, now: datetime, *, waits: bool = True) -> bool:
        """Tell of a pod, unless that has to wait; return whether it was told."""
        top = self._top(place, pod, waits=waits)
        if top is None and not waits:
            return False
        before = place.told.get(pod.name)
        if before is None or before[0] is not pod or before[1] != top:
            place.told[pod.name] = (pod, top)
            self.model.pod_seen(as_acting(pod), now, top=top)
        return True

    def _resolved(self, vpa: Vpa, view: NamespaceView, *, waits: bool) -> ObservedVpa | None:
        known = self._known.setdefault(vpa.namespace, {})
        while isinstance(found := self._resolve(vpa, view, known), LookupNeeded):
            answer = self._find(found.lookup, waits=waits)
            if answer is None:
                return None
            known[found.lookup.key] = answer
        return found

    def _top(self, place: _Place, pod: Pod, *, waits: bool) -> ObjectKey | None:
        owner = pod.controller
        if owner is None:
            return NO_OWNER
        top = place.tops.get(owner.key)
        if top is None:
            top = self._climbed(owner, pod.namespace, place.view, waits=waits)
            if top is not None:  # else it is asked for again
                place.tops[owner.key] = top
        return top

    def _climbed(
        self, owner: OwnerReference, namespace: str, view: NamespaceView, *, waits: bool
    ) -> ObjectKey | None:
        known = self._known.setdefault(namespace, {})
        while isinstance(found := topmost(owner, namespace, view, known), LookupNeeded):
            answer = self._find(found.lookup, waits=waits)
            if answer is None:
                return None
            known[found.lookup.key] = answer
        if isinstance(found, Workload):
            return found.key
        return None if found.reason is MatchReason.OWNER_UNKNOWN else NO_OWNER

    def _find(self, lookup: Lookup, *, waits: bool) -> LookupResult | None:
        """Return an owner; without waiting None where it is not known, and its look-up begins."""
        if lookup.key.is_built_in:
            return Absent()  # all of them are in the snapshot
        seconds = max(self._until - self._clock.monotonic(), 0.0) if waits else 0.0
        found = self._owners.find(lookup, seconds)
        return found if waits or not isinstance(found, Failed) else None


def _is_same(found: ObservedVpa, before: ObservedVpa | None) -> bool:
    return (
        before is not None
        and found.vpa is before.vpa
        and found.problem == before.problem
        and found.selector == before.selector
    )
