"""Times and durations as Kubernetes, Go and Prometheus write them, and how far they are believed.

Strategy: clocks differ a little and annotations hold anything, so a moment that is yet to come
says nothing; and no sum falls off the calendar.

Go counts whole nanoseconds in an int64, and so does the arithmetic here; only the result
is a timedelta, which ends at the microsecond. What is finer is rounded away from zero, so that
something never becomes nothing.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from app.model.errors import BadObject

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


_SECOND: Final = 10**9  # nanoseconds, as all that follow
_GO_UNITS: Final = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,  # written with a micro sign
    "μs": 10**3,  # written with a Greek letter
    "ms": 10**6,
    "s": _SECOND,
    "m": 60 * _SECOND,
    "h": 3600 * _SECOND,
}
_PROMETHEUS_UNITS: Final = {
    "y": 365 * 86_400 * _SECOND,
    "w": 7 * 86_400 * _SECOND,
    "d": 86_400 * _SECOND,
    "h": 3600 * _SECOND,
    "m": 60 * _SECOND,
    "s": _SECOND,
    "ms": 10**6,
}
_LONGEST: Final = 2**63 - 1
_DIGITS: Final = 19  # more never fit before the point, and never matter behind it
_LONGEST_SHOWN: Final = 40

_PART: Final = re.compile(r"([0-9]*+)(?:\.([0-9]*+))?+([^0-9.]*+)", re.ASCII)
_PROMETHEUS: Final = re.compile(
    "".join(rf"(?:([0-9]++){unit})?" for unit in _PROMETHEUS_UNITS), re.ASCII
)


def parse_duration(text: str) -> timedelta:
    """Read a duration in Go's syntax, such as `10s`, `1m30s`, `500ms`, `1.5h`, `-1s` or `0`.

    Raises:
        BadObject: the text is no duration, or one longer than 292 years.
    """
    unsigned = text[1:] if text[:1] in ("+", "-") else text
    if unsigned == "0":
        return timedelta()
    nanoseconds = end = 0
    while end < len(unsigned) or not end:
        part = _PART.match(unsigned, end)
        if part is None or not (part[1] or part[2]):
            raise _refused(text, 'is no duration such as "10s", "1m30s" or "500ms"')
        if not part[3]:
            raise _refused(text, 'has no unit at its end; write "10s" for ten seconds')
        if part[3] not in _GO_UNITS:
            raise _refused(text, "has an unknown unit; known are ns, us, ms, s, m and h")
        nanoseconds += _nanoseconds(part[1], part[2] or "", _GO_UNITS[part[3]])
        end = part.end()
    return _timedelta(text, -nanoseconds if text[0] == "-" else nanoseconds)


class PrometheusDuration(NamedTuple):
    """A duration as Prometheus writes it, with the text for use inside queries."""

    text: str
    span: timedelta

    @staticmethod
    def parse(text: str) -> PrometheusDuration:
        """Read a duration above zero in Prometheus' syntax, such as `30s`, `1h`, `8d` or `1w2d`.

        Raises:
            BadObject: the text is no duration, or one longer than 292 years, or none above zero.
        """
        parts = _PROMETHEUS.fullmatch(text)
        if parts is None or not text:
            raise _refused(text, 'is no duration such as "30s", "1h", "8d" or "1w2d"')
        numbers = zip(parts.groups(default=""), _PROMETHEUS_UNITS.values(), strict=True)
        span = _timedelta(text, sum(_nanoseconds(number, "", unit) for number, unit in numbers))
        if not span:
            raise _refused(text, "is not above zero")
        return PrometheusDuration(text, span)


def _nanoseconds(whole: str, fraction: str, unit: int) -> int:
    """Return whole.fraction units in nanoseconds; a number of too many digits is just too long."""
    whole, fraction = whole.lstrip("0"), fraction[:_DIGITS]
    if len(whole) > _DIGITS:
        return _LONGEST + 1
    scale: int = 10 ** len(fraction)
    return int(whole or "0") * unit + int(fraction or "0") * unit // scale


def _timedelta(text: str, nanoseconds: int) -> timedelta:
    if not -_LONGEST <= nanoseconds <= _LONGEST:
        raise _refused(text, "is too long: no duration exceeds 292 years")
    microseconds = -(-abs(nanoseconds) // 1000)
    return timedelta(microseconds=-microseconds if nanoseconds < 0 else microseconds)


def _refused(text: str, why: str) -> BadObject:
    shown = text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."
    return BadObject("", f'"{shown}" {why}')
