"""Run one task again and again, on time, until told to stop.

Strategy: a task is a function of the moment that returns how long to wait; all it decides can
be tested by stepping a clock. Whatever a task raises is logged and tried again, later and
later; nothing ends the process. The same failure again and again is one line a minute that counts.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from datetime import datetime
from typing import TypedDict

from app.model.errors import PlumblineError
from app.ports import Clock

log = logging.getLogger("runtime.loop")

Tick = Callable[[datetime], float]  # does what is due, returns the seconds until the next call

_FIRST_RETRY_SECONDS = 1.0
_STEP_SECONDS = 0.2  # how late a stop may be noticed
_REPEAT_SECONDS = 60.0  # between two lines about the same failure


class LoopRules(TypedDict, total=False):
    """How a loop differs from others."""

    longest_retry_seconds: float  # between two calls of a task that fails
    at_end: Callable[[datetime], None]  # called once the loop is stopped


class Loop:
    """One task in one thread."""

    def __init__(
        self,
        name: str,
        tick: Tick,
        clock: Clock,
        *,
        longest_retry_seconds: float = 60.0,
        at_end: Callable[[datetime], None] = lambda _now: None,
    ) -> None:
        self._name = name
        self._tick = tick
        self._clock = clock
        self._at_end = at_end
        self._longest_retry_seconds = longest_retry_seconds
        self._retry_seconds = _FIRST_RETRY_SECONDS
        self._failure = ""  # that was told last, of a task that has failed since
        self._failures = 0  # since that line
        self._failing_since = self._told_at = 0.0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self.run, name=name, daemon=True)

    def start(self) -> None:
        """Begin, in a thread of its own."""
        self._thread.start()

    def stop(self, timeout_seconds: float = 5.0) -> None:
        """End after the task that is running; return when it has ended, or the time is over."""
        self._over.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(timeout_seconds)

    def run(self) -> None:
        """Do the task until `stop`, in the thread of the caller."""
        while not self._over.is_set():
            self._wait(self._once())
        self._guarded(self._at_end)

    def _once(self) -> float:
        wait_seconds = self._guarded(self._tick)
        if wait_seconds is not None:
            self._retry_seconds = _FIRST_RETRY_SECONDS
            self._recovered()
            return wait_seconds
        wait_seconds = self._retry_seconds
        self._retry_seconds = min(self._retry_seconds * 2, self._longest_retry_seconds)
        return wait_seconds

    def _guarded(self, task: Callable[[datetime], float | None]) -> float | None:
        """Return what a task returns, or None when it failed."""
        try:
            return task(self._clock.now())
        except PlumblineError as err:
            # Expected in the life of a cluster; a sentence says all.
            failure = str(err) or type(err).__name__
            if times := self._failed(failure):
                extra = {"task": self._name, "error": failure, "times": times}
                log.warning("task failed", extra=extra)
        except Exception as err:
            if times := self._failed(repr(err)):
                extra = {"task": self._name, "times": times}
                log.exception("task failed unexpectedly", extra=extra)
        return None

    def _failed(self, failure: str) -> int:
        """Count a failure; return how many a line about it tells of, 0 for no line now."""
        now = self._clock.monotonic()
        if not self._failure:
            self._failing_since = now
        self._failures += 1
        if failure == self._failure and now - self._told_at < _REPEAT_SECONDS:
            return 0
        times, self._failures = self._failures, 0
        self._failure, self._told_at = failure, now
        return times

    def _recovered(self) -> None:
        if self._failure:
            seconds = round(self._clock.monotonic() - self._failing_since)
            extra = {"task": self._name, "seconds": seconds, "times": self._failures}
            log.info("task works again", extra=extra)
            self._failure, self._failures = "", 0

    def _wait(self, seconds: float) -> None:
        until = self._clock.monotonic() + seconds
        while not self._over.is_set():
            left = until - self._clock.monotonic()
            if left <= 0:
                return
            self._clock.wait(min(left, _STEP_SECONDS))
