"""The grid of buckets, to the last digit."""

from __future__ import annotations

import math

import numpy as np
import pytest

from app.recommender.core.histograms import BUCKETS, CPU_GRID, MEMORY_GRID, Grid, power

MI = 2**20
GI = 2**30


def bucket_of(grid: Grid, amount: int) -> int:
    """Return the bucket of one amount."""
    return int(grid.bucket(np.array([amount]))[0])


def test_number_of_buckets() -> None:
    """W1: both resources have as many buckets."""
    assert (len(CPU_GRID.starts), len(MEMORY_GRID.starts), BUCKETS) == (176, 176, 176)


@pytest.mark.parametrize(
    ("grid", "expected"),
    [
        pytest.param(
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
            id="W2: cores",
        ),
        pytest.param(
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
            id="W3: bytes",
        ),
    ],
)
def test_starts(grid: Grid, expected: dict[int, float]) -> None:
    """Buckets start where published numbers say."""
    found = {bucket: float(grid.starts[bucket]) for bucket in expected}

    assert found == pytest.approx(expected, rel=2e-16)


@pytest.mark.parametrize(
    ("grid", "amount", "expected"),
    [
        pytest.param(CPU_GRID, 0, 0, id="no core"),
        pytest.param(CPU_GRID, 9, 0, id="W4: less than a hundredth core"),
        pytest.param(CPU_GRID, 10, 1, id="a hundredth core"),
        pytest.param(CPU_GRID, 20, 1, id="W4: two hundredths"),
        pytest.param(CPU_GRID, 21, 2, id="W4: 21 millicores"),
        pytest.param(CPU_GRID, 100, 8, id="W4: a tenth"),
        pytest.param(CPU_GRID, 1000, 36, id="one core"),
        pytest.param(CPU_GRID, 999_000, 174, id="W5: 999 cores"),
        pytest.param(CPU_GRID, 1_021_200, 175, id="W5: 1021.2 cores"),
        pytest.param(CPU_GRID, 5_000_000, 175, id="W5: 5000 cores"),
        pytest.param(MEMORY_GRID, 9_999_999, 0, id="W6: below ten million bytes"),
        pytest.param(MEMORY_GRID, 10_000_000, 1, id="ten million bytes"),
        pytest.param(MEMORY_GRID, 20_500_000, 1, id="the edge of bucket 2 belongs to 1"),
        pytest.param(MEMORY_GRID, 31_525_000, 2, id="the edge of bucket 3 belongs to 2"),
        pytest.param(MEMORY_GRID, 43_101_250, 4, id="the edge of bucket 4 belongs to 4"),
        pytest.param(MEMORY_GRID, 100 * MI, 8, id="W6: 100Mi"),
        pytest.param(MEMORY_GRID, GI, 37, id="W6: 1Gi"),
        pytest.param(MEMORY_GRID, 1024 * GI, 175, id="W6: 1Ti"),
        pytest.param(MEMORY_GRID, 2**62, 175, id="absurdly much"),
    ],
)
def test_bucket(grid: Grid, amount: int, expected: int) -> None:
    """Every amount has its bucket."""
    assert bucket_of(grid, amount) == expected


@pytest.mark.parametrize(
    ("bucket", "cpu", "memory"),
    [
        pytest.param(0, 10, 10_000_000, id="first"),
        pytest.param(1, 20, 20_499_999, id="W7: bucket 1"),
        pytest.param(3, 43, 43_101_249, id="one byte less than C's power gives"),
        pytest.param(8, 110, 110_265_643, id="bucket 8"),
        pytest.param(100, 27_415, 27_415_264_147, id="bucket 100"),
        pytest.param(174, 1_021_109, 1_021_109_408_904, id="last but one"),
        pytest.param(175, 1_021_109, 1_021_109_408_904, id="the last one ends where it starts"),
    ],
)
def test_ends(bucket: int, cpu: int, memory: int) -> None:
    """A percentile answers the end of its bucket in whole amounts."""
    assert (CPU_GRID.ends[bucket], MEMORY_GRID.ends[bucket]) == (cpu, memory)


@pytest.mark.parametrize(
    "grid", [pytest.param(CPU_GRID, id="cpu"), pytest.param(MEMORY_GRID, id="memory")]
)
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


def test_power() -> None:
    """Powers are those of the mantissa method."""
    assert (power(1.05, 0), power(1.05, 1), power(2.0, 10)) == (1.0, 1.05, 1024.0)
