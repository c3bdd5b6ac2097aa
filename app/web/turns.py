"""Lets reviews of VPAs for the same target go one after the other.

Strategy: a lock for each target that somebody asks about, and with it what was let pass there a
moment ago. Places that nobody needs any more are cleared away when they become many.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Final

from app.core.admission.claims import Claims
from app.core.admission.overlap import SiblingsWanted

_MOST_IDLE: Final = 1000


class Turn:
    """What the reviews of one target share."""

    def __init__(self) -> None:
        self.claims = Claims()
        self.waiting = 0  # reviews that hold it or wait for it
        self.lock = threading.Lock()


class Turns:
    """The turns of all targets; safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._turns: dict[tuple[str, str, str], Turn] = {}

    @contextmanager
    def of(
        self, wanted: SiblingsWanted, now: datetime, wait_seconds: float
    ) -> Iterator[Turn | None]:
        """Hold the turn of a target; None if it did not come in time."""
        turn = self._entered((wanted.namespace, wanted.kind, wanted.name), now)
        is_ours = turn.lock.acquire(timeout=max(wait_seconds, 0.0))
        try:
            yield turn if is_ours else None
        finally:
            if is_ours:
                turn.lock.release()
            with self._lock:
                turn.waiting -= 1

    def __len__(self) -> int:
        return len(self._turns)

    def _entered(self, target: tuple[str, str, str], now: datetime) -> Turn:
        with self._lock:
            if len(self._turns) > _MOST_IDLE:
                self._turns = {
                    key: turn
                    for key, turn in self._turns.items()
                    if turn.waiting or turn.claims.held(now)
                }
            turn = self._turns.setdefault(target, Turn())
            turn.waiting += 1
            return turn
