"""How often something may be done: a bucket of tokens as a value.

Strategy: a bucket that refills steadily. Callers are told how long to wait for a token, and get the
bucket as it is without one token, which may be one that is still owed; moments are seconds of a
monotonic clock.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf


@dataclass(frozen=True, slots=True)
class TokenBucket:
    """So many tokens a second, up to a burst; a rate of zero or less is no limit."""

    rate: float
    burst: float
    tokens: float
    at: float | None = None  # when the tokens were counted, None for never

    @staticmethod
    def full(rate: float, burst: float) -> TokenBucket:
        """Return a bucket that was not drawn from yet."""
        return TokenBucket(rate, burst, float(burst))

    @property
    def is_unlimited(self) -> bool:
        """Whether no token is ever waited for."""
        return self.rate <= 0

    def wait_for_one(self, now: float) -> float:
        """Return the seconds until there is a token, infinite if there never is one."""
        if self.is_unlimited:
            return 0.0
        if self.burst <= 0:
            return inf
        missing = 1 - self._counted(now)
        return max(missing, 0.0) / self.rate

    def less_one(self, now: float) -> TokenBucket:
        """Return the bucket after one token was drawn, be it one that is still owed."""
        if self.is_unlimited:
            return self
        return replace(self, tokens=self._counted(now) - 1, at=now)

    def _counted(self, now: float) -> float:
        if self.at is None:
            return self.tokens
        grown = max(now - self.at, 0.0) * self.rate
        return min(self.tokens + grown, float(self.burst))
