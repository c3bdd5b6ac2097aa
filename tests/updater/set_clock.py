"""A clock that can be set."""

from __future__ import annotations

from datetime import datetime, timedelta

from app.ports import Clock


class SetClock:
    """Another clock, whose time of day is ahead by so much."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.ahead = timedelta()

    def now(self) -> datetime:
        """Return the time of day as it is set."""
        return self._clock.now() + self.ahead

    def monotonic(self) -> float:
        """Return the seconds, which cannot be set."""
        return self._clock.monotonic()

    def wait(self, seconds: float) -> None:
        """Let so many seconds pass."""
        self._clock.wait(seconds)
