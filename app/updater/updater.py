"""Bring running pods to their recommendation, round by round: gather, decide, carry out.

Strategy: a round takes one snapshot, makes one plan and carries it out as far as time and rate
allow; the rest is decided anew. What was decided is kept in a book that can be asked. Rounds
begin one interval after each other and never overlap.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from app.model.gates import FeatureGates
from app.model.kinds import ObjectKey
from app.model.snapshot import Snapshot
from app.model.workloads import Lookup, LookupResult
from app.ports import Clock, Owners
from app.updater.core.decisions import Action
from app.updater.core.memory import Memory
from app.updater.core.plan import Plan, PlanOptions, Unplannable, plan
from app.updater.core.rules import UpdateRules
from app.updater.executor import Carrier, Done, Job
from app.updater.metrics import Step, UpdaterMetrics
from app.updater.report import Book, Teller
from app.updater.state import Actor, Notebook
from app.updater.webhook_lease import Sign

plan_log = logging.getLogger("updater.plan")

MOST_LEVELS: Final = 10  # of owners above each other
_KEPT: Final = timedelta(minutes=10)  # then it is seen anew which owners are needed
_LOOKUP_SECONDS: Final = 3.0  # for all owners of one level together
_HASTY_SECONDS: Final = 0.3  # the same for a plan about some pods, which comes again soon


@dataclass(frozen=True, slots=True)
class Sight:
    """What is decided upon."""

    snapshot: Snapshot
    webhook_is_healthy: bool = True
    only: frozenset[tuple[str, str]] | None = None  # pods by namespace and name, None for all


@dataclass(slots=True)
class _Needed:
    """The owners that plans asked for, and since when they are collected."""

    lookups: dict[Lookup, None] = field(default_factory=dict)
    since: datetime | None = None


class Decider:
    """Decides; for one thread."""

    def __init__(
        self, rules: UpdateRules, gates: FeatureGates, owners: Owners, clock: Clock
    ) -> None:
        self._rules = rules
        self._gates = gates
        self._owners = owners
        self._clock = clock
        self._needed = _Needed()
        self._before: Plan | None = None

    def plan(self, sight: Sight, memory: Memory, now: datetime) -> Plan:
        """Return the plan for what is seen."""
        needed = self._needed
        if needed.since is None or now - needed.since >= _KEPT:
            needed = self._needed = _Needed(since=now)
        around = PlanOptions(sight.webhook_is_healthy, {}, self._before, sight.only)
        for _ in range(MOST_LEVELS):
            around = replace(around, looked_up=self._looked_up(needed.lookups, sight))
            made = self._made(sight.snapshot, memory, now, around)
            fresh = [lookup for lookup in made.lookups if lookup not in needed.lookups]
            if not made.is_partial:
                around = replace(around, before=made)
            if not fresh:
                break
            needed.lookups.update(dict.fromkeys(fresh))
        self._before = around.before
        return made

    def _looked_up(
        self, lookups: Iterable[Lookup], sight: Sight
    ) -> Mapping[str, Mapping[ObjectKey, LookupResult]]:
        """Return what is found of owners, by namespace.

        Some pods that are looked at in haste do not wait for owners that are none of theirs.
        """
        if sight.only is None:
            return found_owners(self._owners, self._clock, lookups)
        namespaces = {place[0] for place in sight.only}
        near = (lookup for lookup in lookups if lookup.namespace in namespaces)
        return found_owners(self._owners, self._clock, near, _HASTY_SECONDS)

    def _made(self, snapshot: Snapshot, memory: Memory, now: datetime, around: PlanOptions) -> Plan:
        """Return the plan, without the namespaces of which none can be made."""
        while True:
            try:
                return plan(snapshot, self._rules, self._gates, memory, now, around)
            except Unplannable as error:
                plan_log.exception("namespace left out", extra={"namespace": error.namespace})
                around = replace(around, without=around.without | {error.namespace})


def found_owners(
    owners: Owners, clock: Clock, lookups: Iterable[Lookup], seconds: float = _LOOKUP_SECONDS
) -> dict[str, dict[ObjectKey, LookupResult]]:
    """Return what is found of owners within some seconds, side by side, by namespace."""
    wanted = list(lookups)
    for lookup in wanted:
        owners.find(lookup, 0.0)  # all begin before the first one is waited for
    until = clock.monotonic() + seconds
    found: dict[str, dict[ObjectKey, LookupResult]] = {}
    for lookup in wanted:
        left = max(until - clock.monotonic(), 0.0)
        found.setdefault(lookup.namespace, {})[lookup.key] = owners.find(lookup, left)
    return found


log = logging.getLogger("updater.rounds")

_NAME: Final = "rounds"
_LOOK_SECONDS: Final = 0.1  # until everything is known, or we lead
_SPREAD: Final = 0.05  # of the interval, by which a round may begin earlier


@dataclass(frozen=True, slots=True)
class RoundRules:
    """When rounds are made, and whether anything is touched."""

    interval: timedelta = timedelta(minutes=1)
    is_dry: bool = False


@dataclass(frozen=True, slots=True)
class Sources:
    """Where a round looks, and what it may."""

    snapshot: Callable[[], Snapshot]
    is_known: Callable[[], bool]  # whether the snapshot is whole
    may_act: Callable[[], bool]  # whether we lead, see the cluster, and nobody told us to stop
    leads: Callable[[], bool]
    webhook: Callable[[datetime], Sign]
    clock: Clock


@dataclass(frozen=True, slots=True)
class Hands:
    """What decides, carries out and remembers."""

    decider: Decider
    carrier: Carrier
    notebook: Notebook
    teller: Teller
    metrics: UpdaterMetrics


class Updater:
    """Makes rounds; `tick` is for a loop."""

    def __init__(self, sources: Sources, hands: Hands, rules: RoundRules) -> None:
        self._sources = sources
        self._hands = hands
        self._rules = rules
        self._rounds = 0
        self.book = Book()
        self.told_at: datetime | None = None
        self.ended_at: float | None = None  # of the last round, by the monotonic clock

    def tick(self, now: datetime) -> float:
        """Make a round if all is known and we lead; return the seconds until the next one."""
        clock = self._sources.clock
        if not self._sources.may_act():
            if self.told_at is not None and not self._sources.leads():
                self._stand_by()
            self.ended_at = clock.monotonic()
            return _LOOK_SECONDS
        if not self._sources.is_known():
            return _LOOK_SECONDS
        began = clock.monotonic()
        with self._timed(Step.TOTAL):
            self._round(now, began)
        self.ended_at = clock.monotonic()
        self._rounds += 1
        seconds = self._rules.interval.total_seconds() * (1 - _SPREAD * _share(self._rounds))
        return max(began + seconds - self.ended_at, 0.0)

    def _stand_by(self) -> None:
        """Tell no more what was decided: from now on another one tells that."""
        self.book, self.told_at = Book(), None
        self._hands.teller.stand_by()

    def _round(self, now: datetime, began: float) -> None:
        sources, hands = self._sources, self._hands
        with self._timed(Step.LIST_VPAS):
            sign = sources.webhook(now)
            if sign.trouble is not None:
                hands.metrics.skipped_round(sign.trouble)
        with self._timed(Step.LIST_PODS):
            snapshot = sources.snapshot()
            memory, actor = hands.notebook.begin(_NAME)
        with self._timed(Step.FILTER_PODS):
            made = hands.decider.plan(Sight(snapshot, sign.is_healthy), memory, now)
            hands.notebook.planned(made.memory)
        with self._timed(Step.ADMISSION_INIT):
            hands.teller.decided(made, snapshot)
        with self._timed(Step.EVICT_PODS):
            done = self._carried_out(made, snapshot, actor, began)
        before, self.book = self.book, self.book.after(made, done.decisions)
        self.told_at = now
        hands.teller.ended(self.book, before, done, snapshot)
        hands.notebook.forget_deeds({found.uid for found in made.decisions}, now)
        self._log(made, done)

    def _carried_out(self, made: Plan, snapshot: Snapshot, actor: Actor, began: float) -> Done:
        if self._rules.is_dry:
            return Done()
        until = began + self._rules.interval.total_seconds()
        job = Job(made.queues, snapshot, actor, until)
        return self._hands.carrier.carry_out(job)

    def _log(self, made: Plan, done: Done) -> None:
        accepted = sum(outcome.error is None for outcome in done.outcomes)
        decided = made.decisions
        extra = {
            "pods": len(decided),
            "planned": sum(found.action not in (Action.WAIT, Action.NONE) for found in decided),
            "accepted": accepted,
            "refused": len(done.outcomes) - accepted,
            "waiting": sum(found.action is Action.WAIT for found in done.decisions.values()),
        }
        log.info("dry round ended" if self._rules.is_dry else "round ended", extra=extra)

    @contextmanager
    def _timed(self, step: Step) -> Iterator[None]:
        began = self._sources.clock.monotonic()
        try:
            yield
        finally:
            seconds = self._sources.clock.monotonic() - began
            self._hands.metrics.step(step, seconds)


def _share(number: int) -> float:
    """Return a number from 0 to 1 that differs from round to round."""
    return number * 0.618 % 1
