"""Decisions and what becomes of them."""

from __future__ import annotations

from dataclasses import replace

from app.updater.core.decisions import Action, Decision, PodChange, Reason

DECISION = Decision(
    "uid-web-0",
    "default",
    "web-0",
    "web",
    Action.RESIZE,
    Reason.UPDATED,
    "too small",
    change=PodChange(),
    may_evict_instead=True,
    is_canary=True,
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
        is_canary=False,
    )
