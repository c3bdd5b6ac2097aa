"""How fast pods are disturbed: for the whole cluster, and in each namespace.

Strategy: who wants to act takes a token of both buckets, or is told when to come again. Nobody is
promised one: when there is a token again, the most urgent takes it.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from operator import attrgetter
from typing import Final

from app.model.token_bucket import TokenBucket
from app.ports import Clock
from app.updater.core.action_queue import ActionQueue
from app.updater.core.decisions import Action, Decision, Reason

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
