"""Tokens: how many may act in which time, for all and in each namespace."""

from __future__ import annotations

from datetime import timedelta

import pytest

from app.core.updating.decisions import Action, Reason
from app.workers.pace import Pace, PaceRules, within_pace
from tests.core.updating.scenes import Scene, container, running, several
from tests.stepped_clock import SteppedClock


def taken(rules: PaceRules, *namespaces: str, seconds: float = 60) -> list[int]:
    """Return at which seconds tokens were had, -1 for those that were not."""
    clock = SteppedClock()
    pace = Pace(rules, clock, lambda: False)
    until = clock.now() + timedelta(seconds=seconds)
    return [
        round(clock.monotonic()) if pace.take(namespace, until) else -1 for namespace in namespaces
    ]


@pytest.mark.parametrize(
    ("rules", "namespaces", "expected"),
    [
        pytest.param(PaceRules(), "aaaa", [0, 0, 0, 0], id="no limit"),
        pytest.param(PaceRules(0, 0), "aa", [0, 0], id="zero is no limit"),
        pytest.param(PaceRules(0.1, 1), "abab", [0, 10, 20, 30], id="for all"),
        pytest.param(PaceRules(0.1, 3), "aaaaa", [0, 0, 0, 10, 20], id="a burst"),
        pytest.param(PaceRules(0.02, 1), "aaa", [0, 50, -1], id="too late"),
        pytest.param(PaceRules(1, 0), "aa", [-1, -1], id="never"),
        pytest.param(PaceRules(-1, 1, 0.1, 1), "abab", [0, 0, 10, 10], id="in each"),
        pytest.param(PaceRules(-1, 1, 1, 0), "a", [-1], id="never in any"),
        pytest.param(PaceRules(0.1, 1, 0.05, 1), "abab", [0, 10, 20, 30], id="both"),
    ],
)
def test_tokens(rules: PaceRules, namespaces: str, expected: list[int]) -> None:
    """A token is waited for as long as there is time; the later of two buckets counts."""
    assert taken(rules, *namespaces) == expected


def test_a_stop_ends_the_waiting() -> None:
    """Who waits for a token learns soon that it is over."""
    clock = SteppedClock()
    pace = Pace(PaceRules(0.001, 1), clock, lambda: clock.monotonic() > 5)
    assert pace.take("a")
    assert not pace.take("a")
    assert clock.monotonic() < 6


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
