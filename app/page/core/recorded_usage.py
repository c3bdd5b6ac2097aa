"""Usage of a workload over time, out of samples that were recorded."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import orjson

from app.model.errors import BadObject
from app.model.fields import Object
from app.model.quantity import CPU, MEMORY
from app.page.core.usage_series import (
    SeriesKey,
    UsageQuestion,
    UsageSeries,
    compiled,
    ranked,
)
from app.recommender.core.estimation import MOST
from app.recommender.core.histograms import Amounts, Floats, Indexes, Times
from app.recommender.core.moments import SECOND
from app.recommender.core.usage import ABSENT, ContainerKey, UsageBatch, read_metrics


@dataclass(frozen=True, slots=True, eq=False)
class UsageSamples:
    """Samples in columns, in any order."""

    containers: Sequence[ContainerKey]  # each once
    which: Indexes  # index into the containers
    times: Times
    cpu_millicores: Amounts  # or below zero, if it is not known
    memory_bytes: Amounts  # likewise


def read_samples(samples: UsageSamples, question: UsageQuestion) -> dict[SeriesKey, UsageSeries]:
    """Return what some pods used, as far as that was recorded."""
    wanted = question.range
    last = wanted.last_step(question.end)
    first = last - wanted.points + 1
    steps = samples.times // (wanted.step_seconds * SECOND) - first
    is_inside = (steps >= 0) & (steps < wanted.points)
    found: dict[SeriesKey, UsageSeries] = {}
    for container, columns in sorted(_columns(samples, question).items()):
        column_of = np.full(len(samples.containers), -1, np.intp)
        column_of[columns] = np.arange(len(columns))
        column = column_of[samples.which]
        lines = np.flatnonzero(is_inside & (column >= 0))
        shape = (wanted.points, len(columns))
        for resource, grid in _grids(samples, lines, steps[lines], column[lines], shape).items():
            if (grid > ABSENT).any():
                ranks = ranked(grid, ABSENT)
                known = np.where(ranks > ABSENT, ranks, np.nan)
                series = UsageSeries(first * wanted.step_seconds, wanted.step_seconds, *known)
                found[container, resource] = series
    return found


def read_recorded(
    lines: Iterable[bytes], shown: str, most: float = MOST
) -> tuple[UsageSamples, list[str]]:
    """Read the usage of a recording as `plumbline replay` takes it; other events are left out.

    What cannot be read costs its line, with a sentence that names it.
    """
    items: list[Object] = []
    problems: list[str] = []
    number = 0
    try:
        for number, line in enumerate(lines, 1):
            try:
                event = orjson.loads(line) if line.strip() else None
            except orjson.JSONDecodeError:
                problems.append(f"{shown}:{number}: invalid JSON")
                continue
            if isinstance(event, dict) and event.get("type") == "usage":
                items.append(_item(event))
    except BadObject as error:  # the file is not whole
        problems.append(f"{shown}: {error} behind line {number}")
    batch = read_metrics({"items": items}, most)
    return _samples(batch), [*problems, *(f"{shown}: {one}" for one in batch.problems)]


def _item(event: Object) -> Object:
    """Return an event as `metrics.k8s.io` lists usage."""
    usage = {key: event[key] for key in (CPU, MEMORY) if event.get(key) is not None}
    return {
        "metadata": {"namespace": event.get("namespace") or "default", "name": event.get("pod")},
        "timestamp": event.get("timestamp") or event.get("time"),
        "window": event.get("window") or "",
        "containers": [{"name": event.get("container"), "usage": usage}],
    }


def _samples(batch: UsageBatch) -> UsageSamples:
    known: dict[ContainerKey, int] = {}
    which = [known.setdefault(key, len(known)) for key in batch.containers]
    return UsageSamples(
        list(known),
        np.array(which, np.intp),
        batch.times,
        batch.cpu_millicores,
        batch.memory_bytes,
    )


def _columns(samples: UsageSamples, question: UsageQuestion) -> Mapping[str, list[int]]:
    """Return which containers are asked for, by the name of the container."""
    fits = compiled(question.pods).fullmatch
    found: dict[str, list[int]] = defaultdict(list)
    for index, (namespace, pod, container) in enumerate(samples.containers):
        if namespace == question.namespace and fits(pod):
            found[container].append(index)
    return found


def _grids(
    samples: UsageSamples, lines: Indexes, steps: Indexes, column: Indexes, shape: tuple[int, int]
) -> Mapping[str, Floats]:
    """Return a cell for each step and pod: CPU on average, memory at its peak."""
    memory = np.full(shape, float(ABSENT))
    np.maximum.at(memory, (steps, column), samples.memory_bytes[lines])
    cpu = samples.cpu_millicores[lines]
    is_known = cpu >= 0
    place = (steps[is_known], column[is_known])
    sums, counts = np.zeros(shape), np.zeros(shape)
    np.add.at(sums, place, cpu[is_known])
    np.add.at(counts, place, 1.0)
    means = np.where(counts > 0, sums / np.maximum(counts, 1.0), float(ABSENT))
    return {CPU: means, MEMORY: np.where(memory < 0, float(ABSENT), memory)}
