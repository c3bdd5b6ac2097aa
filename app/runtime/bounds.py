"""What clients may make a server hold, and what is told when a limit of a process is reached.

Strategy: whatever a client can make grow has a bound, each connection its own and all connections
of a port one together. At a bound of all it is not the newest that is cut off but the one that
holds something for longest: good clients are done within milliseconds, so they outlast any crowd
of clients that never are.

There is one counter for all limits of a process, and one line in the log for each of them, once a
minute at most, with how often it was reached since the last one. All limits start at 0, so that
alerts see the first time.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from time import monotonic
from typing import Final, Protocol

from prometheus_client import CollectorRegistry, Counter

from app.ports import LookupLimit
from app.runtime.logs import OncePerMinute

log = logging.getLogger("runtime.limits")

_KIB: Final = 1024
_MIB: Final = 1024 * _KIB


class PortLimit(StrEnum):
    """What is limited of a port, as metrics and the log name it."""

    CONNECTIONS = "connections"
    HANDSHAKES = "handshakes"
    HANDSHAKE_SECONDS = "handshake_seconds"
    REQUEST_SECONDS = "request_seconds"
    WAITING_REQUESTS = "waiting_requests"
    HEAD_BYTES = "head_bytes"
    HEADERS = "headers"
    REQUEST_BYTES = "request_bytes"
    RECEIVED_BYTES = "received_bytes"
    UNREAD_BYTES = "unread_bytes"
    WAITING_QUESTIONS = "waiting_questions"  # of `AnswerThreads`; all others are in `Bounds`


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much a port may be made to hold."""

    # Of all connections:
    connections: int = 1000
    handshakes: int = 500  # under way
    received_bytes: int = 16 * _MIB  # of requests that have not been answered
    unread_bytes: int = 32 * _MIB  # of answers
    # Of each connection:
    handshake_seconds: float = 5.0
    request_seconds: float = 30.0  # for all of a request; API servers wait no longer for an answer
    waiting_requests: int = 16  # behind the one that is being answered; API servers send none
    head_bytes: int = 64 * _KIB
    headers: int = 128
    request_bytes: int = 6 * _MIB  # more than the largest body with everything around it


class Holder(Protocol):
    """A connection that makes us hold something."""

    def cut_off(self, bound: PortLimit, /) -> None:
        """End at once, because of a bound."""
        ...


class HeldBytes:
    """Bytes that the connections of a port make us hold, and who holds them since when."""

    def __init__(self, bound: PortLimit, most: int) -> None:
        self._bound = bound
        self._most = most
        self._total = 0
        self._holders: dict[Holder, int] = {}  # longest first

    def take(self, holder: Holder, size: int) -> bool:
        """Let a connection hold so much in all; tell whether there is room, or was made."""
        more = size - self._holders.get(holder, 0)
        while self._total + more > self._most and self._holders:
            longest = next(iter(self._holders))
            if longest is holder:
                return False
            self.drop(longest)
            longest.cut_off(self._bound)
        self._total += more
        self._holders[holder] = size
        return self._total <= self._most

    def drop(self, holder: Holder) -> None:
        """Forget what a connection holds."""
        self._total -= self._holders.pop(holder, 0)

    def has_room(self, size: int) -> bool:
        """Whether so much more may be held."""
        return self._total + size <= self._most

    def keep(self, size: int) -> None:
        """Hold so much until `release`, whatever becomes of the connection it came over."""
        self._total += size

    def release(self, size: int) -> None:
        """Forget what was kept."""
        self._total -= size


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
