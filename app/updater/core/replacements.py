"""Judge the replacements of evicted pods, and pods that were created on trial.

Strategy: each pod that came after the latest evictions is compared with what was expected. A
trial is made by a process that may create pods; here is only said what to expect and what the
answer means. A refusal for another reason (a quota, a policy) tells nothing. A trial disturbs no
pod, so the next one comes soon: the webhook may just not know the recommendation yet.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from app.model.pods import BOOST_ANNOTATION, UPDATES_ANNOTATION, Pod
from app.model.quantity import CPU
from app.model.times import doubled
from app.updater.core.action_queue import ActionQueue, QueueStep
from app.updater.core.memory import Memory, ProofKey
from app.updater.core.owners import Size
from app.updater.core.plan_state import Assessment, OwnerPods, PlanState
from app.updater.core.proof import (
    Expected,
    Proof,
    current_proof,
    expected_requests,
    has_expected,
)
from app.updater.core.rules import Prove, UpdateRules


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
    before = proof
    for assessed in group.assessments:
        pod = assessed.pod
        if assessed.vpa.name != key[2] or pod.deleted is not None:
            continue
        if pod.uid in proof.known or not proof.awaited:
            continue
        good = _helped(assessed, before.expected, state.inputs.rules)
        state.note_replacement(proof.known, helped=good)
        proof = proof.after_replacement(
            pod.uid, helped=good, rules=state.inputs.rules, now=state.inputs.now
        )
    inputs, since = state.inputs, proof.since
    is_late = since is not None and inputs.now - since >= inputs.rules.watch_lag
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
    strange, is_claimed = _strange(group, key, proof, state)
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


def _strange(group: OwnerPods, key: ProofKey, proof: Proof, state: PlanState) -> tuple[str, bool]:
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


def needs_trial(step: QueueStep, rules: UpdateRules) -> bool:
    """Whether a pod has to be created on trial before this one goes."""
    return rules.prove is Prove.DRY_RUN and step.decision.is_canary and step.is_eviction


def is_useless(step: QueueStep, created: Pod | None) -> bool:
    """Whether a pod created on trial is as its template is; None, a refusal, tells nothing."""
    numbers = step.decision.numbers
    if created is None or numbers is None:
        return False
    boosted = {
        container.name
        for container in created.containers
        if created.annotation(BOOST_ANNOTATION + container.name) is not None
    }
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
    proof = current_proof(memory.proofs.get(key), step.version)
    failed = proof.after_replacement("", helped=False, rules=rules, now=now)
    pause = doubled(rules.trial_pause, failed.failures, rules.longest_proof_pause)
    failed = replace(failed, awaited=proof.awaited, known=proof.known, since=now, until=now + pause)
    return replace(memory, proofs={**memory.proofs, key: failed})
