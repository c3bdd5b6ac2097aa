"""Judge the pods that came after evictions: did evicting help?

Strategy: each pod that came after the latest evictions of its owner is compared with what was
expected then. Where none comes, or that of another VPA, the answer is given after a while.
"""

from __future__ import annotations

from app.model.pods import UPDATES_ANNOTATION
from app.updater.core.memory import ProofKey
from app.updater.core.need import is_worth_it
from app.updater.core.owners import Size
from app.updater.core.plan_state import PlanState
from app.updater.core.proof import Expected, Proof, has_expected
from app.updater.core.proposals import Assessment, OwnerPods
from app.updater.core.rules import UpdateRules


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
