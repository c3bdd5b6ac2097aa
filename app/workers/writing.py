"""Brings what a recommender's model says into the cluster; what is urgent does not wait in line.

Strategy: writes go out in pieces. Between two of them we ask what has become urgent, and that goes
first, in place of what it puts out of date. When time is over the rest fails at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from math import inf
from typing import Final

from app.core.recommendation.checkpoints import Checkpoint
from app.core.recommendation.models import RecommenderModel
from app.core.recommendation.observations import VpaKey
from app.core.recommendation.publications import Publication, Why
from app.ports import Clock
from app.telemetry.recommender import RecommenderMetrics, Written
from app.workers.pen import Pen

_PIECE: Final = 50  # writes, about a second's worth


@dataclass(frozen=True, slots=True)
class WritingRules:
    """For how long statuses and checkpoints are written, and how many in any case."""

    status_seconds: float
    checkpoint_seconds: float
    least_vpas: int  # whose checkpoints are written however long it takes


@dataclass(frozen=True, slots=True)
class Desk:
    """What writing needs."""

    model: RecommenderModel
    pen: Pen
    clock: Clock
    metrics: RecommenderMetrics
    may_write: Callable[[], bool]
    urgent: Callable[[], Sequence[Publication]]  # what must not wait
    created: Callable[[VpaKey], datetime | None]  # when a VPA was


class Writing:
    """Writes for one model, which is told what failed."""

    def __init__(self, desk: Desk, rules: WritingRules) -> None:
        self._desk = desk
        self._rules = rules

    def publish(self, publications: Sequence[Publication]) -> tuple[int, int]:
        """Write statuses, also those that become urgent; return how many were written, or not."""
        until = self._desk.clock.monotonic() + self._rules.status_seconds
        waiting, tried, failed = _by_key(publications), 0, 0
        while waiting:
            count = self._length(len(waiting), until)
            piece = [waiting.pop(key) for key in tuple(islice(waiting, count))]
            tried, failed = tried + count, failed + self._published(piece, until)
            if news := _by_key(self._desk.urgent()):
                for key in news:
                    waiting.pop(key, None)
                waiting = news | waiting
        return tried - failed, failed

    def store(self, checkpoints: Sequence[Checkpoint]) -> int:
        """Write checkpoints; return how many were written."""
        until = self._desk.clock.monotonic() + self._rules.checkpoint_seconds
        count = _length_of_vpas(checkpoints, self._rules.least_vpas)
        failures = self._stored(checkpoints[:count], inf)
        for piece in self._pieces(checkpoints[count:], until):
            self.publish(self._desk.urgent())
            failures += self._stored(piece, until)
        return len(checkpoints) - failures

    def _published(self, piece: Sequence[Publication], until: float) -> int:
        desk = self._desk
        failed = desk.pen.publish(piece, until - desk.clock.monotonic(), desk.may_write)
        desk.metrics.writes_failed(Written.STATUS, len(failed))
        for one in failed:
            desk.model.not_published(one.namespace, one.name)
        first = {key for key, one in _by_key(piece).items() if one.why is Why.FIRST}
        for key in first - _by_key(failed).keys():
            self._time_first(key)
        return len(failed)

    def _stored(self, piece: Sequence[Checkpoint], until: float) -> int:
        desk = self._desk
        failed = desk.pen.store(piece, until - desk.clock.monotonic(), desk.may_write)
        desk.metrics.writes_failed(Written.CHECKPOINT, len(failed))
        for one in failed:
            desk.model.not_stored(one)
        return len(failed)

    def _pieces(self, tasks: Sequence[Checkpoint], until: float) -> Iterator[Sequence[Checkpoint]]:
        while tasks:
            count = self._length(len(tasks), until)
            yield tasks[:count]
            tasks = tasks[count:]

    def _length(self, count: int, until: float) -> int:
        """Return how many of so many writes come next: all of them if none of them can be made."""
        can = self._desk.clock.monotonic() < until and self._desk.may_write()
        return min(_PIECE, count) if can else count

    def _time_first(self, key: VpaKey) -> None:
        if (created := self._desk.created(key)) is not None:
            seconds = (self._desk.clock.now() - created).total_seconds()
            self._desk.metrics.first_recommendation(max(seconds, 0.0))


def _by_key(publications: Sequence[Publication]) -> dict[VpaKey, Publication]:
    return {(one.namespace, one.name): one for one in publications}


def _length_of_vpas(checkpoints: Sequence[Checkpoint], vpas: int) -> int:
    """Return how many checkpoints from the first on belong to so many VPAs."""
    seen = set[VpaKey]()
    for count, one in enumerate(checkpoints):
        seen.add((one.namespace, one.vpa))
        if len(seen) > vpas:
            return count
    return len(checkpoints)
