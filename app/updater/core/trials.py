"""Pods created on trial, before the first pod of a workload goes: does the webhook size them?

Strategy: the trial is made by whoever may create pods; here is only said what to expect and what
the answer means. A refusal for another reason (a quota, a policy) tells nothing. A trial
disturbs nobody, so the next one comes soon: the webhook may just not know the recommendation yet.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from enum import StrEnum

from app.model.pods import BOOST_ANNOTATION, Pod
from app.model.snapshot import Snapshot
from app.updater.core.carrying import Queue, Step
from app.updater.core.failures import doubled
from app.updater.core.memory import Memory
from app.updater.core.proof import current_proof, expected_requests, helped, version_of
from app.updater.core.rules import Prove, UpdateRules


class Trial(StrEnum):
    """What a pod created on trial tells."""

    HELPS = "helps"
    USELESS = "useless"  # it came back as its template is
    INCONCLUSIVE = "inconclusive"


def needs_trial(step: Step, rules: UpdateRules) -> bool:
    """Whether a pod has to be created on trial before this one goes."""
    return rules.prove is Prove.DRY_RUN and step.decision.is_canary and step.is_eviction


def judge_trial(step: Step, created: Pod | None) -> Trial:
    """Tell what a trial says; None is a refusal of the trial itself."""
    numbers = step.decision.numbers
    if created is None or numbers is None:
        return Trial.INCONCLUSIVE
    boosted = {
        container.name
        for container in created.containers
        if created.annotation(BOOST_ANNOTATION + container.name) is not None
    }
    names = {container.name for container in created.containers}
    pairs = [
        pair
        for pair in numbers.pairs
        if pair.container in names and not (pair.resource == "cpu" and pair.container in boosted)
    ]
    return Trial.HELPS if helped(created, pairs, expected_requests(numbers)) else Trial.USELESS


def after_useless_trial(
    memory: Memory,
    queue: Queue,
    step: Step,
    snapshot: Snapshot,
    rules: UpdateRules,
    now: datetime,
) -> Memory:
    """Return the memory after a trial showed that evicting would not help: the workload rests."""
    view = snapshot.of(queue.namespace)
    vpa = view.vpas.get(step.decision.vpa)
    if vpa is None:
        return memory
    owner = view.workloads.get(queue.owner)
    key = (queue.namespace, queue.owner, vpa.name)
    version = version_of(vpa, owner.template if owner is not None else ())
    proof = current_proof(memory.proofs.get(key), version)
    failed = proof.after_replacement("", helped=False, rules=rules, now=now)
    pause = doubled(rules.trial_pause, failed.failures, rules.longest_proof_pause)
    failed = replace(failed, awaited=proof.awaited, known=proof.known, since=now, until=now + pause)
    return replace(memory, proofs={**memory.proofs, key: failed})
