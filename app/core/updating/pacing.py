"""How fast pods may be disturbed: a bucket of tokens as a value.

Strategy: whoever wants a token is told how long to wait, and gets the bucket as it is without one
token; moments are seconds of a clock that nobody sets.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf


@dataclass(frozen=True, slots=True)
class Bucket:
    """So many tokens a second, up to a burst; a rate of zero or less is no limit."""

    rate: float
    burst: int
    tokens: float
    at: float | None = None  # when the tokens were counted, None for never

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

    def wait_for_one(self, now: float) -> float:
        """Return the seconds until there is a token, infinite if there never is one."""
        if self.is_unlimited:
            return 0.0
        if self.gives_nothing:
            return inf
        missing = 1 - self._counted(now)
        return max(missing, 0.0) / self.rate

    def less_one(self, now: float) -> Bucket:
        """Return the bucket after one token was drawn, be it one that is still owed."""
        if self.is_unlimited:
            return self
        return replace(self, tokens=self._counted(now) - 1, at=now)

    def _counted(self, now: float) -> float:
        if self.at is None:
            return self.tokens
        grown = max(now - self.at, 0.0) * self.rate
        return min(self.tokens + grown, float(self.burst))
