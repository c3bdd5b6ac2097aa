"""What is gathered in memory reaches the histogram as if each value had been observed."""

from __future__ import annotations

import gc
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, Histogram

from app.admission.metrics import AdmissionMetrics
from app.runtime.exposition import render
from app.runtime.metric_families import Count, HistogramSeries

BOUNDS = (0.01, 0.1, 1.0)


def histogram() -> tuple[CollectorRegistry, Histogram]:
    """Return a histogram of its own."""
    registry = CollectorRegistry()
    return registry, Histogram("seconds", "s", buckets=BOUNDS, registry=registry)


@given(st.lists(st.sampled_from([0.0, 0.01, 0.05, 0.1, 0.5, 1.0, 2.0]), max_size=30))
def test_settling_is_observing(values: list[float]) -> None:
    """Settled tallies and plain observations make the same series, also on the bounds."""
    plain_registry, plain = histogram()
    registry, series = histogram()
    gathered = HistogramSeries(series, BOUNDS)
    for value in values:
        plain.observe(value)
        gathered.add(value)
        if value == 0.5:
            gathered.settle()
    gathered.settle()

    counts = [line for line in render(registry).splitlines() if b"_sum" not in line]
    wanted = [line for line in render(plain_registry).splitlines() if b"_sum" not in line]
    assert counts == wanted
    assert registry.get_sample_value("seconds_sum") == pytest.approx(sum(values))


@given(st.lists(st.booleans(), max_size=30))
def test_settled_counts(steps: list[bool]) -> None:
    """However often it is settled meanwhile, each one counts once."""
    registry = CollectorRegistry()
    count = Count(Counter("seen", "s", registry=registry))
    for is_settled in steps:
        count.add()
        if is_settled:
            count.settle()
    count.settle()
    count.settle()
    assert registry.get_sample_value("seen_total") == len(steps)


def test_two_threads_settle() -> None:
    """What two threads settle at once is counted once, and neither fails."""
    registry, series = histogram()
    gathered, count = (
        HistogramSeries(series, BOUNDS),
        Count(Counter("seen", "s", registry=registry)),
    )
    for _ in range(20_000):
        gathered.add(0.5)
        count.add()
    with ThreadPoolExecutor(2) as threads:
        settled = [threads.submit(one) for one in (gathered.settle, count.settle) * 2]
    assert [one.exception() for one in settled] == [None] * 4
    assert registry.get_sample_value("seconds_count") == 20_000
    assert registry.get_sample_value("seen_total") == 20_000


def test_one_series_is_put_aside_once() -> None:
    """However many reasons are met meanwhile, one that is met again is not put aside again."""
    metrics = AdmissionMetrics(CollectorRegistry())
    reasons = [str(number) for number in range(200)]

    def held() -> int:
        gc.collect()
        return sum(isinstance(found, Count) for found in gc.get_objects())

    for reason in reasons:
        metrics.pod_skipped(reason)
    before = held()
    for reason in reasons:
        metrics.pod_skipped(reason)

    assert held() == before
