"""Decaying histograms of one resource, a row each, all rows at once.

Strategy: plain arrays. Bucket n starts at `first * (ratio**n - 1) / (ratio - 1)`. Samples are whole
amounts (millicores, bytes), so a bucket is found by searching the smallest whole amount of each
bucket: no logarithm decides, and every platform agrees. A percentile is the end of its bucket.

A sample weighs `2**((time - reference) / half_life)` times its own weight, so nothing stored
changes as time goes by. Every row has its own reference, the whole half-life nearest to its first
sample, so its weights are the same numbers with any others in the bank. Additions happen in the
order given. A bucket below epsilon counts as empty.

Powers are computed here, the way published numbers have always been computed: C's power and the
libraries' exp2 differ in the last bit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from app.recommender.core.moments import UNSET, YEAR_ONE

# What stands in arrays, here and in all other modules.
Amounts = NDArray[np.int64]  # millicores or bytes
Thousandths = NDArray[np.int64]  # of a core or a byte
Times = NDArray[np.int64]  # nanoseconds since 1970
Spans = NDArray[np.int64]  # nanoseconds
Counts = NDArray[np.int64]
Ints = NDArray[np.int32]
Bits = NDArray[np.int8]
Floats = NDArray[np.float64]
Weights = NDArray[np.float64]  # of samples
Flags = NDArray[np.bool_]
Indexes = NDArray[np.intp]  # of lines of arrays
Rows = Indexes  # of histograms
Buckets = Indexes

BUCKETS: Final = 176
RATIO: Final = 1.05

LONGEST: Final = 100  # half-lives a sample may be ahead of the reference

_LN2_HIGH: Final = 6.93147180369123816490e-01
_LN2_LOW: Final = 1.90821492927058770002e-10
_POLYNOMIAL: Final = (
    4.13813679705723846039e-08,
    -1.65339022054652515390e-06,
    6.61375632143793436117e-05,
    -2.77777777770155933842e-03,
    1.66666666666666657415e-01,
)
_LEAST: Final = -1100.0  # the power is zero
_MOST: Final = 1023.9999999999999

EPSILON: Final = 0.001 * 0.1  # a thousandth of one CPU sample
EMPTY: Final = -1  # the "bucket" of a percentile without samples
_CHUNK: Final = 512  # rows whose running sums fit into the processor's cache


@dataclass(frozen=True, slots=True, eq=False)
class Grid:
    """The buckets of one resource; all arrays have one entry per bucket."""

    starts: Floats  # cores or bytes
    smallest: Amounts  # the smallest whole amount that falls into the bucket
    ends: Amounts  # what a percentile in this bucket answers, truncated; the last one's start
    exact_starts: Floats  # millicores or bytes

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
    )


CPU_GRID: Final = _grid(first=0.01, amounts_per_unit=1000.0, measured={1: 10})
MEMORY_GRID: Final = _grid(
    first=1e7,
    amounts_per_unit=1.0,
    measured={1: 10_000_000, 2: 20_500_001, 3: 31_525_001, 4: 43_101_250},
)


def exp2(exponents: Floats) -> Floats:
    """Return 2**x for each exponent."""
    limited = np.clip(exponents, _LEAST, _MOST)
    whole = np.trunc(limited + np.copysign(0.5, limited))
    rest = limited - whole
    high = rest * _LN2_HIGH
    low = -rest * _LN2_LOW
    reduced = high - low
    square = reduced * reduced
    series = np.zeros_like(square)
    for coefficient in _POLYNOMIAL:
        series = coefficient + square * series
    bent = reduced - square * series
    fraction = 1.0 - ((low - (reduced * bent) / (2.0 - bent)) - high)
    powers: Floats = np.ldexp(fraction, whole.astype(np.int32))
    return powers


def nearest_reference(times: Times, half_life_ns: int) -> Times:
    """Round times to whole half-lives since year 1, halves up."""
    offset = -YEAR_ONE % half_life_ns
    past = np.mod(times + offset, half_life_ns)
    return np.where(past < half_life_ns - past, times - past, times - past + half_life_ns)


def shift_factor(before: Times, after: Times, half_life_ns: int) -> Floats:
    """Return what weights must be multiplied with when their reference moves.

    Weights that were never given a reference are forgotten.
    """
    known = before != UNSET
    exponents = np.where(known, before, after) - after
    return np.where(known, exp2(exponents.astype(np.float64) / float(half_life_ns)), 0.0)


class Bank:
    """Histograms; its owner says what a row is."""

    def __init__(self, half_life_ns: int, rows: int = 0) -> None:
        self.half_life_ns = half_life_ns
        self.weights: Weights = np.zeros((rows, BUCKETS))
        self.totals: Weights = np.zeros(rows)
        self.references: Times = np.full(rows, UNSET, dtype=np.int64)

    def grow(self, rows: int) -> None:
        """Make room for so many rows."""
        had = len(self.totals)
        if rows <= had:
            return
        weights, totals = np.zeros((rows, BUCKETS)), np.zeros(rows)
        weights[:had], totals[:had] = self.weights, self.totals
        references = np.full(rows, UNSET, dtype=np.int64)
        references[:had] = self.references
        self.weights, self.totals, self.references = weights, totals, references

    def copy(self, rows: Rows) -> Bank:
        """Return a bank with copies of some rows, in their order."""
        found = Bank(self.half_life_ns)
        found.weights, found.totals = self.weights[rows], self.totals[rows]
        found.references = self.references[rows]
        return found

    def put(self, row: int, weights: Weights, total: float, reference_ns: int) -> None:
        """Set a row to another histogram."""
        self.weights[row], self.totals[row] = weights, total
        self.references[row] = reference_ns

    def clear(self, rows: Rows) -> None:
        """Forget everything in some rows."""
        self.weights[rows] = 0.0
        self.totals[rows] = 0.0
        self.references[rows] = UNSET

    def add(self, rows: Rows, buckets: Buckets, times: Times, weight: float) -> Weights:
        """Add samples of a weight, one per entry; return what they weigh now."""
        scaled = self._scaled(rows, times, weight)
        np.add.at(self.weights, (rows, buckets), scaled)
        np.add.at(self.totals, rows, scaled)
        return scaled

    def subtract(self, rows: Rows, buckets: Buckets, times: Times, weight: float) -> None:
        """Take samples away that were added; what is left below epsilon becomes nothing."""
        scaled = self._scaled(rows, times, weight)
        np.subtract.at(self.weights, (rows, buckets), scaled)
        np.subtract.at(self.totals, rows, scaled)
        left = self.weights[rows, buckets]
        self.weights[rows, buckets] = np.where(left < EPSILON, 0.0, left)
        left = self.totals[rows]
        self.totals[rows] = np.where(left < EPSILON, 0.0, left)

    def absorb(self, row: int, weights: Weights, total: float, reference_ns: int) -> None:
        """Add another histogram; the older of the two references gives way."""
        other = weights.copy()
        at = np.array([row])
        if self.references[row] < reference_ns:
            self._rescale(at, np.array([reference_ns]))
        elif reference_ns < self.references[row]:
            factors = shift_factor(np.array([reference_ns]), self.references[at], self.half_life_ns)
            other *= factors[0]
            total *= float(factors[0])
        self.weights[row] += other
        self.totals[row] += total

    def percentiles(self, rows: Rows, fractions: tuple[float, ...]) -> Buckets:
        """Return the bucket of each fraction for each row, EMPTY where there is no sample."""
        found = np.empty((len(rows), len(fractions)), dtype=np.intp)
        for start in range(0, len(rows), _CHUNK):
            chunk = rows[start : start + _CHUNK]
            found[start : start + _CHUNK] = self._percentiles(chunk, fractions)
        return found

    def _percentiles(self, rows: Rows, fractions: tuple[float, ...]) -> Buckets:
        weights = self.weights[rows]
        used = np.flatnonzero(weights.any(axis=0))
        start, end = (int(used[0]), int(used[-1]) + 1) if len(used) else (0, BUCKETS)
        weights = weights[:, start:end]  # beyond there is nothing
        filled = weights >= EPSILON
        first = filled.argmax(axis=1)
        last = end - start - 1 - filled[:, ::-1].argmax(axis=1)
        # What lies below the first filled bucket is in the total but never in the running sum.
        for index in np.flatnonzero((weights > 0.0).argmax(axis=1) < first).tolist():
            weights[index, : first[index]] = 0.0
        sums = np.cumsum(weights, axis=1)
        totals = self.totals[rows]
        found = np.empty((len(rows), len(fractions)), dtype=np.intp)
        for column, fraction in enumerate(fractions):
            below = (sums < (fraction * totals)[:, None]).sum(axis=1)
            found[:, column] = start + np.clip(below, first, last)
        found[~filled.any(axis=1)] = EMPTY
        return found

    def _scaled(self, rows: Rows, times: Times, weight: float) -> Weights:
        self._keep_up(rows, times)
        ages_ns = (times - self.references[rows]).astype(np.float64)
        return weight * exp2(ages_ns / float(self.half_life_ns))

    def _keep_up(self, rows: Rows, times: Times) -> None:
        """Move references that some sample has left too far behind."""
        longest_ns = min(LONGEST * self.half_life_ns, 2**62)
        while True:
            late = np.flatnonzero(times > self.references[rows] + longest_ns)
            if not len(late):
                return
            overdue, first = np.unique(rows[late], return_index=True)
            self._rescale(overdue, nearest_reference(times[late[first]], self.half_life_ns))

    def _rescale(self, rows: Rows, references: Times) -> None:
        factors = shift_factor(self.references[rows], references, self.half_life_ns)
        self.weights[rows] *= factors[:, None]
        self.totals[rows] *= factors
        self.references[rows] = references
