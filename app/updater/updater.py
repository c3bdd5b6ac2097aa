"""Bring running pods to their recommendation, round by round: gather, decide, carry out.

Strategy: a round takes one snapshot, makes one plan and carries it out as far as time and rates
allow; the rest is decided again in the next one. Rounds never overlap. They begin one interval
after each other, or sooner as `core.pace` says; while the webhook is away its Lease is looked at
between them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from app.model.gates import FeatureGates
from app.model.kinds import ObjectKey
from app.model.snapshot import Snapshot, in_turns
from app.model.workloads import Lookup, LookupResult
from app.ports import Clock, Owners
from app.updater.core.action_queue import ActionQueue
from app.updater.core.decisions import Action
from app.updater.core.memory import Memory, NamespacedName
from app.updater.core.pace import Pace
from app.updater.core.plan import Plan, PlanOptions, Unplannable, plan
from app.updater.core.proof import Outage
from app.updater.core.rules import UpdateRules
from app.updater.executor import Batch, BatchResult, Executor
from app.updater.flags import UpdaterSettings
from app.updater.metrics import RoundStep
from app.updater.reporter import Reporter
from app.updater.state import PlanVersion, UpdaterContext, UpdaterState
from app.updater.watches import WebhookLease

log = logging.getLogger("updater.rounds")
plan_log = logging.getLogger("updater.plan")

MOST_LEVELS: Final = 10  # of owners above each other
_NAME: Final = "rounds"
_LOOK_SECONDS: Final = 0.1  # until everything is known, or we lead
_RETURN_SECONDS: Final = 1.0  # between two looks whether the webhook is back
_SPREAD: Final = 0.05  # of the interval, by which a round may begin earlier
_KEPT: Final = timedelta(minutes=10)  # then it is collected again which owners are needed
_LOOKUP_SECONDS: Final = 3.0  # for all owners of one level together
_HASTY_SECONDS: Final = 0.3  # the same for a plan about some pods, which comes again soon
_HASTY_BATCH_SECONDS: Final = 1.0  # for its calls


class Updater:
    """Makes rounds; `tick` is for a loop."""

    def __init__(
        self,
        settings: UpdaterSettings,
        context: UpdaterContext,
        planner: OwnerLookupPlanner,
        executor: Executor,
        state: UpdaterState,
        lease: WebhookLease,
        *,
        reporter: Reporter,
    ) -> None:
        self._interval_seconds = settings.loop.interval.total_seconds()
        self._is_dry = settings.loop.dry_run
        self._workers = settings.acting.concurrency
        self._context, self._clock = context, context.clock
        self._planner = planner
        self._executor = executor
        self._state = state
        self._lease = lease
        self._reporter = reporter
        self._rounds = 0
        self._is_standing_by = True
        self._pace = Pace()
        self._due = 0.0  # the next round, by the monotonic clock
        # When a round ended, or there was none to make, by the monotonic clock.
        self.alive_at: float | None = None

    def tick(self, now: datetime) -> float:
        """Make a round if all is known and we lead; return the seconds until the next one."""
        began = self._clock.monotonic()
        if not (self._context.may_act() and self._context.is_known()):
            if not self._is_standing_by and not self._context.leads():
                self._is_standing_by = True
                self._reporter.stand_by()
            self.alive_at = self._due = began
            return _LOOK_SECONDS
        awaits_webhook = self._pace.is_webhook_away and began < self._due
        if awaits_webhook and not self._lease.check(now).is_healthy:
            self.alive_at = began
            return min(self._due - began, _RETURN_SECONDS)
        with self._timed(RoundStep.TOTAL):
            self._round(now, began)
        self._is_standing_by = False
        self.alive_at = self._clock.monotonic()
        self._rounds += 1
        share = self._rounds * 0.618 % 1  # differs from round to round
        self._due = began + self._pace.seconds(self._interval_seconds) * (1 - _SPREAD * share)
        seconds = max(self._due - self.alive_at, 0.0)
        return min(seconds, _RETURN_SECONDS) if self._pace.is_webhook_away else seconds

    def _round(self, now: datetime, began: float) -> None:
        # The labels of the steps are upstream's; RoundStep tells what each of them covers.
        with self._timed(RoundStep.LIST_VPAS):
            webhook = self._lease.check(now)
            if webhook.trouble is not None:
                self._context.metrics.without_webhook(webhook.trouble)
        with self._timed(RoundStep.LIST_PODS):
            snapshot = self._context.snapshot()
            memory, version = self._state.begin_plan(_NAME)
        with self._timed(RoundStep.FILTER_PODS):
            made = self._planner.plan(
                snapshot, memory, now, webhook_is_healthy=webhook.is_healthy, outage=webhook.outage
            )
            self._state.finish_plan(made.memory)
        with self._timed(RoundStep.ADMISSION_INIT):
            self._reporter.begin_round(made, snapshot)
        with self._timed(RoundStep.EVICT_PODS):
            until = began + self._interval_seconds
            batch = Batch(made.queues, snapshot, version, self._workers, until)
            result = BatchResult() if self._is_dry else self._executor.carry_out(batch)
        reasons = self._reporter.end_round(made, result.decisions, result.limited, snapshot)
        self._pace = self._pace.after_round(
            reasons,
            webhook_is_healthy=webhook.is_healthy,
            has_acted=any(outcome.error is None for outcome in result.outcomes),
        )
        self._log(made, result)

    def _log(self, made: Plan, result: BatchResult) -> None:
        accepted = sum(outcome.error is None for outcome in result.outcomes)
        decided = made.decisions
        extra = {
            "pods": len(decided),
            "planned": sum(found.action not in (Action.WAIT, Action.NONE) for found in decided),
            "accepted": accepted,
            "refused": len(result.outcomes) - accepted,
            "waiting": sum(found.action is Action.WAIT for found in result.decisions.values()),
        }
        log.info("dry round ended" if self._is_dry else "round ended", extra=extra)

    @contextmanager
    def _timed(self, step: RoundStep) -> Iterator[None]:
        began = self._clock.monotonic()
        try:
            yield
        finally:
            self._context.metrics.step(step, self._clock.monotonic() - began)


class OwnerLookupPlanner:
    """Makes plans, and finds the owners that they need; for one thread.

    A plan names the controllers that it could not see. They are looked up side by side and the
    plan is made again, one level of owners at a time; what was found serves the next plans too.
    Parts of the cluster that did not change are taken over from the plan before. A namespace that
    brings a defect of ours to light is left out, so that it spoils no other.
    """

    def __init__(
        self,
        rules: UpdateRules,
        gates: FeatureGates,
        owners: Owners,
        clock: Clock,
        before: Plan | None = None,
    ) -> None:
        self._rules = rules
        self._gates = gates
        self._owners = owners
        self._clock = clock
        self._needed: dict[Lookup, None] = {}  # the owners that plans asked for
        self._needed_since: datetime | None = None
        self._turn = 0  # of the namespaces, to be looked into first
        self._before = before

    def plan(
        self,
        snapshot: Snapshot,
        memory: Memory,
        now: datetime,
        *,
        webhook_is_healthy: bool = True,
        outage: Outage | None = None,
        only: frozenset[tuple[str, str]] | None = None,
    ) -> Plan:
        """Return the plan for all pods, or for some of them by namespace and name."""
        if self._needed_since is None or now - self._needed_since >= _KEPT:
            self._needed, self._needed_since = {}, now
        options = PlanOptions(webhook_is_healthy, outage, {}, self._before, only)
        for _ in range(MOST_LEVELS):
            options = replace(options, looked_up=self._looked_up(only))
            made = self._plan_without_failing_namespaces(snapshot, memory, now, options)
            fresh = [lookup for lookup in made.lookups if lookup not in self._needed]
            if not made.is_partial:
                options = replace(options, before=made)
            if not fresh:
                break
            self._needed.update(dict.fromkeys(fresh))
        self._before = options.before
        return made

    def _looked_up(
        self, only: frozenset[tuple[str, str]] | None
    ) -> Mapping[str, Mapping[ObjectKey, LookupResult]]:
        """Return what is found of owners, by namespace.

        A plan about some pods, made in haste, does not wait for owners of other namespaces.
        """
        if only is None:
            self._turn += 1
            return find_owners(self._owners, self._clock, self._needed, first=self._turn)
        namespaces = {namespace for namespace, _ in only}
        near = (lookup for lookup in self._needed if lookup.namespace in namespaces)
        return find_owners(self._owners, self._clock, near, _HASTY_SECONDS)

    def _plan_without_failing_namespaces(
        self, snapshot: Snapshot, memory: Memory, now: datetime, options: PlanOptions
    ) -> Plan:
        """Return the plan, without the namespaces of which none can be made."""
        while True:
            try:
                return plan(snapshot, self._rules, self._gates, memory, now, options)
            except Unplannable as error:
                plan_log.exception("namespace skipped", extra={"namespace": error.namespace})
                options = replace(options, without=options.without | {error.namespace})


class HastyPlans:
    """Plans about some pods alone, made and carried out beside the rounds; for one thread."""

    def __init__(
        self,
        name: str,
        planner: OwnerLookupPlanner,
        executor: Executor,
        state: UpdaterState,
        clock: Clock,
    ) -> None:
        self._name = name
        self._planner, self._executor = planner, executor
        self._state, self._clock = state, clock
        self._planned_upon: tuple[Snapshot, PlanVersion]

    def plan(self, pods: Iterable[NamespacedName], snapshot: Snapshot, now: datetime) -> Plan:
        """Decide about some pods."""
        memory, version = self._state.read(self._name)
        self._planned_upon = snapshot, version
        return self._planner.plan(snapshot, memory, now, only=frozenset(pods))

    def memory(self) -> Memory:
        """Return what is remembered of pods by now."""
        return self._state.read(self._name)[0]

    def carry_out(self, queues: Sequence[ActionQueue], workers: int) -> BatchResult:
        """Do what was chosen of the last plan, in no more time than what is due next can wait."""
        until = self._clock.monotonic() + _HASTY_BATCH_SECONDS
        return self._executor.carry_out(Batch(queues, *self._planned_upon, workers, until))


def find_owners(
    owners: Owners,
    clock: Clock,
    lookups: Iterable[Lookup],
    seconds: float = _LOOKUP_SECONDS,
    *,
    first: int = 0,
) -> dict[str, dict[ObjectKey, LookupResult]]:
    """Return what is found of owners within some seconds, side by side, by namespace.

    Namespaces take turns, and the one with that number is `first`: else the owners of one, found
    slowly or not at all, could take the time of all others.
    """
    namespaces: dict[str, list[Lookup]] = {}
    for lookup in lookups:
        namespaces.setdefault(lookup.namespace, []).append(lookup)
    wanted = list(in_turns(namespaces, first))
    for lookup in wanted:
        owners.find(lookup, 0.0)  # all begin before the first one is waited for
    until = clock.monotonic() + seconds
    found: dict[str, dict[ObjectKey, LookupResult]] = {}
    for lookup in wanted:
        left = max(until - clock.monotonic(), 0.0)
        found.setdefault(lookup.namespace, {})[lookup.key] = owners.find(lookup, left)
    return found
