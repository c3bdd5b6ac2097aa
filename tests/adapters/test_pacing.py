"""Calls are delayed, never lost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.adapters.pacing import TokenBucket


@pytest.mark.parametrize(
    ("per_second", "burst", "moments", "waits"),
    [
        pytest.param(10, 2, [0, 0, 0, 0], [0, 0, 0.1, 0.2], id="after the burst they queue"),
        pytest.param(10, 2, [0, 0, 0, 5, 5, 5], [0, 0, 0.1, 0, 0, 0.1], id="rest refills it"),
        pytest.param(10, 1, [0, 0.05], [0, 0.05], id="a token may be half grown"),
        pytest.param(10, 1, [5, 4], [0, 0.1], id="a clock that stands back adds nothing"),
        pytest.param(0, 1, [0, 0, 0], [0, 0, 0], id="no rate is no limit"),
        pytest.param(10, 0, [0, 0, 0], [0, 0, 0], id="no burst is no limit"),
        pytest.param(-1, -1, [0, 0, 0], [0, 0, 0], id="less than nothing is no limit"),
    ],
)
def test_reserve(per_second: float, burst: float, moments: list[float], waits: list[float]) -> None:
    """The first calls go at once, the rest at the rate."""
    bucket = TokenBucket(per_second, burst)

    assert [bucket.reserve(moment) for moment in moments] == pytest.approx(waits)


@given(st.floats(0.1, 100), st.integers(1, 20), st.lists(st.floats(0, 10), min_size=1, max_size=60))
def test_the_rate_holds(per_second: float, burst: int, pauses: list[float]) -> None:
    """In no stretch of time do more calls start than burst and rate allow."""
    bucket = TokenBucket(per_second, burst)
    now = 0.0
    starts = []
    for pause in pauses:
        now += pause
        starts.append(now + bucket.reserve(now))

    assert all(
        last - first >= (count - burst) / per_second - 1e-6
        for index, first in enumerate(starts)
        for count, last in enumerate(starts[index:])
    )
