"""Tokens: how many may act in which time, for all and in each namespace."""

from __future__ import annotations

from datetime import timedelta

import pytest

from app.updater.core.decisions import Action, Reason
from app.updater.pace import Pace, PaceRules, Wait, within_pace
from tests.stepped_clock import SteppedClock
from tests.updater.core.scenes import Scene, container, running, several


def taken(rules: PaceRules, *namespaces: str, seconds: float = 60) -> list[int]:
    """Return at which seconds tokens were had if each waits for its own, -1 for never."""
    clock = SteppedClock()
    pace = Pace(rules, clock)
    found = []
    for namespace in namespaces:
        while (wait := pace.take(namespace)) is not None and clock.monotonic() < seconds:
            clock.wait(min(wait.seconds, seconds))
        found.append(-1 if wait is not None else round(clock.monotonic()))
    return found


@pytest.mark.parametrize(
    ("rules", "namespaces", "expected"),
    [
        pytest.param(PaceRules(), "aaaa", [0, 0, 0, 0], id="no limit"),
        pytest.param(PaceRules(0, 0), "aa", [0, 0], id="zero is no limit"),
        pytest.param(PaceRules(0.1, 1), "abab", [0, 10, 20, 30], id="for all"),
        pytest.param(PaceRules(0.1, 3), "aaaaa", [0, 0, 0, 10, 20], id="a burst"),
        pytest.param(PaceRules(0.01, 1), "aa", [0, -1], id="too late"),
        pytest.param(PaceRules(1, 0), "a", [-1], id="never"),
        pytest.param(PaceRules(-1, 1, 0.1, 1), "abab", [0, 0, 10, 10], id="in each"),
        pytest.param(PaceRules(-1, 1, 1, 0), "a", [-1], id="never in any"),
        pytest.param(PaceRules(0.1, 1, 0.05, 1), "abab", [0, 10, 20, 30], id="both"),
    ],
)
def test_tokens(rules: PaceRules, namespaces: str, expected: list[int]) -> None:
    """There is a token when the later of two buckets has one."""
    assert taken(rules, *namespaces) == expected


def test_nobody_is_promised_a_token() -> None:
    """Who asks in vain is told for which bucket to wait, and takes nothing of the other."""
    clock = SteppedClock()
    pace = Pace(PaceRules(0.5, 2, 0.1, 1), clock)
    assert pace.take("a") is None
    assert pace.take("a") == Wait(10, "a")
    assert pace.take("b") is None
    assert pace.take("c") == Wait(2, "")
    clock.wait(2)
    assert pace.take("c") is None


@pytest.mark.parametrize(
    ("rules", "late"),
    [
        pytest.param(PaceRules(), 0, id="no limit"),
        pytest.param(PaceRules(0.001, 1), 1, id="the burst"),
        pytest.param(PaceRules(1 / 60, 1), 0, id="one more in a minute"),
        pytest.param(PaceRules(1, 0), 2, id="never"),
        pytest.param(PaceRules(-1, 1, 0.001, 1), 1, id="in a namespace"),
    ],
)
def test_what_a_round_would_reach(rules: PaceRules, late: int) -> None:
    """A plan tells which pods would find no token within a round."""
    scene = Scene(several(running(container("app", "100m/100Mi")), 4))
    made = scene.plan()
    found = list(within_pace(made.decisions, made.queues, rules, timedelta(minutes=1)))
    assert [decision.pod for decision in found] == [decision.pod for decision in made.decisions]
    assert sum(decision.reason is Reason.RATE_LIMITED for decision in found) == late
    assert sum(decision.action is Action.EVICT for decision in found) == 2 - late


def test_the_urgent_come_first() -> None:
    """Who is first in the order of need has the only token."""
    made = Scene(several(running(container("app", "100m/100Mi")), 4)).plan()
    (first, *_) = sorted(step.rank for queue in made.queues for step in queue.steps)
    found = within_pace(made.decisions, made.queues, PaceRules(0.001, 1), timedelta(minutes=1))
    evicted = [decision for decision in found if decision.action is Action.EVICT]
    assert [decision.pod for decision in evicted] == [first[-1]]
