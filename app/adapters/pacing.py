"""How many calls may go out in a while.

Strategy: a bucket that refills steadily and may be overdrawn. Who finds it empty takes a ticket
for later and waits; nobody is turned away.
"""

from __future__ import annotations

from threading import Lock


class TokenBucket:
    """Lets `burst` calls through at once and `per_second` from then on; 0 or less is no limit."""

    def __init__(self, per_second: float, burst: float) -> None:
        self._per_second = per_second
        self._burst = burst
        self._tokens = burst
        self._filled_at: float | None = None
        self._lock = Lock()

    def reserve(self, now: float) -> float:
        """Take a token at a moment of a monotonic clock; return the seconds to wait for it."""
        if self._per_second <= 0 or self._burst <= 0:
            return 0.0
        with self._lock:
            if self._filled_at is not None:
                grown = max(now - self._filled_at, 0.0) * self._per_second
                self._tokens = min(self._tokens + grown, self._burst)
            self._filled_at = now
            self._tokens -= 1
            return max(-self._tokens / self._per_second, 0.0)
