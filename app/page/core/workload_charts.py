"""The charts of a workload or a pod: a pair for each container, of what is known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from app.model.quantity import CPU, MEMORY
from app.page.core.charts import Chart, ChartLevel, LevelKind, Mark
from app.page.core.usage_series import KnownUsage, SeriesKey, UsageQuestion, UsageSeries

_NAMES: Final = {CPU: "CPU", MEMORY: "Memory"}
_MOST: Final = 12  # charts on a page
_NOTHING: Final = "no usage is known of this time"


def workload_charts(
    question: UsageQuestion,
    answer: KnownUsage,
    levels: Mapping[SeriesKey, Mapping[LevelKind, ChartLevel]],
    marks: Sequence[Mark] = (),
) -> list[Chart]:
    """Return the charts of all containers, as many as a page has room for."""
    keys = sorted({*levels, *answer.series}, key=lambda key: (_rank(key, levels), key))[:_MOST]
    return list(_charts(question, answer, levels, marks, keys))


def _rank(key: SeriesKey, levels: Mapping[SeriesKey, Mapping[LevelKind, ChartLevel]]) -> bool:
    """Containers that have a target stand first."""
    return not any(
        LevelKind.TARGET in found for (name, _), found in levels.items() if name == key[0]
    )


def _charts(
    question: UsageQuestion,
    answer: KnownUsage,
    levels: Mapping[SeriesKey, Mapping[LevelKind, ChartLevel]],
    marks: Sequence[Mark],
    keys: Sequence[SeriesKey],
) -> Iterator[Chart]:
    for number, (container, resource) in enumerate(keys):
        usage = answer.series.get((container, resource))
        start, end = _bounds(question, usage)
        yield Chart(
            key=f"chart-{number}",
            title=f"{_NAMES.get(resource, resource)} of {container}",
            resource=resource,
            start=start,
            end=end,
            usage=usage,
            levels=levels.get((container, resource), {}),
            marks=marks,
            source=answer.source,
            problem=answer.problem or ("" if usage is not None else _NOTHING),
        )


def _bounds(question: UsageQuestion, usage: UsageSeries | None) -> tuple[int, int]:
    """Return which time is shown: that of the answer, else what was asked for."""
    if usage is not None:
        return usage.start, usage.start + len(usage.median) * usage.step_seconds
    wanted = question.range
    end = (wanted.last_step(question.end) + 1) * wanted.step_seconds
    return end - wanted.points * wanted.step_seconds, end
