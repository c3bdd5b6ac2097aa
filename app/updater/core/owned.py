"""The pods of one owner, and which VPA controls each of them.

Strategy: owners are climbed once, not once a pod: where only one VPA can be meant, the other pods
of an owner are like its first one as long as the selectors match.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from operator import attrgetter
from typing import Final

from app.model.gates import FeatureGate, FeatureGates
from app.model.kinds import ObjectKey
from app.model.pods import Pod
from app.model.snapshot import NamespaceView
from app.model.vpa import Vpa
from app.model.workloads import LookedUp, Lookup, Workload
from app.sizing.matching import LookupNeeded, Match, MatchReason, match_pod, selects

_OF_ONE_POD: Final = (
    MatchReason.CONTROLLED,
    MatchReason.NO_TARGET_SELECTOR_MATCH,
    MatchReason.NO_VPA_SELECTOR_MATCH,
)
_OVER: Final = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class Overlap:
    """Two VPAs that claim the same pods; the weaker one is passed over."""

    namespace: str
    stronger: str
    weaker: str


@dataclass(slots=True)
class Owned:
    """The pods of one owner."""

    key: ObjectKey
    pods: list[Pod]


def by_owner(pods: Iterable[Pod]) -> list[Owned]:
    """Return the pods by their immediate controllers, in a fixed order."""
    found: dict[tuple[str, str, str], Owned] = {}
    for pod in pods:
        owners = pod.owners
        is_plain = len(owners) == 1 and owners[0].controller
        owner = owners[0] if is_plain else pod.controller
        if owner is None or pod.phase in _OVER:
            continue
        place = (owner.kind, owner.name, owner.api_version)
        owned = found.get(place)
        if owned is None:
            owned = found[place] = Owned(owner.key, [])
        owned.pods.append(pod)
    for owned in found.values():
        owned.pods.sort(key=attrgetter("name"))
    return [found[place] for place in sorted(found)]


@dataclass(frozen=True, slots=True)
class _Alike:
    """How the only VPA of an owner came to control one of its pods."""

    match: Match
    owner: Workload
    vpa: Vpa

    def fits(self, pod: Pod) -> bool:
        """Whether it controls another of the pods as well."""
        return self.owner.selector.matches(pod.labels) and selects(self.vpa.selector, pod)


class Matcher:
    """Matches the pods of one namespace, and notes what is missing or claimed twice."""

    def __init__(
        self, namespace: str, view: NamespaceView, looked_up: LookedUp, gates: FeatureGates
    ) -> None:
        self._namespace, self._view, self._looked_up = namespace, view, looked_up
        self._boosts = FeatureGate.CPU_STARTUP_BOOST in gates
        self.lookups: dict[Lookup, None] = {}
        self.overlaps: dict[Overlap, None] = {}

    def matches(self, pods: Iterable[Pod]) -> Iterator[tuple[Pod, Match]]:
        """Yield the pods of one owner that a VPA may control, each with how it was matched."""
        alike: _Alike | None = None
        for pod in pods:
            if alike is not None and alike.fits(pod):
                yield pod, alike.match
                continue
            match = match_pod(pod, self._view, self._looked_up, boosts=self._boosts, with_off=True)
            if isinstance(match, LookupNeeded):
                self.lookups[match.lookup] = None
                return
            if match.reason not in _OF_ONE_POD:
                return
            self._note_overlaps(match)
            yield pod, match
            if alike is None and match.owner is not None and match.vpa is not None:
                is_alone = len(self._view.rivals(match.owner.key)) == 1
                alike = _Alike(match, match.owner, match.vpa) if is_alone else None

    def _note_overlaps(self, match: Match) -> None:
        if match.vpa is not None and not match.vpa.is_off:
            for weaker in match.weaker:
                if not weaker.is_off:
                    found = Overlap(self._namespace, match.vpa.name, weaker.name)
                    self.overlaps[found] = None
