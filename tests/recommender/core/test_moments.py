"""Times in the arrays: exact, and never overflowing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

from app.recommender.core.moments import (
    DAY,
    EARLIEST,
    LATEST,
    UNSET,
    moment,
    moment_or_none,
    nanoseconds,
    span,
)
from tests.cases import cases


@cases(
    "when expected",
    {
        "the epoch": (datetime(1970, 1, 1, tzinfo=UTC), 0),
        "a microsecond": (datetime(1970, 1, 2, 0, 0, 0, 1, tzinfo=UTC), DAY + 1000),
        "another zone": (datetime(1970, 1, 1, 2, tzinfo=timezone(timedelta(hours=2))), 0),
        "a broken clock ahead": (datetime(9999, 12, 31, tzinfo=UTC), LATEST),
        "a broken clock behind": (datetime(1, 1, 1, tzinfo=UTC), EARLIEST),
    },
)
def test_nanoseconds(when: datetime, expected: int) -> None:
    """Times are counted exactly; absurd ones are cut off."""
    assert nanoseconds(when) == expected


def test_moment_gives_the_time_back() -> None:
    """A time survives the way into the arrays and back."""
    when = datetime(2026, 1, 5, 10, 30, 17, 123456, tzinfo=UTC)

    assert moment(nanoseconds(when)) == when


def test_never_is_no_time() -> None:
    """What never happened has no time."""
    assert (moment_or_none(UNSET), moment_or_none(0)) == (None, datetime(1970, 1, 1, tzinfo=UTC))


def test_span() -> None:
    """Durations are counted exactly."""
    assert span(timedelta(days=1, microseconds=1)) == DAY + 1000
