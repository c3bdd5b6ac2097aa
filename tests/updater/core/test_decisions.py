"""Decisions and what becomes of them."""

from __future__ import annotations

from dataclasses import replace

import orjson
import pytest

from app.updater.core.decisions import Action, Decision, PodChange, Reason, decision_json
from tests.updater.core.scenes import Scene, container, recommended, running, several

DECISION = Decision(
    "uid-web-0",
    "default",
    "web-0",
    "web",
    Action.RESIZE,
    Reason.OUTSIDE_BOUNDS,
    "too small",
    change=PodChange(),
    may_evict_instead=True,
    needs_proof=True,
)


def test_a_decision_that_is_put_off_changes_nothing() -> None:
    """It waits, for a reason; what it is about stays, what it would do goes."""
    found = DECISION.put_off(Reason.RATE_LIMITED, "no token")
    assert found == replace(
        DECISION,
        action=Action.WAIT,
        reason=Reason.RATE_LIMITED,
        message="no token",
        change=None,
        may_evict_instead=False,
        needs_proof=False,
    )


@pytest.mark.parametrize(
    ("action", "reason"),
    [
        (Action.EVICT, Reason.EVICTED),
        (Action.RESIZE, Reason.UPDATED),
        (Action.UNBOOST, Reason.UPDATED),
    ],
)
def test_what_was_done_has_its_result_as_reason(action: Action, reason: Reason) -> None:
    """A plan tells causes; what came of it is counted under the words that alerts know."""
    planned = replace(DECISION, action=action, cause=Reason.OUTSIDE_BOUNDS)
    assert planned.done() == replace(planned, reason=reason)
    assert planned.done().cause is Reason.OUTSIDE_BOUNDS


def test_decision_json() -> None:
    """Everything behind a decision, quantities as people write them."""
    pods = several(running(container("app", "100m", "300m")), 3)
    scene = Scene(pods, [recommended("200m 150m 1")], mode="InPlaceOrRecreate")
    found = decision_json(scene.decision())
    assert orjson.loads(orjson.dumps(found)) == {
        "namespace": "default",
        "pod": "web-0",
        "uid": "uid-web-0",
        "vpa": "web",
        "action": "Resize",
        "reason": "OutsideBounds",
        "message": "cpu 100m is below its lower bound 150m: 100m -> 200m",
        "cause": "OutsideBounds",
        "priority": 1.0,
        "outsideBounds": True,
        "quickOOM": False,
        "containers": {
            "app": {
                "cpu": {
                    "current": "100m",
                    "target": "200m",
                    "lowerBound": "150m",
                    "upperBound": "1",
                }
            }
        },
        "change": {"app": {"requests": {"cpu": "200m"}, "limits": {"cpu": "600m"}}},
    }


def test_what_is_not_there_is_left_out() -> None:
    """A missing request is no request of zero."""
    pods = several(running(container("app")), 3)
    missing = decision_json(Scene(pods, [recommended("200m")]).decision())
    assert missing["containers"] == {"app": {"cpu": {"target": "200m"}}}
    assert "change" not in missing
    off = decision_json(Scene(pods, mode="Off").decision())
    keys = {"namespace", "pod", "uid", "vpa", "action", "reason", "message", "containers"}
    assert (set(off), off["containers"]) == (keys, {})
