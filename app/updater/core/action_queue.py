"""In which order the pods of one owner are disturbed, and which is next when a call failed.

Strategy: a slot is taken before the call and given back if the call fails, so that at no moment
more pods are down than may be. A plan walks a queue in the same way, as if every call succeeded;
a step that waits only for a slot stays in the queue.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from app.model.kinds import ObjectKey
from app.model.pods import Pod
from app.model.quantity import Quantity
from app.updater.core.decisions import Action, Decision, Reason, Why
from app.updater.core.memory import NamespacedName
from app.updater.core.need import Rank
from app.updater.core.owners import OwnerBudget, Role, still_has_role, went_down
from app.updater.core.proof import ProofVersion
from app.updater.core.sentences import names_of

LAST_OF_ROLE: Final = (
    Reason.LAST_OF_ROLE,
    "no other pod is ready that its VPA selects, and its replacement would have other labels",
)


@dataclass(frozen=True, slots=True)
class DownPods:
    """Which pods of an owner take places in its budget before anything is done, by name."""

    gone: tuple[str, ...] = ()  # evicted by us, and still to be seen
    resized: tuple[str, ...] = ()  # in a resize that may restart them
    unready: tuple[str, ...] = ()
    stopped: tuple[str, ...] = ()  # not running, or gone since
    missing: int = 0  # that its controller has not created

    def sentences(self, taken: Sequence[str], *, of_running: bool) -> Iterator[str]:
        """Yield who has the places, with those that were `taken` since.

        Args:
            taken: the pods that were given a place.
            of_running: pods that run count as up, ready or not.
        """
        for names, what in (
            ((*taken, *(() if of_running else self.resized)), "being updated"),
            (self.gone, "being evicted"),
            (() if of_running else self.unready, "not ready"),
            (self.stopped, "not running"),
        ):
            if names:
                yield f"{names_of(names)} {'is' if len(names) == 1 else 'are'} {what}"
        if self.missing:
            pods = "1 pod is" if self.missing == 1 else f"{self.missing} pods are"
            yield f"{pods} not created yet"


@dataclass(frozen=True, slots=True)
class QueueStep:
    """One thing to do for one pod, and what it takes from the owner."""

    pod: Pod
    decision: Decision
    needs_slot: bool  # in the budget
    # Long unready or OOM-killed: counted against running pods, not ready ones.
    is_broken: bool
    pdbs: tuple[NamespacedName, ...]  # the PodDisruptionBudgets over the pod
    rank: Rank  # across all owners
    # VPA generation and template that the canary's result is valid for.
    proof_version: ProofVersion
    allocatable: Mapping[str, Quantity] | None = None  # of the pod's node, None if not known
    holds_slot: bool = False  # the pod counts as down already, for a resize that may restart it
    role: Role = Role.ORIGINAL

    @property
    def is_eviction(self) -> bool:
        """Whether the pod goes."""
        return self.decision.action is Action.EVICT

    def fits(self, budget: OwnerBudget) -> bool:
        """Whether there is a slot for it, if it needs one."""
        return not self.needs_slot or budget.has_slot(broken=self.is_broken, held=self.holds_slot)

    def counted(self, budget: OwnerBudget, down: int) -> OwnerBudget:
        """Return the budget after its slot was taken, or given back where `down` is -1."""
        return budget.after(down, broken=self.is_broken, held=self.holds_slot)


@dataclass(frozen=True, slots=True)
class ActionQueue:
    """What is to be done for the pods of one owner, in order; one call after the other."""

    namespace: str
    owner: ObjectKey
    budget: OwnerBudget
    steps: tuple[QueueStep, ...]
    unproven: frozenset[str]  # VPAs for which only one pod may go
    pods: frozenset[str]  # uids of the owner's live pods
    undisturbed: tuple[Pod, ...] = ()  # those of them that run, and that nothing was done to
    # By VPA: those of them that are ready and that it selects, if an eviction may cost a role.
    roles: Mapping[str, tuple[Pod, ...]] = field(default_factory=dict)
    down: DownPods = DownPods()

    @property
    def rank(self) -> Rank:
        """How urgent its most urgent step is."""
        return min(step.rank for step in self.steps)


class QueueCursor:
    """Goes through a queue; tell it of every step that came to nothing."""

    def __init__(self, queue: ActionQueue) -> None:
        self.budget = queue.budget
        self.queue = queue
        self._steps = list(queue.steps)
        self._canaries: dict[str, str] = {}  # the first pod that is evicted, by VPA
        self._down = queue.down
        self._closed: set[NamespacedName] = set()
        self._stopped: dict[str, Why] = {}  # by VPA
        self._taken: dict[str, str] = {}  # names of the pods whose slots are taken, by uid
        self._roles = {vpa: {pod.uid for pod in pods} for vpa, pods in queue.roles.items()}

    def next(self) -> QueueStep | None:
        """Return the next step that may be taken now, with its slot taken."""
        for position, step in enumerate(self._steps):
            if self._fits(step):
                del self._steps[position]
                self._take(step)
                return step
        return None

    def recount(self, now: Mapping[str, Pod]) -> None:
        """Count again which pods are up; `now` are the pods of the namespace by name."""
        planned, down = self.queue.budget, self.queue.down
        stopped, unready = went_down(
            (pod for pod in self.queue.undisturbed if pod.uid not in self._taken), now
        )
        self.budget = replace(
            self.budget, running=planned.running - len(stopped), ready=planned.ready - len(unready)
        )
        still = tuple(name for name in unready if name not in stopped)
        self._down = replace(
            down, stopped=down.stopped + tuple(stopped), unready=down.unready + still
        )
        for vpa, pods in self.queue.roles.items():
            self._roles[vpa] = {pod.uid for pod in pods if still_has_role(pod, now)}

    def why_slot_is_lost(self, step: QueueStep) -> Why | None:
        """Return why a step that took its slot may not keep it after a recount, None if it may."""
        if self._is_last_of_role(step):
            return LAST_OF_ROLE
        if step.fits(step.counted(self.budget, -1)):
            return None
        return self._without_slot(broken=step.is_broken, but=step.pod.uid)

    def came_to_nothing(self, step: QueueStep) -> None:
        """Give back what a step took, because its call failed or was not made."""
        self._taken.pop(step.pod.uid, None)
        if step.needs_slot:
            self.budget = step.counted(self.budget, -1)
        if step.is_eviction:
            self._canaries.pop(step.decision.vpa, None)

    def close(self, pdbs: Iterable[NamespacedName]) -> None:
        """Skip evictions under PodDisruptionBudgets that refused one."""
        self._closed.update(pdbs)

    def stop_evicting(self, vpa: str, why: Why) -> None:
        """Evict no more pods of a VPA."""
        self._stopped[vpa] = why

    def evict_later(self, step: QueueStep) -> None:
        """Let a resize that was refused for good become an eviction, after all else is done."""
        if not step.decision.may_evict_instead:
            return
        message = f"{step.decision.message}; its resize was refused"
        decision = replace(
            step.decision,
            action=Action.EVICT,
            message=message,
            change=None,
            may_evict_instead=False,
        )
        self._steps.append(replace(step, decision=decision, needs_slot=True))

    def rest(self) -> Iterator[tuple[QueueStep, Why]]:
        """Yield the steps that got no turn, and why not."""
        is_broken = {step.is_broken for step in self._steps}
        without_slot = {broken: self._without_slot(broken=broken) for broken in is_broken}
        for step in self._steps:
            yield step, (self._held(step) or without_slot[step.is_broken])

    def _without_slot(self, *, broken: bool, but: str = "") -> Why:
        """Return who has the slots; `but` is the uid of a pod that is not told."""
        taken = [name for uid, name in self._taken.items() if uid != but]
        who = ", ".join(self._down.sentences(taken, of_running=broken))
        most, desired = max(self.budget.tolerated, 1), self.budget.desired
        limit = f"only {most} of {desired} pods of {self.queue.owner} may be down at a time"
        return Reason.BUDGET_EXHAUSTED, f"{who}; {limit}" if who else limit

    def _held(self, step: QueueStep) -> Why | None:
        """Return what others met that holds back an eviction."""
        vpa = step.decision.vpa
        if not step.is_eviction:
            return None
        if vpa in self._stopped:
            return self._stopped[vpa]
        if not self._closed.isdisjoint(step.pdbs):
            return Reason.PDB_BLOCKED, "its PodDisruptionBudget refused another pod"
        if vpa in self.queue.unproven and vpa in self._canaries:
            first = self._canaries[vpa]
            return Reason.PROOF_PENDING, f"waiting for the canary: {first} is evicted first"
        return LAST_OF_ROLE if self._is_last_of_role(step) else None

    def _is_last_of_role(self, step: QueueStep) -> bool:
        """Whether no pod would have the role of one that is to be evicted."""
        if not step.is_eviction or step.role is not Role.ACQUIRED:
            return False
        others = self._roles.get(step.decision.vpa, set()) - self._taken.keys()
        return not others - {step.pod.uid}

    def _fits(self, step: QueueStep) -> bool:
        if self._held(step) is not None:
            return False
        return step.fits(self.budget)

    def _take(self, step: QueueStep) -> None:
        if step.needs_slot:
            self._taken[step.pod.uid] = step.pod.name
            self.budget = step.counted(self.budget, 1)
        if step.is_eviction:
            self._canaries.setdefault(step.decision.vpa, step.pod.name)
