"""Which step goes next, and how fast: the most urgent first, within the rates that are allowed.

Strategy: cursors wait in a heap by the urgency of their next step. A step acts once there is a
token in the bucket of the whole cluster and in that of its namespace. Without one it waits aside
for the bucket that is empty, so that it delays no other; no token is reserved, so when there is
one again the most urgent step takes it.
"""

from __future__ import annotations

import heapq
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from math import inf
from operator import attrgetter
from typing import Final, NamedTuple

from app.model.token_bucket import TokenBucket
from app.ports import Clock
from app.updater.core.action_queue import ActionQueue, QueueCursor, QueueStep
from app.updater.core.decisions import Action, Decision, Reason
from app.updater.core.need import Rank

RATE_LIMITED: Final = (Reason.RATE_LIMITED, "the rate limit is reached")

_SLICE_SECONDS: Final = 0.2  # how late a worker that waits for a token may notice the end

Bucket = tuple[bool, str]  # of evictions or not; of one namespace, or empty for the whole cluster


class WorkItem(NamedTuple):
    """The next step of a cursor, its slot taken already."""

    rank: Rank
    number: int
    cursor: QueueCursor
    step: QueueStep
    has_waited: bool = False  # for a token


@dataclass(slots=True)
class _Aside:
    """Items that wait for a token of one bucket."""

    not_before: float  # by the monotonic clock
    items: list[WorkItem] = field(default_factory=list)


class WorkQueue:
    """Cursors that wait for their next step, one at a time of each; shared by the workers."""

    def __init__(
        self, queues: Sequence[ActionQueue], clock: Clock, is_over: Callable[[], bool]
    ) -> None:
        self._clock = clock
        self._is_over = is_over  # then no item waits any longer
        self._lock = threading.Lock()
        self._ready: list[WorkItem] = []
        self._aside: dict[Bucket, _Aside] = {}
        self.cursors = [QueueCursor(queue) for queue in queues]
        for number, cursor in enumerate(self.cursors):
            self._put(number, cursor)

    def take(self) -> WorkItem | None:
        """Return the most urgent item, as soon as there may be a token for it; None if none."""
        while True:
            is_over, now = self._is_over(), self._clock.monotonic()
            with self._lock:
                self._end_waiting(inf if is_over else now)
                if self._ready:
                    return heapq.heappop(self._ready)
                if not self._aside:
                    return None
                seconds = min(aside.not_before for aside in self._aside.values()) - now
            self._clock.wait(min(seconds, _SLICE_SECONDS))

    def wait(self, item: WorkItem, bucket: Bucket, not_before: float) -> None:
        """Let an item wait for a token."""
        with self._lock:
            aside = self._aside.setdefault(bucket, _Aside(not_before))
            aside.not_before = not_before
            heapq.heappush(aside.items, item._replace(has_waited=True))

    def put_back(self, item: WorkItem) -> None:
        """Let a cursor go on."""
        with self._lock:
            self._put(item.number, item.cursor)

    def _end_waiting(self, now: float) -> None:
        """Let the most urgent item of each bucket that may have a token be taken."""
        due = [bucket for bucket, aside in self._aside.items() if aside.not_before <= now]
        for bucket in due:
            heapq.heappush(self._ready, heapq.heappop(self._aside[bucket].items))
            if not self._aside[bucket].items:
                del self._aside[bucket]

    def _put(self, number: int, cursor: QueueCursor) -> None:
        step = cursor.next()
        if step is not None:
            heapq.heappush(self._ready, WorkItem(step.rank, number, cursor, step))


@dataclass(frozen=True, slots=True)
class RateLimits:
    """Tokens a second and at once, for the whole cluster and for each namespace."""

    rate: float = -1.0
    burst: int = 1
    namespace_rate: float = -1.0
    namespace_burst: int = 1


class TokenWait(NamedTuple):
    """How long no token can be had, and of which bucket."""

    seconds: float  # infinite for never
    namespace: str  # empty for the bucket of the whole cluster


class RateLimiter:
    """The buckets of one kind of action; safe to use from many threads."""

    def __init__(self, limits: RateLimits, clock: Clock) -> None:
        self._limits = limits
        self._clock = clock
        self._whole = TokenBucket.full(limits.rate, limits.burst)
        self._by_namespace: dict[str, TokenBucket] = {}
        self._lock = threading.Lock()

    def take(self, namespace: str) -> TokenWait | None:
        """Take a token of both buckets, or return how long there is none; then none is taken."""
        now, limits = self._clock.monotonic(), self._limits
        with self._lock:
            own = self._by_namespace.get(namespace) or TokenBucket.full(
                limits.namespace_rate, limits.namespace_burst
            )
            waits = (
                TokenWait(self._whole.wait_for_one(now), ""),
                TokenWait(own.wait_for_one(now), namespace),
            )
            longer = max(waits, key=attrgetter("seconds"))
            if longer.seconds > 0:
                return longer
            self._whole = self._whole.less_one(now)
            if not own.is_unlimited:
                self._by_namespace[namespace] = own.less_one(now)
            return None


def within_rates(
    decisions: Sequence[Decision],
    queues: Iterable[ActionQueue],
    limits: RateLimits,
    span: timedelta,
) -> Iterator[Decision]:
    """Yield decisions as they come out if a round lasts so long; the most urgent go first.

    It serves `plumbline plan`, which makes no calls.
    """
    ranks = {step.pod.uid: step.rank for queue in queues for step in queue.steps}
    late: set[str] = set()
    for actions in ((Action.EVICT,), (Action.RESIZE, Action.UNBOOST)):
        acting = [decision for decision in decisions if decision.action in actions]
        acting.sort(key=lambda decision: ranks[decision.uid])
        late.update(_beyond(acting, limits, span))
    reason, message = RATE_LIMITED
    for decision in decisions:
        is_late = decision.uid in late
        yield decision.put_off(reason, message) if is_late else decision


def _beyond(acting: Iterable[Decision], limits: RateLimits, span: timedelta) -> Iterator[str]:
    whole = _most(limits.rate, limits.burst, span)
    each = _most(limits.namespace_rate, limits.namespace_burst, span)
    taken: Counter[str] = Counter()
    for decision in acting:
        if taken.total() >= whole or taken[decision.namespace] >= each:
            yield decision.uid
        else:
            taken[decision.namespace] += 1


def _most(rate: float, burst: int, span: timedelta) -> float:
    if rate <= 0:
        return inf
    return 0 if burst < 1 else burst + int(rate * span.total_seconds())
