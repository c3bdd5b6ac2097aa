"""What follows from calls: what a refusal means, and what becomes memory.

Strategy: outcomes are gathered while calls are made side by side and taken in together, in the
order in which they came. Only a refusal that no waiting can mend leads to an eviction instead of
a resize; what would hit the recreated pod just as well (a quota, a LimitRange, a missing right)
leads to waiting, longer each time. A call that was not answered counts as done for the budget and
for what is awaited, and as failed for when to try again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from app.model.errors import (
    ClusterError,
    Conflict,
    Invalid,
    NotFound,
    Refused,
    TooMany,
    Unavailable,
)
from app.model.pods import Pod
from app.model.quantity import CPU
from app.updater.core.action_queue import ActionQueue, QueueStep
from app.updater.core.decisions import NEEDS, Action, Reason, Why
from app.updater.core.memory import (
    LONGEST_PAUSE,
    Infeasible,
    Memory,
    NamespacedName,
    PodMemory,
    ProofKey,
    Resized,
    blamed_resources,
    is_unseen_pdb,
    longer,
    unseen_pdb_key,
    wanted_requests,
    with_pods,
    without_breaker_canaries,
)
from app.updater.core.proof import current_proof, expected_requests, has_expected
from app.updater.core.rules import Prove, UpdateRules

_NODE_CAPACITY: Final = "NodeCapacity"
_BUDGET: Final = "DisruptionBudget"
_SEVERAL_BUDGETS: Final = "more than one PodDisruptionBudget"
_NO_SUCH_PATH: Final = "could not find the requested resource"
_WOULD_STRIKE_AGAIN: Final = ("exceeded quota", "usage per Container", "usage per Pod", "cannot ")
_LONGEST_UNBOOST_PAUSE: Final = timedelta(minutes=5)


class RefusalKind(StrEnum):
    """What a refusal means."""

    GONE = "gone"  # the pod is no longer there, or another one has its name
    RETRY = "retry"  # wait, then try again
    INFEASIBLE = "infeasible"  # too much for the node
    HOPELESS = "hopeless"  # never in this form
    PDB = "budget"  # a PodDisruptionBudget holds


_REASONS: Final = {
    RefusalKind.PDB: Reason.PDB_BLOCKED,
    RefusalKind.INFEASIBLE: Reason.RESIZE_INFEASIBLE,
}


def resize_refusal(error: ClusterError) -> RefusalKind:
    """Tell what a refused resize means."""
    match error:
        case NotFound():
            return RefusalKind.HOPELESS if _NO_SUCH_PATH in error.message else RefusalKind.GONE
        case Refused():
            if any(reason == _NODE_CAPACITY for reason, _ in error.causes):
                return RefusalKind.INFEASIBLE
            if any(text in error.message for text in _WOULD_STRIKE_AGAIN):
                return RefusalKind.RETRY
            return RefusalKind.HOPELESS
        case Invalid():
            return RefusalKind.HOPELESS
        case _:
            return RefusalKind.HOPELESS if error.status in (405, 415) else RefusalKind.RETRY


def eviction_refusal(error: ClusterError) -> RefusalKind:
    """Tell what a refused eviction means."""
    match error:
        case NotFound() | Conflict():
            return RefusalKind.GONE
        case TooMany():
            is_budget = any(reason == _BUDGET for reason, _ in error.causes)
            return RefusalKind.PDB if is_budget or _BUDGET in error.message else RefusalKind.RETRY
        case Unavailable() if _SEVERAL_BUDGETS in error.message:
            return RefusalKind.PDB
        case _:
            return RefusalKind.RETRY


def refusal_reason(action: Action, error: ClusterError) -> Why:
    """Return why a pod waits for which a call was refused."""
    if action is Action.EVICT:
        kind, usual = eviction_refusal(error), Reason.EVICTION_ERROR
    else:
        kind, usual = resize_refusal(error), Reason.RESIZE_ERROR
    if kind is RefusalKind.GONE:
        return Reason.POD_TERMINATING, "the pod is gone"
    return _REASONS.get(kind, usual), f"refused: {error.message}"


def evicts_instead(kind: RefusalKind) -> bool:
    """Whether a pod whose resize was refused is evicted, if it may be."""
    return kind in (RefusalKind.HOPELESS, RefusalKind.INFEASIBLE)


class OutcomeKind(StrEnum):
    """What is known of a call."""

    ACCEPTED = "accepted"
    REFUSED = "refused"
    UNCONFIRMED = "unconfirmed"  # not answered: it may have been carried out all the same
    CONFIRMED_LATER = "confirmed later"  # not answered, and then seen to be carried out


@dataclass(frozen=True, slots=True)
class Outcome:
    """A call that was made for a pod, and what came of it."""

    queue: ActionQueue
    step: QueueStep
    at: datetime
    error: ClusterError | None = None  # None: accepted
    generation: int = 0  # of the pod as it was returned, 0 if it did not say
    is_unanswered: bool = False

    @property
    def kind(self) -> OutcomeKind:
        """What is known of it."""
        if self.error is None:
            return OutcomeKind.CONFIRMED_LATER if self.is_unanswered else OutcomeKind.ACCEPTED
        return OutcomeKind.UNCONFIRMED if self.is_unanswered else OutcomeKind.REFUSED

    @property
    def action(self) -> Action:
        """What was asked for."""
        return self.step.decision.action


def learn(memory: Memory, outcomes: Iterable[Outcome], rules: UpdateRules) -> Memory:
    """Return the memory after some calls."""
    update = _MemoryUpdate(memory, rules)
    for outcome in outcomes:
        update.take(outcome)
    return update.memory()


def undone(memory: Memory, outcome: Outcome) -> Memory:
    """Return the memory when it is seen that an unconfirmed call was not carried out."""
    pod = outcome.step.pod
    remembered = memory.of(pod)
    if outcome.action is not Action.EVICT:
        if remembered.resized is None or remembered.resized.at != outcome.at:
            return memory
        return with_pods(memory, {pod.uid: replace(remembered, resized=None)})
    if remembered.evicted not in (None, outcome.at):  # it was tried again since
        return memory
    memory = with_pods(memory, {pod.uid: replace(remembered, evicted=None)})
    memory = without_breaker_canaries(memory, {pod.uid})
    key = _proof_key(outcome)
    proof = memory.proofs.get(key)
    if proof is None:
        return memory
    return replace(memory, proofs={**memory.proofs, key: proof.without(pod.uid)})


def _pdb_keys(outcome: Outcome) -> tuple[NamespacedName, ...]:
    queue = outcome.queue
    return outcome.step.pdbs or (unseen_pdb_key(queue.namespace, queue.owner),)


def _proof_key(outcome: Outcome) -> ProofKey:
    return outcome.queue.namespace, outcome.queue.owner, outcome.step.decision.vpa


class _MemoryUpdate:
    """Changes to a memory, one outcome after the other."""

    def __init__(self, memory: Memory, rules: UpdateRules) -> None:
        self._before, self._rules = memory, rules
        self._pods = dict(memory.pods)
        self._proofs = dict(memory.proofs)
        self._pauses = dict(memory.pdb_pauses)
        self._breakers = memory.breakers

    def memory(self) -> Memory:
        return replace(
            self._before,
            pods={uid: pod for uid, pod in self._pods.items() if not pod.is_empty},
            proofs=self._proofs,
            pdb_pauses=self._pauses,
            breakers=self._breakers,
        )

    def take(self, outcome: Outcome) -> None:
        error, is_eviction = outcome.error, outcome.action is Action.EVICT
        if error is not None:
            (self._not_evicted if is_eviction else self._not_resized)(outcome, error)
        if outcome.kind is not OutcomeKind.REFUSED:
            (self._evicted if is_eviction else self._resized)(outcome)

    def _of(self, outcome: Outcome) -> PodMemory:
        pod = outcome.step.pod
        return self._pods.get(pod.uid) or PodMemory(pod.namespace, pod.name)

    def _keep(self, outcome: Outcome, remembered: PodMemory) -> None:
        self._pods[outcome.step.pod.uid] = remembered

    # --- evictions

    def _evicted(self, outcome: Outcome) -> None:
        is_unconfirmed = outcome.kind is OutcomeKind.UNCONFIRMED
        if not is_unconfirmed:
            for pdb in _pdb_keys(outcome):
                self._pauses.pop(pdb, None)
        if outcome.kind is OutcomeKind.CONFIRMED_LATER:  # the rest was learnt when it was made
            return
        remembered, step = self._of(outcome), outcome.step
        pause = remembered.pause if is_unconfirmed else None
        self._keep(outcome, replace(remembered, evicted=outcome.at, pause=pause))
        self._breakers = self._breakers.after_eviction(
            outcome.queue.namespace, step.pod.uid, self._rules, outcome.at
        )
        numbers = step.decision.numbers
        if numbers is None or self._rules.prove is Prove.OFF:
            return
        key = _proof_key(outcome)
        proof = current_proof(self._proofs.get(key), step.proof_version)
        expected = expected_requests(numbers)
        pods = outcome.queue.pods
        self._proofs[key] = proof.after_eviction(step.pod.uid, pods, expected, outcome.at)

    def _not_evicted(self, outcome: Outcome, error: ClusterError) -> None:
        kind = eviction_refusal(error)
        if kind is RefusalKind.PDB:
            self._pause_pdbs(outcome, error)
        elif kind is RefusalKind.RETRY:
            self._pause(outcome, error)

    def _pause_pdbs(self, outcome: Outcome, error: ClusterError) -> None:
        for key in _pdb_keys(outcome):
            name = "(not in the watch cache)" if is_unseen_pdb(key) else key[1]
            self._pauses[key] = longer(
                self._pauses.get(key),
                Reason.PDB_BLOCKED,
                f"PodDisruptionBudget {name}: {error.message}",
                outcome.at,
                retry_after_seconds=error.retry_after_seconds,
            )

    def _pause(self, outcome: Outcome, error: ClusterError) -> None:
        remembered = self._of(outcome)
        is_unboost = outcome.action is Action.UNBOOST
        pause = longer(
            remembered.pause,
            *refusal_reason(outcome.action, error),
            outcome.at,
            longest=_LONGEST_UNBOOST_PAUSE if is_unboost else LONGEST_PAUSE,
            retry_after_seconds=error.retry_after_seconds,
        )
        self._keep(outcome, replace(remembered, pause=pause))

    # --- resizes and ends of boosts

    def _resized(self, outcome: Outcome) -> None:
        resized = Resized(outcome.at, outcome.generation, outcome.step.pod.resource_version)
        remembered = replace(self._of(outcome), resized=resized)
        if outcome.kind is not OutcomeKind.UNCONFIRMED:
            remembered = replace(remembered, pause=None, resizing_since=None)
            if outcome.action is Action.UNBOOST:
                remembered = remembered.after_unboost(outcome.at)
            elif outcome.step.decision.reason in NEEDS:
                remembered = replace(remembered, infeasible=None)
        self._keep(outcome, remembered)

    def _not_resized(self, outcome: Outcome, error: ClusterError) -> None:
        kind = resize_refusal(error)
        if outcome.action is Action.UNBOOST:
            self._keep(outcome, self._of(outcome).after_unboost(outcome.at))
        elif kind is RefusalKind.INFEASIBLE:
            self._remember_infeasible(outcome, error)
            return
        if kind is not RefusalKind.GONE:
            self._pause(outcome, error)

    def _remember_infeasible(self, outcome: Outcome, error: ClusterError) -> None:
        numbers = outcome.step.decision.numbers
        past = Infeasible(
            wanted_requests(numbers.pairs if numbers is not None else ()),
            blamed_resources(error.message),
            outcome.at,
            outcome.step.allocatable,
        )
        self._keep(outcome, replace(self._of(outcome), infeasible=past))


def needs_trial(step: QueueStep, rules: UpdateRules) -> bool:
    """Whether a pod has to be created on trial before this one goes."""
    return rules.prove is Prove.DRY_RUN and step.decision.needs_proof and step.is_eviction


def came_back_unchanged(step: QueueStep, created: Pod | None) -> bool:
    """Whether a pod created on trial is as its template is; None, a refusal, tells nothing."""
    numbers = step.decision.numbers
    if created is None or numbers is None:
        return False
    boosted = created.boosted_containers
    names = {container.name for container in created.containers}
    pairs = [
        pair
        for pair in numbers.pairs
        if pair.container in names and not (pair.resource == CPU and pair.container in boosted)
    ]
    return not has_expected(created, pairs, expected_requests(numbers))


def after_useless_trial(
    memory: Memory, queue: ActionQueue, step: QueueStep, rules: UpdateRules, now: datetime
) -> Memory:
    """Return the memory after a trial showed that evicting would not help: the workload rests."""
    key = (queue.namespace, queue.owner, step.decision.vpa)
    proof = current_proof(memory.proofs.get(key), step.proof_version)
    return replace(memory, proofs={**memory.proofs, key: proof.after_useless_trial(rules, now)})
