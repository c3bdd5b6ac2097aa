"""Routes of samples and their memory peaks."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.recommender.core.checkpoints import OpenWindow
from app.recommender.core.histograms import MEMORY_GRID, Bank
from app.recommender.core.moments import DAY, HOUR, MINUTE, UNSET, nanoseconds
from app.recommender.core.samples import MANY, NO_STREAM, SampleRoutes, UnclaimedWindows, Windows
from app.recommender.core.tables import file_peaks
from tests.cases import cases

MI = 2**20
START = nanoseconds(datetime(2026, 1, 5, 10, tzinfo=UTC))
ALONE = np.array([0])


def pointed(routes: SampleRoutes, instance: int) -> int:
    """Return what the table of instances says of an instance."""
    return int(routes.instances.stream[instance])


def test_one_stream_in_a_life() -> None:
    """An instance that feeds one row has one stream, and goes without a trace."""
    routes = SampleRoutes()
    instance = routes.instances.take()
    stream = routes.join(instance, 7, 0)

    assert pointed(routes, instance) == stream
    assert routes.all_of(instance) == routes.active_of(instance) == {7: stream}

    routes.drop(instance)

    assert (len(routes.instances), len(routes.streams)) == (0, 0)


def test_several_rows_at_once() -> None:
    """An instance may feed several rows, each by a stream of its own."""
    routes = SampleRoutes()
    instance = routes.instances.take()
    one, other = routes.join(instance, 7, 0), routes.join(instance, 9, 0)

    assert pointed(routes, instance) == MANY
    assert routes.active_of(instance) == {7: one, 9: other}

    routes.streams.resume(one, HOUR, MI, 0)
    routes.leave(instance, 7)

    assert pointed(routes, instance) == other
    assert routes.active_of(instance) == {9: other}
    assert routes.all_of(instance) == {7: one, 9: other}


def test_coming_back_goes_on_with_the_old_stream() -> None:
    """While its interval runs, a stream of the past waits for its instance."""
    routes = SampleRoutes()
    instance = routes.instances.take()
    first = routes.join(instance, 7, 0)
    routes.streams.resume(first, DAY, 100, 0)
    routes.leave(instance, 7)
    routes.tidy(DAY - 1)
    again = routes.join(instance, 7, DAY - 1)
    resumed = int(routes.streams.ends[again])
    routes.leave(instance, 7)
    late = routes.join(instance, 7, DAY)
    ended = int(routes.streams.ends[late])
    routes.leave(instance, 7)
    routes.tidy(DAY)

    assert (again, late) == (first, first)
    assert (resumed, ended) == (DAY, UNSET)
    assert routes.all_of(instance) == {}
    assert pointed(routes, instance) == NO_STREAM
    assert routes.streams.ends[first] == UNSET


def test_rows_that_go_cut_their_streams() -> None:
    """Streams to a row that is gone are gone, also active ones."""
    routes = SampleRoutes()
    instances = [routes.instances.take() for _ in range(2)]
    for instance in instances:
        routes.join(instance, 7, 0)
    kept = routes.join(instances[1], 8, 0)
    routes.cut([7], row_capacity=16)

    assert [pointed(routes, instance) for instance in instances] == [NO_STREAM, kept]
    assert routes.of_rows([7, 8], row_capacity=16).tolist() == [kept]


def test_a_stream_of_the_past_can_be_made() -> None:
    """A late observation may need a stream that is not active."""
    routes = SampleRoutes()
    instance = routes.instances.take()
    active = routes.join(instance, 7, 0)
    past = routes.between(instance, 9)

    assert routes.between(instance, 9) == past
    assert routes.active_of(instance) == {7: active}
    assert pointed(routes, instance) == active


class Container:
    """One stream that feeds one row, and a log of what it did there."""

    def __init__(self, interval_ns: int = DAY) -> None:
        self.interval_ns = interval_ns
        self.bank = Bank(DAY, 1)
        self.windows = Windows()
        self.windows.grow(1)
        self.log: list[tuple[str, int, float]] = []

    def uses(self, minute: float, mebibytes: int, *, is_oom: bool = False) -> None:
        """Observe memory so many minutes after the start."""
        amounts = np.array([mebibytes * MI])
        peaks = self.windows.observe(
            ALONE,
            np.array([START + int(minute * MINUTE)]),
            amounts,
            np.array([self.interval_ns]),
            is_oom=is_oom,
        )
        hours = (int(peaks.ends[0]) - START) / HOUR
        if peaks.replaced[0]:
            self.log.append(("-", int(peaks.old[0]) // MI, hours))
        if peaks.new[0]:
            self.log.append(("+", mebibytes, hours))
        file_peaks(self.bank, ALONE, peaks, amounts)

    def percentile(self, fraction: float) -> int:
        """Return a percentile in bytes."""
        return int(MEMORY_GRID.ends[self.bank.percentiles(ALONE, (fraction,))[0, 0]])


@cases(
    "interval_ns samples expected",
    {
        "only the peak counts": (
            DAY,
            [(0, 100), (1, 90), (2, 150), (1439, 120)],
            [("+", 100, 24), ("-", 100, 24), ("+", 150, 24)],
        ),
        "the next interval starts again": (
            DAY,
            [(0, 100), (2, 150), (1440, 80), (1441, 200)],
            [
                ("+", 100, 24),
                ("-", 100, 24),
                ("+", 150, 24),
                ("+", 80, 48),
                ("-", 80, 48),
                ("+", 200, 48),
            ],
        ),
        "a gap": (DAY, [(0, 100), (3.5 * 1440, 90)], [("+", 100, 24), ("+", 90, 96)]),
        "an hour": (
            HOUR,
            [(0, 100), (30, 120), (61, 80), (200, 90)],
            [("+", 100, 1), ("-", 100, 1), ("+", 120, 1), ("+", 80, 2), ("+", 90, 4)],
        ),
        "a first value of zero is replaced like any other": (
            DAY,
            [(0, 0), (1, 500), (1439, 700)],
            [("+", 0, 24), ("-", 0, 24), ("+", 500, 24), ("-", 500, 24), ("+", 700, 24)],
        ),
        "an equal value is no peak": (DAY, [(0, 100), (1, 100)], [("+", 100, 24)]),
    },
)
def test_peaks(
    interval_ns: int, samples: list[tuple[float, int]], expected: list[tuple[str, int, float]]
) -> None:
    """Each interval has one peak, stamped with its end."""
    container = Container(interval_ns)
    for minute, mebibytes in samples:
        container.uses(minute, mebibytes)

    assert container.log == expected


def test_weights_of_two_days() -> None:
    """What the row holds after two intervals."""
    container = Container()
    for minute, mebibytes in [(0, 100), (2, 150), (1440, 80), (1441, 200)]:
        container.uses(minute, mebibytes)

    weights = container.bank.weights[0]
    assert weights[[11, 14]] == pytest.approx([1.33483985417, 2.66967970834], rel=1e-11)
    assert np.flatnonzero(weights).tolist() == [11, 14]
    assert (container.percentile(0.5), container.percentile(0.9)) == (215_785_635, 215_785_635)
    assert container.bank.references[0] == START + 14 * HOUR


def test_one_leaking_pod_in_ten() -> None:
    """Peaks of ten streams in one row."""
    windows, bank = Windows(), Bank(DAY, 1)
    windows.grow(10)
    amounts = np.array([1024 * MI] * 9 + [4096 * MI])
    peaks = windows.observe(
        np.arange(10),
        np.full(10, START),
        amounts,
        np.full(10, DAY),
        is_oom=False,
    )
    file_peaks(bank, np.zeros(10, dtype=np.intp), peaks, amounts)

    found = MEMORY_GRID.ends[bank.percentiles(ALONE, (0.5, 0.9, 0.95))[0]]

    assert found.tolist() == [1_077_095_457, 1_077_095_457, 4_340_933_439]


@cases(
    "before after fraction day",
    {
        "up with the first sample": (200, 1000, 0.9, 1),
        "p50 falls on day 1": (1000, 200, 0.5, 1),
        "p90 falls on day 4": (1000, 200, 0.9, 4),
        "p95 falls on day 5": (1000, 200, 0.95, 5),
    },
)
def test_daily_peaks(before: int, after: int, fraction: float, day: int) -> None:
    """How long eight days of one peak hold out against another."""
    expected = int(MEMORY_GRID.ends[MEMORY_GRID.bucket(np.array([after * MI]))[0]])
    container = Container()
    for past in range(8):
        container.uses(past * 1440, before)
    days = 0
    while container.percentile(fraction) != expected:
        container.uses((8 + days) * 1440, after)
        days += 1

    assert days == day


@given(
    st.lists(
        st.tuples(st.integers(0, 20_000), st.integers(0, 5_000), st.booleans()),
        min_size=1,
        max_size=40,
    )
)
def test_rows_hold_what_was_filed(samples: list[tuple[int, int, bool]]) -> None:
    """Whatever comes, the total is the sum of the buckets and no bucket is negative."""
    container = Container()
    for minute, mebibytes, is_oom in samples:
        container.uses(minute, mebibytes, is_oom=is_oom)

    weights = container.bank.weights[0]
    assert container.bank.totals[0] == pytest.approx(weights.sum(), rel=1e-9)
    assert (weights >= 0.0).all()


def test_restored_intervals_are_found_by_their_pod() -> None:
    """A pod that comes or goes looks at its own intervals only, however many others wait."""
    windows = UnclaimedWindows()
    for row, (namespace, pod) in enumerate([("a", "web-0"), ("a", "web-0"), ("b", "web-0")]):
        windows.put(namespace, row, OpenWindow(pod, START + row, MI, 0))

    assert windows.rows_of(("a", "web-0")) == [0, 1]
    assert windows.rows_of(("a", "web-1")) == []
    assert windows.take(("b", "web-1"), 2) is None
    assert windows.take(("a", "web-0"), 2) is None
    assert windows.take(("a", "web-0"), 1) == OpenWindow("web-0", START + 1, MI, 0)

    windows.drop(lambda row, _window: row == 0)

    assert [row for row, _ in windows] == [2]
    assert windows.rows_of(("a", "web-0")) == []


def test_a_stream_without_an_interval_leaves_no_trace() -> None:
    """An instance that feeds row after row without a sample does not collect streams."""
    routes = SampleRoutes()
    instance = routes.instances.take()
    for row in range(100):
        routes.join(instance, row, 0)
        routes.leave(instance, row)

    assert (len(routes.streams), routes.all_of(instance)) == (0, {})
    assert pointed(routes, instance) == NO_STREAM
