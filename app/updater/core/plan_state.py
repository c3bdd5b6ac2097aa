"""What owners share while one plan is made: PodDisruptionBudgets, the breaker, new memories.

Strategy: the only thing that changes while planning. Owners take their turns in a fixed order, so
the same snapshot gives the same plan at the same time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from app.model.limits import DisruptionBudget, Node
from app.model.pods import Pod
from app.model.snapshot import NamespaceView
from app.updater.core.decisions import Reason, Why
from app.updater.core.memory import (
    Memory,
    NamespacedName,
    PodMemory,
    ProofKey,
    SeenRollout,
    with_pods,
    without_breaker_canary,
)
from app.updater.core.owners import OngoingRollout
from app.updater.core.proof import Breaker, Proof
from app.updater.core.proposals import Assessment, PlanInputs
from app.updater.core.rules import Prove


class PlanState:
    """What is used up and what is learnt while a plan is made."""

    def __init__(self, inputs: PlanInputs, nodes: Mapping[str, Node]) -> None:
        self.inputs, self.nodes = inputs, nodes
        breaker = inputs.memory.breaker
        self.evictions_left = _evictions_left(inputs)
        self._breaker: Breaker = breaker
        self._left: dict[NamespacedName, int] = {}
        self._pods: dict[str, PodMemory] = {}
        self._proofs: dict[ProofKey, Proof] = {}
        self._rollouts: dict[NamespacedName, SeenRollout] = {}
        self._unanswered: set[str] = set()

    # --- PodDisruptionBudgets

    def guards(self, pod: Pod, view: NamespaceView) -> tuple[DisruptionBudget, ...]:
        """Return the PodDisruptionBudgets over a pod."""
        return tuple(
            budget
            for _, budget in sorted(view.budgets.items())
            if budget.selector.matches(pod.labels)
        )

    def takes(self, guards: tuple[DisruptionBudget, ...], *, broken: bool) -> bool:
        """Tell whether the budgets still allow an eviction, and count it."""
        places = [(guard.namespace, guard.name) for guard in guards]
        for place, guard in zip(places, guards, strict=True):
            self._left.setdefault(place, guard.disruptions_allowed)
        if not broken and any(self._left[place] <= 0 for place in places):
            return False
        for place in places:
            self._left[place] -= 1
        return True

    def takes_eviction(self) -> bool:
        """Tell whether the breaker lets one more pod go, and count it."""
        if self.evictions_left is None:
            return True
        self.evictions_left -= 1
        return self.evictions_left >= 0

    def without_eviction(self) -> Why:
        """Return what is told of a pod for which no eviction is left."""
        if self._breaker.is_open:
            return Reason.RECREATED_WITHOUT_CHANGE, "too many evictions did not help; all stop"
        return Reason.PROOF_PENDING, "pods of other workloads go first, to see that it helps"

    # --- what is learnt

    def remember(self, found: Assessment) -> None:
        """Keep what an assessment wants to be remembered of its pod."""
        if found.resizing_since is None and found.infeasible is None:
            return
        before = self.inputs.memory.of(found.pod)
        self._pods[found.pod.uid] = replace(
            before,
            resizing_since=found.resizing_since or before.resizing_since,
            infeasible=found.infeasible or before.infeasible,
        )

    def proof(self, key: ProofKey) -> Proof | None:
        """Return what is known of a workload under a VPA."""
        return self._proofs.get(key) or self.inputs.memory.proofs.get(key)

    def keep_proof(self, key: ProofKey, proof: Proof) -> None:
        """Keep what was learnt of a workload."""
        self._proofs[key] = proof

    def judged(self, evicted: frozenset[str], *, helped: bool) -> None:
        """Count the replacement of one of some evicted pods for the breaker."""
        rules, now = self.inputs.rules, self.inputs.now
        was_open = self._breaker.is_open
        self._breaker = self._breaker.after(helped, rules, now, evicted=evicted)
        if self._breaker.is_open and not was_open:
            self.evictions_left = 0
        elif self._breaker.is_trusted and not self._breaker.is_open:
            self.evictions_left = None

    def unanswered(self, uids: frozenset[str]) -> None:
        """Note evicted pods for which no replacement will come."""
        self._unanswered |= uids

    def seems_stuck(self, place: NamespacedName, rolling: OngoingRollout) -> bool:
        """Note a rollout, and tell whether it takes too long to be waited for."""
        found = self.inputs.memory.rollouts.get(place)
        if found is None or found.mark != rolling.mark:
            found = SeenRollout(rolling.mark, self.inputs.now)
        self._rollouts[place] = found
        return self.inputs.now - found.since >= self.inputs.rules.rollout_patience

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
