"""Histograms that are fed thousands of times a second.

Strategy: an observation is put aside; once a second somebody settles what has gathered. A
histogram of several processes writes to a shared file with each observation, which would cost
a review more than its decision.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Sequence

from prometheus_client import Histogram


class Tally:
    """One series of a histogram; any thread may add, and any may settle."""

    __slots__ = ("_bounds", "_series", "_values", "add")

    def __init__(self, series: Histogram, bounds: Sequence[float]) -> None:
        self._series = series
        self._bounds = bounds
        self._values: deque[float] = deque()
        self.add = self._values.append  # observes a value; nothing is lost between threads

    def settle(self) -> None:
        """Hand what has gathered to the histogram."""
        counts = [0] * (len(self._bounds) + 1)
        total = 0.0
        for _ in range(len(self._values)):
            value = self._values.popleft()
            counts[bisect_left(self._bounds, value)] += 1
            total += value
        self._series._sum.inc(total)
        for bucket, count in zip(self._series._buckets, counts, strict=True):
            if count:
                bucket.inc(count)
