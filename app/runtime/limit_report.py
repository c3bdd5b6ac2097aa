"""What is told when a limit of what a process keeps or does at once is reached.

Strategy: there is one counter for all limits of a process, and one line in the log for each of
them, once a minute at most, with how often it was reached since the last one. All limits of a
process start at 0, so that alerts see the first time.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from enum import StrEnum
from time import monotonic

from prometheus_client import CollectorRegistry, Counter

from app.kube.lookup_limits import LookupLimit
from app.runtime.bounds import PortLimit
from app.runtime.logs import OncePerMinute

log = logging.getLogger("runtime.limits")


class LimitReport:
    """Counts for a process how often its limits were reached, and logs it; from any thread."""

    def __init__(
        self,
        registry: CollectorRegistry | None = None,
        more: Iterable[StrEnum] = (),
        seconds: Callable[[], float] = monotonic,
    ) -> None:
        """`more` are the limits of this process beside those of every process."""
        family = Counter(
            "plumbline_limits_reached",
            "Times that a limit of what is kept or done at once was reached; the log names it.",
            ["limit"],
            registry=registry,
        )
        known = (*PortLimit, *LookupLimit, *more)
        self._counters = {limit: family.labels(limit.value) for limit in known}
        self._lines = OncePerMinute(seconds)

    def reached(self, limit: StrEnum, times: int = 1, /, **about: object) -> None:
        """Count that a limit was reached; `about` goes into the log."""
        self._counters[limit].inc(times)
        if count := self._lines.due(limit, times):
            log.warning("limit reached", extra={"limit": limit.value, "times": count, **about})
