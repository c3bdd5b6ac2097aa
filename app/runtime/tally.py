"""Counters and histograms that are fed thousands of times a second.

Strategy: an observation is put aside; once a second what has gathered is settled. A
number of several processes is written to a shared file each time, which would cost a review
more than its decision.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Sequence

from prometheus_client import Counter, Histogram


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


class Count:
    """One series of a counter; any thread may add, and any may settle."""

    __slots__ = ("_series", "_waiting")

    def __init__(self, series: Counter) -> None:
        self._series = series
        self._waiting: deque[None] = deque()

    def add(self) -> None:
        """Count one more."""
        self._waiting.append(None)

    def settle(self) -> None:
        """Hand what has gathered to the counter."""
        found = len(self._waiting)
        for _ in range(found):
            self._waiting.popleft()
        if found:
            self._series.inc(found)
