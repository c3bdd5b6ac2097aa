"""Reads a list of pod metrics into columns.

Strategy: the only code that runs once per container and tick, so it is plain loops over parsed
JSON. What cannot be read costs itself alone: one amount, one container, one pod.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

import numpy as np

from app.core.recommendation.moments import nanoseconds, span
from app.core.recommendation.observations import ABSENT, REFUSED, UsageBatch
from app.model.durations import parse_duration
from app.model.errors import BadObject
from app.model.fields import Object, object_at, objects_at, text_at, time_at
from app.model.quantity import Quantity

_MOST: Final = 2**62
_NANO_PER_MILLI: Final = 10**6
_MOST_DIGITS: Final = 20
_REMEMBERED: Final = 65_536


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


def read_metrics(body: Object, *, absent: int = ABSENT) -> Metrics:
    """Read `items` of a PodMetricsList; `absent` stands for what an item does not tell."""
    columns = _Columns()
    for item in objects_at(body, "items", ""):
        try:
            _read_pod(item, columns, absent)
        except BadObject as error:
            columns.problems.append(f"metrics of pod {_name(item)}: {error}")
    batch = UsageBatch(
        columns.containers,
        np.array(columns.cpu, dtype=np.int64),
        np.array(columns.memory, dtype=np.int64),
        np.array(columns.times, dtype=np.int64),
        np.array(columns.windows, dtype=np.int64),
    )
    return Metrics(batch, columns.problems)


def _read_pod(item: Object, columns: _Columns, absent: int) -> None:
    metadata = object_at(item, "metadata", "")
    namespace = text_at(metadata, "namespace", "metadata")
    pod = text_at(metadata, "name", "metadata")
    time_ns = _time(item)
    window_ns = _window(text_at(item, "window", ""))
    for container in objects_at(item, "containers", ""):
        usage = object_at(container, "usage", "containers")
        cpu = _amount(usage, "cpu", columns, item) if "cpu" in usage else absent
        memory = _amount(usage, "memory", columns, item) if "memory" in usage else absent
        columns.containers.append((namespace, pod, text_at(container, "name", "containers")))
        columns.cpu.append(cpu)
        columns.memory.append(memory)
        columns.times.append(time_ns)
        columns.windows.append(window_ns)


def _amount(usage: Object, resource: str, columns: _Columns, item: Object) -> int:
    """Return millicores or bytes, rounded up."""
    value = usage[resource]
    try:
        found = _millicores(value) if resource == "cpu" else Quantity.read(value).units
    except BadObject as error:
        columns.problems.append(f"metrics of pod {_name(item)}: {resource}: {error}")
        return REFUSED
    if found < 0:
        columns.problems.append(f"metrics of pod {_name(item)}: {resource} is negative: {value}")
        return REFUSED
    return min(found, _MOST)


def _millicores(value: object) -> int:
    # What metrics-server sends, nearly always; no two of these texts are the same.
    if (
        isinstance(value, str)
        and value[-1:] == "n"
        and value[:-1].isascii()
        and value[:-1].isdigit()
    ):
        return -(-int(value[:-1]) // _NANO_PER_MILLI)
    return Quantity.read(value).milli


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
