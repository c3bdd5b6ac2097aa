"""What benches measure does not get much worse unseen: calls and bytes are counted, not seconds.

Calls of functions, and of the API server, are the same on every machine. Where time is compared,
it is with plain work in the same run, and the limits are wide.
"""

from __future__ import annotations

import gc
import sys
import time
import tracemalloc
from base64 import b64decode
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from random import Random
from types import FrameType
from typing import Final

import orjson
import pytest
from prometheus_client import CollectorRegistry

from app.admission.metrics import AdmissionMetrics
from app.model.snapshot import Snapshot
from app.updater.core.memory import Memory
from app.updater.core.plan import PlanOptions, plan
from app.updater.core.rules import UpdateRules
from bench.deciding import bodies, reviewer
from bench.recommender_model import CONTAINERS, START, filled, metrics, reference_seconds, tick
from bench.updater_plan import NOW, PODS, VPAS, build
from tests.flows import recommending
from tests.make import NO_GATES
from tests.runtime.reviewing import begun
from tests.sandbox.worlds import container, deployment
from tests.updater import stage as updating

REVIEWS = 200
MOST_CALLS_A_REVIEW = 220
MOST_CALLS_A_POD = 140
MOST_CALLS_A_CONTAINER = 80
OPERATIONS = [  # of a pod whose limits keep their ratio
    "/spec/containers/0/resources/requests/cpu",
    "/spec/containers/0/resources/requests/memory",
    "/spec/containers/0/resources/limits/cpu",
    "/spec/containers/0/resources/limits/memory",
    "/metadata/annotations/vpaUpdates",
    "/metadata/annotations/vpaObservedContainers",
]


def calls(work: Callable[[], object]) -> int:
    """Return how many functions are called, those that are written in C included."""
    count = 0

    def note(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
        count += event in {"call", "c_call"}

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def fastest(work: Callable[[], object]) -> float:
    """Return the least CPU time that something takes, of five times."""
    found = []
    for _ in range(5):
        begun = time.process_time()
        work()
        found.append(time.process_time() - begun)
    return min(found)


def calls_a_review(vpas: int) -> float:
    """Return how many functions a review calls beside so many VPAs."""
    asked, of = bodies(vpas, REVIEWS), reviewer(vpas)
    for body in asked:
        begun(of, body)  # what is read first is remembered
    return calls(lambda: [begun(of, body) for body in asked]) / REVIEWS


def test_review_calls() -> None:
    """A review costs some calls, as many beside 400 VPAs as beside 10."""
    few, many = calls_a_review(10), calls_a_review(400)
    assert many == pytest.approx(few, rel=0.02)
    assert many < MOST_CALLS_A_REVIEW


def test_review_patch() -> None:
    """A pod gets the operations that it needs, each once."""
    (body,), of = bodies(1, 1), reviewer(1)
    answer = begun(of, body)
    assert isinstance(answer, bytes)
    patch = orjson.loads(b64decode(orjson.loads(answer)["response"]["patch"]))
    assert [operation["path"] for operation in patch] == OPERATIONS


def test_review_memory() -> None:
    """A review takes some times its own size while it lasts, and keeps nothing."""
    of_admission = AdmissionMetrics(CollectorRegistry())
    asked, of = bodies(10, REVIEWS), reviewer(10, of_admission)
    for body in asked:
        begun(of, body)
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for body in asked:
            begun(of, body)
            of_admission.settle()  # as a loop of the process does
        after, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak - before < 20 * len(asked[0])
    assert after - before < REVIEWS * 100  # a review that is kept takes thousands


def test_review_time() -> None:
    """To answer a review takes some times as long as to read its JSON."""
    asked, of = bodies(100, REVIEWS), reviewer(100)
    plain = fastest(lambda: [orjson.loads(body) for body in asked])
    assert fastest(lambda: [begun(of, body) for body in asked]) < 8 * plain


def planned(snapshot: Snapshot) -> tuple[int, int]:
    """Return how many functions a round of the updater calls: the first, and one like it."""
    rules, later = UpdateRules(), NOW + timedelta(minutes=1)
    first = plan(snapshot, rules, NO_GATES, Memory(), NOW)
    cold = calls(lambda: plan(snapshot, rules, NO_GATES, Memory(), NOW))
    warm = calls(
        lambda: plan(snapshot, rules, NO_GATES, first.memory, later, PlanOptions(before=first))
    )
    return cold, warm


def test_updater_calls() -> None:
    """A round costs some calls a pod, few where nothing has changed, and grows with the pods."""
    (cold, warm), (cold_twice, _) = planned(build(1)), planned(build(2))
    pods = VPAS * PODS
    assert cold / pods < MOST_CALLS_A_POD
    assert warm < cold / 10
    assert cold_twice == pytest.approx(2 * cold, rel=0.05)


def calls_a_round(vpas: int, pods: int) -> int:
    """Return how many functions a later round of the recommender calls."""
    model, found = filled(vpas, pods, with_history=True), 0
    for minute in (1, 2):
        now = START + timedelta(minutes=minute)
        body = metrics(vpas, pods, now, Random(minute))
        found = calls(partial(tick, model, body, now))
    return found


def test_recommender_calls() -> None:
    """A round costs some calls a container, and grows with the containers at most."""
    small, large = calls_a_round(50, 200), calls_a_round(200, 800)
    assert large / (800 * len(CONTAINERS)) < MOST_CALLS_A_CONTAINER
    assert large < 4.4 * small


def test_recommender_time() -> None:
    """A round is many times as fast as the same work done one histogram at a time."""
    vpas, pods = 200, 800
    model = filled(vpas, pods, with_history=True)
    dice = Random(1)
    ticks = []
    for minute in (1, 2, 3):
        now = START + timedelta(minutes=minute)
        ticks.append(tick(model, metrics(vpas, pods, now, dice), now))
    plain = reference_seconds() * pods * len(CONTAINERS)
    assert plain > 3 * min(one.add + one.decide for one in ticks)


IDLE: Final = "cpu: constant 10m, memory: constant 20Mi, noise: 0"
ROUNDS: Final = 10  # of a minute


def test_updater_asks_little() -> None:
    """A round with nothing to do asks for the webhook's Lease and nothing else."""
    stage = updating.Stage()
    small = container(requests={"cpu": "100m", "memory": "100Mi"}, limits={})
    stage.apply(deployment("web", small, replicas=8, load=IDLE), updating.vpa())
    stage.run(20)
    stage.recommend("100m/100Mi = =")
    stage.run(300)
    before = len(stage.asked.calls)
    stage.run(ROUNDS * 60)

    assert stage.reasons() == ["NoChange"] * 8
    found = [(call.verb, call.name) for call in stage.asked.calls[before:]]
    assert found == [("get", updating.LEASE)] * ROUNDS


def test_recommender_asks_little() -> None:
    """A round in which little changes reads usage once; a write is rare."""
    stage = recommending.Stage()
    stage.apply(deployment("web", load=IDLE), recommending.vpa())
    stage.run(7200)
    seen = stage.replica.watched
    before = len(seen.calls)
    stage.run(ROUNDS * 60)

    found = [call.verb for call in seen.calls[before:]]
    assert set(found) == {"list", "patch"}
    assert found.count("list") <= ROUNDS + 2  # and all checkpoints and VPAs, each ten minutes
    assert found.count("patch") <= ROUNDS
