"""Tokens come at a rate, up to a burst, and may be owed."""

from __future__ import annotations

from itertools import accumulate
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.model.token_bucket import TokenBucket
from tests.cases import cases

NOW = 1_000.0


@pytest.mark.parametrize("rate", [-1.0, 0.0])
def test_no_rate_is_no_limit(rate: float) -> None:
    """Zero or less lets all through, whatever the burst."""
    bucket = TokenBucket.full(rate, 0)
    assert bucket.wait_for_one(NOW) == 0
    assert bucket.less_one(NOW) == bucket


def test_thirteen_in_a_minute() -> None:
    """0.2 a second with a burst of one: 1 + 12 within sixty seconds."""
    bucket, now, count = TokenBucket.full(0.2, 1), NOW, 0
    while True:
        wait = bucket.wait_for_one(now)
        if now + wait > NOW + 60:
            break
        now += wait
        bucket = bucket.less_one(now)
        count += 1
    assert count == 13


def test_without_a_burst_nothing_ever_goes() -> None:
    """A rate with no burst lets nothing through, and says so."""
    bucket = TokenBucket.full(5, 0)
    assert bucket.wait_for_one(NOW) == inf


def test_a_rate_of_next_to_nothing_is_a_long_wait() -> None:
    """The wait is longer than any process lives."""
    bucket = TokenBucket.full(1e-300, 1).less_one(NOW)
    assert bucket.wait_for_one(NOW) > 1e9


def reserved(bucket: TokenBucket, moments: list[float]) -> list[float]:
    """Take a token at each moment, owed or not; return the waits."""
    waits = []
    for moment in moments:
        waits.append(bucket.wait_for_one(moment))
        bucket = bucket.less_one(moment)
    return waits


@cases(
    "burst moments waits",
    {
        "after the burst they queue": (2, [0, 0, 0, 0], [0, 0, 0.1, 0.2]),
        "rest refills it": (2, [0, 0, 0, 5, 5, 5], [0, 0, 0.1, 0, 0, 0.1]),
        "a token may be half grown": (1, [0, 0.05], [0, 0.05]),
        "a clock that stands back adds nothing": (1, [5, 4], [0, 0.1]),
        "half a token is never a whole one": (0.5, [0, 0], [0.05, 0.15]),
    },
)
def test_tokens_that_are_owed(burst: float, moments: list[float], waits: list[float]) -> None:
    """The first go at once, the rest at the rate."""
    assert reserved(TokenBucket.full(10, burst), moments) == pytest.approx(waits)


@given(st.floats(0.1, 100), st.integers(1, 20), st.lists(st.floats(0, 10), min_size=1, max_size=60))
def test_the_rate_holds(rate: float, burst: int, pauses: list[float]) -> None:
    """In no stretch of time do more start than burst and rate allow, also if tokens are owed."""
    moments = list(accumulate(pauses))
    waits = reserved(TokenBucket.full(rate, burst), moments)
    starts = [moment + wait for moment, wait in zip(moments, waits, strict=True)]

    assert all(
        last - first >= (count - burst) / rate - 1e-6
        for index, first in enumerate(starts)
        for count, last in enumerate(starts[index:])
    )


@given(
    st.floats(0.1, 100),
    st.integers(1, 20),
    st.lists(st.floats(0, 10), max_size=30),
)
def test_never_faster_than_the_rate(rate: float, burst: int, pauses: list[float]) -> None:
    """In any time no more go than the burst and what the rate allows."""
    bucket, now = TokenBucket.full(rate, burst), NOW
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
