"""In which order the pods of one owner are disturbed, and who is next when a call failed.

Strategy: a place is taken before the call and given back if the call fails, so that at no moment
more pods are down than may be. Planning walks the same way, as if every call succeeded; whoever
waits only for a place stands by.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from app.core.updating.budget import Budget
from app.core.updating.decisions import Action, Decision
from app.core.updating.memory import Place
from app.model.kinds import ObjectKey
from app.model.pods import Pod


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to do for one pod, and what it takes from the owner."""

    pod: Pod
    decision: Decision
    needs_place: bool
    takes_place: bool
    is_broken: bool  # judged by what runs, not by what is ready
    guards: tuple[Place, ...]  # the PodDisruptionBudgets over the pod

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


class Walk:
    """Goes through a queue; tell it of every step that came to nothing."""

    def __init__(self, queue: Queue) -> None:
        self.budget = queue.budget
        self._steps = list(queue.steps)
        self._unproven = queue.unproven
        self._canaries: set[str] = set()
        self._closed: set[Place] = set()

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

    def may_evict_instead(self, step: Step) -> bool:
        """Tell whether a refused resize may become an eviction, and take what that needs."""
        if not step.decision.may_evict_instead or self._is_held(step):
            return False
        if not self.budget.has_place(broken=step.is_broken):
            return False
        self.budget = self.budget.less_one(broken=step.is_broken)
        self._canaries.add(step.decision.vpa)
        return True

    def waits_for_canary(self, step: Step) -> bool:
        """Whether a step waits for the answer of a pod of the same VPA that goes first."""
        return step.is_eviction and self._waits(step.decision.vpa)

    def _waits(self, vpa: str) -> bool:
        return vpa in self._unproven and vpa in self._canaries

    def _is_held(self, step: Step) -> bool:
        return self._waits(step.decision.vpa) or not self._closed.isdisjoint(step.guards)

    def _fits(self, step: Step) -> bool:
        if step.is_eviction and self._is_held(step):
            return False
        return not step.needs_place or self.budget.has_place(broken=step.is_broken)

    def _take(self, step: Step) -> None:
        if step.takes_place:
            self.budget = self.budget.less_one(broken=step.is_broken)
        if step.is_eviction:
            self._canaries.add(step.decision.vpa)
