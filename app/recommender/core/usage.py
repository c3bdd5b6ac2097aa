"""Reads a list of pod metrics into columns.

Strategy: the only code that runs once per container and tick, so it is plain loops over parsed
JSON. What cannot be read costs itself alone: one amount, one container, one pod.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

import numpy as np

from app.model.durations import parse_duration
from app.model.errors import BadObject
from app.model.fields import Object, object_at, objects_at, text_at, time_at
from app.model.quantity import Quantity
from app.recommender.core.estimators import MOST
from app.recommender.core.mishaps import Mishaps
from app.recommender.core.moments import nanoseconds, span
from app.recommender.core.observations import ABSENT, REFUSED, UsageBatch

_GREATEST: Final = 2**62
_NANO_PER_MILLI: Final = 10**6
_MOST_DIGITS: Final = 18
_KI_DIGITS: Final = 4
_REMEMBERED: Final = 65_536
_SHOWN: Final = 40  # characters of an amount


@dataclass(frozen=True, slots=True)
class UsageLimits:
    """What amounts can be."""

    absent: int = ABSENT  # stands for what is not told
    most: float = MOST  # greater amounts cannot be


@dataclass(frozen=True, slots=True)
class Metrics:
    """A list of pod metrics, read."""

    batch: UsageBatch
    problems: list[str]  # sentences that name the item


@dataclass(slots=True)
class _Columns:
    containers: list[tuple[str, str, str]] = field(default_factory=list)
    cpu: list[int] = field(default_factory=list)
    memory: list[int] = field(default_factory=list)
    times: list[int] = field(default_factory=list)
    windows: list[int] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    unreadable: int = 0
    limits: UsageLimits = UsageLimits()

    def refuse(self, item: Object, error: BadObject) -> None:
        """Leave out what cannot be read."""
        self.problems.append(f"metrics of pod {_name(item)}: {error}")
        self.unreadable += 1


def read_metrics(
    body: Object, limits: UsageLimits | None = None, *, mishaps: Mishaps | None = None
) -> Metrics:
    """Read `items` of a PodMetricsList."""
    columns = _Columns(limits=limits or UsageLimits())
    mishaps = mishaps or Mishaps()
    for item in objects_at(body, "items", ""):
        with mishaps.guard("usage", item, name=_name):
            try:
                _read_pod(item, columns)
            except BadObject as error:
                columns.refuse(item, error)
    batch = UsageBatch(
        columns.containers,
        np.array(columns.cpu, dtype=np.int64),
        np.array(columns.memory, dtype=np.int64),
        np.array(columns.times, dtype=np.int64),
        np.array(columns.windows, dtype=np.int64),
        columns.unreadable,
    )
    return Metrics(batch, columns.problems)


def _read_pod(item: Object, columns: _Columns) -> None:
    metadata = object_at(item, "metadata", "")
    namespace = text_at(metadata, "namespace", "metadata")
    pod = text_at(metadata, "name", "metadata")
    time_ns = _time(item)
    window_ns = _window(text_at(item, "window", ""))
    containers = objects_at(item, "containers", "")
    if not containers:
        raise BadObject("containers", "there are none")
    for container in containers:
        try:
            name = text_at(container, "name", "containers")
            usage = object_at(container, "usage", "containers")
        except BadObject as error:
            columns.refuse(item, error)
            continue
        key = (namespace, pod, name)
        cpu = _amount(_millicores, usage.get("cpu"), "cpu", key, columns)
        memory = _amount(_bytes, usage.get("memory"), "memory", key, columns)
        columns.containers.append(key)  # all at once, so that the columns stay as long
        columns.cpu.append(cpu)
        columns.memory.append(memory)
        columns.times.append(time_ns)
        columns.windows.append(window_ns)


def _amount(
    read: Callable[[object], int],
    value: object,
    resource: str,
    container: tuple[str, str, str],
    columns: _Columns,
) -> int:
    """Return an amount in whole units, rounded up."""
    if value is None:
        return columns.limits.absent
    try:
        found = read(value)
    except BadObject as error:
        problem = str(error)
    else:
        if 0 <= found <= columns.limits.most:
            return min(found, _GREATEST)
        problem = f"{str(value)[:_SHOWN]} is {'negative' if found < 0 else 'too much'}"
    columns.problems.append(f"metrics of {'/'.join(container)}: {resource}: {problem}")
    return REFUSED


def _millicores(value: object) -> int:
    # What metrics-server sends, nearly always; no two of these texts are the same.
    if isinstance(value, str) and value[-1:] == "n":
        digits = value[:-1]
        if digits.isdecimal() and digits.isascii() and len(digits) < _MOST_DIGITS:
            return -(-int(digits) // _NANO_PER_MILLI)
    return Quantity.read(value).milli


def _bytes(value: object) -> int:
    if isinstance(value, str) and value[-2:] == "Ki":
        digits = value[:-2]
        if digits.isdecimal() and digits.isascii() and len(digits) < _MOST_DIGITS - _KI_DIGITS:
            return int(digits) << 10
    return Quantity.read(value).units


def _time(item: Object) -> int:
    found = time_at(item, "timestamp", "")
    if found is None:
        raise BadObject("timestamp", "is missing")
    return nanoseconds(found)


@lru_cache(_REMEMBERED)
def _window(text: str) -> int:
    """Return how long cpu usage was averaged, 0 where it is not told."""
    try:
        return max(span(parse_duration(text)), 0)
    except BadObject:
        return 0


def _name(item: Object) -> str:
    metadata = item.get("metadata")
    if not isinstance(metadata, dict):
        return "?"
    return f"{metadata.get('namespace')}/{metadata.get('name')}"
