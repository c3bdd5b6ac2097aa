"""What settings would have requested for a workload over a recording, as values that pages show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from app.model.quantity import CPU, MEMORY
from app.page.core.charts import Chart, ChartLevel, LevelKind, Mark, MarkKind
from app.page.core.usage_series import UsageSeries
from app.recommender.core.histograms import Floats
from app.recommender.core.moments import SECOND, moment


@dataclass(frozen=True, slots=True)
class PastLine:
    """What came of a setting for a workload, after the first day."""

    setting: str
    cpu_unused: float | None  # share of what was requested; None if that is nothing
    cpu_short: float | None  # share of the time in which more was used
    memory_unused: float | None
    memory_short: float | None
    kills: int


@dataclass(frozen=True, slots=True)
class WorkloadPast:
    """A workload over a recording."""

    about: str  # which recording, and its days; or why there are no numbers
    lines: Sequence[PastLine] = ()
    charts: Sequence[Chart] = ()


@dataclass(frozen=True, slots=True, eq=False)
class PastAmounts:
    """What the pods of a workload used and requested, all together, in equal steps."""

    start: int  # seconds since 1970
    step_seconds: int
    used: Floats  # [step, resource]: millicores and bytes; NaN is not known
    requested: Mapping[LevelKind, Floats]  # likewise, at the end of each step
    kills: Floats  # [step], in the recording


def past_charts(told: PastAmounts, source: str) -> list[Chart]:
    """Return a chart of CPU and one of memory."""
    return [
        Chart(
            key=f"past-{resource}",
            title=title,
            resource=resource,
            start=told.start,
            end=told.start + len(told.used) * told.step_seconds,
            usage=UsageSeries(told.start, told.step_seconds, *[told.used[:, column]] * 3),
            levels={kind: _level(told, one[:, column]) for kind, one in told.requested.items()},
            marks=_marks(told),
            source=source,
        )
        for column, (resource, title) in enumerate(
            ((CPU, "CPU of all pods"), (MEMORY, "Memory of all pods"))
        )
    ]


def _level(told: PastAmounts, amounts: Floats) -> ChartLevel:
    """Return an amount over time: where it changes."""
    whole = np.rint(amounts).astype(np.int64)
    places = np.flatnonzero(np.diff(whole, prepend=-1))
    ends = told.start + (places + 1) * told.step_seconds
    changes = [
        (moment(at * SECOND), amount)
        for at, amount in zip(ends.tolist(), whole[places].tolist(), strict=True)
    ]
    return ChartLevel(int(whole[-1]), changes)


def _marks(told: PastAmounts) -> list[Mark]:
    return [
        Mark(moment(at * SECOND), MarkKind.KILL, f"{count:.0f} in the recording")
        for place in np.flatnonzero(told.kills).tolist()
        for at, count in [(told.start + place * told.step_seconds, told.kills[place])]
    ]
