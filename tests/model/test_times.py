"""Times are written as an API server writes them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from app.model.times import LATEST, believed, doubled, later, rfc3339
from tests.cases import cases
from tests.updater.core.scenes import NOW

BERLIN = timezone(timedelta(hours=2))


@cases(
    "moment",
    {
        "as it is": (datetime(2026, 3, 1, 9, 5, 7, tzinfo=UTC),),
        "cut to seconds": (datetime(2026, 3, 1, 9, 5, 7, 999_999, tzinfo=UTC),),
        "of another zone": (datetime(2026, 3, 1, 11, 5, 7, tzinfo=BERLIN),),
    },
)
def test_rfc3339(moment: datetime) -> None:
    """Whole seconds, in UTC, with a Z."""
    assert rfc3339(moment) == "2026-03-01T09:05:07Z"


FIRST = datetime(1, 1, 1, tzinfo=UTC)
LAST = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
DAY = timedelta(days=1)


@pytest.mark.parametrize(
    ("moment", "by", "expected"),
    [
        (NOW, DAY, NOW + DAY),
        (NOW, -DAY, NOW - DAY),
        (LAST, DAY, LATEST),
        (LAST, timedelta(), LATEST),
        (FIRST, -DAY, FIRST),
        (NOW, timedelta.max, LATEST),
    ],
)
def test_later(moment: datetime, by: timedelta, expected: datetime) -> None:
    """What lies beyond the calendar is cut off."""
    assert later(moment, by) == expected


@pytest.mark.parametrize(
    ("moment", "is_believed"),
    [
        (None, False),
        (FIRST, True),
        (NOW, True),
        (NOW + timedelta(minutes=1), True),
        (NOW + timedelta(seconds=61), False),
        (LAST, False),
    ],
)
def test_believed(moment: datetime | None, is_believed: bool) -> None:
    """What is clearly yet to come tells nothing; clocks may differ a little."""
    assert believed(moment, NOW) == (moment if is_believed else None)


def test_doubled() -> None:
    """A pause doubles with each failure in a row, up to the longest one."""
    pauses = [doubled(timedelta(seconds=1), count, timedelta(seconds=3)) for count in (1, 2, 3, 99)]
    assert [pause.total_seconds() for pause in pauses] == [1, 2, 3, 3]
