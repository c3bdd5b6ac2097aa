"""The time of the sandbox, which moves only when it is advanced, and what is due in it.

Strategy: whatever is to happen later stands in the agenda of the clock and happens in order of
time; what is due at the same moment, in the order in which it was noted. No part of the sandbox
looks at another clock. The clock belongs to the thread that made it: when that thread waits, its
waiting is what moves the time, so a program of one thread can never wait for ever. All other
threads wait until the first one has moved the time far enough.

As in real controllers, a worklist does not keep what happened, only what is to be looked at again.
A key that is noted twice before its look is looked at once; a look that fails is repeated later
and later, so one bad object never stops the others.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import count
from threading import Condition, Lock, get_ident
from typing import Generic, TypeVar

from app.model.errors import ClusterError

Action = Callable[[], None]

START = datetime(2026, 1, 5, 10, 0, tzinfo=UTC)

K = TypeVar("K")

REACTION_SECONDS = 0.01
_FIRST_PAUSE_SECONDS = 1.0
_LONGEST_PAUSE_SECONDS = 30.0


class SteppedClock:
    """A clock that stands still until it is advanced by the thread that made it."""

    def __init__(self, start: datetime = START) -> None:
        self._start = start
        self._elapsed = 0.0
        self._stepper = get_ident()
        self._moved = Condition()
        self._lock = Lock()  # of the agenda
        self._agenda: list[tuple[float, int, Action]] = []
        self._numbers = count()

    def now(self) -> datetime:
        """Return the time of day, aware, UTC."""
        return self._start + timedelta(seconds=self.monotonic())

    def monotonic(self) -> float:
        """Return the seconds that were stepped so far."""
        return self._elapsed

    def advance(self, seconds: float) -> None:
        """Let time pass, and in it all that is due, in order."""
        until = self._elapsed + seconds
        while True:
            due, action = self._take(until)
            # What is due may itself have let time pass: the clock never goes back for it.
            self._elapsed = max(self._elapsed, due)
            with self._moved:
                self._moved.notify_all()
            if action is None:
                return
            action()

    def wait(self, seconds: float) -> None:
        """Return after so many seconds of this clock."""
        if get_ident() == self._stepper:
            self.advance(seconds)
            return
        until = self._elapsed + seconds
        with self._moved:
            self._moved.wait_for(lambda: self._elapsed >= until)

    def call_later(self, seconds: float, action: Action) -> None:
        """Let something happen after so many seconds."""
        with self._lock:
            entry = (self.monotonic() + seconds, next(self._numbers), action)
            heapq.heappush(self._agenda, entry)

    def _take(self, until: float) -> tuple[float, Action | None]:
        """Take what is due next; nothing is, if it is due later than at a moment."""
        with self._lock:
            if not self._agenda or self._agenda[0][0] > until:
                return until, None
            due, _, action = heapq.heappop(self._agenda)
            return due, action


class Worklist(Generic[K]):
    """What one controller still has to look at; a look says when to look again, if ever."""

    def __init__(
        self,
        clock: SteppedClock,
        look: Callable[[K], float | None],
        usual_seconds: float = REACTION_SECONDS,
    ) -> None:
        self._clock = clock
        self._look = look
        self._usual_seconds = usual_seconds
        self._lock = Lock()
        self._due: dict[K, float] = {}
        self._failures: dict[K, int] = {}

    def note(self, key: K, after_seconds: float | None = None) -> None:
        """Look at a key after so many seconds, or sooner if that was noted before."""
        if after_seconds is None:
            after_seconds = self._usual_seconds
        due = self._clock.monotonic() + after_seconds
        with self._lock:
            if self._due.get(key, due + 1) <= due:
                return
            self._due[key] = due
        self._clock.call_later(after_seconds, lambda: self._act(key, due))

    def _act(self, key: K, due: float) -> None:
        with self._lock:
            if self._due.get(key) != due:
                return  # a sooner look took its place
            del self._due[key]
        try:
            again_in_seconds = self._look(key)
        except ClusterError:
            failures = self._failures.get(key, 0)
            self._failures[key] = failures + 1
            pause = _FIRST_PAUSE_SECONDS * 2.0 ** min(failures, 10)
            self.note(key, min(pause, _LONGEST_PAUSE_SECONDS))
        else:
            self._failures.pop(key, None)
            if again_in_seconds:
                # Never so soon that, rounded, no time would pass.
                self.note(key, max(again_in_seconds, REACTION_SECONDS))
