"""The usage of all containers in the last 24 hours, in bounded memory.

Strategy: a row for each container in two rings, one of minutes for the last hour and one of five
minutes for the last day. An amount takes two bytes, the logarithm of it: steps of 0.05 percent, in
the same order as the amounts, so that pods are ranked without reading them back. A row is used
again when its pod is gone for a day; when no row is left, those that were silent longest go first.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import numpy as np
from numpy.typing import NDArray

from app.model.quantity import CPU, MEMORY, SIZED
from app.page.core.usage_series import (
    ChartRange,
    SeriesKey,
    UsageQuestion,
    UsageSeries,
    compiled,
    ranked,
)
from app.recommender.core.estimation import MOST
from app.recommender.core.histograms import Floats, Indexes
from app.recommender.core.usage import ABSENT, UsageBatch

Codes = NDArray[np.uint16]  # amounts; 0: nothing is known

Place = tuple[str, str]  # pod and container

_SCALE: Final = 65_000 / np.log2(MOST)
_FREE: Final = 2**62  # where the minute of a row stands that is free
_FIRST_ROWS: Final = 4096  # doubled whenever they do not do
_SPARE: Final = 1024  # rows that are freed at once
_SILENT_MINUTES: Final = 5  # after which a container counts as gone
_MINUTES_A_STEP: Final = ChartRange.DAY.step_seconds // ChartRange.HOUR.step_seconds
_MINUTES_A_DAY: Final = 24 * 60


def encoded(amounts: NDArray[np.int64] | Floats) -> Codes:
    """Return amounts in two bytes; those that are not given stay so."""
    logs = np.rint(np.log2(np.maximum(amounts, 0) + 1.0) * _SCALE)
    return np.where(amounts < 0, 0, logs + 1).astype(np.uint16)


def decoded(codes: Codes) -> Floats:
    """Return whole amounts; NaN where nothing is known."""
    amounts = np.rint(np.exp2((codes - 1.0) / _SCALE) - 1.0)
    return np.where(codes == 0, np.nan, amounts)


@dataclass(slots=True, eq=False)
class _Columns:
    """Steps of equal length, the newest in the place of the oldest."""

    step_seconds: int
    codes: dict[str, Codes]  # by resource, a line for each step
    newest: int = -1  # number of a step since 1970

    @staticmethod
    def of(found: ChartRange, rows: int) -> _Columns:
        shape = (found.points + _MINUTES_A_STEP + 1, rows)
        codes = {resource: np.zeros(shape, np.uint16) for resource in SIZED}
        return _Columns(found.step_seconds, codes)

    def grow(self, rows: int) -> None:
        """Take in more rows, of which nothing is known."""
        for resource, codes in self.codes.items():
            grown = np.zeros((len(codes), rows), np.uint16)
            grown[:, : codes.shape[1]] = codes
            self.codes[resource] = grown

    def forward(self, step: int, used: int) -> None:
        """Go on to a step; what lies between is not known."""
        length = len(self.codes[SIZED[0]])
        for number in range(max(self.newest + 1, step - length + 1), step + 1):
            for codes in self.codes.values():
                codes[number % length, :used] = 0
        self.newest = max(self.newest, step)

    def raise_to(self, resource: str, step: int, rows: Indexes, codes: Codes) -> None:
        """Write amounts of some rows, unless more is known."""
        np.maximum.at(self.codes[resource][step % len(self.codes[resource])], rows, codes)

    def clear(self, rows: Indexes) -> None:
        """Forget some rows."""
        for codes in self.codes.values():
            codes[:, rows] = 0

    def lines(self, resource: str, last: int, count: int, rows: Indexes) -> Codes:
        """Return so many steps up to one, oldest first, of some rows."""
        codes = self.codes[resource]
        wanted = np.arange(last - count + 1, last + 1)
        found: Codes = codes[(wanted % len(codes))[:, None], rows]
        kept = (wanted <= self.newest) & (wanted > self.newest - len(codes))
        found[~kept] = 0
        return found


class UsageRing:
    """Rows of containers; not to be shared between threads without a lock."""

    def __init__(self, most_rows: int = 120_000) -> None:
        self.left_out = 0  # containers of the last minute that found no row
        self._most = most_rows
        self._rows: dict[str, dict[Place, int]] = defaultdict(dict)  # by namespace
        self._names: list[tuple[str, Place]] = []  # by row
        self._free: list[int] = []
        self._words: dict[str, str] = {}  # names of containers, each stored once
        self._seen = np.zeros(min(_FIRST_ROWS, most_rows), np.int64)  # in which minute last
        self._minutes = _Columns.of(ChartRange.HOUR, len(self._seen))
        self._steps = _Columns.of(ChartRange.DAY, len(self._seen))

    def __len__(self) -> int:
        return len(self._names) - len(self._free)

    def take(self, batch: UsageBatch, now: datetime) -> None:
        """Take in usage as it is now, all of it or a part."""
        minute = math.floor(now.timestamp()) // ChartRange.HOUR.step_seconds
        if self._minutes.newest - minute >= ChartRange.HOUR.points:
            self._begin_again()  # the clock was wrong before, or is now
        if minute > self._minutes.newest:
            self._forward(minute)
        minute = self._minutes.newest
        rows = np.array([self._row(*key, minute) for key in batch.containers], np.intp)
        found = rows >= 0
        rows = rows[found]
        for resource, amounts in zip(
            SIZED, (batch.cpu_millicores, batch.memory_bytes), strict=True
        ):
            self._minutes.raise_to(resource, minute, rows, encoded(amounts[found]))

    def read(self, question: UsageQuestion) -> dict[SeriesKey, UsageSeries]:
        """Return what is known of some pods in the last hour, or else in the last day."""
        is_hour = question.range is ChartRange.HOUR
        columns, wanted = (
            (self._minutes, ChartRange.HOUR) if is_hour else (self._steps, ChartRange.DAY)
        )
        last = wanted.last_step(question.end)
        start = (last - wanted.points + 1) * wanted.step_seconds
        found: dict[SeriesKey, UsageSeries] = {}
        for container, rows in sorted(self._rows_of(question).items()):
            for resource in SIZED:
                codes = columns.lines(resource, last, wanted.points, np.array(rows, np.intp))
                if codes.any():
                    series = UsageSeries(start, wanted.step_seconds, *decoded(ranked(codes, 0)))
                    found[container, resource] = series
        return found

    def _rows_of(self, question: UsageQuestion) -> dict[str, list[int]]:
        """Return the rows of the pods that are asked for, by container."""
        fits = compiled(question.pods).fullmatch
        found: dict[str, list[int]] = defaultdict(list)
        for (pod, container), row in self._rows.get(question.namespace, {}).items():
            if fits(pod):
                found[container].append(row)
        return found

    def _forward(self, minute: int) -> None:
        """Sum up the step that has ended, if one has, and go on to a minute."""
        self.left_out = 0
        step = self._minutes.newest // _MINUTES_A_STEP
        if step < minute // _MINUTES_A_STEP and self._minutes.newest >= 0:
            self._sum_up(step)
            self._release(np.flatnonzero(self._seen[: len(self._names)] < minute - _MINUTES_A_DAY))
        self._minutes.forward(minute, len(self._names))

    def _begin_again(self) -> None:
        for columns in (self._minutes, self._steps):
            columns.newest = -1
            columns.clear(np.arange(len(self._names)))
        self._seen[: len(self._names)] = np.minimum(self._seen[: len(self._names)], 0)

    def _sum_up(self, step: int) -> None:
        """Write the minutes of a step as one point: CPU on average, memory at its peak."""
        rows = np.arange(len(self._names))
        self._steps.forward(step, len(rows))
        last = (step + 1) * _MINUTES_A_STEP - 1
        cpu, memory = (
            self._minutes.lines(resource, last, _MINUTES_A_STEP, rows) for resource in SIZED
        )
        counts = np.count_nonzero(cpu, axis=0)
        sums = np.nan_to_num(decoded(cpu)).sum(axis=0)
        means = np.where(counts > 0, sums / np.maximum(counts, 1), ABSENT)
        self._steps.raise_to(CPU, step, rows, encoded(means))
        self._steps.raise_to(MEMORY, step, rows, memory.max(axis=0))

    def _row(self, namespace: str, pod: str, container: str, minute: int) -> int:
        """Return the row of a container, a new one if need be, -1 if there is none."""
        rows = self._rows[namespace]
        found = rows.get((pod, container))
        if found is not None:
            self._seen[found] = minute
            return found
        if not self._free and len(self._names) >= self._most and not self.left_out:
            silent = np.flatnonzero(self._seen < minute - _SILENT_MINUTES)
            self._release(silent[np.argsort(self._seen[silent], kind="stable")[:_SPARE]])
        place = (pod, self._words.setdefault(container, container))
        if self._free:
            row = self._free.pop()
            self._names[row] = (namespace, place)
        elif len(self._names) < self._most:
            row = len(self._names)
            if row == len(self._seen):
                self._grow(min(2 * row, self._most))
            self._names.append((namespace, place))
        else:
            self.left_out += 1
            return -1
        rows[place] = row
        self._seen[row] = minute
        return row

    def _grow(self, rows: int) -> None:
        """Make room: what is not needed yet takes no memory."""
        self._seen = np.pad(self._seen, (0, rows - len(self._seen)))
        self._minutes.grow(rows)
        self._steps.grow(rows)

    def _release(self, rows: Indexes) -> None:
        """Let rows be used again."""
        for row in rows.tolist():
            namespace, place = self._names[row]
            del self._rows[namespace][place]
            if not self._rows[namespace]:
                del self._rows[namespace]
            self._free.append(row)
        self._seen[rows] = _FREE
        self._minutes.clear(rows)
        self._steps.clear(rows)
