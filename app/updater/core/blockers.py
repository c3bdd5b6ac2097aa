"""What the pods of one owner get of what was proposed for them, and what blocks the rest.

Strategy: first what blocks a single pod, each with its reason; then slots of the budget are given
out in the order of need: ends of boosts, then resizes, then evictions. The blockers, in order:

  an eviction requirement that is not met   evictions, and resizes that restart
  an unknown owner                          all of pods on a node, but ends without a restart
  fewer pods than `minReplicas`             evictions and resizes that restart, on a node
  a rollout                                 evictions and resizes that restart, on a node
  the last of a role                        evictions
  the holder of a Lease before others       evictions
  a Lease of the webhook that is stale      evictions
  no proof, or no eviction left             evictions
  a PodDisruptionBudget                     evictions

The mode, a recommendation that is missing, the annotation that pauses and the pause after a failed
call come before a proposal is made (`assess`), a missing slot after all of these (`action_queue`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from app.model.limits import DisruptionBudget
from app.model.pod_roles import given_labels
from app.model.pods import Pod
from app.model.vpa import Vpa
from app.sizing.matching import selects
from app.updater.core.action_queue import (
    LAST_OF_ROLE,
    ActionQueue,
    DownPods,
    QueueCursor,
    QueueStep,
)
from app.updater.core.decisions import Action, Decision, Reason, Why
from app.updater.core.events import counted
from app.updater.core.memory import pdb_key, unseen_pdb_key
from app.updater.core.owners import (
    Role,
    budget_of,
    desired_size,
    is_broken,
    is_running,
    is_unready,
    ongoing_rollout,
    required_replicas,
)
from app.updater.core.plan_state import PlanState, judge_replacements
from app.updater.core.proof import Proof, ProofVersion, current_proof
from app.updater.core.proposals import Assessment, OwnerPods, Proposal
from app.updater.core.resize_state import may_restart, resize_state
from app.updater.core.role_changes import why_holder_stays
from app.updater.core.rules import Prove

_CANARY_AWAITED: Final = (
    "waiting for the canary: a pod of this workload was evicted first, and its replacement is not "
    "seen yet"
)
_ORDER: Final = {Action.UNBOOST: 0, Action.RESIZE: 1, Action.EVICT: 2}


@dataclass(frozen=True, slots=True)
class OwnerPlan:
    """What is decided for the pods of one owner."""

    decisions: dict[str, Decision]  # by uid
    queue: ActionQueue | None
    evictable: Counter[str]  # pods by VPA that could be updated if each were the only one
    resizable: Counter[str]


def decide_owner(group: OwnerPods, state: PlanState) -> OwnerPlan:
    """Decide for all pods of one owner."""
    decisions = {
        assessed.pod.uid: assessed.decision
        for assessed in group.assessments
        if assessed.decision is not None
    }
    checks = OwnerChecks(group, state)
    judge_replacements(group, checks.size, state)
    steps: list[QueueStep] = []
    evictable, resizable = Counter[str](), Counter[str]()
    for assessed, proposal in _proposals(group.assessments):
        step = _step(assessed, proposal, checks)
        if isinstance(step, Decision):
            decisions[assessed.pod.uid] = step
            continue
        steps.append(step)
        if proposal.action is not Action.UNBOOST and checks.has_slot(step):
            is_in_place = assessed.is_in_place or step.decision.action is Action.RESIZE
            (resizable if is_in_place else evictable)[assessed.vpa.name] += 1
    queue, queued = _queue(steps, checks) if steps else (None, {})
    return OwnerPlan({**decisions, **queued}, queue, evictable, resizable)


def _proposals(assessments: Iterable[Assessment]) -> list[tuple[Assessment, Proposal]]:
    """Return the pods with a proposal, in the order in which they take slots."""
    found = [(assessed, assessed.proposal) for assessed in assessments if assessed.proposal]
    return sorted(found, key=lambda pair: (_ORDER[pair[1].action], pair[1].rank))


def _step(assessed: Assessment, proposal: Proposal, checks: OwnerChecks) -> QueueStep | Decision:
    """Return what is to be done for a pod, or the decision that it has to wait."""
    blocker, change = checks.blocker(assessed, proposal), proposal.revert_change
    if blocker is None:
        step = checks.step(assessed, proposal)
        if change is None or not step.holds_slot or checks.has_slot(step):
            return step
        blocker = Reason.BUDGET_EXHAUSTED, "its workload can spare no pod"
    elif change is None or not assessed.is_in_place:
        return assessed.decided(Action.WAIT, *blocker)
    message = f"{proposal.message}; reverted, because the pod may not be evicted: {blocker[1]}"
    revert = replace(
        proposal, action=Action.RESIZE, message=message, needs_slot=False, change=change
    )
    return checks.step(assessed, revert)


def _queue(
    steps: list[QueueStep], checks: OwnerChecks
) -> tuple[ActionQueue | None, dict[str, Decision]]:
    """Give out slots as if every call will succeed; return the queue, and decisions by uid.

    Steps that only lack a slot stay in the queue, in case that a call fails.
    """
    queue = ActionQueue(
        checks.group.namespace,
        checks.group.key,
        checks.budget,
        tuple(steps),
        frozenset(step.decision.vpa for step in steps if step.decision.needs_proof),
        frozenset(pod.uid for pod in checks.group.pods),
        checks.undisturbed,
        checks.roles,
        checks.down(),
    )
    cursor = QueueCursor(queue)
    decisions: dict[str, Decision] = {}
    refused: set[str] = set()
    while (step := cursor.next()) is not None:
        uid, decision = step.pod.uid, step.decision
        refusal = checks.reserve(step) if step.is_eviction else None
        if refusal is not None:
            cursor.came_to_nothing(step)
            refused.add(uid)
            decision = decision.put_off(*refusal)
        decisions[uid] = decision
    is_empty = len(refused) == len(decisions)
    for step, why in cursor.rest():
        decisions[step.pod.uid] = step.decision.put_off(*why)
    if is_empty:
        return None, decisions
    steps = [step for step in steps if step.pod.uid not in refused]
    return replace(queue, steps=tuple(steps)), decisions


class OwnerChecks:
    """Answers for one owner what may be done to its pods."""

    def __init__(self, group: OwnerPods, state: PlanState) -> None:
        self.group, self.inputs, self._state = group, state.inputs, state
        gone, disturbed = set[str](), set[str]()
        for pod in group.pods:
            remembered = self.inputs.memory.pods.get(pod.uid)
            if remembered is not None and remembered.evicted is not None:
                gone.add(pod.uid)
            if remembered is not None and remembered.resized is not None:
                disturbed.add(pod.uid)
            if may_restart(pod) and resize_state(pod).may_begin:
                disturbed.add(pod.uid)
        self._disturbed, self._gone = frozenset(disturbed), frozenset(gone)
        self._scheduled = sum(bool(pod.node) and pod.uid not in gone for pod in group.pods)
        self.size = desired_size(group.key, group.owner, len(group.pods))
        self.budget = budget_of(
            group.pods,
            self.size.desired or 0,
            self.inputs.rules.eviction_tolerance,
            gone=gone,
            disturbed=disturbed,
        )
        # Running pods that we have not disturbed.
        self.undisturbed = tuple(
            pod for pod in group.pods if is_running(pod) and pod.uid not in gone | disturbed
        )
        self.roles: dict[str, tuple[Pod, ...]] = {}  # by VPA: its ready pods, if that was asked

    def down(self) -> DownPods:
        """Return which pods take places already."""
        live, gone, resized = self.group.pods, self._gone, self._disturbed - self._gone
        up = [pod for pod in live if pod.uid not in gone and is_running(pod)]
        return DownPods(
            gone=tuple(pod.name for pod in live if pod.uid in gone),
            resized=tuple(pod.name for pod in up if pod.uid in resized),
            unready=tuple(pod.name for pod in up if pod.uid not in resized and is_unready(pod)),
            stopped=tuple(pod.name for pod in live if pod.uid not in gone and not is_running(pod)),
            missing=max((self.size.desired or 0) - len(live), 0),
        )

    def step(self, assessed: Assessment, proposal: Proposal) -> QueueStep:
        """Return what is to be done for a pod that nothing blocks but perhaps a missing slot."""
        pod, vpa, action = assessed.pod, assessed.vpa, proposal.action
        reason, may_evict = proposal.cause, False
        if action is Action.RESIZE:
            reason = proposal.revert_reason or reason
            may_evict = (
                proposal.revert_reason is None
                and proposal.cause is not Reason.PROMOTED
                and self._reserve_fallback(assessed, proposal)
            )
        decision = assessed.decided(action, reason, proposal.message)
        goes = action is Action.EVICT or may_evict
        needs_proof = goes and self.inputs.rules.prove is not Prove.OFF
        return QueueStep(
            pod,
            replace(
                decision,
                change=proposal.change,
                may_evict_instead=may_evict,
                needs_proof=needs_proof and not self.proof(vpa).is_proven,
            ),
            proposal.needs_slot,
            self._is_broken(assessed),
            tuple(map(pdb_key, self._pdbs(pod))) if goes else (),
            proposal.rank,
            self._version(vpa),
            self._state.allocatable(pod),
            holds_slot=pod.uid in self._disturbed and not is_unready(pod),
            role=assessed.role,
        )

    def has_slot(self, step: QueueStep) -> bool:
        """Whether a step could be taken if it were the only one."""
        return step.fits(self.budget)

    # --- one pod

    def blocker(self, assessed: Assessment, proposal: Proposal) -> Why | None:
        """Return what blocks a proposal, None if only a slot may be missing."""
        match proposal.action:
            case Action.EVICT:
                return self._eviction_blocker(assessed, proposal.unmet)
            case Action.RESIZE:
                return self._resize_blocker(assessed, proposal)
            case _:
                return self._unknown_owner() if proposal.needs_slot else None

    def _resize_blocker(self, assessed: Assessment, proposal: Proposal) -> Why | None:
        if proposal.unmet and proposal.is_disruptive:
            return Reason.REQUIREMENT_NOT_MET, proposal.unmet
        if proposal.revert_reason is not None or not assessed.pod.node:
            return None
        blocker = self._unknown_owner()
        if proposal.is_disruptive:
            blocker = blocker or self._too_few(assessed.vpa) or self._rollout(assessed)
        return blocker

    def _eviction_blocker(self, assessed: Assessment, unmet: str) -> Why | None:
        if unmet:
            return Reason.REQUIREMENT_NOT_MET, unmet
        if assessed.pod.node:
            blocker = self._unknown_owner() or self._too_few(assessed.vpa)
            if blocker := blocker or self._rollout(assessed):
                return blocker
        if assessed.role is Role.ACQUIRED and not self._others_in_role(assessed):
            return LAST_OF_ROLE
        if assessed.role is Role.HELD and (
            stays := why_holder_stays(assessed, self.group.assessments, self.undisturbed)
        ):
            return stays
        if not self.inputs.webhook_is_healthy:
            return Reason.LEASE_STALE, "the Lease of the admission webhook is not renewed"
        return self._unproven(assessed) or self._pdb_blocker(assessed)

    def _reserve_fallback(self, assessed: Assessment, proposal: Proposal) -> bool:
        """Return whether a pod may be evicted if its resize is refused.

        While only a few evictions are left, one is reserved for it if a call failed before.
        """
        if not assessed.vpa.allows.may_evict or self._eviction_blocker(assessed, proposal.unmet):
            return False
        if self._state.evictions_left(self.group.namespace) is None:
            return True
        failed = self.inputs.memory.of(assessed.pod).pause is not None
        return failed and self._state.reserve_eviction(self.group.namespace)

    def _unknown_owner(self) -> Why | None:
        return (Reason.OWNER_UNKNOWN, self.size.problem) if self.size.problem else None

    def _too_few(self, vpa: Vpa) -> Why | None:
        required = required_replicas(vpa, self.inputs.rules)
        if self._scheduled >= required:
            return None
        there = counted(self._scheduled)
        message = f"{self.group.key} has {there}, and at least {required} are required"
        return Reason.TOO_FEW_REPLICAS, message

    def _others_in_role(self, assessed: Assessment) -> bool:
        """Whether the VPA of a pod selects another one that is ready."""
        vpa = assessed.vpa
        if vpa.name not in self.roles:
            self.roles[vpa.name] = tuple(
                pod
                for pod in self.undisturbed
                if not is_unready(pod) and selects(vpa.selector, pod)
            )
        return any(pod.uid != assessed.pod.uid for pod in self.roles[vpa.name])

    def _rollout(self, assessed: Assessment) -> Why | None:
        if assessed.is_quick_oom:
            return None
        rollout = ongoing_rollout(self.group.owner, self.group.view)
        if rollout is None:
            return None
        since = self._state.note_rollout((self.group.namespace, self.group.key), rollout)
        if self.inputs.now - since >= self.inputs.rules.rollout_patience:
            return None
        return Reason.ROLLOUT_IN_PROGRESS, rollout.message

    # --- proof

    def proof(self, vpa: Vpa) -> Proof:
        """Return what is proven of this owner under a VPA."""
        known = self._state.proof((self.group.namespace, self.group.key, vpa.name))
        return current_proof(known, self._version(vpa))

    def _version(self, vpa: Vpa) -> ProofVersion:
        owner = self.group.owner
        template = owner.template if owner is not None else ()
        return ProofVersion(vpa.uid, vpa.generation, template)

    def _unproven(self, assessed: Assessment) -> Why | None:
        if self.inputs.rules.prove is Prove.OFF:
            return None
        proof = self.proof(assessed.vpa)
        if not proof.allows(self.inputs.rules, self.inputs.now):
            if proof.has_failed:
                waits = "for the next canary" if proof.awaited else f"until {proof.until:%H:%M:%S}"
                message = f"{counted(proof.failures)} came back unchanged; evictions wait {waits}"
                return Reason.RECREATED_WITHOUT_CHANGE, message
            return Reason.PROOF_PENDING, _CANARY_AWAITED
        return self._no_eviction_left()

    def _no_eviction_left(self) -> Why | None:
        namespace = self.group.namespace
        is_spent = self._state.evictions_left(namespace) == 0
        return self._state.no_eviction_left(namespace) if is_spent else None

    # --- PodDisruptionBudgets

    def _pdbs(self, pod: Pod) -> tuple[DisruptionBudget, ...]:
        """Return those that an eviction has to pass."""
        if pod.phase == "Pending":
            return ()
        pdbs, labels = sorted(self.group.view.budgets.items()), given_labels(pod)
        return tuple(pdb for _, pdb in pdbs if pdb.selector.matches(labels))

    def _pdb_blocker(self, assessed: Assessment) -> Why | None:
        pdbs, now = self._pdbs(assessed.pod), self.inputs.now
        if len(pdbs) > 1:
            names = ", ".join(pdb.name for pdb in pdbs)
            return Reason.PDB_BLOCKED, f"several PodDisruptionBudgets match the pod: {names}"
        pauses = self.inputs.memory.pdb_pauses
        if not pdbs and assessed.pod.phase != "Pending":
            unseen = pauses.get(unseen_pdb_key(self.group.namespace, self.group.key))
            if unseen is not None and not unseen.is_over(now):
                return Reason.PDB_BLOCKED, unseen.message
        for pdb in pdbs:
            pause = pauses.get(pdb_key(pdb))
            if pause is not None and not pause.is_over(now):
                return Reason.PDB_BLOCKED, pause.message
            if not pdb.is_current:
                return Reason.PDB_BLOCKED, f"PodDisruptionBudget {pdb.name} was just changed"
            if pdb.disruptions_allowed <= 0 and not self._is_broken(assessed):
                return _allows_none(pdbs)
        return None

    def _is_broken(self, assessed: Assessment) -> bool:
        """Whether disturbing a pod takes nothing away from what is ready."""
        rules, now = self.inputs.rules, self.inputs.now
        return is_broken(assessed.pod, rules, now, is_quick_oom=assessed.is_quick_oom)

    def reserve(self, step: QueueStep) -> Why | None:
        """Reserve what an eviction needs; return what others have used up already, else None."""
        if (refusal := self._no_eviction_left()) is not None:
            return refusal
        pdbs = self._pdbs(step.pod)
        if not self._state.reserve_pdbs(pdbs, broken=step.is_broken):
            return _allows_none(pdbs)
        self._state.reserve_eviction(self.group.namespace)
        return None


def _allows_none(pdbs: tuple[DisruptionBudget, ...]) -> Why:
    names = ", ".join(pdb.name for pdb in pdbs)
    return Reason.PDB_BLOCKED, f"PodDisruptionBudget {names} allows no disruption now"
