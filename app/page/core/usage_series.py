"""Usage of a workload over time: what is asked for, and the series that answer.

Strategy: time is cut into equal steps from 1970 on, so that two answers about the same step say
the same. A point sums up what the pods used in one step: the median pod, the one at 95 percent,
the highest. CPU of a pod is its average in the step, memory its peak. Pods that are gone are found
by their names, as controllers name them, because nothing else of them is left.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from functools import lru_cache
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from app.recommender.core.histograms import Floats

N = TypeVar("N", bound=np.generic)

SeriesKey = tuple[str, str]  # container, resource

_SHARES: Final = (0.5, 0.95, 1.0)
# What generated names end with: no vowels, nor what looks like another character.
_SUFFIX: Final = "[bcdfghjklmnpqrstvwxz2456789]"
_REPLICA: Final = f"{_SUFFIX}{{1,10}}-{_SUFFIX}{{5}}"
_ENDINGS: Final = {  # of the names of pods, by the kind of their topmost controller
    "Deployment": _REPLICA,
    "StatefulSet": "[0-9]+",
    "CronJob": f"[0-9]+-{_SUFFIX}{{5}}",
    **dict.fromkeys(("DaemonSet", "ReplicaSet", "ReplicationController"), f"{_SUFFIX}{{5}}"),
    "Job": f"(?:[0-9]+-)?{_SUFFIX}{{5}}",
}
_OF_OTHERS: Final = f"(?:{_REPLICA}|[0-9]+)"
_MOST_NAMED: Final = 200  # pods that only their names tell


class ChartRange(Enum):
    """How far back a chart goes, and how long its steps are."""

    HOUR = ("1h", timedelta(hours=1), timedelta(minutes=1))
    DAY = ("24h", timedelta(hours=24), timedelta(minutes=5))
    FORTNIGHT = ("14d", timedelta(days=14), timedelta(hours=1))

    def __init__(self, text: str, length: timedelta, step: timedelta) -> None:
        self.text = text
        self.length = length
        self.step_seconds = int(step.total_seconds())
        self.points = length // step

    def last_step(self, end: datetime) -> int:
        """Return the number of the last step that has ended, counted from 1970."""
        return math.floor(end.timestamp()) // self.step_seconds - 1


@dataclass(frozen=True, slots=True)
class UsageQuestion:
    """The usage of which pods is wanted, and when."""

    namespace: str
    pods: str  # regular expression that whole names match
    range: ChartRange
    end: datetime


@dataclass(frozen=True, slots=True, eq=False)
class UsageSeries:
    """Usage of one resource in one container of some pods; NaN where nothing is known."""

    start: int  # seconds since 1970, when the step of the first point begins
    step_seconds: int
    median: Floats  # of the pods; millicores or bytes
    high: Floats  # at 95 percent
    highest: Floats


@dataclass(frozen=True, slots=True, eq=False)
class KnownUsage:
    """What is known of the past, and what is not."""

    series: Mapping[SeriesKey, UsageSeries]
    source: str  # words such as "Prometheus"
    problem: str = ""  # a sentence, if something that was asked for is missing


def pod_names(kind: str, name: str, living: Collection[str]) -> str:
    """Return what the names of a controller's pods match, also of those that are gone."""
    pattern = f"{re.escape(name)}-{_ENDINGS.get(kind, _OF_OTHERS)}"
    fits = compiled(pattern).fullmatch
    others = [one for one in living if not fits(one)]
    return f"{pattern}|{escaped(others)}" if others else pattern


def escaped(names: Iterable[str]) -> str:
    """Return what a few names match, and nothing else."""
    return "|".join(map(re.escape, sorted(names)[:_MOST_NAMED]))


@lru_cache(1024)
def compiled(pattern: str) -> re.Pattern[str]:
    """Return a pattern that many names are compared with."""
    return re.compile(pattern)


def ranked(values: NDArray[N], absent: int) -> NDArray[N]:
    """Return the median, the one at 95 percent and the highest of each line.

    What is not above `absent` is not known, and `absent` stands where nothing is.
    """
    ordered = np.sort(np.pad(values, ((0, 0), (1, 0)), constant_values=absent), axis=1)
    counts = np.count_nonzero(ordered > absent, axis=1)
    first = ordered.shape[1] - counts
    lines = np.arange(len(ordered))
    places = (np.ceil(counts * share).astype(np.int64) - 1 + first for share in _SHARES)
    return np.stack([ordered[lines, np.minimum(at, ordered.shape[1] - 1)] for at in places])


def known_since(found: KnownUsage, since: datetime) -> KnownUsage:
    """Return what is known from a moment on, as what was before is of other pods."""
    told = f"usage is shown since {since:%Y-%m-%d %H:%M} UTC, when the role moved"
    series = {key: _since(one, since.timestamp()) for key, one in found.series.items()}
    return KnownUsage(series, found.source, "; ".join(filter(None, (told, found.problem))))


def _since(series: UsageSeries, seconds: float) -> UsageSeries:
    begins = series.start + np.arange(len(series.median)) * series.step_seconds
    lines = (series.median, series.high, series.highest)
    cut = (np.where(begins >= seconds, line, np.nan) for line in lines)
    return UsageSeries(series.start, series.step_seconds, *cut)


def coarser(series: UsageSeries, most: int) -> UsageSeries:
    """Return a series of so many points at most: medians on average, of the others the highest."""
    together = -(-len(series.median) // most)
    if together <= 1:
        return series
    begins = np.arange(0, len(series.median), together)
    known = np.add.reduceat(~np.isnan(series.median) * 1.0, begins)
    sums = np.add.reduceat(np.nan_to_num(series.median), begins)
    means = np.where(known > 0, sums / np.maximum(known, 1.0), np.nan)
    tops = (np.fmax.reduceat(line, begins) for line in (series.high, series.highest))
    return UsageSeries(series.start, series.step_seconds * together, means, *tops)
