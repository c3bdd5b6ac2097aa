"""The time of the sandbox: it runs at some speed, or moves only when a test says so.

Strategy: whatever is to happen later stands in the agenda of the clock and happens in order of
time; what is due at the same moment, in the order in which it was noted. No part of the sandbox
looks at another clock. A stepped clock belongs to the thread that made it: when that thread
waits, its waiting is what moves the time, so a test in one thread can never wait for ever. All
other threads wait until the first one has moved the time far enough.
"""

from __future__ import annotations

import heapq
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import count
from threading import Condition, Lock, get_ident
from time import monotonic

log = logging.getLogger(__name__)

Action = Callable[[], None]

START = datetime(2026, 1, 5, 10, 0, tzinfo=UTC)


class Agenda:
    """What is due when."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._entries: list[tuple[float, int, Action]] = []
        self._numbers = count()

    def note(self, due: float, action: Action) -> None:
        """Note an action for a moment."""
        with self._lock:
            heapq.heappush(self._entries, (due, next(self._numbers), action))

    def next_due(self) -> float | None:
        """Return when the next action is due, None if there is none."""
        with self._lock:
            return self._entries[0][0] if self._entries else None

    def take(self, until: float) -> tuple[float, Action] | None:
        """Take the next action that is due at a moment or before."""
        with self._lock:
            if not self._entries or self._entries[0][0] > until:
                return None
            due, _, action = heapq.heappop(self._entries)
            return due, action


class SandboxClock(ABC):
    """The time of a sandbox, in seconds of its own."""

    def __init__(self, start: datetime = START) -> None:
        self._start = start
        self._moved = Condition()
        self._waiting = 0  # threads
        self.agenda = Agenda()

    def now(self) -> datetime:
        """Return the time of day, aware, UTC."""
        return self._start + timedelta(seconds=self.monotonic())

    @abstractmethod
    def monotonic(self) -> float:
        """Return seconds that never run backwards."""

    @abstractmethod
    def wait_until(self, until: float, is_over: Callable[[], bool]) -> None:
        """Return at a moment, or as soon as something is over; that is asked without any lock."""

    def wait(self, seconds: float) -> None:
        """Return after so many seconds of this clock."""
        self.wait_until(self.monotonic() + seconds, lambda: False)

    def call_later(self, seconds: float, action: Action) -> None:
        """Let something happen after so many seconds."""
        self.agenda.note(self.monotonic() + seconds, action)
        self.nudge()

    def nudge(self) -> None:
        """Let all who wait look again; whoever begins to wait looks after it is counted."""
        if self._waiting:
            with self._moved:
                self._moved.notify_all()

    @contextmanager
    def _counted(self) -> Iterator[None]:
        """Hold the lock of `_moved` as one who is going to wait for it."""
        with self._moved:
            self._waiting += 1
            try:
                yield
            finally:
                self._waiting -= 1


class SteppedClock(SandboxClock):
    """A clock that stands still until it is advanced by the thread that made it."""

    def __init__(self, start: datetime = START) -> None:
        super().__init__(start)
        self._elapsed = 0.0
        self._stepper = get_ident()

    def monotonic(self) -> float:
        """Return the seconds that were stepped so far."""
        return self._elapsed

    def advance(self, seconds: float) -> None:
        """Let time pass, and in it all that is due, in order."""
        self._pass_until(self._elapsed + seconds, lambda: False)

    def wait_until(self, until: float, is_over: Callable[[], bool]) -> None:
        """Return at a moment, or as soon as something is over; the stepper moves the time."""
        if get_ident() == self._stepper:
            self._pass_until(until, is_over)
            return
        with self._counted():
            while not is_over() and self._elapsed < until:
                self._moved.wait()

    def _pass_until(self, until: float, is_over: Callable[[], bool]) -> None:
        while not is_over():
            entry = self.agenda.take(until)
            # What is due may itself have let time pass: the clock never goes back for it.
            self._elapsed = max(self._elapsed, entry[0] if entry else until)
            self.nudge()
            if entry is None:
                return
            entry[1]()


class RunningClock(SandboxClock):
    """A clock that runs by itself, `speed` seconds in each second of ours."""

    def __init__(
        self,
        start: datetime = START,
        speed: float = 1.0,
        *,
        read_seconds: Callable[[], float] = monotonic,
    ) -> None:
        super().__init__(start)
        self.speed = speed
        self._read_seconds = read_seconds
        self._begun = read_seconds()
        self._is_closed = False

    def monotonic(self) -> float:
        """Return the seconds of this clock since it was made."""
        return (self._read_seconds() - self._begun) * self.speed

    def wait_until(self, until: float, is_over: Callable[[], bool]) -> None:
        """Return at a moment, as soon as something is over, or when the clock is closed."""
        with self._counted():
            while not is_over() and not self._is_closed:
                left = until - self.monotonic()
                if left <= 0:
                    return
                self._moved.wait(left / self.speed)

    def run(self) -> None:
        """Do all that becomes due, until the clock is closed."""
        while not self._is_closed:
            entry = self.agenda.take(self.monotonic())
            if entry is None:
                self._rest()
                continue
            try:
                entry[1]()
            except Exception:
                log.exception("something due in the sandbox failed")

    def close(self) -> None:
        """Stop all that runs or waits on this clock; its agenda is never looked at again."""
        self._is_closed = True
        self.nudge()

    def _rest(self) -> None:
        with self._counted():
            due = self.agenda.next_due()
            seconds = None if due is None else (due - self.monotonic()) / self.speed
            if not self._is_closed and (seconds is None or seconds > 0):
                self._moved.wait(seconds)
