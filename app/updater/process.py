"""The updater's process: which parts it has, who leads, its port, and its end.

Strategy: everything periodic is a loop of its own: rounds, ends of boosts, unconfirmed calls,
events, annotations, election. A standby watches as the leader does, so it can take over at once.
At the end the calls that are under way are finished, what is left is reported, and then the Lease
is given up.
"""

from __future__ import annotations

import gc
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from importlib.metadata import version
from typing import Final

from fastapi import FastAPI

from app.kube.watch_cache import REFUSED_SECONDS
from app.model.gates import FeatureGate
from app.ports import Cluster
from app.runtime.access import guard_of
from app.runtime.bounds import LimitReport
from app.runtime.election import LEAST_CALL_SECONDS, Campaign, election
from app.runtime.exposition import ProcessMetrics, new_registry, render
from app.runtime.http_server import Server, bound
from app.runtime.lifecycle import run_until_signal
from app.runtime.live import LiveRuntime, Runtime
from app.runtime.loop import Loop, Tick
from app.runtime.probes import probes
from app.runtime.tls import FileTls
from app.updater.api import add_decisions
from app.updater.boosts import BoostLoop
from app.updater.core.rules import UpdateRules
from app.updater.executor import Executor
from app.updater.flags import UpdaterSettings, update_rules
from app.updater.metrics import UpdaterLimit, UpdaterMetrics
from app.updater.notifications import EventRecorder, SummaryWriter
from app.updater.promotions import PromotionLoop
from app.updater.reporter import DecisionLog, Reporter
from app.updater.state import UpdaterContext, UpdaterState
from app.updater.updater import HastyPlans, OwnerLookupPlanner, Updater
from app.updater.watches import ClusterWatch, WebhookLease
from app.updater.work_queue import RateLimits

log = logging.getLogger("updater.process")

_CALL_SECONDS: Final = 10.0  # after which an eviction or a patch is given up
_PATIENCE_INTERVALS: Final = 5  # without a round, then the process counts as dead
_ANSWER_SECONDS: Final = 5.0  # after which a call about a token is given up
_UPKEEP_SECONDS: Final = 1.0
_SAY_SECONDS: Final = 60.0  # between two log lines about the same trouble
_ROUND_SECONDS: Final = 15.0  # for the calls that are under way
_LOOP_SECONDS: Final = 2.0
_RETRY_SECONDS: Final = 10.0


def serve(settings: UpdaterSettings) -> int:
    """Update pods until a signal; return the exit code."""
    return run_until_signal(
        lambda: Process(settings, LiveRuntime()), settings.logging.verbosity, log
    )


@dataclass(frozen=True, slots=True)
class UpdaterParts:
    """The parts of the updater whose loops work on their own, and the rules in force."""

    rules: UpdateRules
    updater: Updater
    executor: Executor
    decisions: DecisionLog
    boosts: BoostLoop | None  # None: boosts are not ended
    promotions: PromotionLoop | None  # None: leaders are resized in rounds alone
    recorder: EventRecorder | None  # None: nothing is written to the cluster
    summaries: SummaryWriter | None


def updater_parts(settings: UpdaterSettings, context: UpdaterContext) -> UpdaterParts:
    """Put the parts together, whatever the cluster is."""
    deciding, disruption, acting = settings.deciding, settings.disruption, settings.acting
    gates, is_dry, clock = deciding.gates, settings.loop.dry_run, context.clock
    rules = update_rules(
        deciding, disruption, settings.thresholds, settings.scope, settings.loop.interval
    )
    limits = RateLimits(
        disruption.rate_per_second,
        disruption.burst,
        acting.namespace_rate_per_second,
        acting.namespace_burst,
    )
    decisions = DecisionLog()
    recorder = None if is_dry else EventRecorder(context.reporting, clock, context.reached)
    summaries = SummaryWriter(context.reporting) if acting.summaries and not is_dry else None
    reporter = Reporter(context.metrics, decisions, recorder, summaries)
    state = UpdaterState(rules, clock)
    lease = WebhookLease(context.cluster_for_calls, settings.admission, clock)
    executor = Executor(context, rules, limits, state, lease, reporter)

    def planner() -> OwnerLookupPlanner:  # each loop has its own
        return OwnerLookupPlanner(rules, gates, context.owners, clock)

    def hasty(loop: str) -> HastyPlans:
        return HastyPlans(loop, planner(), executor, state, clock)

    updater = Updater(settings, context, planner(), executor, state, lease, reporter=reporter)
    boosts = None
    if FeatureGate.CPU_STARTUP_BOOST in gates and not is_dry:
        # Pods that start together are due together.
        workers = max(acting.boost_workers, acting.concurrency)
        boosts = BoostLoop(context, hasty("boosts"), workers)
    promotions = None
    if deciding.role_leases and not is_dry:
        promotions = PromotionLoop(context, hasty("promotions"), reporter)
    loops = (boosts, promotions)
    return UpdaterParts(rules, updater, executor, decisions, *loops, recorder, summaries)


class Process:
    """Starts everything, and ends it."""

    def __init__(self, settings: UpdaterSettings, runtime: Runtime) -> None:
        self._settings = settings
        self._runtime = runtime
        self._clock = clock = runtime.clock
        # Watches, actions, reports, the Lease and questions do not wait for one another.
        self._clusters = [runtime.connect(settings.cluster) for _ in range(6)]
        watched, named, self._called, reporting, leased, asked = self._clusters
        registry = new_registry()
        self._limits = LimitReport(registry, UpdaterLimit)
        self._watch = ClusterWatch(
            watched,
            named,
            self._called,
            runtime,
            self._limits.reached,
            scope=settings.scope,
            deciding=settings.deciding,
        )
        self._process_metrics = ProcessMetrics(registry, version("plumbline"))
        self._stopping = self._leads = self._is_tidied = self._is_stale = False
        self._election = election(settings.election, leased, clock)
        self._term = 0
        self._unseen_since = clock.monotonic()
        self._unseen_said_at: float | None = None
        context = UpdaterContext(
            snapshot=self._watch.snapshot,
            is_known=self._watch.is_known,
            may_act=self._may_act,
            leads=lambda: self._leads,
            owners=self._watch.owners,
            cluster_for_calls=self._cluster_for_calls,
            reporting=reporting.within(_CALL_SECONDS),
            clock=clock,
            metrics=UpdaterMetrics(registry),
            reached=self._limits.reached,
        )
        self._parts = updater_parts(settings, context)
        if self._parts.boosts is not None:
            self._watch.listen(self._parts.boosts.add)
        self._working = list(self._working_loops())
        self._reporting = list(self._reporting_loops())
        self._upkeep = runtime.loop("upkeep", self._keep_up)
        campaign = Campaign(self._election, self._begin, self._end)
        self._campaign = runtime.loop("election", campaign.tick, at_end=campaign.close)
        app = probes(self._dead, self._watch.problem, lambda: render(registry))
        self._health = self._server(app, asked.within(_ANSWER_SECONDS))

    def _server(self, app: FastAPI, cluster: Cluster) -> Server:
        """Return what answers behind the port, decisions as well."""
        settings, runtime, reached = self._settings, self._runtime, self._limits.reached
        host, access = settings.loop.address.host, settings.access
        guard = guard_of(host, access, cluster, runtime.clock, reached)
        add_decisions(app, self.decisions, guard, reached)
        tls = FileTls.of(settings.access)
        if tls is not None:
            self._reporting.append(runtime.loop("certificate", tls.tick))
        listener = bound(*settings.loop.address, "--address")
        context = tls.context if tls is not None else None
        return Server(app, listener, context, limits=self._limits)

    @property
    def decisions(self) -> DecisionLog:
        """What was decided and done."""
        return self._parts.decisions

    def start(self) -> None:
        """Begin."""
        self._health.start("health")
        self._watch.start()
        if self._is_elected:
            self._campaign.start()
        else:
            self._begin()
        for loop in (self._upkeep, *self._reporting, *self._working):
            loop.start()
        log.info("updater starts", extra={"dryRun": self._settings.loop.dry_run})

    def stop(self) -> None:
        """Finish what is under way, report it, give up the Lease, and end."""
        self._stopping = True
        self._upkeep.stop(_LOOP_SECONDS)
        for loop in self._working:
            loop.stop(_ROUND_SECONDS)
        for loop in self._reporting:
            loop.stop(_LOOP_SECONDS)
        self._called.close()  # what waits for its turn even now is not sent any more
        if self._is_elected:
            self._campaign.stop()
        self._watch.stop()
        for cluster in self._clusters:
            cluster.close()
        self._health.end()

    # --- who leads

    @property
    def _is_elected(self) -> bool:
        # A dry run changes nothing, so it need not lead.
        return self._settings.election.is_on and not self._settings.loop.dry_run

    def _may_act(self) -> bool:
        if self._stopping or not self._leads or self._is_stale:
            return False
        if not self._is_elected:
            return True
        left = self._election.calls_end_at - self._clock.monotonic()
        return self._election.is_leading() and left > LEAST_CALL_SECONDS

    def _cluster_for_calls(self) -> Cluster:
        """Return the cluster; calls made with it are over before another process may lead."""
        cluster = self._called.within(_CALL_SECONDS)
        return cluster.until(self._election.calls_end_at) if self._is_elected else cluster

    def _begin(self) -> None:
        """Begin to lead; if another process led meanwhile, what was known before is out of date."""
        if self._term != self._election.term:
            self._term = self._election.term
            self._parts.executor.forget()
        if self._parts.boosts is not None:
            self._parts.boosts.refill()
        self._leads = True

    def _end(self) -> None:
        self._leads = False

    # --- loops

    def _working_loops(self) -> Iterator[Loop]:
        loop, parts, longest = self._runtime.loop, self._parts, _RETRY_SECONDS
        if parts.boosts is not None:
            yield loop("boosts", parts.boosts.tick, longest_retry_seconds=longest)
        if parts.promotions is not None:
            yield loop("promotions", parts.promotions.tick, longest_retry_seconds=longest)
        yield loop("rounds", parts.updater.tick, longest_retry_seconds=longest)
        yield loop("unconfirmed", parts.executor.unconfirmed.tick, longest_retry_seconds=longest)

    def _reporting_loops(self) -> Iterator[Loop]:
        if self._parts.recorder is not None:
            yield self._reporting_loop("events", self._parts.recorder.tick)
        if self._parts.summaries is not None:
            yield self._reporting_loop("summaries", self._parts.summaries.tick)

    def _reporting_loop(self, name: str, tick: Tick) -> Loop:
        """Return a loop that writes what is left when it ends."""

        def last(now: datetime) -> None:
            tick(now)

        return self._runtime.loop(name, tick, longest_retry_seconds=_RETRY_SECONDS, at_end=last)

    def _keep_up(self, _now: datetime) -> float:
        """Publish how old the watches are; leave what was read first out of garbage collection."""
        for resource, age in self._watch.watch_ages().items():
            self._process_metrics.watch_age(resource, age)
        self._check_watches()
        if not self._is_tidied and self._watch.is_known():
            gc.collect()
            gc.freeze()
            self._is_tidied = True
        return _UPKEEP_SECONDS

    def _check_watches(self) -> None:
        """Let nothing be done while watches are stale: budgets would be guessed."""
        # A watch that works hears something meanwhile, if only a bookmark, or is opened again.
        stale = self._watch.stale(self._parts.rules.watch_lag.total_seconds())
        self._is_stale = bool(stale)
        why, now = stale or self._watch.problem(), self._clock.monotonic()
        if not why:
            if self._unseen_said_at is not None:
                log.info("the cluster is watched again")
            self._unseen_since, self._unseen_said_at = now, None
            return
        grace = 0.0 if stale else REFUSED_SECONDS
        said_at = self._unseen_said_at
        if now - self._unseen_since >= grace and (said_at is None or now - said_at >= _SAY_SECONDS):
            self._unseen_said_at = now
            log.warning("no action is taken, the cluster cannot be watched", extra={"reason": why})

    # --- health

    def _dead(self) -> str:
        """Return why the process should be restarted, empty if it works."""
        alive_at = self._parts.updater.alive_at
        if alive_at is None:
            return ""
        silent = self._clock.monotonic() - alive_at
        if silent <= _PATIENCE_INTERVALS * self._settings.loop.interval.total_seconds():
            return ""
        return f"no round ended for {silent:.0f} s"
