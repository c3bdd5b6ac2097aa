"""Histograms that are fed thousands of times a second.

Strategy: an observation is two additions in memory; once a second somebody settles what has
gathered. A histogram of several processes writes to a shared file with each observation, which
would cost a review more than its decision.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from prometheus_client import Histogram


class Tally:
    """One series of a histogram; `add` is for one thread, `settle` for any."""

    __slots__ = ("_bounds", "_counts", "_series", "_sum")

    def __init__(self, series: Histogram, bounds: Sequence[float]) -> None:
        self._series = series
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def add(self, value: float) -> None:
        """Observe a value."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def settle(self) -> None:
        """Hand what has gathered to the histogram."""
        counts, self._counts = self._counts, [0] * len(self._counts)
        total, self._sum = self._sum, 0.0
        self._series._sum.inc(total)
        for bucket, count in zip(self._series._buckets, counts, strict=True):
            if count:
                bucket.inc(count)
