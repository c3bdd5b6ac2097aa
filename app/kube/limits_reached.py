"""How often limits of what is kept or done at once were reached: for metrics, and for the log.

Strategy: each time counts, and the log tells of each limit once a minute at most. Counts only grow;
who shows them adds what came since it last looked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from logging import Logger
from threading import Lock
from typing import Final

from app.ports import Clock

_PAUSE_SECONDS: Final = 60.0


class LimitsReached:
    """Counts by limit; from any thread."""

    def __init__(self, log: Logger, clock: Clock) -> None:
        self._log = log
        self._clock = clock
        self._lock = Lock()
        self._counts: Counter[str] = Counter()
        self._told: dict[str, tuple[float, int]] = {}  # when, and how often it was by then

    def reached(self, limit: str, times: int = 1, **where: object) -> None:
        """Count that a limit was reached; `where` is told in the log."""
        now = self._clock.monotonic()
        with self._lock:
            self._counts[limit] += times
            count = self._counts[limit]
            at, told = self._told.get(limit, (float("-inf"), 0))
            if now - at < _PAUSE_SECONDS:
                return
            self._told[limit] = (now, count)
        extra = {"limit": limit, "times": count - told, **where}
        self._log.warning("limit reached", extra=extra)

    def counts(self) -> Mapping[str, int]:
        """Return how often each limit was reached so far."""
        with self._lock:
            return dict(self._counts)
