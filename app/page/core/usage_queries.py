"""What Prometheus is asked for the usage of a workload, and how its answers become series.

Strategy: one query a resource; Prometheus ranks the pods itself, so that an answer has three series
a container however many pods there are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import numpy as np

from app.model.fields import Object
from app.model.quantity import CPU, MEMORY
from app.page.core.usage_series import SeriesKey, UsageQuestion, UsageSeries
from app.recommender.core.histograms import Floats
from app.recommender.core.moments import SECOND, moment
from app.recommender.core.promql import Flaws, PastRules, Series, read_series, selector

_RANK: Final = "rank"  # the label that tells them apart
_RANKS: Final = {"median": "quantile {by} (0.5, {of})", "high": "quantile {by} (0.95, {of})"}
_HIGHEST: Final = "max {by} ({of})"
_FEWEST_SECONDS: Final = 120  # that a rate is taken over: two scrapes at least
_UNITS: Final = {CPU: 1000.0, MEMORY: 1.0}  # millicores and bytes


@dataclass(frozen=True, slots=True)
class RangeQuery:
    """A query over a time, both ends included."""

    resource: str
    query: str
    start: datetime
    end: datetime
    step: timedelta


def range_queries(question: UsageQuestion, rules: PastRules) -> Iterator[RangeQuery]:
    """Yield what to ask."""
    wanted = question.range
    last = (wanted.last_step(question.end) + 1) * wanted.step_seconds  # where it ends
    end = moment(last * SECOND)
    step = timedelta(seconds=wanted.step_seconds)
    start = end - step * (wanted.points - 1)
    selected = selector(rules, question.namespace, question.pods)
    window = max(wanted.step_seconds, _FEWEST_SECONDS)
    usage = {
        CPU: f"rate({rules.cpu_metric}{selected}[{window}s])",
        MEMORY: f"max_over_time({rules.memory_metric}{selected}[{window}s])",
    }
    for resource, of in usage.items():
        yield RangeQuery(resource, _ranked(of, rules.container_name_label), start, end, step)


def _ranked(of: str, container_label: str) -> str:
    by = f"by ({container_label})"
    words = {**_RANKS, "highest": _HIGHEST}
    return " or ".join(
        f'label_replace({text.format(by=by, of=of)}, "{_RANK}", "{name}", "", "")'
        for name, text in words.items()
    )


def read_answer(
    query: RangeQuery, body: Object, rules: PastRules, flaws: Flaws
) -> dict[SeriesKey, UsageSeries]:
    """Return the series of an answer; what cannot be read is noted.

    Raises:
        BadObject: it is no answer.
    """
    found: dict[str, dict[str, Floats]] = defaultdict(dict)
    for series in read_series(body, flaws):
        container, rank = series.labels.get(rules.container_name_label), series.labels.get(_RANK)
        if container and rank:
            found[container][rank] = _on_grid(query, series)
    return {
        (container, query.resource): _series(query, ranks)
        for container, ranks in sorted(found.items())
    }


def _series(query: RangeQuery, ranks: Mapping[str, Floats]) -> UsageSeries:
    step_seconds = int(query.step.total_seconds())
    nothing = np.full(_points(query), np.nan)
    return UsageSeries(
        int(query.start.timestamp()) - step_seconds,  # a point stands for the step before it
        step_seconds,
        *(ranks.get(rank, nothing) for rank in (*_RANKS, "highest")),
    )


def _on_grid(query: RangeQuery, series: Series) -> Floats:
    """Return a value for each step; NaN where there is none, or one that cannot be."""
    grid = np.full(_points(query), np.nan)
    times, values = np.array(series.times), np.array(series.values)
    places = np.rint((times - query.start.timestamp()) / query.step.total_seconds())
    fits = (places >= 0) & (places < len(grid)) & np.isfinite(values) & (values >= 0.0)
    grid[places[fits].astype(np.intp)] = values[fits] * _UNITS[query.resource]
    return grid


def _points(query: RangeQuery) -> int:
    return (query.end - query.start) // query.step + 1
