"""One decaying histogram that behaves as upstream's does, to the last bit.

Strategy: the range of filled buckets is part of the state, because upstream scales, merges and
stores only what lies inside of it. Merging shifts whichever reference is older, also that of the
histogram that is only read.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from functools import lru_cache
from typing import Final

import numpy as np

from app.recommender.core.checkpoints import HEAVIEST, StoredHistogram
from app.recommender.core.histograms import (
    BUCKETS,
    EPSILON,
    LONGEST,
    Grid,
    Weights,
    exp2,
    nearest_reference,
)
from app.recommender.core.moments import UNSET

_REMEMBERED: Final = 65_536


class Histogram:
    """Weights of buckets."""

    __slots__ = ("first", "half_life_ns", "last", "reference_ns", "total", "weights")

    def __init__(self, half_life_ns: int) -> None:
        self.half_life_ns = half_life_ns
        self.weights: Weights = np.zeros(BUCKETS)
        self.total = 0.0
        self.first = BUCKETS - 1  # of the filled buckets
        self.last = 0
        self.reference_ns = UNSET

    def add(self, bucket: int, weight: float, time_ns: int) -> None:
        """Add a sample."""
        weight *= self._factor(time_ns)
        self.weights[bucket] += weight
        self.total += weight
        if self.weights[bucket] >= EPSILON:
            self.first, self.last = min(self.first, bucket), max(self.last, bucket)

    def subtract(self, bucket: int, weight: float, time_ns: int) -> None:
        """Take a sample away, whether it was added here or not."""
        weight *= self._factor(time_ns)
        self.total = _less(self.total, weight)
        self.weights[bucket] = _less(float(self.weights[bucket]), weight)
        self._trim()

    def merge(self, other: Histogram) -> None:
        """Take all samples of another histogram, which may be shifted by that."""
        if self.is_new and other.reference_ns != UNSET:
            self._copy(other)
            return
        if self.reference_ns < other.reference_ns:
            self._shift(other.reference_ns)
        elif other.reference_ns < self.reference_ns:
            other._shift(self.reference_ns)
        filled = slice(other.first, other.last + 1)
        self.weights[filled] += other.weights[filled]
        self.total += other.total
        self.first, self.last = min(self.first, other.first), max(self.last, other.last)

    @property
    def is_new(self) -> bool:
        """Whether nothing ever happened to it."""
        return self.reference_ns == UNSET and self.first > self.last and not self.total

    def store(self) -> StoredHistogram:
        """Return the histogram as a checkpoint holds it."""
        filled = self.weights[self.first : self.last + 1]
        if not len(filled):
            return StoredHistogram(self.reference_ns, {}, self.total)
        counts = np.floor(filled * (HEAVIEST / filled.max()) + 0.5).astype(np.int64)
        stored = {self.first + int(at): int(counts[at]) for at in np.flatnonzero(counts)}
        return StoredHistogram(self.reference_ns, stored, self.total)

    def load(self, stored: StoredHistogram) -> None:
        """Take in what a checkpoint holds."""
        parts = sum(stored.weights.values())
        self.reference_ns = stored.reference_ns
        if not parts:
            return
        ratio = stored.total / float(parts)
        for bucket, count in stored.weights.items():
            self.weights[bucket] += float(count) * ratio
            self.first, self.last = min(self.first, bucket), max(self.last, bucket)
        self.total += stored.total
        self._trim()

    def _copy(self, other: Histogram) -> None:
        """Do as merging does, for one that is new."""
        filled = slice(other.first, other.last + 1)
        self.weights[filled] = other.weights[filled]
        self.total, self.first, self.last = other.total, other.first, other.last
        self.reference_ns = _nearest(other.reference_ns, self.half_life_ns)

    def _factor(self, time_ns: int) -> float:
        if time_ns > self.reference_ns + LONGEST * self.half_life_ns:
            self._shift(time_ns)
        return _factor(time_ns - self.reference_ns, self.half_life_ns)

    def _shift(self, time_ns: int) -> None:
        half_life_ns, before_ns = self.half_life_ns, self.reference_ns
        self.reference_ns = _nearest(time_ns, half_life_ns)
        factor = 0.0  # what was never given a reference is forgotten
        if before_ns != UNSET:
            ahead = float(before_ns - self.reference_ns) / float(half_life_ns)
            exponent = math.floor(ahead + 0.5)
            factor = math.ldexp(1.0, exponent)
        self.weights[self.first : self.last + 1] *= factor
        self.total *= factor
        self._trim()

    def _trim(self) -> None:
        filled = np.flatnonzero(self.weights >= EPSILON)
        inside = filled[filled >= self.first]
        self.first = int(inside[0]) if len(inside) else BUCKETS - 1
        inside = filled[filled <= self.last]
        self.last = int(inside[-1]) if len(inside) else 0


def bucket_of(grid: Grid, amount: int) -> int:
    """Return the bucket of one amount."""
    return bisect_right(_smallest(grid), amount) - 1


@lru_cache
def _smallest(grid: Grid) -> list[int]:
    return [int(amount) for amount in grid.smallest]


@lru_cache(_REMEMBERED)
def _factor(ahead_ns: int, half_life_ns: int) -> float:
    return float(exp2(np.array([float(ahead_ns) / float(half_life_ns)]))[0])


@lru_cache(_REMEMBERED)
def _nearest(time_ns: int, half_life_ns: int) -> int:
    return int(nearest_reference(np.array([time_ns]), half_life_ns)[0])


def _less(amount: float, by: float) -> float:
    left = amount - by
    return 0.0 if left < EPSILON else left
