"""What was recorded: usage in columns, and everything else that happened, both by time.

Strategy: one JSON object a line. Nearly all lines tell usage, so those go into flat columns at
once, and texts that come again and again are read once. What cannot be read costs its own line
alone, with a sentence that names line and field. Lines need not be in order of time; those of
one moment keep theirs.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import Final, TypeVar

import numpy as np
import orjson

from app.commands.replaying.changes import RecordedChange, read_change, removal_of
from app.kube.failures import not_json
from app.model.errors import BadObject
from app.model.fields import Object, optional_object, text_at, time_at, wrong_type
from app.model.quantity import Quantity
from app.model.times import parse_duration
from app.recommender.core.estimation import MOST
from app.recommender.core.histograms import Amounts, Indexes, Spans, Times
from app.recommender.core.moments import DAY, moment, nanoseconds, span
from app.recommender.core.oom import OomRecord
from app.recommender.core.usage import ABSENT, REFUSED, UsageBatch

T = TypeVar("T")

Name = tuple[str, str, str]  # namespace, pod, container

_GREATEST: Final = 2**62
_SHOWN: Final = 40  # characters of an amount
_LONGEST: Final = 15  # characters of an amount that needs no second thought
_NANO_PER_MILLI: Final = 10**6
_REMEMBERED: Final = 65_536
_TYPES: Final = "usage, oom, apply, delete or restart"


@dataclass(frozen=True, slots=True)
class RecordedEvent:
    """Something that happened in the cluster, other than usage."""

    time_ns: int
    what: RecordedChange | OomRecord


@dataclass(frozen=True, slots=True, eq=False)
class RecordedUsage:
    """Usage samples in order of the time when they could be seen."""

    names: list[Name]
    seen: Times
    which: Indexes  # index into the names
    cpu: Amounts  # as in UsageBatch, and so on
    memory: Amounts
    times: Times
    windows: Spans

    def between(self, first: int, last: int) -> UsageBatch:
        """Return the samples from one line on and before another."""
        part, names = slice(first, last), self.names
        return UsageBatch(
            [names[index] for index in self.which[part].tolist()],
            self.cpu[part],
            self.memory[part],
            self.times[part],
            self.windows[part],
        )


@dataclass(frozen=True, slots=True, eq=False)
class RecordedHistory:
    """All that was recorded."""

    usage: RecordedUsage
    events: list[RecordedEvent]
    restarts: list[int]  # when a recommender ended and another one began, in nanoseconds
    problems: list[str]  # sentences that name file, line and field
    lines: int  # that are not empty
    skipped: int  # of them, because they cannot be read
    days: Mapping[int, int]  # since 1970 on which there are events, each with a line that tells one

    def leap(self, start_ns: int, most_days: int) -> tuple[int, int] | None:
        """Return a line after a time that is too far from all before it, and by how many days."""
        start = start_ns // DAY
        days = [start, *sorted(day for day in self.days if day > start)]
        for before, day in pairwise(days):
            if day - before > most_days:
                return self.days[day], day - before
        return None

    @property
    def bounds(self) -> tuple[int, int] | None:
        """The times of the first and the last event, None if there are none."""
        ends = [one.time_ns for one in self.events[:1] + self.events[-1:]]
        ends += self.restarts[:1] + self.restarts[-1:]
        ends += self.usage.seen[:1].tolist() + self.usage.seen[-1:].tolist()
        return (min(ends), max(ends)) if ends else None


def read_history(lines: Iterable[bytes], shown: str, most: float = MOST) -> RecordedHistory:
    """Read events; `shown` names the file in sentences, greater amounts than the most cannot be."""
    reader = _Reader(shown, most)
    try:
        for line in lines:
            reader.number += 1
            if line and not line.isspace():
                reader.take(line)
    except BadObject as error:  # the file is not whole
        reader.problems.append(f"{shown}: {error} behind line {reader.number}")
    return reader.history()


@dataclass(slots=True)
class _Reader:
    shown: str
    most: float  # greater amounts cannot be
    number: int = 0  # of the line at hand
    names: dict[Name, int] = field(default_factory=dict)
    table: array[int] = field(default_factory=lambda: array("q"))  # six numbers a sample
    events: list[RecordedEvent] = field(default_factory=list)
    restarts: list[int] = field(default_factory=list)
    days: dict[int, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    lines: int = 0
    skipped: int = 0

    def take(self, line: bytes) -> None:
        """Read the line at hand."""
        self.lines += 1
        try:
            event = orjson.loads(line)
            if not isinstance(event, dict):
                raise wrong_type("event", event, "an object")
            self._event(event)
        except orjson.JSONDecodeError as error:
            self._skip(f"invalid JSON: {not_json(error)} (column {error.colno})")
        except BadObject as error:
            self._skip(str(error))

    def history(self) -> RecordedHistory:
        """Return all that was read, by time."""
        table = np.frombuffer(self.table, dtype=np.int64).reshape(-1, 6)
        order = np.argsort(table[:, 0], kind="stable")
        usage = RecordedUsage(list(self.names), *(table[order, column] for column in range(6)))
        events = sorted(self.events, key=lambda one: one.time_ns)
        return RecordedHistory(
            usage,
            events,
            sorted(self.restarts),
            self.problems,
            self.lines,
            self.skipped,
            self.days,
        )

    def _event(self, event: Object) -> None:
        time_ns = _moment(event, "time")
        match event.get("type"):
            case "usage":
                self._usage(event, time_ns)
            case "oom":
                self.events.append(RecordedEvent(time_ns, self._kill(event, time_ns)))
            case "apply":
                self._change(self._applied(event, time_ns), time_ns)
            case "delete":
                self._change(_at("object", removal_of, _object(event)), time_ns)
            case "restart":
                self.restarts.append(time_ns)
            case None:
                raise BadObject("type", "is missing")
            case other:
                raise wrong_type("type", other, _TYPES)
        self.days.setdefault(time_ns // DAY, self.number)

    def _usage(self, event: Object, time_ns: int) -> None:
        name = (event.get("namespace") or "default", event.get("pod"), event.get("container"))
        try:
            which = self.names.get(name)  # type: ignore[arg-type]  # any words; else it is read
        except TypeError:  # a list or an object stands there
            which = None
        if which is None:
            which = self.names.setdefault(_name(event), len(self.names))
        get = event.get
        cpu = ABSENT if (value := get("cpu")) is None else self._amount("cpu", value)
        memory = ABSENT if (value := get("memory")) is None else self._amount("memory", value)
        stamp_ns = time_ns if get("timestamp") is None else _moment(event, "timestamp")
        window_ns = 0 if (value := get("window")) is None else _at("window", _span, value)
        self.table.extend((time_ns, which, cpu, memory, stamp_ns, window_ns))

    def _kill(self, event: Object, time_ns: int) -> OomRecord:
        finished_ns = time_ns if event.get("finishedAt") is None else _moment(event, "finishedAt")
        memory = event.get("memory")
        request = 0 if memory is None else _at("memory", _memory_bytes, memory)
        if not 0 <= request <= self.most:
            problem = "negative" if request < 0 else "too much"
            raise BadObject("memory", f"{str(memory)[:_SHOWN]} is {problem}")
        return OomRecord(*_name(event), finished_ns, request)

    def _amount(self, resource: str, value: object) -> int:
        """Return millicores or bytes, rounded up."""
        found = _usual(resource, value) if type(value) is str else None
        if found is None:
            found = _at(resource, _AMOUNTS[resource], value)
        if 0 <= found <= self.most:
            return found
        problem = "negative" if found < 0 else "too much"
        self._say(f"{resource}: {str(value)[:_SHOWN]} is {problem}, so it is left out")
        return REFUSED

    def _applied(self, event: Object, time_ns: int) -> RecordedChange | None:
        found, left_out = _at("object", read_change, _created(_object(event), time_ns))
        if left_out:
            self._say(f"object.{left_out}")
        return found

    def _change(self, change: RecordedChange | None, time_ns: int) -> None:
        if change is not None:
            self.events.append(RecordedEvent(time_ns, change))

    def _skip(self, message: str) -> None:
        self.skipped += 1
        self._say(message)

    def _say(self, message: str) -> None:
        self.problems.append(f"{self.shown}:{self.number}: {message}")


def _at(key: str, read: Callable[..., T], value: object) -> T:
    """Read what stands at a key, which is named if it cannot be read."""
    try:
        return read(value)
    except BadObject as error:
        raise BadObject(f"{key}.{error.path}" if error.path else key, error.message) from None
    except TypeError:  # nothing that could be remembered: a list or an object
        raise wrong_type(key, value, "a text") from None


def _object(event: Object) -> Object:
    found = optional_object(event, "object", "")
    if found is None:
        raise BadObject("object", "is missing")
    return found


def _created(item: Object, time_ns: int) -> Object:
    """Return an object with a time of creation, as an API server would store it."""
    metadata = item.get("metadata")
    if not isinstance(metadata, dict) or metadata.get("creationTimestamp") is not None:
        return item
    created = {"creationTimestamp": moment(time_ns).isoformat()}
    return {**item, "metadata": {**metadata, **created}}


def _name(event: Object) -> Name:
    namespace = text_at(event, "namespace", "") or "default"
    return namespace, _word(event, "pod"), _word(event, "container")


def _word(event: Object, key: str) -> str:
    found = text_at(event, key, "")
    if not found:
        raise BadObject(key, "is missing")
    return found


def _moment(event: Object, key: str) -> int:
    value = event.get(key)
    if value is None:
        raise BadObject(key, "is missing")
    if not isinstance(value, str):
        raise wrong_type(key, value, "a time")
    try:
        return _nanoseconds(value)
    except BadObject as error:
        raise BadObject(key, error.message) from None


@lru_cache(_REMEMBERED)
def _nanoseconds(text: str) -> int:
    found = time_at({"time": text}, "time", "")
    return nanoseconds(found) if found is not None else 0


@lru_cache(_REMEMBERED)
def _span(text: str) -> int:
    return max(span(parse_duration(text)), 0)


@lru_cache(_REMEMBERED, typed=True)
def _millicores(value: object) -> int:
    return min(Quantity.read(value).milli, _GREATEST)


@lru_cache(_REMEMBERED, typed=True)
def _memory_bytes(value: object) -> int:
    return min(Quantity.read(value).units, _GREATEST)


def _usual(resource: str, text: str) -> int | None:
    """Read what nearly all amounts look like, None for others; no two of them are the same."""
    if len(text) > _LONGEST or not text.isascii():
        return None
    if resource == "cpu":
        digits, unit = text[:-1], text[-1:]
        if unit == "n" and digits.isdigit():
            return -(-int(digits) // _NANO_PER_MILLI)
        return int(digits) if unit == "m" and digits.isdigit() else None
    digits, unit = text[:-2], text[-2:]
    if unit == "Ki" and digits.isdigit():
        return int(digits) << 10
    return int(text) if text.isdigit() else None


_AMOUNTS: Final = {"cpu": _millicores, "memory": _memory_bytes}
