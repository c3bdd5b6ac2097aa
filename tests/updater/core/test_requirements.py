"""Eviction requirements: which changes they let a pod be evicted for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta

import pytest

from app.model.vpa import EvictionRequirement
from app.updater.core.decisions import Action, Reason
from app.updater.core.need import requirement_text
from tests import make
from tests.updater.core.scenes import (
    Scene,
    container,
    recommended,
    running,
    several,
    with_status,
)

Json = make.Json
HIGHER, LOWER = "TargetHigherThanRequests", "TargetLowerThanRequests"
APP = container("app", "500m/10Gi")
TWO = (container("app", "500m/10Gi"), container("b", "500m/10Gi"))


def require(*words: str) -> list[Json]:
    """Read requirements such as `cpu,memory H`."""
    found = []
    for word in words:
        resources, _, change = word.partition(" ")
        names = resources.split(",") if resources else []
        change = {"H": HIGHER, "L": LOWER}.get(change, change)
        found.append({"resources": names, "changeRequirement": change})
    return found


def admits(
    requirements: Sequence[Json] | None,
    recommendations: Mapping[str, str],
    containers: Sequence[Json] = (APP,),
    *,
    policies: Sequence[Json] | None = None,
    others: Sequence[Json] = (),
    annotations: Mapping[str, str] | None = None,
    reported: Json | None = None,
) -> bool:
    """Whether requirements let a pod go that is far outside of its bounds."""
    item = running(*containers, annotations=annotations)
    if reported is not None:
        item = with_status(item, "app", resources=reported)
    policy = {} if requirements is None else {"evictionRequirements": list(requirements)}
    scene = Scene(
        several(item, 3),
        [recommended(text, name) for name, text in recommendations.items()],
        vpa={"spec": {"updatePolicy": {"updateMode": "Recreate"} | policy}, "policies": policies},
        others=others,
    )
    action, reason = scene.told()
    assert reason in (Reason.EVICTED, Reason.REQUIREMENT_NOT_MET)
    return action is Action.EVICT


B = " 1m/1Mi 2m/2Mi"  # bounds that every pod of these cases is above


@pytest.mark.parametrize(
    ("requirements", "recommendations", "containers", "expected"),
    [
        pytest.param(None, {"app": "600m/10Gi"}, (APP,), True, id="none"),
        pytest.param([], {"app": "600m/10Gi"}, (APP,), True, id="empty"),
        pytest.param(
            require("cpu H"),
            {"app": "600m/10Gi"},
            (APP,),
            True,
            id="more cpu is wanted and asked for",
        ),
        pytest.param(
            require("cpu L"),
            {"app": "400m/10Gi"},
            (APP,),
            True,
            id="less cpu is wanted and asked for",
        ),
        pytest.param(
            require("cpu,memory H"),
            {"app": "500m/11Gi"},
            (APP,),
            True,
            id="one of two resources is enough",
        ),
        pytest.param(
            require("memory L"), {"app": "500m/9Gi"}, (APP,), True, id="less memory is wanted"
        ),
        pytest.param(
            require("cpu,memory H"),
            {"app": "500m/9Gi"},
            (APP,),
            False,
            id="neither of two resources grows",
        ),
        pytest.param(
            require("cpu H", "memory L"),
            {"app": "600m/9Gi"},
            (APP,),
            True,
            id="two requirements are met",
        ),
        pytest.param(
            require("cpu L"), {"app": "1000m/9Gi"}, (APP,), False, id="more cpu is no less cpu"
        ),
        pytest.param(
            require("cpu H", "memory H"),
            {"app": "600m/9Gi"},
            (APP,),
            False,
            id="one of two requirements is unmet",
        ),
        pytest.param(
            require("cpu H"),
            {"app": "200m/10Gi", "b": "700m/10Gi"},
            TWO,
            True,
            id="one of two containers is enough",
        ),
        pytest.param(
            require("cpu H"),
            {"app": "200m/10Gi", "b": "300m/10Gi"},
            TWO,
            False,
            id="no container grows",
        ),
        pytest.param(
            require("cpu H"),
            {"b": "300m/10Gi"},
            TWO,
            False,
            id="only the other container has a target",
        ),
        pytest.param(
            require("cpu H", "memory L"),
            {"app": "600m/10Gi", "b": "500m/9Gi"},
            TWO,
            True,
            id="containers meet different requirements",
        ),
        pytest.param(
            require("cpu H", "cpu L"),
            {"app": "600m/10Gi", "b": "400m/10Gi"},
            TWO,
            True,
            id="containers meet opposite requirements",
        ),
        pytest.param(
            require("cpu H"),
            {"app": "400m"},
            (container("app", "500m"),),
            False,
            id="less cpu is no more cpu",
        ),
        pytest.param(
            require("memory L"), {"app": "600m"}, (APP,), False, id="a resource without a target"
        ),
        pytest.param(
            require("cpu,memory H"),
            {"app": "600m/1Gi"},
            (container("app"),),
            True,
            id="no request counts as nothing",
        ),
        pytest.param(
            require(" H"), {"app": "600m/10Gi"}, (APP,), False, id="a requirement without resources"
        ),
        pytest.param(
            require("cpu Sideways"), {"app": "600m/10Gi"}, (APP,), False, id="unknown word"
        ),
        pytest.param(require("CPU H"), {"app": "600m/10Gi"}, (APP,), True, id="capitals"),
        pytest.param(
            require("cpu L"),
            {"app": "600m/1Gi"},
            (container("app", "-/2Gi"),),
            False,
            id="what is not requested cannot fall",
        ),
    ],
)
def test_worked_cases(
    requirements: list[Json] | None,
    recommendations: dict[str, str],
    containers: tuple[Json, ...],
    expected: bool,
) -> None:
    """Each requirement has to be met by some container that the VPA controls."""
    far = {name: text + B for name, text in recommendations.items()}
    assert admits(requirements, far, containers) == expected


def test_equal_never_meets() -> None:
    """What stays the same is neither higher nor lower."""
    far = {"app": "500m/10Gi", "b": "1m/10Gi"}
    containers = (APP, container("b", "1m/20Gi"))
    assert not admits(require("cpu,memory H"), far, containers)


def test_status_comes_before_spec() -> None:
    """Compared is what the kubelet reports, here of a pod that is stuck in a resize."""
    reported = {"requests": make.amounts("100m", "1Gi")}
    far = {"app": "400m/4Gi 300m/3Gi 1/8Gi"}
    stuck = {"vpaInPlaceUpdatedAt": make.time(timedelta(hours=2)) or ""}
    assert admits(require("cpu,memory H"), far, annotations=stuck, reported=reported)


def test_sidecars_that_were_not_observed_do_not_count() -> None:
    """A container that the webhook never saw cannot open the gate."""
    containers = (APP, container("sidecar", "100m/1Gi"))
    far = {"app": "400m/10Gi" + B, "sidecar": "1/1Gi"}
    annotations = {"vpaObservedContainers": "app"}
    assert not admits(require("cpu H"), far, containers, annotations=annotations)


def test_containers_without_a_recommendation_do_not_count() -> None:
    """A container that only makes room for others has no recommendation to compare."""
    limits = make.limit_range_json(make.limits_json("Pod", most=make.amounts("10", "90Gi")))
    containers = (APP, container("x", "500m/10Gi"))
    assert not admits(
        require("cpu H"),
        {"app": "400m/10Gi" + B},
        containers,
        policies=[make.policy_json("x", mode="Off")],
        others=[limits],
    )


def test_words_for_people() -> None:
    """A requirement is told as it is written."""
    assert (
        requirement_text(EvictionRequirement(("cpu", "memory"), LOWER))
        == f"{LOWER} of cpu or memory"
    )
    assert requirement_text(EvictionRequirement((), LOWER)) == f"{LOWER} of nothing"
