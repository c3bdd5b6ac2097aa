"""Pods created on trial."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from app.model.pods import Pod
from app.updater.core.action_queue import ActionQueue, QueueStep
from app.updater.core.memory import Memory
from app.updater.core.replacements import Trial, after_useless_trial, judge_trial, needs_trial
from app.updater.core.rules import Prove
from tests import make
from tests.updater.core.scenes import NOW, OURS, Scene, container, running, several

RULES = replace(OURS, prove=Prove.DRY_RUN)
SCENE = Scene(several(running(container("app", "100m/100Mi")), 4), rules=RULES)


def planned(mode: str = "Recreate") -> tuple[ActionQueue, QueueStep]:
    """Return the first step of a workload that has proven nothing yet."""
    queue = replace(SCENE, mode=mode).plan().queues[0]
    return queue, queue.steps[0]


def created(requests: str, **annotations: str) -> Pod:
    """Return a pod as the API server would have created it."""
    return make.pod(container("app", requests), annotations=annotations or None)


def test_who_needs_a_trial() -> None:
    """The first pod of a workload that would be evicted, if trials are wanted."""
    _, step = planned()
    assert needs_trial(step, RULES)
    assert not needs_trial(step, OURS)
    assert not needs_trial(planned("InPlaceOrRecreate")[1], RULES)
    assert not needs_trial(replace(step, decision=replace(step.decision, is_canary=False)), RULES)


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        (created("200m/200Mi"), Trial.HELPS),
        (created("100m/100Mi"), Trial.USELESS),
        (created("600m/200Mi"), Trial.USELESS),
        (created("600m/200Mi", **{"vpaCpuStartupBoost/app": "{}"}), Trial.HELPS),
        (make.pod(container("other")), Trial.HELPS),
        (None, Trial.INCONCLUSIVE),
    ],
)
def test_judge_trial(pod: Pod | None, expected: Trial) -> None:
    """It helps if what is recommended comes back; a boost may add cpu to it."""
    assert judge_trial(planned()[1], pod) is expected


def test_without_numbers_there_is_nothing_to_judge() -> None:
    """Nobody knows what to expect."""
    _, step = planned()
    bare = replace(step, decision=replace(step.decision, numbers=None))
    assert judge_trial(bare, created("1")) is Trial.INCONCLUSIVE


def test_a_useless_trial_stops_the_workload() -> None:
    """Like a useless eviction, but not for long: nobody was evicted."""
    queue, step = planned()
    memory = after_useless_trial(Memory(), queue, step, SCENE.snapshot(), RULES, NOW)
    (proof,) = memory.proofs.values()
    assert (proof.failures, proof.awaited, proof.known) == (1, (), frozenset())
    assert not proof.allows(RULES, NOW)
    assert proof.allows(RULES, NOW + timedelta(seconds=10))
    again = after_useless_trial(memory, queue, step, SCENE.snapshot(), RULES, NOW)
    (proof,) = again.proofs.values()
    assert proof.failures == 2
    assert not proof.allows(RULES, NOW + timedelta(seconds=19))
    bare = make.snapshot(make.vpa_json())
    assert len(after_useless_trial(Memory(), queue, step, bare, RULES, NOW).proofs) == 1
    gone = after_useless_trial(Memory(), queue, step, make.snapshot(), RULES, NOW)
    assert gone == Memory()
