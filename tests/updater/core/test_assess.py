"""What one pod needs: modes, recommendations, growth, pods without a node."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from app.model.fields import Json
from app.model.gates import FeatureGates
from app.model.snapshot import Collection, Replacement
from app.updater.core.assess import why_off
from app.updater.core.decisions import Action, Reason
from tests import make
from tests.cases import cases
from tests.make import ALL_GATES, NO_GATES
from tests.updater.core.scenes import (
    EVICTED,
    NOW,
    RESIZED,
    Scene,
    annotated,
    container,
    killed,
    pending,
    recommended,
    resize_condition,
    running,
    several,
    sidecar,
    terminating,
    unscheduled,
    with_metadata,
)

YOUNG = timedelta(hours=1)


@pytest.mark.parametrize(
    ("vpa", "reason"),
    [
        ({"recommendations": None}, Reason.NO_RECOMMENDATION),
        ({"recommendations": []}, Reason.NO_CONTAINER_RECOMMENDATION),
        ({"recommendations": [recommended("1/1Gi", "b")]}, Reason.NO_CONTAINER_RECOMMENDATION),
        (
            {"policies": [make.policy_json("*", mode="Off")]},
            Reason.NO_CONTAINER_RECOMMENDATION,
        ),
    ],
)
def test_without_a_recommendation(vpa: Mapping[str, Any], reason: Reason) -> None:
    """Nothing is known about what the pod should have."""
    found = Scene(several(running(container("app", "1/1Gi")), 3), vpa=vpa)
    assert found.told() == (Action.NONE, reason)


def test_terminating_pods_are_left_alone() -> None:
    """They go anyway."""
    pod = running(container("app", "100m/100Mi"))
    found = Scene([terminating(pod), *several(pod, 3)[1:]])
    assert found.told() == (Action.NONE, Reason.POD_TERMINATING)


def upscale(
    requests: str,
    recommendation: str,
    *,
    age: timedelta = timedelta(hours=13),
    after: Callable[[Json], Json] = dict,
    requirements: Sequence[Json] = (),
) -> tuple[Action, Reason]:
    """Return what happens to the first of three pods in mode UpscaleOnly."""
    pod = after(running(container("app", requests), age=age))
    policy = {"updateMode": "UpscaleOnly", "evictionRequirements": list(requirements)}
    found = Scene(
        several(pod, 3), [recommended(recommendation)], vpa={"spec": {"updatePolicy": policy}}
    )
    return found.told()


MORE_CPU = "400m/300Mi 300m/200Mi 600m/600Mi"
WIDE = "230m/800Mi 1m/1Mi 1/2Gi"
LESS_MEMORY = [{"resources": ["memory"], "changeRequirement": "TargetLowerThanRequests"}]
NEVER = (Action.NONE, Reason.NOT_UPSCALE)
SMALL = (Action.NONE, Reason.TOO_SMALL)


@cases(
    "requests recommendation more expected",
    {
        "SX-01": ("100m/100Mi", "200m/200Mi = =", {}, EVICTED),
        "SX-02": ("500m/500Mi", "200m/200Mi = =", {}, NEVER),
        "two small changes within bounds": (
            "200m/1000Mi",
            "202m/300Mi 100m/200Mi 400m/600Mi",
            {},
            SMALL,
        ),
        "far more cpu, far less memory": ("200m/1000Mi", MORE_CPU, {}, EVICTED),
        "far more cpu though young": ("200m/1000Mi", MORE_CPU, {"age": YOUNG}, EVICTED),
        "both change a little": (
            "200m/1000Mi",
            WIDE,
            {},
            (Action.EVICT, Reason.OUTDATED),
        ),
        "young": ("200m/1000Mi", WIDE, {"age": YOUNG}, (Action.NONE, Reason.TOO_YOUNG)),
        "a change that is netted": ("200m/1000Mi", "210m/500Mi 1m/1Mi 1/2Gi", {}, SMALL),
        "above its bounds though young": (
            "500m",
            "400m/100Mi 1m/1Mi 450m/1Gi",
            {"age": YOUNG},
            (Action.EVICT, Reason.NO_REQUEST),
        ),
        "killed and to get more memory": (
            "-/1Gi",
            "-/2Gi -/1Mi -/3Gi",
            {"age": YOUNG, "after": killed},
            (Action.EVICT, Reason.OOM_KILLED),
        ),
        "killed and to get less memory": (
            "-/2Gi",
            "-/1Gi -/1Mi -/3Gi",
            {"age": YOUNG, "after": killed},
            NEVER,
        ),
        "less memory is required and given": (
            "200m/1000Mi",
            MORE_CPU,
            {"requirements": LESS_MEMORY},
            EVICTED,
        ),
        "less memory is required and not given": (
            "100m/100Mi",
            "200m/200Mi = =",
            {"requirements": LESS_MEMORY},
            (Action.WAIT, Reason.REQUIREMENT_NOT_MET),
        ),
    },
)
def test_upscale_only(
    requests: str,
    recommendation: str,
    more: Mapping[str, Any],
    expected: tuple[Action, Reason],
) -> None:
    """What grows is judged alone; what shrinks never moves a pod."""
    assert upscale(requests, recommendation, **more) == expected


def test_differences_do_not_cancel() -> None:
    """Two containers in each other's place are updated."""
    pod = running(container("a", "1"), container("b", "3"))
    found = Scene(several(pod, 3), [recommended("3", "a"), recommended("1", "b")])
    assert found.told() == (Action.EVICT, Reason.OUTDATED)


@cases(
    "requests message",
    {
        "nothing at all": ("-", "cpu has no request: none -> 200m; memory none -> 200Mi"),
        "one resource": ("100m", "memory has no request: none -> 200Mi; cpu 100m -> 200m"),
        "both": (
            "100m/100Mi",
            "cpu 100m is below its lower bound 200m: 100m -> 200m; memory 100Mi -> 200Mi",
        ),
    },
)
@pytest.mark.parametrize("mode", ["Recreate", "InPlaceOrRecreate", "UpscaleOnly"])
def test_a_missing_request_is_named(requests: str, message: str, mode: str) -> None:
    """Of what was never requested no share is told, but which resource it is."""
    found = Scene(several(running(container("app", requests)), 3), mode=mode).decision()
    assert message in found.message


def test_bounds_that_lost_their_order_move_nobody() -> None:
    """A LimitRange for pods scales target and bounds apart; that is no reason to evict."""
    pod = running(container("app", "200m/200Mi", "400m/400Mi"))
    limits = make.limit_range_json(make.limits_json("Pod", most=make.amounts("400m", "1Gi")))
    item = make.recommendation_json(
        cpu="300m", memory="200Mi", lower=make.amounts("250m"), upper=make.amounts("190m")
    )
    found = Scene(several(pod, 3), [item], others=[limits])
    assert found.told() == (Action.NONE, Reason.NO_CHANGE)


def test_small_changes_rest_after_a_resize() -> None:
    """Twelve hours count from the last resize."""
    marks = {"vpaInPlaceUpdatedAt": make.time(YOUNG) or ""}
    pod = running(container("app", "100m/100Mi"), annotations=marks)
    found = Scene(
        several(pod, 3), [recommended("150m/150Mi 1m/1Mi 1/1Gi")], mode="InPlaceOrRecreate"
    )
    assert found.told() == (Action.NONE, Reason.TOO_YOUNG)
    assert replace(found, now=NOW + timedelta(hours=11)).told()[0] is Action.RESIZE


def test_a_stamp_from_the_future_protects_nobody() -> None:
    """A clock that is ahead, or garbage, does not keep small changes away for ever."""
    marks = {"vpaInPlaceUpdatedAt": "2999-01-01T00:00:00Z"}
    pod = running(container("app", "100m/100Mi"), annotations=marks)
    pods = several(pod, 3)
    found = Scene(pods, [recommended("150m/150Mi 1m/1Mi 1/1Gi")], mode="InPlaceOrRecreate")
    assert found.told()[0] is Action.RESIZE


@pytest.mark.parametrize(
    ("marks", "expected"),
    [
        ({"vpaInPlaceUpdatedAt": "2026-01-05T09:59:00Z"}, Reason.OOM_KILLED),
        (
            {
                "vpaInPlaceUpdatedAt": "2026-01-05T09:59:00Z",
                "vpaMemoryRaisedAt/app": "2026-01-05T09:59:00Z",
            },
            Reason.TOO_YOUNG,
        ),
    ],
    ids=["cpu alone", "its memory"],
)
def test_a_kill_wants_memory(marks: dict[str, str], expected: Reason) -> None:
    """A resize of something else since the kill does not keep the container from its memory."""
    pod = running(container("app", "100m/100Mi"), annotations=marks, age=YOUNG)
    pods = several(killed(pod, ago=timedelta(minutes=3)), 3)
    found = Scene(pods, [recommended("100m/150Mi 1m/1Mi 1/1Gi")], mode="InPlaceOrRecreate")
    decision = found.decision()
    assert decision.reason is expected
    is_marked = annotated(decision).get("vpaMemoryRaisedAt/app") == "2026-01-05T10:00:00Z"
    assert is_marked == (expected is Reason.OOM_KILLED)


def test_pods_that_do_not_run_yet_are_recreated() -> None:
    """A pending pod is evicted although a resize is under way in it."""
    pod = pending(running(container("app", "100m/100Mi")))
    pod["status"]["conditions"] = [resize_condition("InProgress")]
    calm = several(running(container("app", "200m/200Mi")), 3)[1:]
    assert Scene([pod, *calm]).told() == EVICTED


TOO_BIG = (Action.EVICT, Reason.TOO_BIG_FOR_NODE)


@pytest.mark.parametrize(
    ("requests", "recommendation", "expected"),
    [
        ("9/9Gi", "200m/200Mi", TOO_BIG),
        ("9/9Gi", "9/9000Mi 1/1Mi 10/10Gi", (Action.WAIT, Reason.POD_PENDING)),
        ("9/9Gi", "9/9000Mi 1/1Mi 10/9010Mi", TOO_BIG),
        ("100m/100Mi", "200m/200Mi = =", (Action.WAIT, Reason.POD_PENDING)),
    ],
)
def test_pods_that_no_node_takes(
    requests: str, recommendation: str, expected: tuple[Action, Reason]
) -> None:
    """If a clearly smaller size is recommended, the pod is recreated, be it the only one."""
    pod = unscheduled(running(container("app", requests)))
    found = Scene([pod], [recommended(recommendation)])
    assert found.told() == expected


@pytest.mark.parametrize(
    ("mode", "gates", "expected"),
    [
        (None, NO_GATES, None),
        ("", NO_GATES, None),
        ("Recreate", NO_GATES, None),
        ("Auto", NO_GATES, None),
        ("UpscaleOnly", NO_GATES, None),
        ("InPlaceOrRecreate", NO_GATES, None),
        ("InPlace", ALL_GATES, None),
        ("InPlace", NO_GATES, Reason.GATE_DISABLED),
        ("Off", NO_GATES, Reason.MODE_OFF),
        ("Initial", NO_GATES, Reason.MODE_INITIAL),
        ("Sometimes", NO_GATES, Reason.MODE_OFF),
    ],
)
def test_modes(mode: str | None, gates: FeatureGates, expected: Reason | None) -> None:
    """Each mode acts on running pods, or has a reason why not."""
    found = why_off(make.vpa(mode=mode), gates)
    assert (found[0] if found else None) is expected


def test_unknown_modes_do_nothing() -> None:
    """Not even if the VPA has a boost."""
    vpa = make.vpa(mode="Sometimes", boost=make.boost_json(factor=2))
    found = why_off(vpa, ALL_GATES)
    assert found == (Reason.MODE_OFF, 'the update mode "Sometimes" is not known')


PROXIED = running(container("app", "200m/200Mi"), init=[sidecar("proxy", "10m")])
PROXY = [recommended("200m/200Mi = ="), recommended("500m = =", "proxy")]


@cases(
    "pod mode expected",
    {
        "evicted for it": (PROXIED, "Recreate", EVICTED),
        "resized for it": (PROXIED, "InPlaceOrRecreate", RESIZED),
        "not seen by the webhook": (
            with_metadata(PROXIED, annotations={"vpaObservedContainers": "app"}),
            "Recreate",
            (Action.NONE, Reason.NO_CHANGE),
        ),
        "an ordinary init container": (
            running(container("app", "200m/200Mi"), init=[container("proxy", "10m")]),
            "Recreate",
            (Action.NONE, Reason.NO_CHANGE),
        ),
    },
)
def test_sidecars(pod: Json, mode: str, expected: tuple[Action, Reason]) -> None:
    """A native sidecar that is too small is updated as a container is."""
    assert Scene(several(pod, 3), PROXY, mode=mode).told() == expected


def test_sidecars_that_are_left_alone() -> None:
    """A pod that is read without its sidecars needs nothing for their sake."""
    found = Scene(several(PROXIED, 3), PROXY)
    snapshot = found.snapshot()
    pods = snapshot.of("default").pods
    without = snapshot.changed(
        Replacement(Collection.PODS, "default", name, pod.without_sidecars())
        for name, pod in pods.items()
    )
    assert replace(found, whole=without).told() == (Action.NONE, Reason.NO_CHANGE)


@cases(
    "metrics has told",
    {
        "all that is recommended": (
            ["cpu", "memory"],
            "100m/100Mi",
            (Action.NONE, Reason.SCALED_HORIZONTALLY),
        ),
        "the only one that differs": (
            ["cpu"],
            "100m/200Mi",
            (Action.NONE, Reason.SCALED_HORIZONTALLY),
        ),
        "one of two that differ": (["cpu"], "100m/100Mi", (Action.EVICT, Reason.OUTSIDE_BOUNDS)),
        "none that differs": (["cpu"], "200m/200Mi", (Action.NONE, Reason.NO_CHANGE)),
    },
)
def test_what_an_hpa_scales_by_stays(
    metrics: list[str], has: str, told: tuple[Action, Reason]
) -> None:
    """A pod is updated for what no HPA scales by; if nothing else differs, the HPA is named."""
    hpa = make.hpa_json(*(make.metric_json(name, 70) for name in metrics))
    scene = Scene(several(running(container("app", has)), 3), others=[hpa])
    assert scene.told() == told
    named = "HorizontalPodAutoscaler/web adds replicas above 70%" in scene.decision().message
    assert named == (told[1] is Reason.SCALED_HORIZONTALLY)
