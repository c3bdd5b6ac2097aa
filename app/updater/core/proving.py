"""Looks at the replacements of evicted pods, and draws the conclusions."""

from __future__ import annotations

from app.model.pods import UPDATES_ANNOTATION
from app.updater.core.groups import Size
from app.updater.core.hindrances import Group
from app.updater.core.ledger import Ledger
from app.updater.core.memory import ProofKey
from app.updater.core.proof import Expected, Proof, helped
from app.updater.core.rules import UpdateRules
from app.updater.core.wishes import Assessment, Terms


def judge_replacements(group: Group, size: Size, terms: Terms, ledger: Ledger) -> None:
    """Judge each pod of an owner that came after the latest evictions."""
    if terms.is_partial:
        return
    for name in {assessed.vpa.name: None for assessed in group.assessments}:
        key = (group.namespace, group.key, name)
        proof = ledger.proof(key)
        if proof is not None and proof.awaited:
            _judge(group, size, key, proof, terms, ledger)


def _judge(
    group: Group, size: Size, key: ProofKey, proof: Proof, terms: Terms, ledger: Ledger
) -> None:
    before, expected = proof, dict(proof.expected)
    for assessed in group.assessments:
        pod = assessed.pod
        if assessed.vpa.name != key[2] or pod.deleted is not None:
            continue
        if pod.uid in proof.known or not proof.awaited:
            continue
        good = _helped(assessed, expected, terms.rules)
        ledger.judged(proof.known, helped=good)
        proof = proof.after_replacement(pod.uid, helped=good, rules=terms.rules, now=terms.now)
    if proof is before and _is_late(proof, terms):
        proof = _without_replacement(group, size, key, proof, terms, ledger)
    if proof is not before:
        ledger.keep_proof(key, proof)


def _is_late(proof: Proof, terms: Terms) -> bool:
    return proof.since is not None and terms.now - proof.since >= terms.rules.watch_lag


def _without_replacement(
    group: Group, size: Size, key: ProofKey, proof: Proof, terms: Terms, ledger: Ledger
) -> Proof:
    """Return the proof when no pod of the VPA came in place of the one that went.

    Evicting a leader makes another pod the leader, and a follower comes in its place: that helps
    nobody, although the webhook did all it could.
    """
    strange, is_claimed = _strange(group, key, proof, ledger)
    if is_claimed:
        return proof
    if strange:
        ledger.unanswered(proof.known)
        return proof.after_replacement(strange, helped=False, rules=terms.rules, now=terms.now)
    # The owner has all the pods that it wants, so none will come.
    if size.configured is not None and len(group.pods) >= size.configured:
        ledger.unanswered(proof.known)
        return proof.without_answer()
    return proof


def _strange(group: Group, key: ProofKey, proof: Proof, ledger: Ledger) -> tuple[str, bool]:
    """Return a new pod that is another VPA's or nobody's, and whether that VPA awaits one too."""
    theirs = {assessed.pod.uid: assessed.vpa.name for assessed in group.assessments}
    found, is_claimed = "", False
    for pod in group.pods:
        other = ledger.proof((key[0], key[1], theirs.get(pod.uid, "")))
        if pod.uid in proof.known or (other is not None and pod.uid in other.known):
            continue
        found = found or pod.uid
        is_claimed |= other is not None and bool(other.awaited)
    return found, is_claimed


def _helped(assessed: Assessment, expected: Expected, rules: UpdateRules) -> bool:
    """Whether a new pod has what was expected; without numbers, whether the webhook touched it.

    One that is nearly right and would go again for it has not: it would come back the same.
    """
    pod, numbers = assessed.pod, assessed.numbers
    if numbers is None:
        return pod.is_boosted or pod.annotation(UPDATES_ANNOTATION) is not None
    if numbers.is_outside and numbers.gross_difference >= rules.least_difference:
        return helped(pod, numbers.pairs, expected, off_percent=0)
    return helped(pod, numbers.pairs, expected)
