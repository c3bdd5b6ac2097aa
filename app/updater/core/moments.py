"""Moments that somebody else wrote: how far they are believed, and what is added to them.

Strategy: clocks differ a little and annotations hold anything, so a moment that is yet to come
tells nothing; and no sum falls off the calendar.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

LATEST: Final = datetime(9999, 1, 1, tzinfo=UTC)
_SKEW: Final = timedelta(minutes=1)


def later(moment: datetime, by: timedelta) -> datetime:
    """Return a moment so much later, or the latest one if there is none that late."""
    try:
        found = moment + by
    except OverflowError:
        return LATEST if by > timedelta() else moment
    return min(found, LATEST)


def believed(moment: datetime | None, now: datetime) -> datetime | None:
    """Return a moment that is over, or that a clock a little ahead may have told; else None."""
    return None if moment is None or moment - now > _SKEW else moment
