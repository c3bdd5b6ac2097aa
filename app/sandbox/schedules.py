"""The times of CronJobs: five fields, a word such as `@daily`, or `@every 5m`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final
from zoneinfo import ZoneInfo

from app.model.errors import BadObject
from app.model.times import parse_duration

_WORDS: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_RANGES: Final = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 6))
_MONTHS: Final = [
    *("jan", "feb", "mar", "apr", "may", "jun"),
    *("jul", "aug", "sep", "oct", "nov", "dec"),
]
_DAYS: Final = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
_NAMES: Final[tuple[list[str], ...]] = ([], [], [], _MONTHS, _DAYS)
_EVERY: Final = "@every "
_PART: Final = re.compile(r"(\*|\?|\w+)(?:-(\w+))?(?:/(\d+))?")
_MOST_DAYS: Final = 366 * 5  # a schedule that names no day within these never comes


class BadSchedule(ValueError):
    """A text that is no schedule."""


@dataclass(frozen=True, slots=True)
class CronSchedule:
    """When something is due, by the clock of a time zone."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]  # Sunday is 0
    any_day: bool  # neither kind of day is restricted, or only one of them
    every: timedelta | None = None  # instead of all that
    zone: tzinfo = UTC

    @staticmethod
    def parse(text: str, zone: tzinfo = UTC) -> CronSchedule:
        """Read a schedule.

        Raises:
            BadSchedule: it cannot be read.
        """
        if text.startswith(_EVERY):
            return _repeated(text)
        fields = _WORDS.get(text.strip(), text).split()
        if len(fields) != len(_RANGES):
            raise BadSchedule(f"{text!r} has not five fields")
        minutes, hours, days, months, weekdays = (
            _read(field, least, most, known)
            for field, (least, most), known in zip(fields, _RANGES, _NAMES, strict=True)
        )
        either = fields[2][0] in "*?" or fields[4][0] in "*?"
        return CronSchedule(minutes, hours, days, months, weekdays, either, zone=zone)

    def after(self, moment: datetime) -> datetime | None:
        """Return the next time that is later than a moment, None if there is none."""
        if self.every is not None:
            return moment.replace(microsecond=0) + self.every
        due = self._on_clock(moment.astimezone(self.zone))
        if due is None or due.astimezone(UTC) > moment:
            return due and due.astimezone(UTC)
        return due.replace(fold=1).astimezone(UTC)  # in the hour that a change of clocks repeats

    def _on_clock(self, moment: datetime) -> datetime | None:
        """Return what the clock shows next, from the minute after a moment on."""
        start = moment.replace(second=0, microsecond=0) + timedelta(minutes=1)
        for _ in range(_MOST_DAYS):
            due = self._on_day(start) if self._is_day(start) else None
            if due is not None:
                return due
            start = start.replace(hour=0, minute=0) + timedelta(days=1)
        return None

    def _on_day(self, moment: datetime) -> datetime | None:
        """Return the first time of a day that is not before a moment."""
        for minute in range(moment.hour * 60 + moment.minute, 24 * 60):
            if minute // 60 in self.hours and minute % 60 in self.minutes:
                return moment.replace(hour=minute // 60, minute=minute % 60)
        return None

    def _is_day(self, moment: datetime) -> bool:
        in_month = moment.day in self.days
        in_week = moment.isoweekday() % 7 in self.weekdays
        fits = in_month and in_week if self.any_day else in_month or in_week
        return moment.month in self.months and fits


def zone_named(name: str | None) -> tzinfo:
    """Return a time zone, UTC for None.

    Raises:
        BadSchedule: there is no such zone.
    """
    if name is None:
        return UTC
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise BadSchedule(f"unknown time zone {name}") from error


def _repeated(text: str) -> CronSchedule:
    try:
        every = parse_duration(text.removeprefix(_EVERY))
    except BadObject as error:
        raise BadSchedule(f"{text!r}: {error}") from error
    whole = timedelta(seconds=max(every // timedelta(seconds=1), 1))
    none = frozenset[int]()
    return CronSchedule(none, none, none, none, none, any_day=True, every=whole)


def _read(text: str, least: int, most: int, names: list[str]) -> frozenset[int]:
    numbers: set[int] = set()
    for part in text.split(","):
        match = _PART.fullmatch(part)
        if match is None:
            raise BadSchedule(f"{part!r} is no part of a schedule")
        first, last, step = match.groups()
        if first in ("*", "?"):
            begin, end = least, most
        else:
            begin = _number(first, least, names)
            end = _number(last, least, names) if last else (most if step else begin)
        if not least <= begin <= end <= most or step == "0":
            raise BadSchedule(f"{part!r} is out of range")
        numbers.update(range(begin, end + 1, int(step or 1)))
    return frozenset(numbers)


def _number(text: str, least: int, names: list[str]) -> int:
    if text.isdecimal():
        return int(text)
    if text.lower() not in names:
        raise BadSchedule(f"{text!r} is no part of a schedule")
    return names.index(text.lower()) + least
