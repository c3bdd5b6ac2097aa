"""Keys that need a look, each looked at once, a moment after it was noted.

Strategy: as in real controllers, nobody asks what happened, only what is to be looked at again.
A key that is noted twice before its look is looked at once; a look that fails is repeated later
and later, so one bad object never stops the others.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Generic, TypeVar

from app.model.errors import ClusterError
from app.sandbox.clock import SteppedClock

K = TypeVar("K")

REACTION_SECONDS = 0.01
_FIRST_PAUSE_SECONDS = 1.0
_LONGEST_PAUSE_SECONDS = 30.0


class Worklist(Generic[K]):
    """What one controller still has to look at; a look says when to look again, if ever."""

    def __init__(self, clock: SteppedClock, look: Callable[[K], float | None]) -> None:
        self._clock = clock
        self._look = look
        self._lock = Lock()
        self._due: dict[K, float] = {}
        self._failures: dict[K, int] = {}

    def note(self, key: K, after_seconds: float = REACTION_SECONDS) -> None:
        """Look at a key after so many seconds, or sooner if that was noted before."""
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
