"""How many replicas usage asks for, and how fast they may change: tables of cases."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.model.times import rfc3339
from app.ports import DEPLOYMENTS, HPAS, Json, Ref
from app.sandbox.controllers.scaling_rules import (
    Dated,
    PodStanding,
    ReplicaRange,
    Sample,
    ScaledPod,
    ScaleHistory,
    Tolerances,
    UnknownUsage,
    UsageTarget,
    bounded,
    standing,
    wanted_replicas,
)
from app.sandbox.scaling import fill_hpa
from tests import make
from tests.cases import cases
from tests.sandbox.worlds import SteppedSandbox, container, deployment

NOW = datetime(2026, 1, 5, 10, 0, tzinfo=UTC)
HALF, FIFTY = UsageTarget(50, is_share=True), UsageTarget(50, is_share=False)
TWICE = UsageTarget(200, is_share=True)
NEW = ScaledPod(PodStanding.UNREADY, 0, 100)
LOST = ScaledPod(PodStanding.UNMEASURED, 0, 100)
GONE = ScaledPod(PodStanding.IGNORED, 0, 100)


def used(*amounts: int, request: int = 100) -> list[ScaledPod]:
    """Pods that used so many thousandths."""
    return [ScaledPod(PodStanding.COUNTED, amount, request) for amount in amounts]


@cases(
    "target pods replicas expected",
    {
        "twice as much": (HALF, used(100, 100), 2, (4, 100, 100)),
        "half as much": (HALF, used(25, 25, 25, 25), 4, (2, 25, 25)),
        "a part of a pod is a pod": (HALF, used(60, 60, 60), 3, (4, 60, 60)),
        "ten percent more is no more": (HALF, used(55, 55), 2, (2, 55, 55)),
        "ten percent less is no less": (HALF, used(45, 45), 2, (2, 45, 45)),
        "whole percents": (HALF, used(55, 56), 2, (2, 55, 55)),
        "of all requests together": (
            HALF,
            [*used(90, request=100), *used(10, request=300)],
            2,
            (1, 25, 50),
        ),
        "an amount": (FIFTY, used(80, 120), 2, (4, 100, 100)),
        "an amount looks at no request": (FIFTY, used(200, request=0), 1, (4, 200, 200)),
        "a pod that is going counts for nothing": (HALF, [*used(100), GONE], 1, (2, 100, 100)),
        "up: a new pod may take its part": (HALF, [*used(100), NEW], 2, (2, 100, 100)),
        "up: more than the new one can take": (HALF, [*used(200), NEW], 2, (4, 200, 200)),
        "up: a pod without sample may be idle": (HALF, [*used(150), LOST], 2, (3, 150, 150)),
        "up: amounts too": (FIFTY, [*used(200), NEW, LOST], 3, (4, 200, 200)),
        "down: a new pod says nothing": (HALF, [*used(20, 20), NEW], 3, (1, 20, 20)),
        "down: a pod without sample may be busy": (HALF, [*used(10), LOST], 2, (2, 10, 10)),
        "down: though most are idle": (HALF, [*used(2, 2, 2, 2), LOST], 5, (3, 2, 2)),
        "down: busy is what it is to be at most": (TWICE, [*used(20, 20), LOST], 3, (2, 20, 20)),
        "down: amounts": (FIFTY, [*used(10, 10), LOST], 3, (2, 10, 10)),
        "no turning round": (HALF, [*used(40), LOST, LOST], 3, (3, 40, 40)),
        "never down for being too busy": (HALF, [*used(160), LOST], 5, (5, 160, 160)),
        "just so, though one is unknown": (HALF, [*used(50), LOST], 2, (2, 50, 50)),
    },
)
def test_wanted_replicas(
    target: UsageTarget, pods: Sequence[ScaledPod], replicas: int, expected: tuple[int, int, int]
) -> None:
    """The replicas, what pods use in the measure of the target, and the average amount."""
    assert wanted_replicas(target, pods, replicas, Tolerances()) == expected


@cases(
    "pods why",
    {
        "no pods": ([], "no pods returned"),
        "none that counts": ([NEW, LOST], "did not receive metrics"),
        "no requests": (used(100, request=0), "matched known pods"),
    },
)
def test_unknown_usage(pods: Sequence[ScaledPod], why: str) -> None:
    """Without anything to go by there is no answer."""
    with pytest.raises(UnknownUsage, match=why):
        wanted_replicas(HALF, pods, 2, Tolerances())


PODS = st.lists(
    st.builds(ScaledPod, st.sampled_from(PodStanding), st.integers(0, 1000), st.integers(1, 1000)),
    min_size=1,
    max_size=12,
)


@given(pods=PODS, is_share=st.booleans())
def test_doubt_never_turns_an_answer_round(pods: list[ScaledPod], *, is_share: bool) -> None:
    """Busy pods never make fewer replicas and idle ones never more, whatever is not known."""
    target = UsageTarget(50, is_share=is_share)
    counted = [pod for pod in pods if pod.standing is PodStanding.COUNTED]
    replicas = len([pod for pod in pods if pod.standing is not PodStanding.IGNORED])
    if not counted:
        return
    answer = wanted_replicas(target, pods, replicas, Tolerances()).replicas
    share = target.current(counted) / target.amount

    assert answer >= replicas if share > 1 else answer <= replicas


@cases(
    "resource age ready_for is_ready sampled expected",
    {
        "settled": ("cpu", 3600, 3000, True, 5, PodStanding.COUNTED),
        "new, and measured since": ("cpu", 120, 60, True, 10, PodStanding.COUNTED),
        "new, and measured before": ("cpu", 120, 10, True, 5, PodStanding.UNREADY),
        "new, and not ready": ("cpu", 120, 110, False, 5, PodStanding.UNREADY),
        "of memory all samples count": ("memory", 120, 110, False, 5, PodStanding.COUNTED),
        "never ready": ("cpu", 3600, 3590, False, 5, PodStanding.UNREADY),
        "not ready any more": ("cpu", 3600, 600, False, 5, PodStanding.COUNTED),
    },
)
def test_standing(
    resource: str, age: int, ready_for: int, *, is_ready: bool, sampled: int, expected: PodStanding
) -> None:
    """Whose cpu counts: a new pod's only from its readiness on, another's always."""
    condition = {"type": "Ready", "status": "True" if is_ready else "False"}
    condition["lastTransitionTime"] = rfc3339(NOW - timedelta(seconds=ready_for))
    started = rfc3339(NOW - timedelta(seconds=age))
    status = {"phase": "Running", "startTime": started, "conditions": [condition]}
    pod: Json = {"metadata": {"name": "pod"}, "status": status}
    sample = Sample(100, NOW - timedelta(seconds=sampled), timedelta(seconds=15))

    assert standing(pod, resource, sample, NOW) is expected
    assert standing(pod, resource, None, NOW) is PodStanding.UNMEASURED
    going = {**pod, "metadata": {"name": "pod", "deletionTimestamp": rfc3339(NOW)}}
    assert standing(going, resource, sample, NOW) is PodStanding.IGNORED
    pending = {**pod, "status": {**status, "phase": "Pending"}}
    assert standing(pending, resource, sample, NOW) is PodStanding.UNREADY


def rules(**directions: Json) -> Json:
    """A behavior with what an API server fills in."""
    item = {"spec": {"behavior": directions}}
    fill_hpa(item)
    found: Json = item["spec"]["behavior"]
    return found


def policy(kind: str, value: int, seconds: int) -> Json:
    """A policy."""
    return {"type": kind, "value": value, "periodSeconds": seconds}


USUAL = rules()
ONE_A_MINUTE = {"policies": [policy("Pods", 1, 60)]}
QUICK = {"stabilizationWindowSeconds": 0}
FEWEST = {"selectPolicy": "Min", "policies": [policy("Pods", 2, 60), policy("Percent", 50, 60)]}


@cases(
    "behavior replicas wanted answers expected",
    {
        "as wanted": (None, 4, 6, [], (6, "", "DesiredWithinRange")),
        "at most double": (None, 4, 9, [], (8, "", "ScaleUpLimit")),
        "four at once": (None, 1, 9, [], (4, "", "ScaleUpLimit")),
        "at most the most": (None, 8, 30, [], (12, "", "TooManyReplicas")),
        "at least the least": (None, 4, 1, [], (2, "", "TooFewReplicas")),
        "less, though more was wanted": (
            None,
            6,
            3,
            [(299, 5)],
            (5, "ScaleDownStabilized", "DesiredWithinRange"),
        ),
        "less, as more was wanted long ago": (
            None,
            6,
            3,
            [(301, 5)],
            (3, "", "DesiredWithinRange"),
        ),
        "told: four more at once": (USUAL, 1, 9, [], (5, "", "ScaleUpLimit")),
        "told: less, though more was wanted": (
            USUAL,
            6,
            3,
            [(299, 5)],
            (5, "ScaleDownStabilized", "DesiredWithinRange"),
        ),
        "told: more, though less was wanted": (
            rules(scaleUp={"stabilizationWindowSeconds": 60}),
            4,
            8,
            [(59, 5)],
            (5, "ScaleUpStabilized", "DesiredWithinRange"),
        ),
        "told: one less a minute": (
            rules(scaleDown={**QUICK, **ONE_A_MINUTE}),
            6,
            2,
            [],
            (5, "", "ScaleDownLimit"),
        ),
        "told: the smallest change": (
            rules(scaleUp=FEWEST),
            8,
            12,
            [],
            (10, "", "ScaleUpLimit"),
        ),
        "told: the smallest change down": (
            rules(scaleDown={**QUICK, **FEWEST}),
            8,
            2,
            [],
            (6, "", "ScaleDownLimit"),
        ),
        "told: never down": (
            rules(scaleDown={**QUICK, "selectPolicy": "Disabled"}),
            8,
            2,
            [],
            (8, "", "ScaleDownLimit"),
        ),
        "told: the most holds": (USUAL, 8, 30, [], (12, "", "TooManyReplicas")),
        "told: the least holds": (
            rules(scaleDown=QUICK),
            4,
            1,
            [],
            (2, "", "TooFewReplicas"),
        ),
        "told: nothing to do": (USUAL, 4, 4, [], (4, "", "DesiredWithinRange")),
    },
)
def test_bounded(
    behavior: Json | None,
    replicas: int,
    wanted: int,
    answers: Sequence[tuple[int, int]],
    expected: tuple[int, str, str],
) -> None:
    """The replicas to have now, what held them steady, and what held them back."""
    history = ScaleHistory()
    history.answers.extend(Dated(1000.0 - ago, count) for ago, count in answers)
    found = bounded(behavior, history, ReplicaRange(2, 12), replicas, wanted, 1000.0)

    assert (found.replicas, found.stabilized, found.reason) == expected
    assert found.is_limited is (found.reason != "DesiredWithinRange")
    assert history.answers[-1] == Dated(1000.0, wanted)


def test_policies_look_at_what_was_done() -> None:
    """What changed within the period is a part of what a policy allows."""
    history = ScaleHistory()
    history.added.append(Dated(970.0, 1))
    behavior = rules(scaleUp=ONE_A_MINUTE)

    def replicas(now: float) -> int:
        return bounded(behavior, history, ReplicaRange(1, 12), 5, 9, now).replicas

    assert replicas(1000.0) == 5
    assert replicas(1031.0) == 6


def replicas_of(world: SteppedSandbox) -> int:
    """What the Deployment is to have."""
    found = world.sandbox.cluster.get(Ref(DEPLOYMENTS, "default", "web"))
    return int(found["spec"]["replicas"])


def test_up_and_down_with_the_load() -> None:
    """Replicas follow a load that they share: up within two minutes, down five minutes later."""
    world = SteppedSandbox()

    def load(text: str) -> Json:
        roomy = container(limits={})
        return deployment("web", roomy, load=f"{text}, noise: 0, shared: cpu", replicas=replicas)

    replicas = 2
    hpa = make.hpa_json(make.metric_json("cpu", 50), target="Deployment/web", most=10)
    world.run(load("cpu: constant 100m"), hpa, seconds=90)
    assert replicas_of(world) == 2
    world.run(load("cpu: constant 350m"), seconds=150)
    assert replicas_of(world) == 7
    replicas = 7
    world.run(load("cpu: constant 90m"), seconds=240)
    assert replicas_of(world) == 7
    world.step(180)
    assert replicas_of(world) == 2


def test_the_past_goes_with_the_object() -> None:
    """A new HPA of the same name waits for its own window before it removes replicas."""
    world = SteppedSandbox()
    hpa = make.hpa_json(make.metric_json("cpu", 50), target="Deployment/web")
    idle = deployment("web", load="cpu: constant 1m, noise: 0", replicas=4)
    world.run(idle, hpa, seconds=200)
    world.sandbox.cluster.delete(Ref(HPAS, "default", "web"))
    world.step(20)
    world.run(hpa, seconds=200)
    assert replicas_of(world) == 4
    world.step(150)
    assert replicas_of(world) == 1
