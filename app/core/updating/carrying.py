"""In which order the pods of one owner are disturbed, and who is next when a call failed.

Strategy: a place is taken before the call and given back if the call fails, so that at no moment
more pods are down than may be. Planning walks the same way, as if every call succeeded; whoever
waits only for a place stands by.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from app.core.updating.budget import Budget
from app.core.updating.decisions import Action, Decision, Reason
from app.core.updating.memory import Place
from app.model.kinds import ObjectKey
from app.model.pods import Pod

Rank = tuple[int, float, float, str, str]

NO_RANK: Final[Rank] = (0, 0.0, 0.0, "", "")


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to do for one pod, and what it takes from the owner."""

    pod: Pod
    decision: Decision
    needs_place: bool
    takes_place: bool
    is_broken: bool  # judged by what runs, not by what is ready
    guards: tuple[Place, ...]  # the PodDisruptionBudgets over the pod
    rank: Rank = NO_RANK  # how urgent it is, the least first, across all owners

    @property
    def is_eviction(self) -> bool:
        """Whether the pod goes."""
        return self.decision.action is Action.EVICT


@dataclass(frozen=True, slots=True)
class Queue:
    """What is to be done for the pods of one owner, in order; one call after the other."""

    namespace: str
    owner: ObjectKey
    budget: Budget
    steps: tuple[Step, ...]
    unproven: frozenset[str]  # VPAs for which only one pod may go
    pods: frozenset[str]  # uids of the owner's live pods

    @property
    def rank(self) -> Rank:
        """How urgent its most urgent step is."""
        return min((step.rank for step in self.steps), default=NO_RANK)


class Walk:
    """Goes through a queue; tell it of every step that came to nothing."""

    def __init__(self, queue: Queue) -> None:
        self.budget = queue.budget
        self._steps = list(queue.steps)
        self._unproven = queue.unproven
        self._canaries: set[str] = set()
        self._closed: set[Place] = set()
        self._stopped: set[str] = set()

    def next(self) -> Step | None:
        """Return the next step that may be taken now, with its place taken."""
        for position, step in enumerate(self._steps):
            if self._fits(step):
                del self._steps[position]
                self._take(step)
                return step
        return None

    def came_to_nothing(self, step: Step) -> None:
        """Give back what a step took, because its call failed or was not made."""
        if step.takes_place:
            self.budget = self.budget.plus_one(broken=step.is_broken)
        if step.is_eviction:
            self._canaries.discard(step.decision.vpa)

    def close(self, guards: Iterable[Place]) -> None:
        """Skip evictions under PodDisruptionBudgets that refused one."""
        self._closed.update(guards)

    def stop_evicting(self, vpa: str) -> None:
        """Evict no more pods of a VPA, because it would not help."""
        self._stopped.add(vpa)

    def evict_later(self, step: Step) -> None:
        """Let a resize that was refused for good become an eviction, after all else is done."""
        if not step.decision.may_evict_instead:
            return
        message = f"{step.decision.message}; its resize was refused"
        decision = replace(
            step.decision,
            action=Action.EVICT,
            reason=Reason.EVICTED,
            message=message,
            change=None,
            may_evict_instead=False,
        )
        later = replace(step, decision=decision, needs_place=True, takes_place=True)
        self._steps.append(later)

    def waits_for_canary(self, step: Step) -> bool:
        """Whether a step waits for the answer of a pod of the same VPA that goes first."""
        return step.is_eviction and self._waits(step.decision.vpa)

    def _waits(self, vpa: str) -> bool:
        return vpa in self._stopped or (vpa in self._unproven and vpa in self._canaries)

    def _fits(self, step: Step) -> bool:
        if step.is_eviction and (
            self._waits(step.decision.vpa) or not self._closed.isdisjoint(step.guards)
        ):
            return False
        return not step.needs_place or self.budget.has_place(broken=step.is_broken)

    def _take(self, step: Step) -> None:
        if step.takes_place:
            self.budget = self.budget.less_one(broken=step.is_broken)
        if step.is_eviction:
            self._canaries.add(step.decision.vpa)
