"""Plays a history through a recommender, tick by tick, and shows the cluster at given times.

Strategy: at one moment first everything that happened, then the tick, then a restart, then the
look. What happened up to the start is there when the process begins; usage waits for the first
tick. A restart ends the process and begins another one, whose ticks count from then on. Usage that
no tick has read by then is read by the next process if that begins with a round; a process that
waits for an interval first, as upstream's, finds only newer usage.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import numpy as np

from app.commands.replaying.changes import RecordedChange
from app.commands.replaying.recorded_history import RecordedHistory
from app.commands.replaying.recorded_objects import RecordedObjects
from app.commands.replaying.replayed_recommender import ReplayedRecommender
from app.model.vpa import Vpa
from app.recommender.configuration import RoundRules
from app.recommender.core.checkpoints import Checkpoint
from app.recommender.core.moments import moment
from app.recommender.core.oom import OomRecord

_NEVER: Final = 2**63


@dataclass(frozen=True, slots=True)
class ReplaySchedule:
    """When things are done; in nanoseconds."""

    start: int
    interval: int
    until: int | None = None  # else until a tick has seen everything
    looks: Sequence[int] = ()  # in order; none of them means a look at the end
    every_tick: bool = False  # look after each tick as well


@dataclass(frozen=True, slots=True)
class ReplayLook:
    """The cluster at one moment: all VPAs, and the checkpoints that were written."""

    now: datetime
    vpas: list[Vpa]
    checkpoints: list[Checkpoint]


class Replay:
    """A history that is played once."""

    def __init__(
        self,
        history: RecordedHistory,
        objects: RecordedObjects,
        rules: RoundRules,
        schedule: ReplaySchedule,
        progress: Callable[[float], None] = lambda _share: None,
    ) -> None:
        self.tally: Counter[str] = Counter()  # what became of samples and kills
        self.problems: list[str] = []  # sentences about what could not be used
        self._history = history
        self._objects = objects
        self._rules = rules
        self._schedule = schedule
        self._progress = progress
        self._recommender: ReplayedRecommender | None = None
        self._early: list[OomRecord] = []  # kills that were not handed on yet
        self._next = 0  # of the events
        self._sample = 0  # the first that was not read yet
        self._restart_index = 0
        self._look_index = 0
        self._tick_ns = _NEVER
        self._ticked_ns = -_NEVER
        last_ns = history.bounds[1] if history.bounds is not None else schedule.start
        self._last_ns = max(last_ns, schedule.start)

    def play(self) -> Iterator[ReplayLook]:
        """Play to the end and yield what was asked for."""
        schedule = self._schedule
        while True:
            time_ns, act = min(self._steps(), key=lambda step: step[0])
            if self._is_over(time_ns):
                break
            found = act(time_ns)
            if found is not None:
                yield found
        if not schedule.looks and not schedule.every_tick:
            yield self._look(schedule.until if schedule.until is not None else self._ticked_ns)
        self._forget()

    def _steps(self) -> tuple[tuple[int, Callable[[int], ReplayLook | None]], ...]:
        """Return what comes next of each kind; of the same moment the first goes first."""
        events = self._history.events[self._next : self._next + 1]
        restarts = self._history.restarts[self._restart_index : self._restart_index + 1]
        looks = self._schedule.looks[self._look_index : self._look_index + 1]
        return (
            (events[0].time_ns if events else _NEVER, self._happen),
            (self._schedule.start if self._recommender is None else _NEVER, self._begin),
            (self._tick_ns, self._tick),
            (restarts[0] if restarts else _NEVER, self._restart),
            (looks[0] if looks else _NEVER, self._look_on),
        )

    def _is_over(self, time_ns: int) -> bool:
        schedule = self._schedule
        if schedule.until is not None:
            return time_ns > schedule.until
        if schedule.looks:
            return self._look_index == len(schedule.looks)
        return self._ticked_ns >= self._last_ns

    def _happen(self, time_ns: int) -> ReplayLook | None:
        what, now = self._history.events[self._next].what, moment(time_ns)
        self._next += 1
        if isinstance(what, RecordedChange):
            is_new = self._objects.take(what, now)
            if self._recommender is not None:
                self._recommender.hear(what, now, is_new=is_new)
        elif self._recommender is None:
            self._early.append(what)
        else:
            self._recommender.kill([what], now)
        return None

    def _begin(self, time_ns: int) -> None:
        now = moment(time_ns)
        self._recommender = ReplayedRecommender(self._objects, self._rules, now)
        if self._early:
            self._recommender.kill(self._early, now)
            self._early = []
        self._tick_ns = time_ns + self._schedule.interval

    def _restart(self, time_ns: int) -> None:
        self._restart_index += 1
        if self._recommender is None:
            return
        if not self._rules.variant.begins_at_once:
            self._sample = self._samples_until(time_ns)
        self._recommender.end(moment(time_ns))
        self._forget()
        self._begin(time_ns)

    def _samples_until(self, time_ns: int) -> int:
        """Return how many samples there are up to a moment."""
        return int(np.searchsorted(self._history.usage.seen, time_ns, side="right"))

    def _tick(self, time_ns: int) -> ReplayLook | None:
        usage, first = self._history.usage, self._sample
        self._sample = self._samples_until(time_ns)
        if self._recommender is not None:
            batch = usage.between(first, self._sample)
            is_watched = self._is_watched(time_ns)
            self._recommender.play_round(batch, moment(time_ns), is_watched=is_watched)
        self._ticked_ns, self._tick_ns = time_ns, time_ns + self._schedule.interval
        self._progress(self._share(time_ns))
        return self._look(time_ns) if self._schedule.every_tick else None

    def _is_watched(self, time_ns: int) -> bool:
        """Whether anything can make a difference between what this tick writes and the next."""
        next_ns = time_ns + self._schedule.interval
        (happening_ns, _), _, _, (restart_ns, _), (look_ns, _) = self._steps()
        is_last = time_ns >= self._last_ns or next_ns > (self._schedule.until or _NEVER)
        return is_last or min(happening_ns, restart_ns, look_ns) <= next_ns

    def _look_on(self, time_ns: int) -> ReplayLook:
        self._look_index += 1
        return self._look(time_ns)

    def _look(self, time_ns: int) -> ReplayLook:
        objects, only = self._objects, self._rules.namespace
        vpas = [vpa for vpa in objects.vpas() if only in ("", vpa.namespace)]
        written = [objects.checkpoints[key] for key in sorted(objects.written)]
        return ReplayLook(
            moment(time_ns), sorted(vpas, key=lambda v: (v.namespace, v.name)), written
        )

    def _forget(self) -> None:
        """Let the process go; what it counted and complained of is kept."""
        if self._recommender is not None:
            self.tally.update(self._recommender.model.tally.counts())
            self.problems += self._recommender.problems
        self._recommender = None

    def _share(self, time_ns: int) -> float:
        """Return how much of the time is over."""
        schedule = self._schedule
        until = schedule.until if schedule.until is not None else self._last_ns
        return min((time_ns - schedule.start) / max(until - schedule.start, 1), 1.0)
