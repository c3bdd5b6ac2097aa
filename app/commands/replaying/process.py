"""One recommender process: from its start on checkpoints to its end.

Strategy: it hears of objects when they change, reads usage once a tick, and writes statuses and
checkpoints back into the cluster, which it then sees again. Targets are resolved anew when
something they depend on may have changed, at the latest before anybody can tell the difference.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from app.commands.replaying.changes import RecordedChange, RecordedKind
from app.commands.replaying.cluster import Cluster, Key
from app.model.errors import BadObject
from app.model.fields import Object
from app.model.kinds import ObjectKey
from app.model.pods import ContainerStatus, Pod
from app.model.vpa import Vpa
from app.model.workloads import LookupResult, Workload
from app.recommender.core.checkpoints import Checkpoint, read_checkpoint, to_json
from app.recommender.core.history import orphans
from app.recommender.core.oom import OomRecord
from app.recommender.core.rules import RecommenderRules
from app.recommender.core.status import Publication
from app.recommender.core.targets import ObservedVpa, VpaKey, handles
from app.recommender.core.tracked import NO_OWNER
from app.recommender.core.usage import UsageBatch
from app.recommender.variants import OURS, Variant
from app.sizing.matching import LookupNeeded, MatchReason, topmost

_NO_LIMIT: Final = 10**9  # of checkpoints in one tick; nothing here takes time


@dataclass(frozen=True, slots=True)
class Terms:
    """How a process works."""

    rules: RecommenderRules
    variant: Variant = OURS
    namespace: str = ""  # the only one to look at; empty for all
    ignored_namespaces: frozenset[str] = frozenset()
    keeps_checkpoints: bool = True
    orphans_interval: timedelta = timedelta(minutes=10)

    def sees(self, namespace: str) -> bool:
        """Whether a namespace is looked at."""
        return self.namespace in ("", namespace)

    def handles(self, vpa: Vpa) -> bool:
        """Whether a VPA is ours."""
        return (
            self.sees(vpa.namespace)
            and vpa.namespace not in self.ignored_namespaces
            and handles(vpa, self.rules.name)
        )


class Process:
    """A model, and what it was told."""

    def __init__(self, cluster: Cluster, terms: Terms, now: datetime) -> None:
        self.model = terms.variant.model(terms.rules)
        self.problems: list[str] = []  # sentences about checkpoints that cannot be used
        self._cluster = cluster
        self._terms = terms
        self._now = now  # of what was heard last
        self._told: dict[VpaKey, ObservedVpa] = {}
        self._tops: dict[Key, ObjectKey | None] = {}  # the topmost controllers of pods
        self._looked_up: dict[str, dict[ObjectKey, LookupResult]] = {}
        self._unsettled: set[str] = set()  # namespaces in which controllers changed
        self._tidied = now
        self._start()

    # --- hearing

    def hear(self, change: RecordedChange, now: datetime, *, is_new: bool) -> None:
        """Hear of a change that the cluster has made already."""
        self._advance(now)
        match change.subject:
            case RecordedKind.VPA:
                self._see_vpa((change.namespace, change.key))
            case RecordedKind.POD:
                self._see_pod((change.namespace, change.key))
            case RecordedKind.WORKLOAD:
                self._unsettled.add(change.namespace)
            case RecordedKind.CUSTOM:
                self._looked_up.clear()
                self._unsettled.update(namespace for namespace, _ in (*self._told, *self._tops))
            case RecordedKind.EVENT if is_new:
                self.kill(self._blamed(change.value), now)
            case _:
                pass

    def kill(self, records: Iterable[OomRecord], now: datetime) -> None:
        """Hear of OOM kills."""
        self._advance(now)
        self._settle()
        self.model.killed(records, now)
        self._publish(self.model.urgent(now))

    # --- working

    def tick(self, usage: UsageBatch, now: datetime, *, is_watched: bool = True) -> None:
        """Go through one loop.

        Without a budget every checkpoint is written in every loop. Unless anybody watches, what
        the next loop overwrites need not be written at all.
        """
        self._advance(now)
        self._settle()
        if len(usage):
            self.model.usage(usage, now)
        self._publish(self.model.tick(now))
        if self._terms.keeps_checkpoints:
            if is_watched or self._terms.variant.checkpoints.is_budgeted:
                self._store(self.model.checkpoints(now, _NO_LIMIT))
            self._cluster.drop_checkpoints(self.model.abandoned())
            self._drop_orphans(now)

    def end(self, now: datetime) -> None:
        """End, as when asked to."""
        self._advance(now)
        self._settle()
        if self._terms.keeps_checkpoints and self._terms.variant.checkpoints.is_flushed:
            self._store(self.model.checkpoints(now, None))

    # --- inside

    def _start(self) -> None:
        cluster, now = self._cluster, self._now
        for vpa in cluster.vpas.values():
            if self._terms.handles(vpa):
                self._tell(self._resolved(vpa))
        stored = cluster.checkpoints.values() if self._terms.keeps_checkpoints else ()
        self.problems += self.model.restore(_read_again(stored), now)
        for key in cluster.pods:
            self._see_pod(key)
        for event in cluster.events(now):
            self.kill(self._blamed(event), now)

    def _advance(self, now: datetime) -> None:
        if now > self._now:
            self._settle()
            self._now = now

    def _see_vpa(self, key: VpaKey) -> None:
        vpa = self._cluster.vpas.get(key)
        if vpa is not None and self._terms.handles(vpa):
            self._tell(self._resolved(vpa))
            self._restore_late()
        elif self._told.pop(key, None) is not None:
            self.model.vpa_gone(key, self._now)

    def _restore_late(self) -> None:
        waiting = set(self.model.awaited())
        if waiting:
            found = self._cluster.checkpoints.values() if self._terms.keeps_checkpoints else ()
            stored = [one for one in found if (one.namespace, one.vpa) in waiting]
            self.problems += self.model.restore(_read_again(stored), self._now, only=waiting)

    def _see_pod(self, key: Key) -> None:
        pod = self._cluster.pods.get(key)
        if pod is None:
            self._tops.pop(key, None)
            self.model.pod_gone(*key)
        elif self._terms.sees(pod.namespace):
            if pod.namespace in self._unsettled and any(map(_ended, pod.statuses)):
                self._settle()  # for a kill counts for those who have the pod
            self._tops[key] = self._top(pod)
            self.model.pod_seen(pod, self._now, top=self._tops[key])
            self._publish(self.model.urgent(self._now))

    def _settle(self) -> None:
        """Resolve again what depends on controllers that changed."""
        unsettled, self._unsettled = self._unsettled, set()
        if not unsettled:
            return
        for key, observed in list(self._told.items()):
            if key[0] in unsettled and (found := self._resolved(observed.vpa)) != observed:
                self._tell(found)
        for key, before in self._tops.items():
            pod = self._cluster.pods[key]
            if key[0] in unsettled and (top := self._top(pod)) != before:
                self._tops[key] = top
                self.model.pod_seen(pod, self._now, top=top)

    def _tell(self, observed: ObservedVpa) -> None:
        self._told[observed.key] = observed
        self.model.vpa_seen(observed, self._now)

    def _resolved(self, vpa: Vpa) -> ObservedVpa:
        view = self._cluster.view(vpa.namespace)
        known = self._looked_up.setdefault(vpa.namespace, {})
        while isinstance(found := self._terms.variant.resolve(vpa, view, known), LookupNeeded):
            known[found.lookup.key] = self._cluster.find(found.lookup)
        return ObservedVpa(vpa, found.selector, found.problem)

    def _top(self, pod: Pod) -> ObjectKey | None:
        owner = pod.controller
        if owner is None:
            return NO_OWNER
        view = self._cluster.view(pod.namespace)
        known = self._looked_up.setdefault(pod.namespace, {})
        while isinstance(found := topmost(owner, pod.namespace, view, known), LookupNeeded):
            known[found.lookup.key] = self._cluster.find(found.lookup)
        if isinstance(found, Workload):
            return found.key
        return None if found.reason is MatchReason.OWNER_UNKNOWN else NO_OWNER

    def _blamed(self, event: Object) -> list[OomRecord]:
        return self._terms.variant.evicted(event)

    def _publish(self, publications: Iterable[Publication]) -> None:
        """Write statuses, and see them as they then stand."""
        for one in publications:
            key, status = (one.namespace, one.name), one.status
            vpa = replace(
                self._cluster.vpas[key],
                recommendation=status.recommendation,
                conditions=status.conditions,
                observed_generation=status.observed_generation,
            )
            self._cluster.vpas[key] = vpa
            self._tell(replace(self._told[key], vpa=vpa))

    def _store(self, checkpoints: Iterable[Checkpoint]) -> None:
        by_name = not self._terms.variant.checkpoints.is_budgeted
        for one in checkpoints:
            if not self._cluster.store(one, by_name=by_name):
                self.model.not_stored(one)

    def _drop_orphans(self, now: datetime) -> None:
        if now - self._tidied <= self._terms.orphans_interval:
            return
        self._tidied = now
        found = orphans(
            (one for one in self._cluster.checkpoints.values() if self._terms.sees(one.namespace)),
            self._cluster.vpas.keys(),
            kept_namespaces=self._terms.ignored_namespaces,
        )
        self._cluster.drop_checkpoints((one.namespace, one.name) for one in found)


def _ended(status: ContainerStatus) -> bool:
    return status.terminated is not None or status.last_terminated is not None


def _read_again(checkpoints: Iterable[Checkpoint]) -> Iterator[Checkpoint]:
    """Yield checkpoints as they are read from the cluster, which is not quite what was written."""
    for one in checkpoints:
        with suppress(BadObject):
            yield read_checkpoint(to_json(one))
