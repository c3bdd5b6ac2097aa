"""What is asked of the kubelet, and what stands for it where that is hopeless."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from app.updater.core.decisions import Action, Reason
from tests.updater.core.resizes import ONLY, POD, RESTARTS, SKIPS, remembering, scene
from tests.updater.core.scenes import (
    EVICTED,
    REMEMBERED,
    RESIZED,
    UNPROVEN,
    Scene,
    container,
    recommended,
    running,
    several,
)


def test_only_what_changes_can_restart() -> None:
    """A policy for memory does not matter when only cpu changes."""
    found = scene(several(running(RESTARTS), 5), rules=SKIPS)
    found = replace(found, recommendation=[recommended("200m/100Mi 200m/100Mi 1/1Gi")])
    assert found.count(Action.RESIZE) == 5


@pytest.mark.parametrize(
    ("remembered", "recommendation", "expected"),
    [
        pytest.param("1000m/1Gi", "1000m/1Gi = =", REMEMBERED, id="the same again"),
        pytest.param("2000m/2Gi", "1000m/2Gi = =", RESIZED, id="half the cpu"),
        pytest.param("1000m/1Gi", "2000m/2Gi = =", REMEMBERED, id="more than was refused"),
        pytest.param("200m/512Mi", "300m/500Mi = =", RESIZED, id="less memory by little, more cpu"),
    ],
)
def test_what_was_refused_is_not_asked_for_again(
    remembered: str, recommendation: str, expected: tuple[Action, Reason]
) -> None:
    """Only something smaller is worth another try."""
    found = replace(scene(several(POD, 3), ONLY), recommendation=[recommended(recommendation)])
    assert remembering(found, remembered).told() == expected


def test_a_byte_less_is_not_less() -> None:
    """What is a little lower would be refused as well."""
    found = replace(
        scene(several(POD, 3), ONLY), recommendation=[recommended("999m/1Gi 999m/1Gi 999m/1Gi")]
    )
    assert remembering(found, "1000m/1Gi").told() == REMEMBERED


def test_where_eviction_is_allowed_it_stands_for_what_was_refused() -> None:
    """The same node is not asked again and again."""
    calm = several(running(container("app", "1000m/1Gi")), 3)[1:]
    found = replace(scene([POD, *calm]), recommendation=[recommended("1000m/1Gi = =")])
    assert remembering(found, "1000m/1Gi").told() == EVICTED


def test_the_qos_class_cannot_change() -> None:
    """A pod that asks for nothing can never be resized; evict it, or tell."""
    pod = running(container("app"))
    assert scene(several(pod, 3)).told() == EVICTED
    assert scene(several(pod, 3), ONLY).told() == (Action.WAIT, Reason.RESIZE_INFEASIBLE)


@pytest.mark.parametrize(
    ("recommendation", "requests"),
    [
        ("200m/200Mi = =", {"cpu": "200m", "memory": "200Mi"}),
        ("200m/50Mi = =", {"cpu": "200m"}),
    ],
)
def test_upscale_only_in_place(recommendation: str, requests: Mapping[str, str]) -> None:
    """By flag: what has to grow is grown in place, the rest stays."""
    rules = replace(UNPROVEN, upscale_only_in_place=True)
    found = Scene(
        several(POD, 3), [recommended(recommendation)], mode="UpscaleOnly", rules=rules
    ).decision()
    assert found.action is Action.RESIZE
    assert found.may_evict_instead
    assert found.change is not None
    written = found.change.containers[0].requests
    assert {name: str(amount) for name, amount in written.items()} == dict(requests)


def test_upscale_only_leaves_what_shrinks() -> None:
    """A container with nothing to grow is not written."""
    pod = running(container("app", "100m/100Mi"), container("b", "1/1Gi"))
    found = Scene(
        several(pod, 3),
        [recommended("200m/200Mi = ="), recommended("500m/500Mi", "b")],
        mode="UpscaleOnly",
        rules=replace(UNPROVEN, upscale_only_in_place=True),
    ).decision()
    assert found.change is not None
    assert [change.container for change in found.change.containers] == ["app"]
