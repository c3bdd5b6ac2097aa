"""VPAs and pods as they are followed, and where a pod belonged when."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from app.model.kinds import ObjectKey
from app.model.pods import Pod
from app.model.selectors import NOTHING
from app.model.vpa import Recommendation, Vpa
from app.recommender.core.membership import Claim
from app.recommender.core.moments import HOUR
from app.recommender.core.observations import ObservedVpa, VpaKey
from app.recommender.core.status import VpaStatus

PodKey = tuple[str, str]  # namespace and name
Lines = frozenset[int]  # in the table of VPAs

_REMEMBERED_MOVES: Final = 2
_BROKEN_NS: Final = HOUR  # a target may be unknown for so long before its pods are let go
_OVER: Final = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class Move:
    """A pod left one set of VPAs for another."""

    time_ns: int
    before: Lines


@dataclass(slots=True)
class TrackedPod:
    """A pod and where its samples go."""

    pod: Pod
    top: ObjectKey | None  # its topmost controller, None while unknown
    vpas: Lines = frozenset()
    moves: tuple[Move, ...] = ()  # the youngest first
    instances: dict[str, int] = field(default_factory=dict)  # by container

    @property
    def key(self) -> PodKey:
        """What identifies the pod as long as it lives."""
        return (self.pod.namespace, self.pod.name)

    @property
    def is_alive(self) -> bool:
        """Whether its containers run or will run again."""
        return self.pod.phase not in _OVER

    def vpas_at(self, time_ns: int) -> Lines:
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

    def move(self, vpas: Lines, time_ns: int) -> None:
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
    pods: set[PodKey] = field(default_factory=set)
    awaits_history: bool = True  # its checkpoints have not been read yet
    inherited: Recommendation = ()  # stood when it came, while what it rested on is not known
    is_fetched_for: bool = False  # somebody else says that history is being fetched
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
