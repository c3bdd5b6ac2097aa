"""How fast pods may be disturbed: a bucket of tokens as a value.

Strategy: whoever wants a token is told how long to wait and gets the bucket as it is after that;
tokens may be owed, so that several can wait in turn.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

_FOR_EVER_SECONDS: Final = 1e9


@dataclass(frozen=True, slots=True)
class Bucket:
    """So many tokens a second, up to a burst; a rate of zero or less is no limit."""

    rate: float
    burst: int
    tokens: float
    at: datetime | None = None  # when the tokens were counted, None for never

    @staticmethod
    def full(rate: float, burst: int) -> Bucket:
        """Return a bucket that nobody has drawn from yet."""
        return Bucket(rate, burst, float(burst))

    @property
    def is_unlimited(self) -> bool:
        """Whether nobody ever waits."""
        return self.rate <= 0

    @property
    def gives_nothing(self) -> bool:
        """Whether a token can never be had."""
        return not self.is_unlimited and self.burst < 1

    def wait_for_one(self, now: datetime) -> timedelta | None:
        """Return how long to wait for a token, None if there never is one."""
        if self.is_unlimited:
            return timedelta()
        if self.gives_nothing:
            return None
        missing = 1 - self._counted(now)
        return timedelta(seconds=min(max(missing, 0) / self.rate, _FOR_EVER_SECONDS))

    def less_one(self, now: datetime) -> Bucket:
        """Return the bucket after one token was drawn, be it one that is still owed."""
        if self.is_unlimited:
            return self
        return replace(self, tokens=self._counted(now) - 1, at=now)

    def _counted(self, now: datetime) -> float:
        if self.at is None:
            return self.tokens
        grown = max((now - self.at).total_seconds(), 0) * self.rate
        return min(self.tokens + grown, float(self.burst))
