"""What the metrics of processes are made of: families of series, their buckets, and size labels.

Strategy: what is observed thousands of times a second is put aside in a `HistogramSeries` or
`Count`; once a second what has gathered is settled. A number of several processes is written to a
shared file each time, which would cost a review more than its decision.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_LARGEST_SIZE: Final = 20

Buckets = tuple[float, ...]


def _read(text: str) -> Buckets:
    return tuple(map(float, text.split()))


# Upstream's buckets, in seconds unless said otherwise.
# One step of a loop or of an admission.
EXECUTION: Final = _read(
    "0.01 0.02 0.05 0.1 0.2 0.5 1 2 5 10 20 30 40 50 60 70 80 90 100 120 150 240 300"
)
# One answer, given or waited for.
ANSWER: Final = _read(
    "0.01 0.02 0.05 0.1 0.2 0.3 0.4 0.5 0.6 0.7 0.8 0.9 1 2 5 10 20 30 60 120 300"
)
# From the birth of a VPA to its first recommendation.
FIRST_RECOMMENDATION: Final = _read(
    "1 2 5 7.5 10 20 30 40 50 60 90 120 150 180 240 300 600 900 1800"
)
# Shares of the recommendation.
RELATIVE: Final = _read(
    "-1 -0.75 -0.5 -0.25 -0.1 -0.05 -0.025 -0.01 -0.005 -0.0025 -0.001 0 "
    "0.001 0.0025 0.005 0.01 0.025 0.05 0.1 0.25 0.5 0.75 1 2.5 5 10 25 50 100"
)
CORES: Final = tuple(0.01 * 2**power for power in range(17))
BYTES: Final = tuple(1e6 * 2**power for power in range(17))


class Families:
    """Each is one call: what it is called, what it means, by what it is told apart."""

    def __init__(self, registry: CollectorRegistry, prefix: str) -> None:
        self._registry = registry
        self._prefix = prefix

    def counter(self, name: str, meaning: str, *labels: str) -> Counter:
        """Return something that only grows."""
        return Counter(f"{self._prefix}_{name}", meaning, labels, registry=self._registry)

    def gauge(self, name: str, meaning: str, *labels: str) -> Gauge:
        """Return something that is set."""
        return Gauge(f"{self._prefix}_{name}", meaning, labels, registry=self._registry)

    def histogram(self, name: str, meaning: str, buckets: Buckets, *labels: str) -> Histogram:
        """Return how something is spread."""
        called = f"{self._prefix}_{name}"
        return Histogram(called, meaning, labels, buckets=buckets, registry=self._registry)


class HistogramSeries:
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
        with suppress(IndexError):  # another thread settles as well
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
        found = 0
        with suppress(IndexError):  # another thread settles as well
            for _ in range(len(self._waiting)):
                self._waiting.popleft()
                found += 1
        if found:
            self._series.inc(found)


def size_log2(pods: int) -> int:
    """Return the whole logarithm of a VPA's number of pods; 0 for none, 20 at most."""
    return min(max(pods.bit_length() - 1, 0), _LARGEST_SIZE)
