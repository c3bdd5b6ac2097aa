"""Times as Kubernetes writes them, and how far those that others wrote are believed.

Strategy: clocks differ a little and annotations hold anything, so a moment that is yet to come
says nothing; and no sum falls off the calendar.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

LATEST: Final = datetime(9999, 1, 1, tzinfo=UTC)
_SKEW: Final = timedelta(minutes=1)


def rfc3339(moment: datetime) -> str:
    """Write a time in whole seconds, UTC."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


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


def doubled(first: timedelta, count: int, longest: timedelta) -> timedelta:
    """Return the pause after the n-th failure in a row."""
    return min(first * (1 << min(count - 1, 30)), longest)
