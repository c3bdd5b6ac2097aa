"""How fast the time of a cluster passes, and the keys that change it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from app.ports import Clock
from app.run.view import ClusterSpeed

FRAME_SECONDS: Final = 0.1
_STEP_SECONDS: Final = 10.0  # of the cluster's time, after which it is looked at again
_SLOWEST, _FASTEST = 0.125, 3840.0
_FASTER, _SLOWER, _PAUSE = "+=", "-", " "


class SpeedControl:
    """Moves the time of a cluster so that it keeps up with ours, times its speed.

    A real cluster has no speed: its time passes by itself.
    """

    def __init__(self, advance: Callable[[float], None], clock: Clock, speed: float | None) -> None:
        self._advance = advance
        self._clock = clock
        self._speed = speed
        self._is_paused = False
        self._moved_at = clock.monotonic()

    @property
    def pace(self) -> ClusterSpeed:
        """How fast time passes now."""
        return ClusterSpeed(self._speed, self._is_paused)

    def press(self, key: str) -> None:
        """Do what a key asks for."""
        if self._speed is None:
            return
        if key == _PAUSE:
            self._is_paused = not self._is_paused
            self._moved_at = self._clock.monotonic()
        elif key in _FASTER and self._speed < _FASTEST:
            self._speed *= 2
        elif key in _SLOWER and self._speed > _SLOWEST:
            self._speed = _FASTEST if math.isinf(self._speed) else self._speed / 2

    def step(self, most_seconds: float) -> bool:
        """Move by what is due, but not far; tell whether more is due."""
        if self._is_paused or self._speed is None:
            return False
        now = self._clock.monotonic()
        due = math.inf if math.isinf(self._speed) else (now - self._moved_at) * self._speed
        step = min(due, _STEP_SECONDS, most_seconds)
        self._advance(step)
        # What could not be caught up within a frame is let go: time goes slower then.
        behind = min((due - step) / self._speed, FRAME_SECONDS) if math.isfinite(due) else 0.0
        self._moved_at = now - behind
        return math.isinf(due) or behind > 0
