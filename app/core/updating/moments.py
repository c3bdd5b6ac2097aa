"""Moments that somebody else wrote: nothing that is added to them falls off the calendar."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

LATEST: Final = datetime(9999, 1, 1, tzinfo=UTC)


def later(moment: datetime, by: timedelta) -> datetime:
    """Return a moment so much later, or the latest one if there is none that late."""
    try:
        found = moment + by
    except OverflowError:
        return LATEST if by > timedelta() else moment
    return min(found, LATEST)
