"""Running containers as upstream follows them."""

from __future__ import annotations

import pytest

from app.recommender.core.moments import DAY, HOUR, MINUTE
from app.recommender.core.rules import AggregationRules
from app.recommender.upstream.containers import Aggregate, RunningContainer

MI = 2**20
START = 20_000 * DAY + 10 * HOUR


class Logged(Aggregate):
    """An aggregate that notes which peaks come and go, with their hours after the start."""

    def __init__(self) -> None:
        super().__init__(AggregationRules(), 0)
        self.log: list[tuple[str, int, float]] = []

    def add_peak(self, memory_bytes: int, time_ns: int) -> None:
        """Note and add."""
        self.log.append(("+", memory_bytes // MI, (time_ns - START) / HOUR))
        super().add_peak(memory_bytes, time_ns)

    def take_peak(self, memory_bytes: int, time_ns: int) -> None:
        """Note and take away."""
        self.log.append(("-", memory_bytes // MI, (time_ns - START) / HOUR))
        super().take_peak(memory_bytes, time_ns)


def container() -> tuple[RunningContainer, Logged]:
    """Return a container and the aggregate it feeds."""
    aggregate = Logged()
    return RunningContainer(lambda: aggregate), aggregate


@pytest.mark.parametrize(
    ("samples", "expected"),
    [
        pytest.param(
            [(0, 100), (1, 90), (2, 150), (1439, 120), (1440, 80), (1441, 200)],
            [
                ("+", 100, 24),
                ("-", 100, 24),
                ("+", 150, 24),
                ("+", 80, 48),
                ("-", 80, 48),
                ("+", 200, 48),
            ],
            id="W30, W31",
        ),
        pytest.param([(0, 100), (5040, 90)], [("+", 100, 24), ("+", 90, 96)], id="W32: a gap"),
        pytest.param(
            [(0, 0), (1, 500), (1439, 700), (1440, 500)],
            [("+", 0, 24), ("+", 500, 48)],
            id="W33: a zero freezes the interval",
        ),
    ],
)
def test_peaks(samples: list[tuple[int, int]], expected: list[tuple[str, int, float]]) -> None:
    """One peak per interval, replaced while it runs."""
    one, aggregate = container()
    for minute, mebibytes in samples:
        assert one.use_memory(mebibytes * MI, START + minute * MINUTE)

    assert aggregate.log == expected


def test_order_of_samples() -> None:
    """W34: memory may repeat a time but not go back; cpu may not even repeat."""
    one, aggregate = container()
    times = (START, START - 10**9, START)

    assert [one.use_memory(100 * MI + n, time) for n, time in enumerate(times)] == [
        True,
        False,
        True,
    ]
    assert [one.use_cpu(100, time) for time in times] == [True, False, False]
    assert (one.use_memory(-1, START + DAY), one.use_cpu(-1, START + DAY)) == (False, False)
    assert aggregate.count == 1


@pytest.mark.parametrize(
    ("hours_ago", "expected"), [pytest.param(30, False, id="W46"), pytest.param(24, True, id="W46")]
)
def test_late_kills(hours_ago: int, expected: bool) -> None:
    """W46: a kill may be as old as an interval."""
    one, _ = container()
    one.use_memory(100 * MI, START)

    assert one.kill(1000 * MI, START - hours_ago * HOUR) is expected


def test_usage_and_kills() -> None:
    """W49: only usage counts when the next kill is judged."""
    one, aggregate = container()
    one.use_memory(400 * MI, START)
    one.kill(500 * MI, START + MINUTE)
    one.use_memory(650 * MI, START + 2 * MINUTE)
    one.kill(600 * MI, START + 3 * MINUTE)

    assert [entry[:2] for entry in aggregate.log] == [
        ("+", 400),
        ("-", 400),
        ("+", 600),
        ("-", 600),
        ("+", 650),
        ("-", 650),
        ("+", 780),
    ]
    assert (one.usage_bytes // MI, one.oom_bytes // MI) == (650, 780)


def test_kill_after_the_interval() -> None:
    """W50: a kill begins the next interval from the old peak."""
    one, aggregate = container()
    one.use_memory(2000 * MI, START)
    one.kill(1000 * MI, START + 48 * HOUR)

    assert aggregate.log == [("+", 2000, 24), ("+", 2400, 72)]
