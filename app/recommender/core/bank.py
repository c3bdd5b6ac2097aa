"""Decaying histograms of one resource, one row each, handled all at once.

Strategy: plain arrays. Every row has its own reference time, the whole half-life nearest to its
first sample, so weights are the same numbers whatever else is in the bank. Additions happen in
the order given, one after the other, as a single histogram would see them. A bucket below
epsilon counts as empty.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from app.recommender.core import decay
from app.recommender.core.decay import Times, Weights
from app.recommender.core.grid import BUCKETS, Buckets
from app.recommender.core.moments import UNSET

Rows = NDArray[np.intp]

EPSILON: Final = 0.001 * 0.1  # a thousandth of one CPU sample
EMPTY: Final = -1  # the "bucket" of a percentile without samples
_CHUNK: Final = 512  # rows whose running sums fit into the processor's cache


class Bank:
    """Histograms; a row is whatever the owner of the bank says."""

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

    def shift(self, rows: Rows, times: Times) -> None:
        """Move the reference of some rows, each given once, next to a time."""
        references = decay.nearest_reference(times, self.half_life_ns)
        self._rescale(rows, references)

    def absorb(self, row: int, weights: Weights, total: float, reference_ns: int) -> None:
        """Add another histogram; the older of the two references gives way."""
        other = weights.copy()
        at = np.array([row])
        if self.references[row] < reference_ns:
            self._rescale(at, np.array([reference_ns]))
        elif reference_ns < self.references[row]:
            factor = decay.shift_factor(
                np.array([reference_ns]), self.references[at], self.half_life_ns
            )[0]
            other *= factor
            total *= float(factor)
        self.weights[row] += other
        self.totals[row] += total

    def percentiles(self, rows: Rows, fractions: tuple[float, ...]) -> Buckets:
        """Return the bucket of each fraction for each row, EMPTY where there is no sample."""
        found = np.empty((len(rows), len(fractions)), dtype=np.intp)
        for start in range(0, len(rows), _CHUNK):
            chunk = rows[start : start + _CHUNK]
            found[start : start + _CHUNK] = self._percentiles(chunk, fractions)
        return found

    def shares(self, rows: Rows, fractions: tuple[float, ...], buckets: Buckets) -> Weights:
        """Return how far into their buckets the percentiles reach, between 0 and 1."""
        reach = np.empty((len(rows), len(fractions)))
        for start in range(0, len(rows), _CHUNK):
            chunk = rows[start : start + _CHUNK]
            at = buckets[start : start + _CHUNK]
            weights = np.take_along_axis(self.weights[chunk], at, axis=1)
            sums = np.take_along_axis(np.cumsum(self.weights[chunk], axis=1), at, axis=1)
            missing = np.array(fractions) * self.totals[chunk][:, None] - (sums - weights)
            with np.errstate(divide="ignore", invalid="ignore"):
                reach[start : start + _CHUNK] = np.nan_to_num(missing / weights)
        return np.clip(reach, 0.0, 1.0)

    def _percentiles(self, rows: Rows, fractions: tuple[float, ...]) -> Buckets:
        weights = self.weights[rows]
        filled = weights >= EPSILON
        first = filled.argmax(axis=1)
        last = BUCKETS - 1 - filled[:, ::-1].argmax(axis=1)
        # What lies below the first filled bucket is in the total but never in the running sum.
        for index in np.flatnonzero((weights > 0.0).argmax(axis=1) < first).tolist():
            weights[index, : first[index]] = 0.0
        sums = np.cumsum(weights, axis=1)
        totals = self.totals[rows]
        found = np.empty((len(rows), len(fractions)), dtype=np.intp)
        for column, fraction in enumerate(fractions):
            below = (sums < (fraction * totals)[:, None]).sum(axis=1)
            found[:, column] = np.clip(below, first, last)
        found[~filled.any(axis=1)] = EMPTY
        return found

    def _scaled(self, rows: Rows, times: Times, weight: float) -> Weights:
        self._keep_up(rows, times)
        return weight * decay.factor(times, self.references[rows], self.half_life_ns)

    def _keep_up(self, rows: Rows, times: Times) -> None:
        """Move references that some sample has left too far behind."""
        while True:
            limits = decay.latest_time(self.references[rows], self.half_life_ns)
            late = np.flatnonzero(times > limits)
            if not len(late):
                return
            overdue, first = np.unique(rows[late], return_index=True)
            self.shift(overdue, times[late[first]])

    def _rescale(self, rows: Rows, references: Times) -> None:
        factors = decay.shift_factor(self.references[rows], references, self.half_life_ns)
        self.weights[rows] *= factors[:, None]
        self.totals[rows] *= factors
        self.references[rows] = references
