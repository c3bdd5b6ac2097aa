"""What owners share while a plan is made: evictions and budgets that are left, what was learnt.

Strategy: PlanState is the only thing that changes while planning. Owners have a fixed order, so
the same snapshot gives the same plan at the same time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Final

from app.model.limits import DisruptionBudget, Node
from app.model.pods import Pod
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
from app.updater.core.owners import OngoingRollout
from app.updater.core.proof import Proof
from app.updater.core.proposals import Assessment, PlanInputs
from app.updater.core.rules import Prove

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
            message = "too many evictions did not help, in several namespaces; all stop"
            return Reason.RECREATED_WITHOUT_CHANGE, message
        if self._breakers.of(namespace).is_open:
            message = f"too many evictions in namespace {namespace} did not help; its pods wait"
            return Reason.RECREATED_WITHOUT_CHANGE, message
        return Reason.PROOF_PENDING, "pods of other workloads go first, to see that it helps"

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
