"""Batches of usage, in few words."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from math import isnan

from app.model.quantity import CPU
from app.page.core.usage_series import ChartRange, UsageQuestion, UsageSeries
from app.recommender.core.usage import UsageBatch
from tests.make import NOW

MIB = 2**20


def batch(
    used: Mapping[str, tuple[int, int]], namespace: str = "default", container: str = "app"
) -> UsageBatch:
    """Return what pods use: millicores and bytes."""
    return UsageBatch.of([
        ((namespace, pod, container), cpu, memory, 0, 0) for pod, (cpu, memory) in used.items()
    ])  # fmt: skip


def question(
    pods: str = ".*", chart: ChartRange = ChartRange.HOUR, end: datetime = NOW
) -> UsageQuestion:
    """Ask for pods of the default namespace."""
    return UsageQuestion("default", pods, chart, end)


def at(series: UsageSeries, moment: datetime) -> list[float | None]:
    """Return what a series says of the step that holds a moment: median, high, highest."""
    place = (int(moment.timestamp()) - series.start) // series.step_seconds
    found = [float(line[place]) for line in (series.median, series.high, series.highest)]
    return [None if isnan(value) else value for value in found]


def minutes(count: float) -> timedelta:
    """Return so many minutes."""
    return timedelta(minutes=count)


def used_at(
    found: Mapping[tuple[str, str], UsageSeries], moment: datetime, resource: str = CPU
) -> list[float | None]:
    """Return what the one container used."""
    return at(found["app", resource], moment)
