"""Moments that others wrote."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from app.model.times import LATEST, believed, later
from tests.updater.core.scenes import NOW

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
