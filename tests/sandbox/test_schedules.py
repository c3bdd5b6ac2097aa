"""The times of CronJobs, and texts that are none."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from app.sandbox.schedules import BadSchedule, CronSchedule, zone_named
from tests.cases import cases

MONDAY = datetime(2026, 1, 5, 10, 0, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("* * * * *", "2026-01-05T10:01"),
        ("*/15 * * * *", "2026-01-05T10:15"),
        ("5,10 * * * *", "2026-01-05T10:05"),
        ("0 8-18/5 * * *", "2026-01-05T13:00"),
        ("0 9 * * *", "2026-01-06T09:00"),
        ("@hourly", "2026-01-05T11:00"),
        ("@weekly", "2026-01-11T00:00"),
        ("0 0 1 * *", "2026-02-01T00:00"),
        ("0 0 * * sun", "2026-01-11T00:00"),
        ("@every 1h30m", "2026-01-05T11:30"),
        ("@every 1ms", "2026-01-05T10:00"),
        ("0 0 13 * fri", "2026-01-09T00:00"),
        ("0 0 29 feb *", "2028-02-29T00:00"),
        ("30 10 * mar mon-wed", "2026-03-02T10:30"),
    ],
)
def test_schedules(text: str, expected: str) -> None:
    """The next time is the first that all fields allow."""
    due = CronSchedule.parse(text).after(MONDAY)

    assert due is not None
    assert due.isoformat(timespec="minutes") == f"{expected}+00:00"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "* * * *",
        "61 * * * *",
        "*/0 * * * *",
        "5-2 * * * *",
        "* * * * 7",
        "* * * xyz *",
        "@every day",
    ],
)
def test_bad_schedules(text: str) -> None:
    """What is no schedule is refused."""
    with pytest.raises(BadSchedule):
        CronSchedule.parse(text)


@cases(
    "moment text zone expected",
    {
        "ahead": ("2026-01-05T10:00", "0 9 * * *", "Asia/Tokyo", "2026-01-06T00:00"),
        "summer": ("2026-07-05T10:00", "0 9 * * *", "Europe/Berlin", "2026-07-06T07:00"),
        "winter": ("2026-01-05T10:00", "0 9 * * *", "Europe/Berlin", "2026-01-06T08:00"),
        "again": ("2026-10-25T01:10", "15 * * * *", "Europe/Berlin", "2026-10-25T01:15"),
        "left out": ("2026-03-29T00:40", "30 2 * * *", "Europe/Berlin", "2026-03-29T01:30"),
    },
)
def test_time_zones(moment: str, text: str, zone: str, expected: str) -> None:
    """A schedule means the clock of its zone, also in the night when that is changed."""
    asked = datetime.fromisoformat(f"{moment}+00:00")
    due = CronSchedule.parse(text, ZoneInfo(zone)).after(asked)

    assert due is not None
    assert due.isoformat(timespec="minutes") == f"{expected}+00:00"


@pytest.mark.parametrize("name", ["", "Local", "Mars/Base", "../UTC", "/UTC", "Europe", "x" * 300])
def test_no_time_zones(name: str) -> None:
    """What is no time zone is refused."""
    with pytest.raises(BadSchedule):
        zone_named(name)


def test_a_schedule_that_never_comes() -> None:
    """There is no 31st of February."""
    assert CronSchedule.parse("0 0 31 feb *").after(MONDAY) is None
