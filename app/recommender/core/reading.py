"""Reads usage of the past out of Prometheus, question by question.

    reading = Reading(rules, end)
    while (question := reading.question()) is not None:
        reading.take(<the answer of Prometheus>)   # or reading.was_refused(...)
    model.learn_past(reading.usage(), now)

Strategy: it asks for CPU and for memory, each in pieces that follow one another in time, and for
the labels of pods. The first pieces are small, until one tells how many series there are; the
others are as large as an answer can well be. The caller may stop at any question and go on
later, or say that it was refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from math import inf
from typing import Final

import numpy as np

from app.model.errors import BadObject
from app.model.fields import Object
from app.recommender.core.histograms import Amounts, Floats, Indexes
from app.recommender.core.moments import nanoseconds, span
from app.recommender.core.promql import (
    Flaws,
    PastRules,
    Series,
    amounts,
    cpu_query,
    label,
    labels_query,
    memory_query,
    read_series,
)
from app.recommender.core.usage import ABSENT, ContainerKey, PastUsage

_FIRST_POINTS: Final = 24  # of each series
_MOST_POINTS: Final = 10_000  # of each series; Prometheus answers with no more than 11,000
_EMPTY_PIECES: Final = 40  # of a query, until it is known how many series there are
_FEWEST_POINTS: Final = 12  # of each series, unless it was too much
_LARGEST_ANSWER: Final = 250_000  # points of all series
_MILLICORES: Final = 1000.0


class ReadingStage(StrEnum):
    """What is asked for."""

    CPU = "cpu"
    MEMORY = "memory"
    LABELS = "labels"
    DONE = "done"


_USAGE: Final = (ReadingStage.CPU, ReadingStage.MEMORY)


@dataclass(frozen=True, slots=True)
class Question:
    """A query at a time, or over the time from `start` to then."""

    query: str
    end: datetime
    start: datetime | None = None
    step: timedelta = timedelta()


class Reading:
    """The past of all containers, or of those in one namespace, up to a moment."""

    is_repeated = True  # what failed is asked again, and the past of VPAs that come later is read
    live_age = timedelta(minutes=2)  # of usage that is thought of as live

    def __init__(self, rules: PastRules, end: datetime, namespace: str = "") -> None:
        self.flaws = Flaws()
        self._rules = rules
        self._namespace = namespace
        self._step = rules.resolution.span
        self._start = _to_milliseconds(end) - rules.length.span
        self._columns = rules.length.span // self._step + 1
        self._stage = ReadingStage.CPU
        self._done = 0  # columns of this stage
        self._piece, self._most = _FIRST_POINTS, _MOST_POINTS
        self._labels: dict[tuple[str, str], tuple[float, dict[str, str]]] = {}
        self._lines: dict[ContainerKey, int] = {}
        self._used = {stage: np.zeros((0, self._columns), np.int64) for stage in _USAGE}

    @property
    def stage(self) -> ReadingStage:
        """What is asked for."""
        return self._stage

    def question(self) -> Question | None:
        """Return what to ask next, None if everything is known."""
        if self._stage is ReadingStage.DONE:
            return None
        if self._stage is ReadingStage.LABELS:
            return Question(self._labels_query(), self._at(self._columns - 1))
        query = cpu_query if self._stage is ReadingStage.CPU else memory_query
        return Question(
            query(self._rules, self._namespace),
            self._at(self._until - 1),
            self._at(self._done),
            self._step,
        )

    def take(self, body: Object) -> None:
        """Take the answer to the question.

        Raises:
            BadObject: it is none.
        """
        found = self._series(body)
        if self._stage is ReadingStage.LABELS:
            for series in found:
                with self._doubt():
                    self._note_labels(series)
            self._stage = ReadingStage.DONE
            return
        count = self._note_usage(found)
        self._done = self._until
        self._piece = min(self._points(count), self._most)
        if self._done == self._columns:
            self._done = 0
            self._stage = (
                ReadingStage.MEMORY if self._stage is ReadingStage.CPU else ReadingStage.LABELS
            )

    def was_refused(self, *, is_too_much: bool) -> bool:
        """Ask differently from now on; return whether there is another way.

        Without the labels of pods that are gone the past of the others is still worth having.
        """
        if self._stage is ReadingStage.LABELS:
            self.flaws.note("labels: pods that are gone stay without")
            self._stage = ReadingStage.DONE
            return True
        points = self._until - self._done
        if not is_too_much or points == 1:
            return False
        self._piece = self._most = points // 2
        return True

    def usage(self) -> PastUsage:
        """Return what was read."""
        window_ns = span(self._step)
        start_ns = nanoseconds(self._start)
        return PastUsage(
            {key: labels for key, (_, labels) in self._labels.items()},
            list(self._lines),
            start_ns + window_ns * np.arange(self._columns, dtype=np.int64),
            self._table(ReadingStage.CPU)[: len(self._lines)],
            self._table(ReadingStage.MEMORY)[: len(self._lines)],
            window_ns,
            self._step / self._rules.sampling,
            self.flaws.series,
            self.flaws.points,
        )

    # --- how answers are read

    def _labels_query(self) -> str:
        return labels_query(self._rules)

    def _series(self, body: Object) -> Iterator[Series]:
        return read_series(body, self.flaws)

    def _amounts(self, values: Floats, scale: float) -> Amounts:
        return amounts(values, scale)

    # --- inside

    def _points(self, count: int) -> int:
        """Return how many points to ask for after so many series had some."""
        if count:
            return max(_LARGEST_ANSWER // count, _FEWEST_POINTS)
        # That was too long ago for the server, and tells nothing of what comes.
        return max(self._columns // _EMPTY_PIECES, _FIRST_POINTS)

    @property
    def _until(self) -> int:
        """The column before which this piece ends."""
        return min(self._done + self._piece, self._columns)

    def _at(self, column: int) -> datetime:
        return self._start + column * self._step

    @contextmanager
    def _doubt(self) -> Iterator[None]:
        """Count a series that cannot be used."""
        try:
            yield
        except BadObject as error:
            self.flaws.series += 1
            self.flaws.note(f"{self._stage}: {error}")

    def _note_labels(self, series: Series) -> None:
        """Note the labels of a pod; of several series the one that lasted longest counts."""
        rules = self._rules
        key = label(series, rules.pod_namespace_label), label(series, rules.pod_name_label)
        prefix = rules.pod_label_prefix
        newest = max(series.times, default=-inf)
        if key not in self._labels or self._labels[key][0] < newest:
            labels = {
                name.removeprefix(prefix): text
                for name, text in series.labels.items()
                if name.startswith(prefix)
            }
            self._labels[key] = newest, labels

    def _note_usage(self, found: Iterable[Series]) -> int:
        """Note the amounts of containers; return how many series had some."""
        lines, counts = list[int](), list[int]()
        times, values = list[float](), list[float]()
        for series in found:
            with self._doubt():
                lines.append(self._line(series))
                counts.append(len(series.times))
                times += series.times
                values += series.values
        self._put(np.repeat(np.array(lines, np.intp), counts), np.array(times), np.array(values))
        return len(lines)

    def _line(self, series: Series) -> int:
        rules = self._rules
        key = (
            label(series, rules.container_namespace_label),
            label(series, rules.container_pod_name_label),
            label(series, rules.container_name_label),
        )
        return self._lines.setdefault(key, len(self._lines))

    def _put(self, lines: Indexes, times: Floats, values: Floats) -> None:
        """Put amounts in their places; where several series have one, the highest counts."""
        found = self._amounts(values, _MILLICORES if self._stage is ReadingStage.CPU else 1.0)
        columns = np.rint((times - self._start.timestamp()) / self._step.total_seconds())
        good = (found != ABSENT) & (columns >= self._done) & (columns < self._until)
        bad = np.flatnonzero(~good)
        if len(bad):
            self.flaws.points += len(bad)
            name = "/".join(list(self._lines)[lines[bad[0]]])
            self.flaws.note(f"{self._stage}: {name} has amounts that cannot be")
        places = lines[good], columns[good].astype(np.intp)
        np.maximum.at(self._table(self._stage), places, found[good])

    def _table(self, stage: ReadingStage) -> Amounts:
        """Return the amounts of a stage, with room for every container."""
        table, needed = self._used[stage], len(self._lines)
        if len(table) < needed:
            grown = np.full((max(needed, 2 * len(table)), self._columns), ABSENT, dtype=np.int64)
            grown[: len(table)] = table
            self._used[stage] = table = grown
        return table


def _to_milliseconds(moment: datetime) -> datetime:
    """Cut a time off to what Prometheus can tell apart."""
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)
