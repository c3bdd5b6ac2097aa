"""What a plan is made with: its inputs, each pod with what would be right, and what owners share.

Strategy: what concerns one pod alone is assessed once and kept while the pod, its VPA and the
time allow; what concerns the pods of an owner together comes afterwards, and only where there is
a proposal. PlanState is the only thing that changes while planning. Owners have a fixed order, so
the same snapshot gives the same plan at the same time. Each pod that came after the latest
evictions of its owner is compared with what was expected then.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from app.model.gates import FeatureGates
from app.model.kinds import ObjectKey
from app.model.limits import DisruptionBudget, Node
from app.model.pods import UPDATES_ANNOTATION, Pod
from app.model.quantity import Quantity
from app.model.snapshot import NamespaceView
from app.model.vpa import Vpa
from app.model.workloads import Workload
from app.updater.core.decisions import Action, Decision, PodChange, PodNumbers, Reason, Why
from app.updater.core.memory import (
    Infeasible,
    Memory,
    NamespacedName,
    Pause,
    PodMemory,
    ProofKey,
    SeenRollout,
    pdb_key,
    with_pods,
    without_breaker_canary,
)
from app.updater.core.need import Rank
from app.updater.core.owners import OngoingRollout, Size
from app.updater.core.proof import Expected, Proof, has_expected
from app.updater.core.resize_state import ResizeStage, ResizeState
from app.updater.core.rules import Prove, UpdateRules
from app.updater.core.targets import OwnerTargets, PodTarget

RESIZE_REASONS: Final = {
    ResizeStage.UNDER_WAY: Reason.RESIZE_IN_PROGRESS,
    ResizeStage.UNKNOWN: Reason.RESIZE_IN_PROGRESS,
    ResizeStage.FAILING: Reason.RESIZE_ERROR,
    ResizeStage.DEFERRED: Reason.RESIZE_DEFERRED,
    ResizeStage.INFEASIBLE: Reason.RESIZE_INFEASIBLE,
}


@dataclass(frozen=True, slots=True)
class PlanInputs:
    """What holds for everything that is decided at one moment."""

    rules: UpdateRules
    gates: FeatureGates
    memory: Memory
    now: datetime
    webhook_is_healthy: bool = True
    is_partial: bool = False  # only some pods are decided about


@dataclass(frozen=True, slots=True)
class Proposal:
    """An eviction, a resize or the end of a boost that would be right for a pod."""

    action: Action
    message: str
    rank: Rank
    needs_slot: bool  # in the owner's budget
    change: PodChange | None = None
    unmet: str = ""  # the eviction requirement that is not met
    revert_reason: Reason | None = None  # why a resize that was asked for before is reverted
    revert_change: PodChange | None = None  # of an eviction: what is reverted if it may not be

    @property
    def is_disruptive(self) -> bool:
        """Whether a change restarts a container."""
        return self.change is not None and self.change.is_disruptive


@dataclass(frozen=True, slots=True)
class Assessment:
    """A pod with either a decision or a proposal."""

    pod: Pod
    vpa: Vpa
    decision: Decision | None = None
    proposal: Proposal | None = None
    numbers: PodNumbers | None = None
    quick_oom: bool = False
    until: datetime | None = None  # when it may change by itself
    resizing_since: datetime | None = None  # the first sight of a resize that nothing dates
    infeasible: Infeasible | None = None  # to be remembered from now on

    def decided(self, action: Action, reason: Reason, message: str) -> Decision:
        """Return a decision about this pod."""
        return Decision(
            self.pod.uid,
            self.pod.namespace,
            self.pod.name,
            self.vpa.name,
            action,
            reason,
            message,
            self.numbers,
            self.quick_oom,
            until=self.until,
        )

    def waiting(self, reason: Reason, message: str) -> Assessment:
        """Return the assessment with the decision that the pod has to wait."""
        return replace(self, decision=self.decided(Action.WAIT, reason, message))


@dataclass(frozen=True, slots=True)
class PodContext:
    """One pod and all that is needed to assess it."""

    pod: Pod
    vpa: Vpa
    targets: OwnerTargets
    inputs: PlanInputs
    remembered: PodMemory
    allocatable: Mapping[str, Quantity] | None = None  # of the pod's node, None if not known

    @property
    def rules(self) -> UpdateRules:
        """The rules in force."""
        return self.inputs.rules

    @property
    def pause(self) -> Pause | None:
        """The pause after a call for the pod failed, None if there is none or it is over."""
        pause = self.remembered.pause
        return None if pause is None or pause.is_over(self.inputs.now) else pause

    def assessed(
        self,
        action: Action,
        reason: Reason,
        message: str,
        *,
        numbers: PodNumbers | None = None,
        until: datetime | None = None,
    ) -> Assessment:
        """Return the assessment of a pod for which nothing is proposed."""
        found = Assessment(self.pod, self.vpa, numbers=numbers, until=until)
        return replace(found, decision=found.decided(action, reason, message))


@dataclass(frozen=True, slots=True)
class Need:
    """Why and how urgently a pod needs an update, and what it should become."""

    target: PodTarget
    message: str
    rank: Rank
    quick_oom: bool
    unmet: str
    state: ResizeState


@dataclass(frozen=True, slots=True)
class OwnerPods:
    """The pods of one owner."""

    namespace: str
    key: ObjectKey
    owner: Workload | None
    view: NamespaceView
    pods: tuple[Pod, ...]  # the live ones
    assessments: tuple[Assessment, ...]


class PlanState:
    """What owners share while a plan is made: slots that are used up, and what is learnt."""

    def __init__(self, inputs: PlanInputs, nodes: Mapping[str, Node]) -> None:
        self.inputs = inputs
        self.evictions_left = _evictions_left(inputs)
        self._nodes = nodes
        self._breaker = inputs.memory.breaker
        self._left: dict[NamespacedName, int] = {}  # by PodDisruptionBudget
        self._pods: dict[str, PodMemory] = {}
        self._proofs: dict[ProofKey, Proof] = {}
        self._rollouts: dict[NamespacedName, SeenRollout] = {}
        self._unanswered: set[str] = set()

    def allocatable(self, pod: Pod) -> Mapping[str, Quantity] | None:
        """Return what a pod's node can give, None if that is not known."""
        node = self._nodes.get(pod.node)
        return node.allocatable if node is not None else None

    # --- what is used up

    def reserve_pdbs(self, pdbs: tuple[DisruptionBudget, ...], *, broken: bool) -> bool:
        """Count an eviction under PodDisruptionBudgets; return whether they still allow it."""
        for pdb in pdbs:
            self._left.setdefault(pdb_key(pdb), pdb.disruptions_allowed)
        if not broken and any(self._left[pdb_key(pdb)] <= 0 for pdb in pdbs):
            return False
        for pdb in pdbs:
            self._left[pdb_key(pdb)] -= 1
        return True

    def reserve_eviction(self) -> bool:
        """Count an eviction in the whole cluster; return whether the breaker still allows it."""
        if self.evictions_left == 0:
            return False
        if self.evictions_left is not None:
            self.evictions_left -= 1
        return True

    def no_eviction_left(self) -> Why:
        """Return why a pod has to wait for which no eviction is left."""
        if self._breaker.is_open:
            return Reason.RECREATED_WITHOUT_CHANGE, "too many evictions did not help; all stop"
        return Reason.PROOF_PENDING, "pods of other workloads go first, to see that it helps"

    # --- what is learnt

    def remember(self, assessed: Assessment) -> None:
        """Keep what an assessment wants to be remembered of its pod."""
        if assessed.resizing_since is None and assessed.infeasible is None:
            return
        before = self.inputs.memory.of(assessed.pod)
        self._pods[assessed.pod.uid] = replace(
            before,
            resizing_since=assessed.resizing_since or before.resizing_since,
            infeasible=assessed.infeasible or before.infeasible,
        )

    def proof(self, key: ProofKey) -> Proof | None:
        """Return what is known of a workload under a VPA."""
        return self._proofs.get(key) or self.inputs.memory.proofs.get(key)

    def keep_proof(self, key: ProofKey, proof: Proof) -> None:
        """Keep what was learnt of a workload."""
        self._proofs[key] = proof

    def note_replacement(self, evicted: frozenset[str], *, helped: bool) -> None:
        """Count the replacement of one of some evicted pods for the breaker."""
        rules, now = self.inputs.rules, self.inputs.now
        was_open = self._breaker.is_open
        self._breaker = self._breaker.after(helped, rules, now, evicted=evicted)
        if self._breaker.is_open and not was_open:
            self.evictions_left = 0
        elif self._breaker.is_trusted and not self._breaker.is_open:
            self.evictions_left = None

    def note_unanswered(self, uids: frozenset[str]) -> None:
        """Note evicted pods for which no replacement will come."""
        self._unanswered |= uids

    def note_rollout(self, key: NamespacedName, rollout: OngoingRollout) -> datetime:
        """Note the rollout of an owner; return since when it is seen."""
        seen = self.inputs.memory.rollouts.get(key)
        if seen is None or seen.mark != rollout.mark:
            seen = SeenRollout(rollout.mark, self.inputs.now)
        self._rollouts[key] = seen
        return seen.since

    def memory(self) -> Memory:
        """Return the memory with all that was learnt."""
        memory = with_pods(self.inputs.memory, self._pods)
        seen_before = memory.rollouts if self.inputs.is_partial else {}
        memory = replace(
            memory,
            proofs={**memory.proofs, **self._proofs} if self._proofs else memory.proofs,
            breaker=self._breaker,
            rollouts={**seen_before, **self._rollouts},
        )
        return without_breaker_canary(memory, self._unanswered)


def _evictions_left(inputs: PlanInputs) -> int | None:
    """Return how many pods may go in the whole cluster, None for any number."""
    rules, memory, now = inputs.rules, inputs.memory, inputs.now
    if memory.breaker.is_open:
        return 1 if memory.breaker.allows(now) else 0
    if memory.breaker.is_trusted or rules.prove is Prove.OFF:
        return None
    awaited = sum(
        len(proof.awaited)
        for proof in memory.proofs.values()
        if proof.since is not None and now - proof.since < rules.proof_pause
    )
    useless = sum(
        now - moment < rules.breaker_window
        for moment, helped in memory.breaker.verdicts
        if not helped
    )
    return max(rules.first_evictions - awaited - useless, 0)


def judge_replacements(group: OwnerPods, size: Size, state: PlanState) -> None:
    """Judge each pod of an owner that came after the latest evictions."""
    if state.inputs.is_partial:
        return
    for name in {assessed.vpa.name: None for assessed in group.assessments}:
        key = (group.namespace, group.key, name)
        proof = state.proof(key)
        if proof is not None and proof.awaited:
            _judge(group, size, key, proof, state)


def _judge(group: OwnerPods, size: Size, key: ProofKey, proof: Proof, state: PlanState) -> None:
    before, inputs = proof, state.inputs
    for assessed in group.assessments:
        pod = assessed.pod
        if assessed.vpa.name != key[2] or pod.deleted is not None:
            continue
        if pod.uid in proof.known or not proof.awaited:
            continue
        helped = _helped(assessed, before.expected, inputs.rules)
        state.note_replacement(proof.known, helped=helped)
        proof = proof.after_replacement(pod.uid, helped=helped, rules=inputs.rules, now=inputs.now)
    is_late = proof.since is not None and inputs.now - proof.since >= inputs.rules.watch_lag
    if proof is before and is_late:
        proof = _without_replacement(group, size, key, proof, state)
    if proof is not before:
        state.keep_proof(key, proof)


def _without_replacement(
    group: OwnerPods, size: Size, key: ProofKey, proof: Proof, state: PlanState
) -> Proof:
    """Return the proof when no pod of the VPA came in place of the one that went.

    Evicting a leader makes another pod the leader, and a follower comes in its place: that helps
    no pod, although the webhook did all it could.
    """
    strange, is_claimed = _replacement_of_other_vpa(group, key, proof, state)
    if is_claimed:
        return proof
    if strange:
        state.note_unanswered(proof.known)
        return proof.after_replacement(
            strange, helped=False, rules=state.inputs.rules, now=state.inputs.now
        )
    # The owner has all the pods that it wants, so none will come.
    if size.configured is not None and len(group.pods) >= size.configured:
        state.note_unanswered(proof.known)
        return proof.without_answer()
    return proof


def _replacement_of_other_vpa(
    group: OwnerPods, key: ProofKey, proof: Proof, state: PlanState
) -> tuple[str, bool]:
    """Return a new pod that is another VPA's or none's, and whether that VPA awaits one too."""
    theirs = {assessed.pod.uid: assessed.vpa.name for assessed in group.assessments}
    strange, is_claimed = "", False
    for pod in group.pods:
        other = state.proof((key[0], key[1], theirs.get(pod.uid, "")))
        if pod.uid in proof.known or (other is not None and pod.uid in other.known):
            continue
        strange = strange or pod.uid
        is_claimed |= other is not None and bool(other.awaited)
    return strange, is_claimed


def _helped(assessed: Assessment, expected: Expected, rules: UpdateRules) -> bool:
    """Whether a new pod has what was expected; without numbers, whether the webhook touched it.

    One that is nearly right and would go again for it has not: it would come back the same.
    """
    pod, numbers = assessed.pod, assessed.numbers
    if numbers is None:
        return pod.is_boosted or pod.annotation(UPDATES_ANNOTATION) is not None
    if numbers.is_outside and numbers.gross_difference >= rules.least_difference:
        return has_expected(pod, numbers.pairs, expected, off_percent=0)
    return has_expected(pod, numbers.pairs, expected)
