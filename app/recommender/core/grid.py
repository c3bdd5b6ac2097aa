"""The grid of histogram buckets, one for cores and one for bytes.

Strategy: bucket n starts at `first * (ratio**n - 1) / (ratio - 1)`. Samples are whole amounts
(millicores, bytes), so a bucket is found by searching the smallest whole amount of each bucket:
no logarithm decides, and every platform agrees. What a percentile answers is the end of its
bucket. The powers follow the one way that published numbers have always been computed: mantissa
and exponent apart, squared and multiplied; C's power differs in the last bit for many n.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

Amounts = NDArray[np.int64]  # millicores or bytes
Buckets = NDArray[np.intp]

BUCKETS: Final = 176
RATIO: Final = 1.05


@dataclass(frozen=True, slots=True, eq=False)
class Grid:
    """The buckets of one resource; all arrays have one entry per bucket."""

    starts: NDArray[np.float64]  # cores or bytes
    smallest: Amounts  # the smallest whole amount that falls into the bucket
    ends: Amounts  # what a percentile in this bucket answers, truncated
    exact_starts: NDArray[np.float64]  # millicores or bytes
    exact_ends: NDArray[np.float64]  # millicores or bytes; the last bucket ends where it starts

    def bucket(self, amounts: Amounts) -> Buckets:
        """Return the bucket of each amount."""
        return np.searchsorted(self.smallest[1:], amounts, side="right")


def power(base: float, exponent: int) -> float:
    """Return base**exponent by squaring the mantissa, which is kept in [0.5, 1)."""
    result, result_exponent = 1.0, 0
    mantissa, binary_exponent = math.frexp(base)
    while exponent:
        if exponent & 1:
            result *= mantissa
            result_exponent += binary_exponent
        mantissa *= mantissa
        binary_exponent *= 2
        if mantissa < 0.5:
            mantissa += mantissa
            binary_exponent -= 1
        exponent >>= 1
    return math.ldexp(result, result_exponent)


def _grid(first: float, amounts_per_unit: float, measured: Mapping[int, int]) -> Grid:
    """Build a grid; `measured` says which side whole amounts on the very edge of a bucket take."""
    starts = np.array([first * (power(RATIO, n) - 1) / (RATIO - 1) for n in range(BUCKETS)])
    ends = np.append(starts[1:], starts[-1])
    smallest = np.ceil(starts * amounts_per_unit).astype(np.int64)
    for bucket, amount in measured.items():
        smallest[bucket] = amount
    return Grid(
        starts=starts,
        smallest=smallest,
        ends=(ends * amounts_per_unit).astype(np.int64),
        exact_starts=starts * amounts_per_unit,
        exact_ends=ends * amounts_per_unit,
    )


CPU_GRID: Final = _grid(first=0.01, amounts_per_unit=1000.0, measured={1: 10})
MEMORY_GRID: Final = _grid(
    first=1e7,
    amounts_per_unit=1.0,
    measured={1: 10_000_000, 2: 20_500_001, 3: 31_525_001, 4: 43_101_250},
)
