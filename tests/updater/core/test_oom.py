"""Quick kills for want of memory: which count, and until when."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest

from app.model.gates import FeatureGates
from app.updater.core.need import quick_oom
from app.updater.core.rules import UpdateRules
from tests import make
from tests.make import ALL_GATES, NO_GATES
from tests.updater.core.scenes import (
    NOW,
    OURS,
    container,
    killed,
    read,
    running,
    with_status,
)

MINUTE = timedelta(minutes=1)
DAY = timedelta(days=1)
POD = running(container("app", "1/1Gi"))
OFF = {"policies": [make.policy_json("app", mode="Off")]}
ALL_OFF = {"policies": [make.policy_json("*", mode="Off")]}
HELD: dict[str, Any] = {"spec": {"updatePolicy": {"evictAfterOOMSeconds": 600}}}
SHORT: dict[str, Any] = {"spec": {"updatePolicy": {"evictAfterOOMSeconds": 1}}}


def counts(
    pod: make.Json,
    vpa: Mapping[str, Any] | None = None,
    *,
    rules: UpdateRules = OURS,
    gates: FeatureGates = ALL_GATES,
) -> bool:
    """Whether a kill of the pod counts now."""
    found = make.vpa(**(vpa or {}))
    return quick_oom(read(pod), found, rules, gates, NOW) is not None


SECONDS = timedelta(seconds=5)


@pytest.mark.parametrize(
    ("pod", "vpa", "gates", "expected"),
    [
        pytest.param(killed(POD), {}, ALL_GATES, True, id="killed two minutes after its start"),
        pytest.param(killed(POD, lived=57 * MINUTE), {}, ALL_GATES, False, id="killed late"),
        pytest.param(
            killed(POD, lived=10 * MINUTE), {}, ALL_GATES, False, id="killed at the threshold"
        ),
        pytest.param(killed(POD), OFF, ALL_GATES, False, id="a container that takes no part"),
        pytest.param(killed(POD), ALL_OFF, ALL_GATES, False, id="by *"),
        pytest.param(
            killed(running(container("app", "1/1Gi"), annotations={"vpaObservedContainers": "b"})),
            {},
            ALL_GATES,
            False,
            id="a container that the webhook did not see",
        ),
        pytest.param(
            killed(
                running(container("app", "1/1Gi"), annotations={"vpaObservedContainers": "app"})
            ),
            {},
            ALL_GATES,
            True,
            id="observed",
        ),
        pytest.param(
            killed(POD, lived=SECONDS), HELD, ALL_GATES, True, id="earlier than its VPA says"
        ),
        pytest.param(
            killed(POD, lived=SECONDS), SHORT, ALL_GATES, False, id="later than its VPA says"
        ),
        pytest.param(
            killed(POD, lived=SECONDS), SHORT, NO_GATES, True, id="what the VPA says needs a gate"
        ),
        pytest.param(killed(POD, ago=10 * DAY), {}, ALL_GATES, False, id="killed ten days ago"),
        pytest.param(
            killed(POD, ago=10 * MINUTE), {}, ALL_GATES, False, id="killed ten minutes ago"
        ),
        pytest.param(
            killed(POD, ago=10 * MINUTE - SECONDS), {}, ALL_GATES, True, id="just in time"
        ),
        pytest.param(killed(POD, reason="Error"), {}, ALL_GATES, False, id="another end"),
        pytest.param(POD, {}, ALL_GATES, False, id="no end"),
        pytest.param(
            with_status(POD, "app", lastState={"terminated": {"reason": "OOMKilled"}}),
            {},
            ALL_GATES,
            False,
            id="no times",
        ),
    ],
)
def test_worked_cases(
    pod: make.Json, vpa: Mapping[str, Any], gates: FeatureGates, expected: bool
) -> None:
    """A kill counts if it was early in the container's life and not long ago."""
    assert counts(pod, vpa, rules=OURS, gates=gates) == expected


def test_a_short_threshold_does_not_forget_at_once() -> None:
    """How early a kill must come says nothing about how long it is remembered."""
    pod = killed(POD, lived=timedelta(milliseconds=500), ago=5 * MINUTE)
    assert counts(pod, SHORT)


def test_the_present_end_counts_during_a_back_off() -> None:
    """While a container waits for its next start, its last end is its present state."""
    pod = killed(POD, where="state")
    assert counts(pod)


def marked(*, raised: timedelta, container_name: str = "app", **more: str) -> make.Json:
    """Return a pod killed five minutes ago; some container got more memory so long ago."""
    at = make.time(raised) or ""
    marks = {f"vpaMemoryRaisedAt/{container_name}": at, "vpaInPlaceUpdatedAt": at}
    pod = running(container("app", "1/1Gi", "-/1Gi"), container("b", "1/1Gi"), annotations=marks)
    pod = killed(pod, ago=5 * MINUTE)
    return with_status(pod, "app", resources={"requests": {"memory": "1Gi"} | more})


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        pytest.param(marked(raised=MINUTE), False, id="more memory since"),
        pytest.param(marked(raised=6 * MINUTE), True, id="more memory before"),
        pytest.param(marked(raised=MINUTE, container_name="b"), True, id="another container"),
        pytest.param(marked(raised=MINUTE, memory="512Mi"), True, id="asked for, not given yet"),
        pytest.param(marked(raised=-DAY), True, id="a mark from the future"),
        pytest.param(
            killed(
                running(
                    container("app", "1/1Gi"),
                    annotations={"vpaInPlaceUpdatedAt": "2026-01-05T09:59:00Z"},
                ),
                ago=5 * MINUTE,
            ),
            True,
            id="a resize without memory",
        ),
        pytest.param(killed(POD, ago=-DAY), False, id="a kill from the future"),
    ],
)
def test_a_kill_is_answered_by_more_memory_alone(pod: make.Json, expected: bool) -> None:
    """Only what gave that container more memory after the kill keeps it from counting again."""
    assert counts(pod) is expected


def test_a_status_of_no_container() -> None:
    """A status that tells no resources, or of a container that is gone, is taken as it is."""
    pod = marked(raised=MINUTE)
    assert not counts(with_status(pod, "app", resources=None))
    other = marked(raised=MINUTE)
    other["spec"] = other["spec"] | {"containers": other["spec"]["containers"][1:]}
    assert not counts(other)


def test_the_latest_kill_decides() -> None:
    """Of several containers the one that was killed last counts longest."""
    pod = running(container("app", "1/1Gi"), container("b", "1/1Gi"), container("c", "1/1Gi"))
    for name, minutes in (("app", 3), ("b", 1), ("c", 2)):
        pod = killed(pod, ago=minutes * MINUTE, container_name=name)
    found = quick_oom(read(pod), make.vpa(), OURS, NO_GATES, NOW)
    assert found is not None
    assert (found.container, found.until) == ("b", NOW + 9 * MINUTE)
