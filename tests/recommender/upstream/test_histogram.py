"""Upstream's histogram, where it differs from rows of a bank."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.recommender.core.checkpoints import StoredHistogram
from app.recommender.core.histograms import CPU_GRID, MEMORY_GRID, Bank
from app.recommender.core.moments import DAY, HOUR, MINUTE, nanoseconds
from app.recommender.upstream.histogram import Histogram, bucket_of

START = nanoseconds(datetime(2026, 1, 5, tzinfo=UTC))


def filled(*samples: tuple[int, float, int], half_life_ns: int = DAY) -> Histogram:
    """Return a histogram of (bucket, weight, time) samples."""
    found = Histogram(half_life_ns)
    for bucket, weight, time_ns in samples:
        found.add(bucket, weight, time_ns)
    return found


@given(st.integers(0, 2**62))
def test_bucket(amount: int) -> None:
    """One amount falls where many do."""
    for grid in (CPU_GRID, MEMORY_GRID):
        assert bucket_of(grid, amount) == grid.bucket(np.array([amount]))[0]


@given(st.lists(st.tuples(st.integers(0, 175), st.integers(0, 140_000)), max_size=30))
def test_samples_weigh_as_in_a_bank(samples: list[tuple[int, int]]) -> None:
    """Added samples weigh the same to the last bit."""
    bank, one = Bank(DAY, 1), Histogram(DAY)
    for bucket, minute in [(0, 0), *samples]:
        time_ns = START + minute * MINUTE
        bank.add(np.array([0]), np.array([bucket]), np.array([time_ns]), 0.1)
        one.add(bucket, 0.1, time_ns)

    assert (one.reference_ns, one.total) == (bank.references[0], bank.totals[0])
    assert one.weights.tolist() == bank.weights[0].tolist()


def test_odd_references_shift_by_whole_half_lives() -> None:
    """A stored reference that is no multiple of the half-life loses a fraction."""
    live = filled((8, 1.0, START + 36 * HOUR), half_life_ns=36 * HOUR)
    stored = Histogram(36 * HOUR)
    stored.load(StoredHistogram(START + 24 * HOUR, {8: 1}, 100.0))
    live.reference_ns = START + 36 * HOUR

    live.merge(stored)

    assert live.weights[8] == pytest.approx(100.0 + 1.0, abs=1.0)
    assert stored.total == 100.0


def test_merging_shifts_the_older_whichever_it_is() -> None:
    """Reading changes what is read: the older of two references gives way."""
    old, young = filled((8, 0.1, START + 10 * HOUR)), filled((22, 0.1, START + 82 * HOUR))
    view = Histogram(DAY)
    view.merge(young)
    view.merge(old)

    assert old.reference_ns == young.reference_ns == START + 3 * DAY
    assert view.weights[[8, 22]] == pytest.approx([0.016685498177, 0.133483985417], rel=1e-11)


def test_an_unset_reference_is_taken_over() -> None:
    """A histogram without samples keeps the reference it was merged behind."""
    view, empty = filled((8, 0.1, START)), Histogram(DAY)
    view.merge(empty)

    assert (empty.reference_ns, empty.total, view.total) == (START, 0.0, 0.1)


def test_taking_away_what_was_never_added() -> None:
    """The total shrinks although no bucket does, and never below nothing."""
    one = filled((8, 3.0, START))
    one.subtract(9, 1.0, START)
    assert (one.total, one.weights.sum(), one.first, one.last) == (2.0, 3.0, 8, 8)

    one.subtract(8, 4.0, START)

    assert (one.total, one.weights.sum(), one.first, one.last) == (0.0, 0.0, 175, 0)


def test_what_leaves_the_filled_range_does_not_age() -> None:
    """Scaling looks at the filled range only."""
    one = filled((3, 0.00005, START), (8, 0.1, START))

    one.add(8, 0.1, START + 101 * DAY)

    assert one.weights[3] == 0.00005
    assert one.weights[8] == pytest.approx(0.1, rel=1e-9)
