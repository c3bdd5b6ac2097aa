"""VPAs and pods as they are followed, which pods each VPA claims, and where a pod belonged when.

Strategy: labels decide for VPAs without a selector of their own, as they always did; a VPA with
a selector also asks that the pod is owned by the target. What is not known is not "no": while
an owner cannot be looked up, a pod stays where it is. VPAs are found by one of the equalities
they ask for, the one that the fewest others share, so that a pod meets few of them.

VPAs may come and go, and change their targets, without end; so the rows of a namespace that wait
for the return of their VPA are limited, and the oldest ones make room.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from app.model.kinds import ObjectKey
from app.model.pods import Pod
from app.model.selectors import NOTHING, Operator, Selector
from app.model.vpa import Recommendation, Vpa
from app.recommender.core.moments import HOUR, LATEST, UNSET
from app.recommender.core.rules import RecommenderLimit
from app.recommender.core.status import VpaStatus
from app.recommender.core.tables import NOWHERE, RowTable
from app.recommender.core.targets import ObservedVpa, VpaKey

NO_OWNER: Final = ObjectKey("", "", "")  # of a pod that no controller owns

PodKey = tuple[str, str]  # namespace and name
VpaLines = frozenset[int]  # in the table of VPAs

_REMEMBERED_MOVES: Final = 2
_BROKEN_NS: Final = HOUR  # a target may be unknown for so long before its pods are let go
OVER: Final = ("Succeeded", "Failed")  # phases of pods whose containers run no more

_Anchor = tuple[str, str, str]  # namespace, label, value


@dataclass(frozen=True, slots=True)
class Move:
    """A pod left one set of VPAs for another."""

    time_ns: int
    before: VpaLines


@dataclass(slots=True)
class TrackedPod:
    """A pod and where its samples go."""

    pod: Pod
    top: ObjectKey | None  # its topmost controller, None while unknown
    vpas: VpaLines = frozenset()
    moves: tuple[Move, ...] = ()  # the youngest first
    instances: dict[str, int] = field(default_factory=dict)  # by container

    @property
    def key(self) -> PodKey:
        """What identifies the pod as long as it lives."""
        return (self.pod.namespace, self.pod.name)

    @property
    def is_alive(self) -> bool:
        """Whether its containers run or will run again."""
        return self.pod.phase not in OVER

    def vpas_at(self, time_ns: int) -> VpaLines:
        """Return the VPAs it belonged to at a time."""
        found = self.vpas
        for move in self.moves:
            if time_ns >= move.time_ns:
                break
            found = move.before
        return found

    def moved_within(self, start_ns: int, end_ns: int) -> bool:
        """Whether it changed its VPAs strictly between two times."""
        return any(start_ns < move.time_ns < end_ns for move in self.moves)

    def move(self, vpas: VpaLines, time_ns: int) -> None:
        """Change its VPAs, and remember when."""
        self.moves = (Move(time_ns, self.vpas), *self.moves)[:_REMEMBERED_MOVES]
        self.vpas = vpas

    def forget(self, vpa: int) -> None:
        """Take a VPA out of the past; its line may be given to another."""
        self.vpas -= {vpa}
        self.moves = tuple(Move(move.time_ns, move.before - {vpa}) for move in self.moves)


@dataclass(slots=True)
class TrackedVpa:
    """A VPA and its rows."""

    line: int
    observed: ObservedVpa
    claim: Claim
    entered_ns: int
    rows: dict[str, int] = field(default_factory=dict)  # by container
    left_alone: set[str] = field(default_factory=set)  # native sidecars that a flag leaves alone
    pods: set[PodKey] = field(default_factory=set)
    awaits_history: bool = True  # its checkpoints have not been read yet
    inherited: Recommendation = ()  # stood when it came, while what it rested on is not known
    is_fetched_for: bool = False  # its status says that history is being fetched
    had_rows: bool = False  # since it entered
    broken_since_ns: int | None = None  # the target cannot be resolved
    sent: VpaStatus | None = None  # the status that was last published
    sent_for: ObservedVpa | None = None  # and to what

    @property
    def key(self) -> VpaKey:
        """What identifies the VPA."""
        return self.observed.key

    @property
    def vpa(self) -> Vpa:
        """The VPA as it was last seen."""
        return self.observed.vpa

    @property
    def may_be_stored(self) -> bool:
        """Whether nothing that is still to come would be overwritten."""
        return not (self.awaits_history or self.is_fetched_for)


def claim_of(tracked: TrackedVpa, now_ns: int | None) -> Claim:
    """Return the claim of a VPA; while its target cannot be resolved, the last one for a while."""
    vpa, selector = tracked.vpa, tracked.observed.selector
    if selector is None:
        since_ns = tracked.broken_since_ns
        lasted_ns = now_ns - since_ns if now_ns is not None and since_ns is not None else 0
        selector = NOTHING if lasted_ns >= _BROKEN_NS else tracked.claim.of_target
    return Claim(vpa.namespace, selector, vpa.selector, vpa.target.key if vpa.target else None)


@dataclass(slots=True)
class Claim:
    """On which pods a VPA has a claim."""

    namespace: str
    of_target: Selector = NOTHING
    own: Selector | None = None
    target: ObjectKey | None = None

    def admits(self, labels: Mapping[str, str], top: ObjectKey | None, *, before: bool) -> bool:
        """Whether a pod is among them; an unknown owner leaves it as it was before."""
        if not self.of_target.matches(labels):
            return False
        if self.own is None:
            return True
        if not self.own.matches(labels):
            return False
        return before if top is None else top == self.target


class Claims:
    """The claims of all VPAs, by line in the table of VPAs."""

    def __init__(self) -> None:
        self._claims: dict[int, Claim] = {}
        self._anchors: dict[int, _Anchor] = {}
        self._by_anchor: defaultdict[_Anchor, set[int]] = defaultdict(set)

    def put(self, vpa: int, claim: Claim) -> None:
        """Set or change a claim."""
        self.remove(vpa)
        anchor = min(
            _anchors(claim),
            key=lambda found: len(self._by_anchor.get(found, ())),
            default=(claim.namespace, "", ""),
        )
        self._claims[vpa] = claim
        self._anchors[vpa] = anchor
        self._by_anchor[anchor].add(vpa)

    def remove(self, vpa: int) -> None:
        """Give a claim up."""
        if self._claims.pop(vpa, None) is not None:
            anchor = self._anchors.pop(vpa)
            self._by_anchor[anchor].discard(vpa)
            if not self._by_anchor[anchor]:
                del self._by_anchor[anchor]

    def has_own_selector(self, vpa: int) -> bool:
        """Whether a VPA asks for more than its target's labels."""
        return self._claims[vpa].own is not None

    def of(
        self,
        namespace: str,
        labels: Mapping[str, str],
        top: ObjectKey | None,
        before: frozenset[int],
    ) -> frozenset[int]:
        """Return the VPAs that claim a pod."""
        return frozenset(
            vpa
            for vpa in self._candidates(namespace, labels)
            if self._claims[vpa].admits(labels, top, before=vpa in before)
        )

    def _candidates(self, namespace: str, labels: Mapping[str, str]) -> Iterator[int]:
        yield from self._by_anchor.get((namespace, "", ""), ())
        for key, value in labels.items():
            yield from self._by_anchor.get((namespace, key, value), ())


def _anchors(claim: Claim) -> list[_Anchor]:
    """Return the labels without which no pod can be claimed."""
    selectors = [claim.of_target] + ([claim.own] if claim.own is not None else [])
    return [
        (claim.namespace, requirement.key, value)
        for selector in selectors
        for requirement in selector.requirements
        if requirement.operator is Operator.IN and len(requirement.values) == 1
        for value in requirement.values
    ]


MOST_DETACHED: Final = 5_000  # rows of a namespace

Target = tuple[str, str] | None  # kind and name
_Key = tuple[VpaKey, Target]


def target_of(observed: ObservedVpa) -> Target:
    """Return kind and name of the target; a new version of its API is no new target."""
    target = observed.vpa.target
    return (target.kind, target.name) if target is not None else None


@dataclass(frozen=True, slots=True)
class _Detached:
    rows: dict[str, int]
    until_ns: int


class DetachedRows:
    """Rows by VPA and target, for each namespace the oldest first."""

    def __init__(self, rows: RowTable, reached: Counter[tuple[RecommenderLimit, str]]) -> None:
        self._rows = rows
        self._reached = reached  # counts, by namespace
        # By namespace, the oldest first.
        self._by_target: defaultdict[str, dict[tuple[VpaKey, Target], _Detached]] = defaultdict(
            dict
        )
        self._counts: Counter[str] = Counter()
        self._displaced: list[tuple[VpaKey, int]] = []

    def detach(
        self, vpa: VpaKey, target: Target, rows: dict[str, int], *, until_ns: int = LATEST
    ) -> None:
        """Put the rows of a VPA aside; none of them is published any more."""
        for row in rows.values():
            self._rows.vpa[row] = NOWHERE
        if not rows:
            return
        of_namespace = self._by_target[vpa[0]]
        of_namespace[vpa, target] = _Detached(rows, until_ns)
        self._counts[vpa[0]] += len(rows)
        while self._counts[vpa[0]] > MOST_DETACHED:
            oldest, one = next(iter(of_namespace.items()))
            self._reached[RecommenderLimit.DETACHED_HISTORIES, vpa[0]] += len(one.rows)
            self._displaced += [(oldest[0], row) for row in one.rows.values()]
            self._remove(oldest)

    def take_back(self, vpa: VpaKey, target: Target) -> dict[str, int] | None:
        """Return the rows a VPA once had for a target, None if there are none.

        Their checkpoints may have been deleted or overwritten since, so they shall be written.
        """
        found = self._by_target.get(vpa[0], {}).get((vpa, target))
        if found is None:
            return None
        self._remove((vpa, target))
        for row in found.rows.values():
            self._rows.is_dirty[row], self._rows.written[row] = True, UNSET
        return found.rows

    def take_expired(self, now_ns: int) -> list[tuple[VpaKey, int]]:
        """Take out the rows that waited too long, and those whose history has expired."""
        gone: list[tuple[VpaKey, int]] = []
        for key in [key for of_one in self._by_target.values() for key in of_one]:
            one = self._by_target[key[0][0]][key]
            for container, row in list(one.rows.items()):
                if now_ns >= one.until_ns or self._rows.expired(np.array([row]), now_ns)[0]:
                    gone.append((key[0], row))
                    del one.rows[container]
                    self._counts[key[0][0]] -= 1
            if not one.rows:
                self._remove(key)
        return gone

    def take_displaced(self) -> list[tuple[VpaKey, int]]:
        """Take out the rows that had to make room."""
        found, self._displaced = self._displaced, []
        return found

    def _remove(self, key: _Key) -> None:
        namespace = key[0][0]
        self._counts[namespace] -= len(self._by_target[namespace].pop(key).rows)
        if not self._by_target[namespace]:
            del self._by_target[namespace], self._counts[namespace]
