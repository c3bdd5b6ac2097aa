"""Looks at the replacements of evicted pods, and draws the conclusions."""

from __future__ import annotations

from app.core.updating.groups import Size
from app.core.updating.hindrances import Group
from app.core.updating.ledger import Ledger
from app.core.updating.memory import ProofKey
from app.core.updating.proof import Expected, Proof, helped
from app.core.updating.wishes import Assessment, Terms
from app.model.pods import UPDATES_ANNOTATION


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
        if pod.deleted is not None or pod.uid in proof.known or not proof.awaited:
            continue
        good = _helped(assessed, expected)
        ledger.judged(proof.known, helped=good)
        proof = proof.after_replacement(pod.uid, helped=good, rules=terms.rules, now=terms.now)
    if proof is before and _is_hopeless(group, size, proof, terms):
        proof = proof.without_answer()
        ledger.unanswered(proof.known)
    if proof is not before:
        ledger.keep_proof(key, proof)


def _helped(assessed: Assessment, expected: Expected) -> bool:
    """Whether a new pod has what was expected; without numbers, whether the webhook touched it.

    One that is nearly right and would go again for it has not: it would come back the same.
    """
    pod, numbers = assessed.pod, assessed.numbers
    if numbers is None:
        return pod.is_boosted or pod.annotation(UPDATES_ANNOTATION) is not None
    if assessed.wish is not None:
        return helped(pod, numbers.pairs, expected, off_percent=0)
    return helped(pod, numbers.pairs, expected)


def _is_hopeless(group: Group, size: Size, proof: Proof, terms: Terms) -> bool:
    """Whether no replacement will come, for the owner has all the pods that it wants."""
    is_whole = size.configured is not None and len(group.pods) >= size.configured
    since = proof.since
    return is_whole and since is not None and terms.now - since >= terms.rules.watch_lag
