"""Lets a recommender work while its process leads, and begin anew with every term.

Strategy: history that stood still while somebody else led is out of date, so it is stored when a
term ends and read again when the next one begins.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from app.ports import Clock
from app.workers.recommender import Recommender

_LOOK_SECONDS: Final = 0.2


@dataclass(frozen=True, slots=True)
class Terms:
    """When to work, and how much time there is to store history."""

    is_leading: Callable[[], bool]
    is_ready: Callable[[], bool]  # whether the cluster is known
    patience_seconds: float  # without a finished round, until something must be wrong
    hand_over_seconds: float = 5.0  # after the Lease was lost
    end_seconds: float = 20.0  # when told to stop


class Tenure:
    """One recommender a term; `tick` and `close` are for a loop."""

    def __init__(self, terms: Terms, begin: Callable[[], Recommender], clock: Clock) -> None:
        self._terms = terms
        self._begin = begin
        self._clock = clock
        self._recommender: Recommender | None = None
        self._began = 0.0

    def tick(self, now: datetime) -> float:
        """Work if we lead; return the seconds until the next look."""
        if not self._terms.is_leading():
            self._end(now, self._terms.hand_over_seconds, lambda: True)
            return _LOOK_SECONDS
        if not self._terms.is_ready():
            return _LOOK_SECONDS
        if self._recommender is None:
            self._recommender, self._began = self._begin(), self._clock.monotonic()
        return self._recommender.tick(now)

    def close(self, now: datetime) -> None:
        """Store history, as the last deed of the term."""
        self._end(now, self._terms.end_seconds, self._terms.is_leading)

    def problem(self) -> str:
        """Say since when no round was finished, if that is too long; a standby is well."""
        recommender = self._recommender
        if recommender is None:
            return ""
        last = self._began if recommender.finished is None else recommender.finished
        seconds = self._clock.monotonic() - last
        if seconds <= self._terms.patience_seconds:
            return ""
        return f"no round was finished for {seconds:.0f} s"

    def _end(self, now: datetime, seconds: float, may_write: Callable[[], bool]) -> None:
        recommender, self._recommender = self._recommender, None
        if recommender is not None:
            recommender.flush(now, seconds, may_write)
