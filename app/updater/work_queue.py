"""Whose turn it is: the most urgent step first, one at a time for each owner.

Strategy: walks wait in a heap by the urgency of their next step. Who finds no token of its rate
waits in a room of that rate, so that only those wait who have to; when there may be one again,
the most urgent of the room comes back.
"""

from __future__ import annotations

import heapq
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from operator import attrgetter
from typing import Final, NamedTuple

from app.model.token_bucket import TokenBucket
from app.ports import Clock
from app.updater.core.action_queue import ActionQueue, QueueCursor, QueueStep, Rank
from app.updater.core.decisions import Action, Decision, Reason

Rate = tuple[bool, str]  # of evictions or not; of one namespace, or empty for all together


class Turn(NamedTuple):
    """The next step of a walk, its place taken already."""

    rank: Rank
    number: int
    walk: QueueCursor
    queue: ActionQueue
    step: QueueStep
    has_waited: bool = False  # for a token


@dataclass(slots=True)
class _Room:
    """Turns that wait for a token of one rate."""

    not_before: float  # by the monotonic clock
    turns: list[Turn] = field(default_factory=list)


class Turns:
    """Walks that wait for their turn; shared by the workers."""

    def __init__(self, queues: Sequence[ActionQueue]) -> None:
        self._lock = threading.Lock()
        self._ready: list[Turn] = []
        self._rooms: dict[Rate, _Room] = {}
        self._abandoned: set[int] = set()
        self.ended: list[QueueCursor] = []  # with what got no turn
        self.abandoned: list[QueueCursor] = []
        for number, queue in enumerate(queues):
            self._put(number, QueueCursor(queue), queue)

    def take(self, now: float, *, is_over: bool = False) -> Turn | float | None:
        """Return the most urgent turn, else the seconds until there may be one, None for never.

        Args:
            now: the time by the monotonic clock.
            is_over: nobody waits any longer.
        """
        with self._lock:
            self._let_one_back(now, is_over=is_over)
            if self._ready:
                return heapq.heappop(self._ready)
            if not self._rooms:
                return None
            return min(room.not_before for room in self._rooms.values()) - now

    def _let_one_back(self, now: float, *, is_over: bool) -> None:
        """Let the most urgent turn of each room come back if there may be a token for it."""
        for rate, room in list(self._rooms.items()):
            if is_over or room.not_before <= now:
                heapq.heappush(self._ready, heapq.heappop(room.turns))
                if not room.turns:
                    del self._rooms[rate]

    def wait(self, turn: Turn, rate: Rate, not_before: float) -> None:
        """Let a turn wait for a token."""
        with self._lock:
            room = self._rooms.setdefault(rate, _Room(not_before))
            room.not_before = not_before
            heapq.heappush(room.turns, turn._replace(has_waited=True))

    def put_back(self, turn: Turn) -> None:
        """Let a walk go on."""
        with self._lock:
            if turn.number in self._abandoned:
                self.abandoned.append(turn.walk)
            else:
                self._put(turn.number, turn.walk, turn.queue)

    def abandon(self, turn: Turn) -> None:
        """Let a walk end here."""
        with self._lock:
            self._abandoned.add(turn.number)

    def _put(self, number: int, walk: QueueCursor, queue: ActionQueue) -> None:
        step = walk.next()
        if step is None:
            self.ended.append(walk)
            return
        heapq.heappush(self._ready, Turn(step.rank, number, walk, queue, step))


RATE_LIMITED: Final = (Reason.RATE_LIMITED, "more would be faster than the rate that is allowed")


@dataclass(frozen=True, slots=True)
class PaceRules:
    """Tokens a second and at once, for all namespaces together and for each of them."""

    rate: float = -1.0
    burst: int = 1
    namespace_rate: float = -1.0
    namespace_burst: int = 1


@dataclass(frozen=True, slots=True)
class Wait:
    """How long no token can be had, and of which bucket."""

    seconds: float  # infinite for never
    namespace: str  # empty for the bucket of all together


class Pace:
    """The buckets of one kind of action; safe to use from many threads."""

    def __init__(self, rules: PaceRules, clock: Clock) -> None:
        self._rules = rules
        self._clock = clock
        self._whole = TokenBucket.full(rules.rate, rules.burst)
        self._by_namespace: dict[str, TokenBucket] = {}
        self._lock = threading.Lock()

    def take(self, namespace: str) -> Wait | None:
        """Take a token of both buckets, or return how long there is none; then none is taken."""
        now, rules = self._clock.monotonic(), self._rules
        with self._lock:
            own = self._by_namespace.get(namespace) or TokenBucket.full(
                rules.namespace_rate, rules.namespace_burst
            )
            waits = (
                Wait(self._whole.wait_for_one(now), ""),
                Wait(own.wait_for_one(now), namespace),
            )
            longer = max(waits, key=attrgetter("seconds"))
            if longer.seconds > 0:
                return longer
            self._whole = self._whole.less_one(now)
            if not own.is_unlimited:
                self._by_namespace[namespace] = own.less_one(now)
            return None


def within_pace(
    decisions: Iterable[Decision], queues: Iterable[ActionQueue], rules: PaceRules, span: timedelta
) -> Iterator[Decision]:
    """Yield decisions as they come out if a round lasts so long; the most urgent go first."""
    ranks = {step.pod.uid: step.rank for queue in queues for step in queue.steps}
    found = list(decisions)
    late: set[str] = set()
    for actions in ((Action.EVICT,), (Action.RESIZE, Action.UNBOOST)):
        acting = [decision for decision in found if decision.action in actions]
        acting.sort(key=lambda decision: ranks[decision.uid])
        late.update(_beyond(acting, rules, span))
    for decision in found:
        yield _rate_limited(decision) if decision.uid in late else decision


def _beyond(acting: Iterable[Decision], rules: PaceRules, span: timedelta) -> Iterator[str]:
    whole = _most(rules.rate, rules.burst, span)
    each = _most(rules.namespace_rate, rules.namespace_burst, span)
    taken: Counter[str] = Counter()
    for decision in acting:
        if taken.total() >= whole or taken[decision.namespace] >= each:
            yield decision.uid
        else:
            taken[decision.namespace] += 1


def _most(rate: float, burst: int, span: timedelta) -> float:
    if rate <= 0:
        return float("inf")
    return 0 if burst < 1 else burst + int(rate * span.total_seconds())


def _rate_limited(decision: Decision) -> Decision:
    reason, message = RATE_LIMITED
    return decision.put_off(reason, f"{decision.message}; {message}")
