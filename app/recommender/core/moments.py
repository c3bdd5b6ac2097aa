"""Times as nanoseconds since 1970, the way the arrays hold them.

Strategy: int64 reaches from 1677 to 2262. Times outside a narrower range, which only broken
clocks and garbage send, are cut off there, so that no sum or difference can overflow.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

SECOND: Final = 10**9
MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR

UNSET: Final = -(2**63)  # "never"; sorts before every time
LATEST: Final = 2**62  # nanoseconds, in the year 2116
EARLIEST: Final = -(2**62)

GOLDEN: Final = 0.6180339887498949  # its multiples, modulo 1, spread evenly

AHEAD: Final = DAY  # how far ahead of us others' clocks may be

# Half-lives are counted from the first day of year 1, as Go counts.
YEAR_ONE: Final = -62_135_596_800 * SECOND

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


def nanoseconds(moment: datetime) -> int:
    """Return an aware time as nanoseconds."""
    return bounded((moment - _EPOCH) // _MICROSECOND * 1000)


def bounded(time_ns: int) -> int:
    """Cut a time off at what the arrays can hold."""
    return min(max(time_ns, EARLIEST), LATEST)


def span(duration: timedelta) -> int:
    """Return a duration as nanoseconds."""
    return duration // _MICROSECOND * 1000


def moment(time_ns: int) -> datetime:
    """Return nanoseconds as an aware time, cut to microseconds."""
    return _EPOCH + timedelta(microseconds=time_ns // 1000)


def moment_or_none(time_ns: int) -> datetime | None:
    """Return nanoseconds as an aware time, None for "never"."""
    return None if time_ns == UNSET else moment(time_ns)
