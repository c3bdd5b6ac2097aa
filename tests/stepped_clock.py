"""A clock that moves only when it is told to, or when somebody waits."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


class SteppedClock:
    """Time as a value; `wait` returns at once, later."""

    def __init__(self, start: datetime = START) -> None:
        self._start = start
        self._passed_seconds = 0.0

    def now(self) -> datetime:
        """Return the time of day."""
        return self._start + timedelta(seconds=self._passed_seconds)

    def monotonic(self) -> float:
        """Return the seconds that have passed."""
        return self._passed_seconds

    def wait(self, seconds: float) -> None:
        """Let so many seconds pass."""
        self._passed_seconds += seconds

    def set_back(self, seconds: float) -> None:
        """Let the time of day be earlier, as when a clock is set; no seconds pass."""
        self._start -= timedelta(seconds=seconds)
