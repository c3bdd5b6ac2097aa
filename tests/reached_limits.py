"""What is told of limits that were reached, to be looked at."""

from __future__ import annotations

from collections import Counter
from enum import StrEnum


class ReachedLimits:
    """Counts how often each limit was reached."""

    def __init__(self) -> None:
        self.counts: Counter[StrEnum] = Counter()

    def __call__(self, limit: StrEnum, times: int = 1, /, **_about: object) -> None:
        """Count it."""
        self.counts[limit] += times
