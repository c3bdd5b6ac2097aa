"""Axes have few round numbers in Kubernetes units."""

from __future__ import annotations

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from app.model.quantity import CPU, MEMORY
from app.page.core.axes import amount_ticks, spread, time_ticks, top_of
from tests.cases import cases
from tests.make import NOW

START = int(NOW.timestamp())
MI = 2**20


@cases(
    "resource top expected",
    {
        "millicores": (CPU, 530, "0 200m 400m"),
        "cores": (CPU, 4200, "0 1 2 3 4"),
        "many cores": (CPU, 90_000, "0 20 40 60 80"),
        "a millicore": (CPU, 1, "0 1m"),
        "mebibytes": (MEMORY, 600 * MI, "0 128Mi 256Mi 384Mi 512Mi"),
        "gibibytes": (MEMORY, 2.5 * 1024 * MI, "0 512Mi 1Gi 1.5Gi 2Gi 2.5Gi"),
        "bytes": (MEMORY, 3, "0 1 2 3"),
    },
)
def test_amounts(resource: str, top: float, expected: str) -> None:
    """Amounts go up in steps that people use."""
    assert " ".join(tick.text for tick in amount_ticks(resource, top)) == expected


@given(st.sampled_from([CPU, MEMORY]), st.floats(1, 1e15))
def test_amounts_are_few(resource: str, top: float) -> None:
    """However much it is, two to six amounts are written, upwards, each once."""
    ticks = amount_ticks(resource, top)

    assert 2 <= len(ticks) <= 6
    assert all(0 <= tick.share <= 1 for tick in ticks)
    assert len({tick.text for tick in ticks}) == len(ticks)
    assert [tick.share for tick in ticks] == sorted(tick.share for tick in ticks)


@cases(
    "length expected",
    {
        "an hour": (timedelta(hours=1), "10:00 10:10 10:20 10:30 10:40 10:50 11:00"),
        "a day": (timedelta(hours=24), "12:00 16:00 20:00 6 Jan 04:00 08:00"),
        "a fortnight": (
            timedelta(days=14),
            "7 Jan 10 Jan 13 Jan 16 Jan 19 Jan",
        ),
        "a second": (timedelta(seconds=1), "10:00"),
        "years": (timedelta(days=21), "8 Jan 15 Jan 22 Jan"),
    },
)
def test_times(length: timedelta, expected: str) -> None:
    """Times are round; midnight is written as the day that begins."""
    ticks = time_ticks(START, START + int(length.total_seconds()))

    assert " ".join(tick.text for tick in ticks) == expected


@given(st.integers(1, 60 * 86_400))
def test_times_are_few(length: int) -> None:
    """Up to seven times are written, forward."""
    shares = [tick.share for tick in time_ticks(START, START + length)]

    assert len(shares) <= 9
    assert shares == sorted(set(shares))
    assert all(0 <= share <= 1 for share in shares)


@cases(
    "highest others expected",
    {
        "a limit that is near counts": ([100.0], [150.0], 159),
        "a limit that is far does not": ([100.0], [900.0], 106),
        "nothing else is known": ([], [900.0], 954),
        "nothing is known": ([], [], 1),
    },
)
def test_top(highest: list[float], others: list[float], expected: int) -> None:
    """Usage decides how high a chart is, not a limit far above it."""
    assert round(top_of(highest, others)) == expected


def test_spread() -> None:
    """Places that lie together are one group; a group is never longer than that."""
    assert spread([0.5, 0.1, 0.105, 0.12], 0.018) == [[1, 2], [3], [0]]
    assert spread([], 1) == []
