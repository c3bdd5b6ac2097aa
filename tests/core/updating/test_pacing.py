"""How fast pods may be disturbed."""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.updating.pacing import Bucket

NOW = 1_000.0


@pytest.mark.parametrize("rate", [-1.0, 0.0])
def test_no_rate_is_no_limit(rate: float) -> None:
    """X1: zero or less lets everybody through, whatever the burst."""
    bucket = Bucket.full(rate, 0)
    assert bucket.wait_for_one(NOW) == 0
    assert bucket.less_one(NOW) == bucket


def test_a_burst_goes_at_once() -> None:
    """X1: ten a second with a burst of three: three at once, then one every 100 ms."""
    bucket = Bucket.full(10, 3)
    waits = []
    for _ in range(5):
        waits.append(bucket.wait_for_one(NOW))
        bucket = bucket.less_one(NOW)
    assert waits == pytest.approx([0, 0, 0, 0.1, 0.2])


def test_thirteen_in_a_minute() -> None:
    """0.2 a second with a burst of one: 1 + 12 within sixty seconds."""
    bucket, now, count = Bucket.full(0.2, 1), NOW, 0
    while True:
        wait = bucket.wait_for_one(now)
        if now + wait > NOW + 60:
            break
        now += wait
        bucket = bucket.less_one(now)
        count += 1
    assert count == 13


def test_three_in_turn() -> None:
    """N11: 0.2 a second with a burst of one: at 0, 5 and 10 seconds."""
    bucket, waits = Bucket.full(0.2, 1), []
    for _ in range(3):
        waits.append(bucket.wait_for_one(NOW))
        bucket = bucket.less_one(NOW)
    assert waits == [0, 5, 10]


def test_without_a_burst_nothing_ever_goes() -> None:
    """A rate with no burst lets nobody through, and says so."""
    bucket = Bucket.full(5, 0)
    assert bucket.gives_nothing
    assert bucket.wait_for_one(NOW) == inf


def test_a_rate_of_next_to_nothing_is_a_long_wait() -> None:
    """Longer than anybody waits."""
    bucket = Bucket.full(1e-300, 1).less_one(NOW)
    assert bucket.wait_for_one(NOW) > 1e9


def test_a_clock_that_runs_backwards_gives_nothing() -> None:
    """Tokens never come from the past."""
    bucket = Bucket.full(1, 1).less_one(NOW)
    assert bucket.wait_for_one(NOW - 100) == 1


@given(
    st.floats(0.1, 100),
    st.integers(1, 20),
    st.lists(st.floats(0, 10), max_size=30),
)
def test_never_faster_than_the_rate(rate: float, burst: int, pauses: list[float]) -> None:
    """In any time no more go than the burst and what the rate allows."""
    bucket, now = Bucket.full(rate, burst), NOW
    taken: list[float] = []
    for pause in pauses:
        now += pause
        if bucket.wait_for_one(now) == 0:
            bucket = bucket.less_one(now)
            taken.append(now)
    for first in range(len(taken)):
        for last in range(first, len(taken)):
            span = taken[last] - taken[first]
            assert last - first + 1 <= burst + span * rate + 1e-6
