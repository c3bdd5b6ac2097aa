"""Buckets, decay and percentiles of histograms."""

from __future__ import annotations

import math
from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.recommender.core.histograms import (
    BUCKETS,
    CPU_GRID,
    EMPTY,
    EPSILON,
    MEMORY_GRID,
    Bank,
    Grid,
    exp2,
    shift_factor,
)
from app.recommender.core.moments import DAY, HOUR, LATEST, MINUTE, SECOND, UNSET, nanoseconds
from tests.cases import cases

START = nanoseconds(datetime(2026, 1, 5, tzinfo=UTC))


def bucket_of(grid: Grid, amount: int) -> int:
    """Return the bucket of one amount."""
    return int(grid.bucket(np.array([amount]))[0])


def test_number_of_buckets() -> None:
    """Both resources have as many buckets."""
    assert (len(CPU_GRID.starts), len(MEMORY_GRID.starts), BUCKETS) == (176, 176, 176)


@cases(
    "grid expected",
    {
        "cores": (
            CPU_GRID,
            {
                0: 0.0,
                1: 0.01,
                2: 0.0205,
                3: 0.031525,
                4: 0.04310125,
                174: 972.47562752843794,
                175: 1021.1094089048601,
            },
        ),
        "bytes": (
            MEMORY_GRID,
            {
                0: 0.0,
                1: 1e7,
                2: 20_499_999.999999989,
                3: 31_524_999.999999996,
                4: 43_101_249.999999963,
                174: 972_475_627_528.43787,
                175: 1_021_109_408_904.86,
            },
        ),
    },
)
def test_starts(grid: Grid, expected: dict[int, float]) -> None:
    """Buckets start where published numbers say."""
    found = {bucket: float(grid.starts[bucket]) for bucket in expected}

    assert found == pytest.approx(expected, rel=2e-16)


@cases(
    "grid amount expected",
    {
        "no core": (CPU_GRID, 0, 0),
        "a hundredth core": (CPU_GRID, 10, 1),
        "two hundredths": (CPU_GRID, 20, 1),
        "21 millicores": (CPU_GRID, 21, 2),
        "5000 cores": (CPU_GRID, 5_000_000, 175),
        "below ten million bytes": (MEMORY_GRID, 9_999_999, 0),
        "ten million bytes": (MEMORY_GRID, 10_000_000, 1),
        "the edge of bucket 2 belongs to 1": (MEMORY_GRID, 20_500_000, 1),
        "the edge of bucket 3 belongs to 2": (MEMORY_GRID, 31_525_000, 2),
        "the edge of bucket 4 belongs to 4": (MEMORY_GRID, 43_101_250, 4),
        "absurdly much": (MEMORY_GRID, 2**62, 175),
    },
)
def test_bucket(grid: Grid, amount: int, expected: int) -> None:
    """Edges and extremes; the formula with logarithms tells the rest."""
    assert bucket_of(grid, amount) == expected


@cases(
    "bucket cpu memory",
    {
        "first": (0, 10, 10_000_000),
        "bucket 1": (1, 20, 20_499_999),
        "one byte less than C's power gives": (3, 43, 43_101_249),
        "bucket 8": (8, 110, 110_265_643),
        "bucket 100": (100, 27_415, 27_415_264_147),
        "last but one": (174, 1_021_109, 1_021_109_408_904),
        "the last one ends where it starts": (175, 1_021_109, 1_021_109_408_904),
    },
)
def test_ends(bucket: int, cpu: int, memory: int) -> None:
    """A percentile answers the end of its bucket in whole amounts."""
    assert (CPU_GRID.ends[bucket], MEMORY_GRID.ends[bucket]) == (cpu, memory)


@cases("grid", {"cpu": (CPU_GRID,), "memory": (MEMORY_GRID,)})
def test_search_agrees_with_the_logarithm(grid: Grid) -> None:
    """Around every edge, the search finds what the formula with logarithms says."""
    unit = float(grid.exact_starts[1] / grid.starts[1])
    first = float(grid.starts[1])
    for smallest in grid.smallest[1:].tolist():
        for amount in (smallest - 1, smallest, smallest + 1):
            value = amount / unit
            steps = math.log(value * (1.05 - 1) / first + 1) / math.log(1.05)
            expected = 0 if value < first else min(BUCKETS - 1, int(steps))
            assert bucket_of(grid, amount) == expected


@given(st.floats(-1000, 1000))
def test_exp2(exponent: float) -> None:
    """The power is right to the last but one bit."""
    assert exp2(np.array([exponent]))[0] == pytest.approx(2.0**exponent, rel=4e-16)


@cases(
    "exponent expected",
    {
        "zero": (0.0, 1.0),
        "whole": (10.0, 1024.0),
        "negative": (-3.0, 0.125),
        "far below": (-1e9, 0.0),
        "two": (2.0, 4.0),
    },
)
def test_exp2_of_whole_numbers_is_exact(exponent: float, expected: float) -> None:
    """Whole exponents shift and nothing else."""
    assert exp2(np.array([exponent]))[0] == expected


def test_shift_factor() -> None:
    """Shifts by whole half-lives are exact, others real; without a reference nothing stays."""
    before = np.array([0, 0, UNSET])
    after = np.array([3 * DAY, DAY // 2, LATEST])

    found = shift_factor(before, after, DAY)

    assert found == pytest.approx([0.125, 2**-0.5, 0.0], rel=1e-15)


def january(text: str) -> int:
    """Return a time of day of January 2026 in nanoseconds."""
    return nanoseconds(datetime.fromisoformat(f"2026-01-{text}").replace(tzinfo=UTC))


def millicores(*amounts: tuple[int, int], at: int = START, half_life_ns: int = DAY) -> Bank:
    """Return a bank of one row that holds (count, millicores) samples of one time."""
    bank = Bank(half_life_ns, 1)
    for count, amount in amounts:
        for _ in range(count):
            add(bank, amount, at)
    return bank


def add(bank: Bank, amount: int, at: int, row: int = 0, weight: float = 0.1) -> None:
    """Add one CPU sample."""
    bank.add(np.array([row]), CPU_GRID.bucket(np.array([amount])), np.array([at]), weight)


def percentile(bank: Bank, fraction: float, row: int = 0) -> int:
    """Return a percentile in millicores, 0 without samples."""
    bucket = int(bank.percentiles(np.array([row]), (fraction,))[0, 0])
    return 0 if bucket == EMPTY else int(CPU_GRID.ends[bucket])


FRACTIONS = (-0.5, 0.0, 0.5, 0.9, 0.95, 1.0, 1.5)


@cases(
    "samples expected",
    {
        "none": ([], [0] * 7),
        "one": ([(1, 200)], [215] * 7),
        "nine high": ([(91, 100), (9, 1000)], [110, 110, 110, 110, 1016, 1016, 1016]),
        "eleven high": ([(89, 100), (11, 1000)], [110, 110, 110, 1016, 1016, 1016, 1016]),
        "four levels": (
            [(49, 100), (42, 300), (7, 1000), (2, 3000)],
            [110, 110, 305, 305, 1016, 3027, 3027],
        ),
        "idle": ([(100, 0)], [10] * 7),
        "beyond the grid": ([(3, 2_000_000)], [1_021_109] * 7),
    },
)
def test_percentiles(samples: list[tuple[int, int]], expected: list[int]) -> None:
    """A percentile is the end of the bucket where the running sum reaches its share."""
    bank = millicores(*samples)

    assert [percentile(bank, fraction) for fraction in FRACTIONS] == expected


@cases(
    "sample half_life_ns reference weight",
    {
        "morning": ("05T10:00", DAY, "05T00:00", 0.133483985417),
        "before noon": ("05T11:59:59", DAY, "05T00:00", 0.141420221684),
        "noon": ("05T12:00:00", DAY, "06T00:00", 0.070710678119),
        "evening": ("05T18:00", DAY, "06T00:00", 0.084089641525),
        "an hour": ("05T10:20", HOUR, "05T10:00", 0.125992104989),
        "two days": ("05T10:20", 48 * HOUR, "05T00:00", 0.116092741886),
        "a week": ("05T10:20", 168 * HOUR, "05T00:00", 0.104355593857),
    },
)
def test_first_sample(sample: str, half_life_ns: int, reference: str, weight: float) -> None:
    """The first sample sets the reference of its row."""
    bank = millicores((1, 100), at=january(sample), half_life_ns=half_life_ns)

    assert bank.references[0] == january(reference)
    assert bank.totals[0] == pytest.approx(weight, rel=1e-11)


def test_reference_moves_after_a_hundred_half_lives() -> None:
    """A sample exactly there moves nothing; one a second later empties the row."""
    later = START + 100 * DAY
    bank = millicores((1, 100), at=START + 10 * HOUR)
    add(bank, 100, later)
    assert bank.references[0] == START
    assert bank.totals[0] == pytest.approx(0.1335 + 0.1 * 2.0**100, rel=1e-4)

    lone = millicores((1, 100), at=START + 10 * HOUR)
    add(lone, 300, later + SECOND)

    assert lone.references[0] == later
    assert lone.weights[0, 8] == pytest.approx(1.053e-31, rel=1e-3)
    assert lone.totals[0] == pytest.approx(0.1 * 1.000008022569, rel=1e-12)
    assert percentile(lone, 0.0) == 305


def test_shares_of_growing_samples() -> None:
    """Samples 1, 2, 3, 4 an hour apart, with a half-life of an hour."""
    bank = Bank(HOUR, 1)
    for value in (1, 2, 3, 4):
        add(bank, value * 1000, START + value * HOUR, weight=value)

    shares = bank.weights[0, CPU_GRID.bucket(np.array([1000, 2000, 3000, 4000]))] / bank.totals[0]

    assert shares == pytest.approx([0.020408, 0.081633, 0.244898, 0.653061], abs=1e-6)


@pytest.mark.parametrize("swapped", [pytest.param(False, id="old takes young"), True])
def test_absorb(swapped: bool) -> None:
    """The older histogram gives way, whichever absorbs the other."""
    old = millicores((1, 100), at=january("05T10:00"))
    young = millicores((1, 300), at=january("08T10:00"))
    one, other = (young, old) if swapped else (old, young)

    one.absorb(0, other.weights[0], float(other.totals[0]), int(other.references[0]))

    found = one.weights[0, CPU_GRID.bucket(np.array([100, 300]))]
    assert one.references[0] == january("08T00:00")
    assert found == pytest.approx([0.016685498177, 0.133483985417], rel=1e-11)
    assert found[0] / one.totals[0] == pytest.approx(0.1111, abs=1e-4)


def test_absorb_with_equal_references() -> None:
    """Two histograms of one day just add up."""
    bank = millicores((1, 100))

    bank.absorb(0, bank.weights[0], float(bank.totals[0]), START)

    assert (bank.totals[0], bank.references[0]) == (0.2, START)


def steady(bank: Bank, amount: int, start: int, minutes: int) -> None:
    """Add a sample a minute."""
    times = start + np.arange(minutes, dtype=np.int64) * MINUTE
    rows = np.zeros(minutes, dtype=np.intp)
    bank.add(rows, CPU_GRID.bucket(np.full(minutes, amount)), times, 0.1)


@cases(
    "before after fraction hours",
    {
        "p95 rises": (100, 1000, 0.95, 1.77),
        "p90 rises": (100, 1000, 0.9, 3.63),
        "p50 rises": (100, 1000, 0.5, 23.9),
        "p50 falls": (1000, 100, 0.5, 23.9),
        "p90 falls": (1000, 100, 0.9, 79.6),
        "p95 falls": (1000, 100, 0.95, 103.6),
    },
)
def test_reaction(before: int, after: int, fraction: float, hours: float) -> None:
    """After eight steady days, a percentile follows a change of load so many hours later."""
    bank = Bank(DAY, 1)
    steady(bank, before, START, 8 * 1440)
    expected = percentile(millicores((1, after)), 0.5)
    minutes = 0
    while percentile(bank, fraction) != expected:
        steady(bank, after, START + 8 * DAY + minutes * MINUTE, 1)
        minutes += 1

    assert minutes / 60 == pytest.approx(hours, abs=0.06)


def test_odd_references_shift_by_real_exponents() -> None:
    """A reference that is no multiple of the half-life loses nothing to rounding."""
    half_life = 36 * HOUR
    bank = Bank(half_life, 1)
    add(bank, 100, january("06T12:00"), weight=1.0)
    stored = np.zeros(176)
    stored[8] = 100.0

    bank.absorb(0, stored, 100.0, january("06T00:00"))

    assert bank.references[0] == january("06T12:00")
    assert bank.totals[0] == pytest.approx(1.0 + 79.370, abs=1e-3)


def test_subtracting_what_was_added_leaves_nothing() -> None:
    """What is taken away again is gone to the last bit."""
    bank = Bank(DAY, 1)
    rows, buckets = np.zeros(3, dtype=np.intp), np.array([3, 5, 3])
    times = np.array([START, START + HOUR, START + 2 * HOUR])
    bank.add(rows, buckets, times, 1.0)

    bank.subtract(rows, buckets, times, 1.0)

    assert (bank.totals[0], bank.weights.sum()) == (0.0, 0.0)


def test_dust_below_the_first_bucket_is_not_summed() -> None:
    """Weights below epsilon count in the total but never in the running sum."""
    bank = millicores((1, 100), (1, 300))
    bank.weights[0, 0] = EPSILON / 2
    threshold = bank.weights[0, 8] / bank.totals[0]

    assert percentile(bank, 0.0) == 110
    assert percentile(bank, float(threshold) + 1e-9) == 305


def test_growing_keeps_what_there_is() -> None:
    """Rows are added behind the old ones; a smaller number changes nothing."""
    bank = millicores((1, 100))
    bank.grow(3)
    bank.grow(2)
    add(bank, 300, START, row=2)

    assert [percentile(bank, 0.5, row) for row in range(3)] == [110, 0, 305]
    assert bank.references.tolist() == [START, UNSET, START]


@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 10**6), st.integers(-(10**6), 10**6)),
        min_size=1,
        max_size=30,
    )
)
def test_rows_do_not_see_each_other(samples: list[tuple[int, int, int]]) -> None:
    """A batch over several rows gives each row what it would have got alone, bit by bit."""
    together = Bank(DAY, 3)
    rows, amounts, minutes = (np.array(column) for column in zip(*samples, strict=True))
    times = START + minutes * MINUTE
    together.add(rows, CPU_GRID.bucket(amounts), times, 0.1)
    alone = Bank(DAY, 3)
    for row in range(3):
        mine = rows == row
        alone.add(rows[mine], CPU_GRID.bucket(amounts[mine]), times[mine], 0.1)

    assert np.array_equal(together.weights, alone.weights)
    assert np.array_equal(together.totals, alone.totals)
    assert together.weights.sum(axis=1) == pytest.approx(together.totals, rel=1e-12)


def test_shares_of_percentiles_are_monotone() -> None:
    """A higher fraction never answers a lower bucket, also over several chunks of rows."""
    bank = Bank(DAY, 5000)
    rows = np.arange(5000)
    for step in range(3):
        bank.add(rows, (rows * 7 + step * 31) % 176, np.full(5000, START), 0.1)

    found = bank.percentiles(rows, (0.1, 0.5, 0.9))

    assert (np.diff(found, axis=1) >= 0).all()
