"""What holds a single pod back although it needs an update.

Strategy: one place that knows the owner: its size, its pods, its rollout, what guards it and what
was proven of it. Each hindrance is a reason and a sentence.
"""

from __future__ import annotations

from dataclasses import dataclass

from app.model.kinds import ObjectKey
from app.model.limits import DisruptionBudget
from app.model.pods import Pod
from app.model.snapshot import NamespaceView
from app.model.vpa import Vpa
from app.model.workloads import Workload
from app.updater.core.budget import Budget
from app.updater.core.carrying import Step
from app.updater.core.decisions import Action, Reason, Why
from app.updater.core.groups import (
    Size,
    budget_of,
    configured_size,
    is_broken,
    is_running,
    required_replicas,
    rolling,
)
from app.updater.core.ledger import Ledger
from app.updater.core.memory import Place, unseen_budget
from app.updater.core.proof import Proof, current_proof, version_of
from app.updater.core.resizing import may_restart, resize_state
from app.updater.core.rules import Prove
from app.updater.core.summary import counted
from app.updater.core.wishes import Assessment, Terms, Wish


@dataclass(frozen=True, slots=True)
class Group:
    """The pods of one owner."""

    namespace: str
    key: ObjectKey
    owner: Workload | None
    view: NamespaceView
    pods: tuple[Pod, ...]  # the live ones
    assessments: tuple[Assessment, ...]


class Desk:
    """Answers for one owner what may be done to its pods."""

    def __init__(self, group: Group, terms: Terms, ledger: Ledger) -> None:
        self.group, self.terms, self._ledger = group, terms, ledger
        gone, disturbed = set(), set()
        for pod in group.pods:
            remembered = terms.memory.pods.get(pod.uid)
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
            terms.rules.eviction_tolerance,
            gone=gone,
            disturbed=disturbed,
        )
        # Those whose fall would be news.
        self.up = tuple(
            pod for pod in group.pods if is_running(pod) and pod.uid not in gone | disturbed
        )

    # --- one pod

    def hindrance(self, assessed: Assessment, wish: Wish) -> Why | None:
        """Return what holds a wish back, None if only a place may be missing."""
        match wish.action:
            case Action.EVICT:
                return self._of_eviction(assessed, wish)
            case Action.RESIZE:
                return self._of_resize(assessed, wish)
            case _:
                return self._unknown_owner() if self.takes_place(wish) else None

    def _of_resize(self, assessed: Assessment, wish: Wish) -> Why | None:
        if wish.unmet and wish.is_disruptive:
            return Reason.REQUIREMENT_NOT_MET, wish.unmet
        if wish.gives_back is not None or not assessed.pod.node:
            return None
        found = self._unknown_owner()
        if wish.is_disruptive or not self.terms.rules.skip_disruption_budget:
            found = found or self._too_few(assessed.vpa)
        if wish.is_disruptive:
            found = found or self._rollout(assessed)
        return found

    def _of_eviction(self, assessed: Assessment, wish: Wish) -> Why | None:
        if wish.unmet:
            return Reason.REQUIREMENT_NOT_MET, wish.unmet
        found = None
        if assessed.pod.node:
            found = self._unknown_owner() or self._too_few(assessed.vpa)
            found = found or self._rollout(assessed)
        if found is not None:
            return found
        if not self.terms.webhook_is_healthy:
            return Reason.LEASE_STALE, "the admission webhook gives no sign of life"
        return self._unproven(assessed) or self._guarded(assessed)

    def may_evict(self, assessed: Assessment) -> bool:
        """Whether a pod could be evicted if its resize is refused.

        While only a few evictions are left, they are for those whose calls failed before.
        """
        wish = assessed.wish
        unmet = wish.unmet if wish is not None else ""
        if self._of_eviction(assessed, Wish(Action.EVICT, "", unmet=unmet)) is not None:
            return False
        if self._ledger.evictions_left is None:
            return True
        failed = self.terms.memory.of(assessed.pod).pause is not None
        return failed and self._ledger.takes_eviction()

    def _unknown_owner(self) -> Why | None:
        return (Reason.OWNER_UNKNOWN, self.size.problem) if self.size.problem else None

    def _too_few(self, vpa: Vpa) -> Why | None:
        required, there = required_replicas(vpa, self.terms.rules), len(self._there)
        if there >= required:
            return None
        return (
            Reason.TOO_FEW_REPLICAS,
            f"{self.group.key} has {counted(there)}, and at least {required} are required",
        )

    def _rollout(self, assessed: Assessment) -> Why | None:
        if assessed.quick_oom:
            return None
        found = rolling(self.group.owner, self.group.view)
        if found is None:
            return None
        if self._ledger.seems_stuck((self.group.namespace, str(self.group.key)), found):
            return None
        return Reason.ROLLOUT_IN_PROGRESS, found.message

    # --- proof

    def proof(self, vpa: Vpa) -> Proof:
        """Return what is proven of this owner under a VPA."""
        template = self.group.owner.template if self.group.owner is not None else ()
        found = self._ledger.proof((self.group.namespace, self.group.key, vpa.name))
        return current_proof(found, version_of(vpa, template))

    def _unproven(self, assessed: Assessment) -> Why | None:
        if self.terms.rules.prove is Prove.OFF:
            return None
        proof = self.proof(assessed.vpa)
        if not proof.allows(self.terms.rules, self.terms.now):
            if proof.has_failed:
                waits = "for the next" if proof.awaited else f"until {proof.until:%H:%M:%S}"
                message = f"{counted(proof.failures)} came back unchanged; waits {waits}"
                return Reason.RECREATED_WITHOUT_CHANGE, message
            return Reason.PROOF_PENDING, "waits for the replacement of the pod that went first"
        return self._ledger.without_eviction() if self._ledger.evictions_left == 0 else None

    def is_canary(self, assessed: Assessment) -> bool:
        """Whether a pod goes first and the others wait for its replacement."""
        if self.terms.rules.prove is Prove.OFF:
            return False
        return not self.proof(assessed.vpa).is_proven

    # --- what guards the pods

    def guards(self, pod: Pod) -> tuple[DisruptionBudget, ...]:
        """Return the PodDisruptionBudgets that an eviction has to pass."""
        if pod.phase == "Pending":
            return ()
        return self._ledger.guards(pod, self.group.view)

    def guard_places(self, pod: Pod) -> tuple[Place, ...]:
        """Return where the budgets over a pod stand."""
        return tuple((guard.namespace, guard.name) for guard in self.guards(pod))

    def _guarded(self, assessed: Assessment) -> Why | None:
        guards = self.guards(assessed.pod)
        if len(guards) > 1:
            names = ", ".join(guard.name for guard in guards)
            return Reason.PDB_BLOCKED, f"several PodDisruptionBudgets match the pod: {names}"
        pauses = self.terms.memory.budget_pauses
        if not guards and assessed.pod.phase != "Pending":
            unseen = pauses.get(unseen_budget(self.group.namespace, self.group.key))
            if unseen is not None and not unseen.is_over(self.terms.now):
                return Reason.PDB_BLOCKED, unseen.message
        for guard in guards:
            pause = pauses.get((guard.namespace, guard.name))
            if pause is not None and not pause.is_over(self.terms.now):
                return Reason.PDB_BLOCKED, pause.message
            if not guard.is_current:
                return Reason.PDB_BLOCKED, f"PodDisruptionBudget {guard.name} was just changed"
            if guard.disruptions_allowed <= 0 and not self.is_broken(assessed):
                return _allows_none(guards)
        return None

    def is_broken(self, assessed: Assessment) -> bool:
        """Whether disturbing a pod takes nothing away from what is ready."""
        rules, now = self.terms.rules, self.terms.now
        return is_broken(assessed.pod, rules, now, quick_oom=assessed.quick_oom)

    def refusal(self, step: Step) -> Why | None:
        """Return what others have used up already, None if this eviction may go on."""
        guards = self.guards(step.pod)
        if not self._ledger.takes(guards, broken=step.is_broken):
            return _allows_none(guards)
        return None if self._ledger.takes_eviction() else self._ledger.without_eviction()

    # --- places

    def takes_place(self, wish: Wish) -> bool:
        """Whether a wish takes a place in the budget."""
        match wish.action:
            case Action.EVICT:
                skips_budget = False
            case Action.RESIZE:
                skips_budget = self.terms.rules.skip_disruption_budget
            case _:
                skips_budget = True
        return not wish.is_free and (wish.is_disruptive or not skips_budget)


def _allows_none(guards: tuple[DisruptionBudget, ...]) -> Why:
    names = ", ".join(guard.name for guard in guards)
    return Reason.PDB_BLOCKED, f"PodDisruptionBudget {names} allows no disruption now"
