"""What owners share while a plan is made: evictions and budgets that are left, what was learnt.

Strategy: PlanState is the only thing that changes while planning. Owners have a fixed order, so
the same snapshot gives the same plan at the same time.

Did evicting help? Each pod that came after the latest evictions of its owner is compared with what
was expected then. Where none comes, or that of another VPA, the answer is given after a while.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Final

from app.model.limits import DisruptionBudget, Node
from app.model.pods import UPDATES_ANNOTATION, Pod
from app.model.quantity import Quantity
from app.updater.core.decisions import Reason, Why
from app.updater.core.memory import (
    Memory,
    NamespacedName,
    OwnerKey,
    PodMemory,
    ProofKey,
    SeenRollout,
    pdb_key,
    with_pods,
    without_breaker_canaries,
)
from app.updater.core.need import is_worth_it
from app.updater.core.owners import OngoingRollout, Size
from app.updater.core.proof import Expected, Proof, has_expected
from app.updater.core.proposals import Assessment, OwnerPods, PlanInputs
from app.updater.core.rules import Prove, UpdateRules

_GOLDEN: Final = 0.618  # its multiples spread evenly, whatever the step


class PlanState:
    """What owners share while a plan is made: slots that are used up, and what is learnt."""

    def __init__(self, inputs: PlanInputs, nodes: Mapping[str, Node]) -> None:
        self.inputs = inputs
        self._nodes = nodes
        self._breakers = inputs.memory.breakers
        self._spent = Counter[str]() if self._breakers.is_trusted else _spent(inputs)
        self._reserved = Counter[str]()  # evictions in this plan, by namespace
        self._left: dict[NamespacedName, int] = {}  # by PodDisruptionBudget
        self._pods: dict[str, PodMemory] = {}
        self._proofs: dict[ProofKey, Proof] = {}
        self._rollouts: dict[OwnerKey, SeenRollout] = {}
        self._unreplaced: set[str] = set()  # uids

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

    def evictions_left(self, namespace: str) -> int | None:
        """Return how many pods of a namespace may go, None for any number."""
        breakers, rules, now = self._breakers, self.inputs.rules, self.inputs.now
        left: list[int] = []
        if breakers.cluster.is_open:  # one canary, if one may go now
            left.append(int(breakers.cluster.allows(now)) - self._reserved.total())
        own = breakers.of(namespace)
        if own.is_open:
            left.append(int(own.allows(now)) - self._reserved[namespace])
        if not breakers.is_trusted and rules.prove is not Prove.OFF:
            left.append(rules.first_evictions - self._spent.total())
            left.append(rules.breaker_least - self._spent[namespace])
        return max(min(left), 0) if left else None

    def reserve_eviction(self, namespace: str) -> bool:
        """Count an eviction; return whether the breakers still allow it."""
        if self.evictions_left(namespace) == 0:
            return False
        self._reserved[namespace] += 1
        self._spent[namespace] += 1
        return True

    def no_eviction_left(self, namespace: str) -> Why:
        """Return why a pod has to wait for which no eviction is left."""
        if self._breakers.cluster.is_open:
            message = (
                "all evictions are stopped: in several namespaces too many pods came back unchanged"
            )
            return Reason.RECREATED_WITHOUT_CHANGE, message
        if self._breakers.of(namespace).is_open:
            message = (
                f"evictions in namespace {namespace} are stopped: too many came back unchanged"
            )
            return Reason.RECREATED_WITHOUT_CHANGE, message
        return (
            Reason.PROOF_PENDING,
            "waiting for canaries: pods of other workloads are evicted first",
        )

    def namespaces_in_turn(self, names: Iterable[str]) -> list[str]:
        """Return the namespaces by name; while few evictions are left another one begins each time.

        Else one whose evictions are all refused would for ever take what is left for others. Those
        that await a replacement come first, so that what it proves counts for all others at once;
        those where evictions did not help come last.
        """
        ordered, breakers, now = sorted(names), self._breakers, self.inputs.now
        if breakers.is_trusted and not breakers.cluster.is_open:
            return ordered
        first = int(now.timestamp() * _GOLDEN % 1 * len(ordered))
        turned = ordered[first:] + ordered[:first]
        proofs = self.inputs.memory.proofs
        awaiting = {namespace for (namespace, _, _), proof in proofs.items() if proof.awaited}

        def place(name: str) -> int:
            useless = breakers.of(name).is_useless(self.inputs.rules, now)
            return 0 if name in awaiting else 1 + useless

        return sorted(turned, key=place)

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

    def note_replacement(self, namespace: str, proof: Proof, *, helped: bool) -> None:
        """Count the replacement of one of the pods that a proof awaits, for the breakers."""
        self._spent[namespace] += int(not helped) - _is_counted(proof, self.inputs)
        rules, now, evicted = self.inputs.rules, self.inputs.now, proof.awaited
        self._breakers = self._breakers.after(namespace, rules, now, helped=helped, evicted=evicted)

    def note_unreplaced(self, proof: Proof) -> None:
        """Note that no replacement will come for one of the pods that a proof awaits."""
        self._unreplaced.update(proof.awaited)

    def note_rollout(self, key: OwnerKey, rollout: OngoingRollout) -> datetime:
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
            breakers=self._breakers,
            rollouts={**seen_before, **self._rollouts},
        )
        return without_breaker_canaries(memory, self._unreplaced)


def _spent(inputs: PlanInputs) -> Counter[str]:
    """Return how many of the first evictions each namespace has had that nothing came of yet."""
    rules, memory, now = inputs.rules, inputs.memory, inputs.now
    spent = Counter[str]()
    for (namespace, _, _), proof in memory.proofs.items():
        if _is_counted(proof, inputs):
            spent[namespace] += len(proof.awaited)
    for namespace, breaker in memory.breakers.namespaces.items():
        spent[namespace] += min(breaker.useless(rules, now), rules.breaker_least)
    return spent


def _is_counted(proof: Proof, inputs: PlanInputs) -> bool:
    """Whether what a proof awaits still counts: a replacement that takes long may never come."""
    return proof.since is not None and inputs.now - proof.since < inputs.rules.proof_pause


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
        if inputs.outage is None or not inputs.outage.explains(proof.since, inputs.rules):
            state.note_replacement(group.namespace, proof, helped=helped)
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
        state.note_unreplaced(proof)
        return proof.after_replacement(
            strange, helped=False, rules=state.inputs.rules, now=state.inputs.now
        )
    # The owner has all the pods that it wants, so none will come.
    if size.desired is not None and len(group.pods) >= size.desired:
        state.note_unreplaced(proof)
        return proof.without_replacement()
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
    if numbers.is_outside and is_worth_it(numbers.gross_difference, rules, at_once=True):
        return has_expected(pod, numbers.pairs, expected, off_percent=0)
    return has_expected(pod, numbers.pairs, expected)
