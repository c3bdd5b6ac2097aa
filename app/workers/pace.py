"""How fast pods are disturbed: for the whole cluster, and in each namespace.

Strategy: who wants to act takes a token of both buckets, or is told that there is none before the
round is over. Whoever got tokens for later waits; a stop ends the waiting.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from app.core.updating.carrying import Queue
from app.core.updating.decisions import Action, Decision, Reason
from app.core.updating.pacing import Bucket
from app.ports import Clock

_SLICE_SECONDS: Final = 0.2  # how late a stop may be noticed
RATE_LIMITED: Final = (Reason.RATE_LIMITED, "more would be faster than the rate that is allowed")


@dataclass(frozen=True, slots=True)
class PaceRules:
    """Tokens a second and at once, for all namespaces together and for each of them."""

    rate: float = -1.0
    burst: int = 1
    namespace_rate: float = -1.0
    namespace_burst: int = 1


class Pace:
    """The buckets of one kind of action; safe to use from many threads."""

    def __init__(self, rules: PaceRules, clock: Clock, stopping: Callable[[], bool]) -> None:
        self._rules = rules
        self._clock = clock
        self._stopping = stopping
        self._whole = Bucket.full(rules.rate, rules.burst)
        self._by_namespace: dict[str, Bucket] = {}
        self._lock = threading.Lock()

    def take(self, namespace: str, until: datetime | None = None) -> bool:
        """Wait for a token; tell whether there is one before a moment (None: ever)."""
        now = self._clock.now()
        with self._lock:
            own = self._by_namespace.get(namespace) or Bucket.full(
                self._rules.namespace_rate, self._rules.namespace_burst
            )
            waits = (self._whole.wait_for_one(now), own.wait_for_one(now))
            if waits[0] is None or waits[1] is None:
                return False
            wait = max(waits[0], waits[1])
            if until is not None and now + wait > until:
                return False
            self._whole = self._whole.less_one(now)
            if not own.is_unlimited:
                self._by_namespace[namespace] = own.less_one(now)
        return self._waited(wait)

    def _waited(self, wait: timedelta) -> bool:
        until = self._clock.monotonic() + wait.total_seconds()
        while (left := until - self._clock.monotonic()) > 0:
            if self._stopping():
                return False
            self._clock.wait(min(left, _SLICE_SECONDS))
        return True


def within_pace(
    decisions: Iterable[Decision], queues: Iterable[Queue], rules: PaceRules, span: timedelta
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
