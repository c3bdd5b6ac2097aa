"""What the pods of one owner get of what was proposed for them, and what blocks the rest.

Strategy: first what blocks a single pod (requirements, too few pods, a rollout, the webhook, no
proof, a PodDisruptionBudget), each with its reason; then places are given out in the order of
need: ends of boosts, then resizes, then evictions.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Final

from app.model.limits import DisruptionBudget
from app.model.pods import Pod
from app.model.vpa import Vpa
from app.updater.core.action_queue import ActionQueue, QueueCursor, QueueStep, Rank
from app.updater.core.decisions import Action, Decision, Reason, Why
from app.updater.core.events import counted
from app.updater.core.memory import NamespacedName, unseen_budget
from app.updater.core.need import Priority, Trigger
from app.updater.core.owners import (
    Budget,
    Size,
    budget_of,
    configured_size,
    is_broken,
    is_running,
    ongoing_rollout,
    required_replicas,
)
from app.updater.core.plan_state import PlanState
from app.updater.core.proof import Proof, current_proof, version_of
from app.updater.core.proposals import Assessment, OwnerPods, Proposal
from app.updater.core.replacements import judge_replacements
from app.updater.core.resize_state import may_restart, resize_state
from app.updater.core.rules import Prove

_RANKS: Final = {Action.UNBOOST: 0, Action.RESIZE: 1, Action.EVICT: 2}
_DONE: Final = {
    Action.UNBOOST: Reason.UPDATED,
    Action.RESIZE: Reason.UPDATED,
    Action.EVICT: Reason.EVICTED,
}


@dataclass(frozen=True, slots=True)
class OwnerPlan:
    """What is decided for the pods of one owner."""

    decisions: dict[str, Decision]  # by uid
    queue: ActionQueue | None = None
    evictable: Counter[str] = field(default_factory=Counter)  # pods by VPA that could go now
    resizable: Counter[str] = field(default_factory=Counter)


def plan_owner(group: OwnerPods, state: PlanState) -> OwnerPlan:
    """Decide for all pods of one owner."""
    found = {
        assessed.pod.uid: assessed.decision
        for assessed in group.assessments
        if assessed.decision is not None
    }
    checks = OwnerChecks(group, state)
    judge_replacements(group, checks.size, state)
    owner_plan = OwnerPlan(found)
    steps = [
        step
        for assessed, proposal in _proposals(group)
        if (step := _step(assessed, proposal, checks, owner_plan)) is not None
    ]
    if not steps:
        return owner_plan
    return replace(owner_plan, queue=_given_out(steps, checks, found))


def _proposals(group: OwnerPods) -> list[tuple[Assessment, Proposal]]:
    """Return the pods with a proposal, in the order in which they take places."""
    found = [(assessed, assessed.proposal) for assessed in group.assessments if assessed.proposal]
    return sorted(found, key=lambda pair: (_RANKS[pair[1].action], _rank(*pair)))


def _rank(assessed: Assessment, proposal: Proposal) -> Rank:
    """Return how urgent a proposal is; ends of boosts come behind all that is out of bounds."""
    priority = proposal.priority or Priority(
        assessed.pod, is_up=False, found=Trigger(0, is_outside=False), quick_oom=False
    )
    return priority.key()


def _step(
    assessed: Assessment, proposal: Proposal, checks: OwnerChecks, owner_plan: OwnerPlan
) -> QueueStep | None:
    """Return what is to be done for a pod, or note why it has to wait."""
    blocker = checks.blocker(assessed, proposal)
    if blocker is not None and proposal.otherwise is not None:
        reason = proposal.gives_back or Reason.RESIZE_DEFERRED
        message = f"{proposal.message}; taken back, for it may not be evicted: {blocker[1]}"
        proposal = Proposal(
            Action.RESIZE,
            message,
            proposal.otherwise,
            proposal.priority,
            is_free=True,
            gives_back=reason,
        )
        blocker = None
    if blocker is not None:
        owner_plan.decisions[assessed.pod.uid] = assessed.decided(Action.WAIT, *blocker)
        return None
    step = _made(assessed, proposal, checks)
    _count(step, assessed.vpa, checks.budget, owner_plan)
    return step


def _made(assessed: Assessment, proposal: Proposal, checks: OwnerChecks) -> QueueStep:
    reason = proposal.gives_back if proposal.action is Action.RESIZE else None
    decision = assessed.decided(proposal.action, reason or _DONE[proposal.action], proposal.message)
    may_evict = proposal.may_evict and checks.may_evict(assessed)
    goes = proposal.action is Action.EVICT or may_evict
    decision = replace(
        decision,
        change=proposal.change,
        may_evict_instead=may_evict,
        is_canary=goes and checks.is_canary(assessed),
    )
    return QueueStep(
        assessed.pod,
        decision,
        takes_place=checks.takes_place(proposal),
        is_broken=checks.is_broken(assessed),
        guards=checks.guard_places(assessed.pod) if goes else (),
        rank=_rank(assessed, proposal),
    )


def _count(step: QueueStep, vpa: Vpa, budget: Budget, owner_plan: OwnerPlan) -> None:
    """Count the pods that could be updated if each were the only one."""
    if step.decision.action is Action.UNBOOST:
        return
    if not step.takes_place or budget.has_place(broken=step.is_broken):
        is_in_place = vpa.allows.may_resize or step.decision.action is Action.RESIZE
        (owner_plan.resizable if is_in_place else owner_plan.evictable)[vpa.name] += 1


def _given_out(
    steps: list[QueueStep], checks: OwnerChecks, found: dict[str, Decision]
) -> ActionQueue | None:
    """Give out places as if every call will succeed; the others stand by."""
    queue = ActionQueue(
        checks.group.namespace,
        checks.group.key,
        checks.budget,
        tuple(steps),
        frozenset(step.decision.vpa for step in steps if step.decision.is_canary),
        frozenset(pod.uid for pod in checks.group.pods),
        checks.up,
    )
    cursor = QueueCursor(queue)
    planned: set[str] = set()
    dropped: set[str] = set()
    while (step := cursor.next()) is not None:
        refusal = checks.refusal(step) if step.is_eviction else None
        if refusal is not None:
            cursor.came_to_nothing(step)
            dropped.add(step.pod.uid)
            found[step.pod.uid] = step.decision.put_off(*refusal)
            continue
        planned.add(step.pod.uid)
        found[step.pod.uid] = step.decision
    for step, why in cursor.rest():
        found[step.pod.uid] = step.decision.put_off(*why)
    if not planned:
        return None
    return replace(queue, steps=tuple(step for step in steps if step.pod.uid not in dropped))


class OwnerChecks:
    """Answers for one owner what may be done to its pods."""

    def __init__(self, group: OwnerPods, state: PlanState) -> None:
        self.group, self.inputs, self._state = group, state.inputs, state
        gone, disturbed = set(), set()
        for pod in group.pods:
            remembered = self.inputs.memory.pods.get(pod.uid)
            if remembered is not None and remembered.evicted is not None:
                gone.add(pod.uid)
            if remembered is not None and remembered.resized is not None:
                disturbed.add(pod.uid)
            if may_restart(pod) and resize_state(pod).is_ongoing:
                disturbed.add(pod.uid)
        self._there = [pod for pod in group.pods if pod.node and pod.uid not in gone]
        self.size: Size = configured_size(group.key, group.owner, len(group.pods))
        self.budget: Budget = budget_of(
            group.pods,
            self.size.configured or 0,
            self.inputs.rules.eviction_tolerance,
            gone=gone,
            disturbed=disturbed,
        )
        # Those whose fall would be news.
        self.up = tuple(
            pod for pod in group.pods if is_running(pod) and pod.uid not in gone | disturbed
        )

    # --- one pod

    def blocker(self, assessed: Assessment, proposal: Proposal) -> Why | None:
        """Return what blocks a proposal, None if only a place may be missing."""
        match proposal.action:
            case Action.EVICT:
                return self._of_eviction(assessed, proposal)
            case Action.RESIZE:
                return self._of_resize(assessed, proposal)
            case _:
                return self._unknown_owner() if self.takes_place(proposal) else None

    def _of_resize(self, assessed: Assessment, proposal: Proposal) -> Why | None:
        if proposal.unmet and proposal.is_disruptive:
            return Reason.REQUIREMENT_NOT_MET, proposal.unmet
        if proposal.gives_back is not None or not assessed.pod.node:
            return None
        found = self._unknown_owner()
        if proposal.is_disruptive or not self.inputs.rules.skip_disruption_budget:
            found = found or self._too_few(assessed.vpa)
        if proposal.is_disruptive:
            found = found or self._rollout(assessed)
        return found

    def _of_eviction(self, assessed: Assessment, proposal: Proposal) -> Why | None:
        if proposal.unmet:
            return Reason.REQUIREMENT_NOT_MET, proposal.unmet
        found = None
        if assessed.pod.node:
            found = self._unknown_owner() or self._too_few(assessed.vpa)
            found = found or self._rollout(assessed)
        if found is not None:
            return found
        if not self.inputs.webhook_is_healthy:
            return Reason.LEASE_STALE, "the admission webhook gives no sign of life"
        return self._unproven(assessed) or self._guarded(assessed)

    def may_evict(self, assessed: Assessment) -> bool:
        """Whether a pod could be evicted if its resize is refused.

        While only a few evictions are left, they are for those whose calls failed before.
        """
        proposal = assessed.proposal
        unmet = proposal.unmet if proposal is not None else ""
        if self._of_eviction(assessed, Proposal(Action.EVICT, "", unmet=unmet)) is not None:
            return False
        if self._state.evictions_left is None:
            return True
        failed = self.inputs.memory.of(assessed.pod).pause is not None
        return failed and self._state.takes_eviction()

    def _unknown_owner(self) -> Why | None:
        return (Reason.OWNER_UNKNOWN, self.size.problem) if self.size.problem else None

    def _too_few(self, vpa: Vpa) -> Why | None:
        required, there = required_replicas(vpa, self.inputs.rules), len(self._there)
        if there >= required:
            return None
        return (
            Reason.TOO_FEW_REPLICAS,
            f"{self.group.key} has {counted(there)}, and at least {required} are required",
        )

    def _rollout(self, assessed: Assessment) -> Why | None:
        if assessed.quick_oom:
            return None
        found = ongoing_rollout(self.group.owner, self.group.view)
        if found is None:
            return None
        if self._state.seems_stuck((self.group.namespace, str(self.group.key)), found):
            return None
        return Reason.ROLLOUT_IN_PROGRESS, found.message

    # --- proof

    def proof(self, vpa: Vpa) -> Proof:
        """Return what is proven of this owner under a VPA."""
        template = self.group.owner.template if self.group.owner is not None else ()
        found = self._state.proof((self.group.namespace, self.group.key, vpa.name))
        return current_proof(found, version_of(vpa, template))

    def _unproven(self, assessed: Assessment) -> Why | None:
        if self.inputs.rules.prove is Prove.OFF:
            return None
        proof = self.proof(assessed.vpa)
        if not proof.allows(self.inputs.rules, self.inputs.now):
            if proof.has_failed:
                waits = "for the next" if proof.awaited else f"until {proof.until:%H:%M:%S}"
                message = f"{counted(proof.failures)} came back unchanged; waits {waits}"
                return Reason.RECREATED_WITHOUT_CHANGE, message
            return Reason.PROOF_PENDING, "waits for the replacement of the pod that went first"
        return self._state.without_eviction() if self._state.evictions_left == 0 else None

    def is_canary(self, assessed: Assessment) -> bool:
        """Whether a pod goes first and the others wait for its replacement."""
        if self.inputs.rules.prove is Prove.OFF:
            return False
        return not self.proof(assessed.vpa).is_proven

    # --- what guards the pods

    def guards(self, pod: Pod) -> tuple[DisruptionBudget, ...]:
        """Return the PodDisruptionBudgets that an eviction has to pass."""
        if pod.phase == "Pending":
            return ()
        return self._state.guards(pod, self.group.view)

    def guard_places(self, pod: Pod) -> tuple[NamespacedName, ...]:
        """Return where the budgets over a pod stand."""
        return tuple((guard.namespace, guard.name) for guard in self.guards(pod))

    def _guarded(self, assessed: Assessment) -> Why | None:
        guards = self.guards(assessed.pod)
        if len(guards) > 1:
            names = ", ".join(guard.name for guard in guards)
            return Reason.PDB_BLOCKED, f"several PodDisruptionBudgets match the pod: {names}"
        pauses = self.inputs.memory.budget_pauses
        if not guards and assessed.pod.phase != "Pending":
            unseen = pauses.get(unseen_budget(self.group.namespace, self.group.key))
            if unseen is not None and not unseen.is_over(self.inputs.now):
                return Reason.PDB_BLOCKED, unseen.message
        for guard in guards:
            pause = pauses.get((guard.namespace, guard.name))
            if pause is not None and not pause.is_over(self.inputs.now):
                return Reason.PDB_BLOCKED, pause.message
            if not guard.is_current:
                return Reason.PDB_BLOCKED, f"PodDisruptionBudget {guard.name} was just changed"
            if guard.disruptions_allowed <= 0 and not self.is_broken(assessed):
                return _allows_none(guards)
        return None

    def is_broken(self, assessed: Assessment) -> bool:
        """Whether disturbing a pod takes nothing away from what is ready."""
        rules, now = self.inputs.rules, self.inputs.now
        return is_broken(assessed.pod, rules, now, quick_oom=assessed.quick_oom)

    def refusal(self, step: QueueStep) -> Why | None:
        """Return what others have used up already, None if this eviction may go on."""
        guards = self.guards(step.pod)
        if not self._state.takes(guards, broken=step.is_broken):
            return _allows_none(guards)
        return None if self._state.takes_eviction() else self._state.without_eviction()

    # --- places

    def takes_place(self, proposal: Proposal) -> bool:
        """Whether a proposal takes a place in the budget."""
        match proposal.action:
            case Action.EVICT:
                skips_budget = False
            case Action.RESIZE:
                skips_budget = self.inputs.rules.skip_disruption_budget
            case _:
                skips_budget = True
        return not proposal.is_free and (proposal.is_disruptive or not skips_budget)


def _allows_none(guards: tuple[DisruptionBudget, ...]) -> Why:
    names = ", ".join(guard.name for guard in guards)
    return Reason.PDB_BLOCKED, f"PodDisruptionBudget {names} allows no disruption now"
