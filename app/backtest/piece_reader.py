"""Reads a piece of a recording out of the answers of Prometheus.

    reader = PieceReader(names, span, piece)
    for what in (*Answered, *RosterKind):
        reader.take(what, <the answer of Prometheus to reader.question(what, piece)>)
    reader.recording()

Strategy: what cannot be read costs itself alone, one series or one point, and is counted. Amounts
that cannot be are not known. A request counts for the steps in which its container used something:
pods that wait or have ended reserve nothing that they could use.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final

import numpy as np
from numpy.typing import NDArray

from app.backtest.pieces import RecordingPiece, RecordingSpan
from app.backtest.prometheus_queries import (
    Answered,
    MetricNames,
    RosterKind,
    owner_label,
    roster_queries,
    step_queries,
)
from app.backtest.recording import MOST, RecordedContainer, Recording, problem_of_name
from app.model.errors import BadObject
from app.model.fields import Object
from app.recommender.core.promql import Flaws, Series, label, read_series
from app.recommender.core.reading import Question

_Pair = tuple[str, str]
_Values = NDArray[np.float64]  # of one container; in front the step before the piece

_RESOURCES: Final = ("cpu", "memory")
_BY_RESOURCE: Final = {Answered.REQUESTS: "request", Answered.LIMITS: "limit"}
_OF_CADVISOR: Final = (Answered.MEMORY, Answered.CPU, Answered.OOM_EVENTS, Answered.THROTTLED)
_COUNTERS: Final = (Answered.RESTARTS, Answered.LAST_KILLED, Answered.ENDED_KILLED)
_ROUNDING: Final = 1e-6
_DIGITS: Final = 9  # behind the point; a share may be above 1 by less
_NO_OWNER: Final = "<none>"
_NODE: Final = "Node"  # owns the pods of a kubelet's own files
_OWNED_BY: Final = {"ReplicaSet": RosterKind.REPLICA_SETS, "Job": RosterKind.JOBS}
_UNKNOWN: Final = ("", "")


class PieceReader:
    """One piece; not to be shared between threads."""

    def __init__(self, names: MetricNames, span: RecordingSpan, piece: RecordingPiece) -> None:
        self.flaws = Flaws()
        self._names = names
        self._span = span
        self._piece = piece
        self._found: dict[str, dict[_Pair, _Values]] = {}
        self._owners: dict[RosterKind, dict[str, _Pair]] = {kind: {} for kind in RosterKind}
        self._excluded: set[_Pair] = set()
        self._takes: Mapping[Answered | RosterKind, Callable[[Series], None]] = {
            **{each: self._taker(each) for each in Answered},
            **{each: self._roster_taker(each) for each in RosterKind},
        }

    def question(self, what: Answered | RosterKind, part: RecordingPiece) -> Question:
        """Return what to ask for a part of the piece."""
        span, names, space = self._span, self._names, part.namespace
        end, step = _moment(span.time(part.until)), timedelta(seconds=span.step)
        if isinstance(what, RosterKind):
            return Question(roster_queries(names, space, part.count * span.step)[what], end)
        first = part.first if what in _COUNTERS else part.first + 1
        query = step_queries(names, space, span.step)[what]
        return Question(query, end, _moment(span.time(first)), step)

    @property
    def containers(self) -> int:
        """Of how many containers memory is known."""
        return len(self._of("memory"))

    def take(self, what: Answered | RosterKind, body: Object) -> None:
        """Take an answer, or a part of one.

        Raises:
            BadObject: it is none.
        """
        take = self._takes[what]
        for series in read_series(body, self.flaws):
            try:
                take(series)
            except BadObject as error:
                self.flaws.series += 1
                self.flaws.note(f"{what}: {error}")

    def recording(self) -> Recording:
        """Return all that was answered."""
        used = self._of("cpu").keys() | self._of("memory").keys()
        pairs = sorted(pair for pair in used if self._is_sized(pair))
        rows = [
            RecordedContainer(self._piece.namespace, *self._topmost(pod), pod, container)
            for pod, container in pairs
        ]
        span, piece = self._span, self._piece
        found = Recording.unknown(span.time(piece.first), span.step, piece.count, rows)
        for measure in (*_RESOURCES, "throttled"):
            self._fill(found, measure, pairs)
        is_used = ~(np.isnan(found.cpu) & np.isnan(found.memory))
        for suffix in _BY_RESOURCE.values():
            for resource in _RESOURCES:
                self._fill(found, f"{resource}_{suffix}", pairs)
                amounts = found.measured(f"{resource}_{suffix}")
                amounts[~is_used] = np.nan
                self._say_none(amounts, is_used, pairs)
        unlimited = is_used & np.isnan(found.throttled) & (found.cpu_limit == 0)
        found.throttled[unlimited] = 0
        self._count(found, pairs)
        return replace(found)  # which checks it

    # --- how answers are read

    def _of(self, what: str) -> dict[_Pair, _Values]:
        return self._found.setdefault(what, {})

    def _taker(self, what: Answered) -> Callable[[Series], None]:
        names = self._names
        prefix = names.state_prefix
        pod, container = f"{prefix}pod", f"{prefix}container"
        if what in _OF_CADVISOR:
            pod, container = names.pod, names.container

        def take(series: Series) -> None:
            measure: str = what
            if what in _BY_RESOURCE:
                measure = f"{label(series, 'resource')}_{_BY_RESOURCE[what]}"
            pair = _named(series, pod), _named(series, container)
            values = self._values(series, MOST.get(measure, np.inf))
            before = self._of(measure).get(pair, values)
            self._of(measure)[pair] = np.where(np.isnan(values), before, values)

        return take

    def _roster_taker(self, kind: RosterKind) -> Callable[[Series], None]:
        if kind is RosterKind.INIT_CONTAINERS:
            prefix = self._names.state_prefix
            pod, container = f"{prefix}pod", f"{prefix}container"
            return lambda one: self._excluded.add((label(one, pod), label(one, container)))
        owned = owner_label(self._names, kind)

        def take(series: Series) -> None:
            owner = _named(series, "owner_kind"), _named(series, "owner_name")
            self._owners[kind][label(series, owned)] = owner

        return take

    def _values(self, series: Series, most: float) -> _Values:
        """Return the points of a series by step; what cannot be is not known."""
        origin = self._span.time(self._piece.first)
        times = np.array(series.times, dtype=np.float64)
        values = np.round(np.array(series.values, dtype=np.float64), _DIGITS)
        columns = np.rint((times - origin) / self._span.step)
        is_here = (columns >= 0) & (columns <= self._piece.count)
        can_be = (values >= 0) & (values <= most) & np.isfinite(values)
        self.flaws.points += int((~can_be & ~np.isnan(values)).sum())
        found = np.full(self._piece.count + 1, np.nan)
        kept = is_here & can_be
        found[columns[kept].astype(np.intp)] = values[kept]
        return found

    # --- what follows from them

    def _is_sized(self, pair: _Pair) -> bool:
        """Whether a VPA could size a container: not of a pod without any controller."""
        kind, _ = self._owners[RosterKind.PODS].get(pair[0], _UNKNOWN)
        return kind not in {_NO_OWNER, _NODE} and pair not in self._excluded

    def _topmost(self, pod: str) -> _Pair:
        """Return the topmost controller of a pod; without its own owner none is known."""
        kind, name = self._owners[RosterKind.PODS].get(pod, _UNKNOWN)
        if kind not in _OWNED_BY:
            return kind, name
        above = self._owners[_OWNED_BY[kind]].get(name, _UNKNOWN)
        return (kind, name) if above[0] == _NO_OWNER else above

    def _fill(self, found: Recording, measure: str, pairs: list[_Pair]) -> None:
        """Lay values out in rows."""
        values, amounts = self._of(measure), found.measured(measure)
        for row, pair in enumerate(pairs):
            if pair in values:
                amounts[row] = values[pair][1:]

    def _say_none(
        self, amounts: NDArray[np.float32], is_used: NDArray[np.bool_], pairs: list[_Pair]
    ) -> None:
        """Write 0 where kube-state-metrics knows a pod and has no amount of its container."""
        known = self._owners[RosterKind.PODS]
        is_known = np.array([pod in known for pod, _ in pairs], np.bool_) & self._names.has_requests
        has_none = np.isnan(amounts).all(axis=1) & is_known
        amounts[is_used & has_none[:, None]] = 0

    def _count(self, found: Recording, pairs: list[_Pair]) -> None:
        """Count restarts, and those that followed an OOM kill."""
        restarts, last = self._of(Answered.RESTARTS), self._of(Answered.LAST_KILLED)
        ended, events = self._of(Answered.ENDED_KILLED), self._of(Answered.OOM_EVENTS)
        nothing = np.full(self._piece.count + 1, np.nan)
        for row, pair in enumerate(pairs):
            if pair in restarts:
                found.restarts[row] = np.rint(rises(restarts[pair]))
                found.oom_kills[row] = _kills(found.restarts[row], last.get(pair, nothing) == 1)
                if np.nanmax(restarts[pair], initial=0) == 0:  # it is not started again
                    found.oom_kills[row] += rises(np.nan_to_num(ended.get(pair, nothing)))
            if pair in events:
                seen = np.floor(events[pair][1:] + _ROUNDING)  # `increase` is never too low
                found.oom_kills[row] = np.fmax(found.oom_kills[row], seen)
        np.minimum(found.oom_kills, MOST["oom_kills"], out=found.oom_kills)


def _kills(restarts: NDArray[np.float32], was_killed: NDArray[np.bool_]) -> NDArray[np.float32]:
    """Return how many restarts followed an OOM kill.

    Only the reason of the last one in a step is told; if that of the one before the step is the
    same, so are those between.
    """
    before, now = was_killed[:-1], was_killed[1:]
    return np.where(before, restarts, np.minimum(restarts, 1)) * now


def rises(totals: _Values) -> _Values:
    """Return by how much a counter rose in each step after the first; it may begin again.

    A gap says nothing: what happened in it counts when the counter is seen again. So does a
    counter that is seen for the first time: what it counted before is not known.
    """
    known = ~np.isnan(totals)
    last = np.maximum.accumulate(np.where(known, np.arange(len(totals)), -1))
    before = np.where(last >= 0, totals[last], np.nan)[:-1]
    now = totals[1:]
    began = np.isnan(before)
    rise = np.where(now >= before, now - before, now)
    return np.where(began & ~np.isnan(now), 0.0, rise)


def _named(series: Series, name: str) -> str:
    """Return the name that a label holds.

    Raises:
        BadObject: it is none.
    """
    found = label(series, name)
    if problem := problem_of_name(found):
        raise BadObject(name, problem)
    return found


def _moment(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
