"""The updater's process: what it watches, who leads, its port, and its end.

Strategy: everything periodic is a loop of its own: rounds, ends of boosts, doubts, events,
annotations, election. A standby watches as the leader does, so it can take over at once. Whoever
ends finishes the calls that are under way, tells what is left to tell, and then lets go of the
Lease.
"""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib.metadata import version
from typing import Final

from app.kube.watch_cache import Transition, WatchedResource
from app.model.gates import FeatureGate
from app.model.limits import read_disruption_budget, read_limit_range, read_node
from app.model.pods import read_pod
from app.model.snapshot import Collection, Snapshot
from app.ports import (
    LIMIT_RANGES,
    NODES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    VPAS,
    Clock,
    Cluster,
    Owners,
)
from app.runtime.candidacy import election
from app.runtime.election import Campaign
from app.runtime.exposition import new_registry, render
from app.runtime.lifecycle import run_until_signal
from app.runtime.live import Connection, LiveRuntime, Runtime
from app.runtime.loop import Loop, Tick
from app.runtime.probes import probes
from app.runtime.process_metrics import ProcessMetrics
from app.runtime.server import Server, bound
from app.runtime.watched import watch_ages, watched_vpas, watched_workloads
from app.updater.api import Deed, add_decisions
from app.updater.boosts import Boosts, Change
from app.updater.calls import Calls, Doubts, Trials
from app.updater.core.decisions import Decision
from app.updater.core.rules import UpdateRules
from app.updater.executor import Carrier, Doors
from app.updater.flags import UpdaterSettings
from app.updater.metrics import UpdaterMetrics
from app.updater.notifications import Journal, Summaries
from app.updater.report import Counts, Teller
from app.updater.rules import lease_rules, update_rules
from app.updater.state import Notebook
from app.updater.updater import Decider, Hands, RoundRules, Sources, Updater
from app.updater.webhook_lease import WebhookLease
from app.updater.work_queue import Pace, PaceRules

watch_log = logging.getLogger("updater.watches")

_LIVE_PODS: Final = "status.phase!=Succeeded,status.phase!=Failed"
# Without these less is known beforehand; upstream's rights do not include all of them.
_HELPFUL: Final = (LIMIT_RANGES, POD_DISRUPTION_BUDGETS, NODES)
_HELPFUL_SECONDS: Final = 10.0
_LOOKUP_SECONDS: Final = 3.0
# Own deeds are believed no longer; a watch that works tells something, if only a bookmark, or is
# opened anew before that.
_UNSEEN_SECONDS: Final = UpdateRules().watch_lag.total_seconds()


class UpdaterKnowledge:
    """The cluster, mirrored, and owners that are looked up."""

    def __init__(
        self, watched: Connection, asked: Connection, namespace: str, place: Runtime
    ) -> None:
        self._clock = place.clock
        self._mirror = place.mirror(watched, sources(namespace))
        self.owners = place.owners(asked.within(_LOOKUP_SECONDS))
        self._is_known = False

    def listen(self, listener: Callable[[Sequence[Change]], None]) -> None:
        """Have what happens to pods and VPAs told."""

        def hear(transitions: Sequence[Transition]) -> None:
            listener(
                [
                    Change(found.namespace, found.name, found.before, found.after)
                    for found in transitions
                    if found.resource in (PODS, VPAS)
                ]
            )

        self._mirror.listen(hear)

    def start(self) -> None:
        """Begin to watch."""
        self._mirror.start()
        self.owners.start()

    def stop(self) -> None:
        """Watch no more."""
        self._mirror.stop()
        self.owners.close()

    def snapshot(self) -> Snapshot:
        """Return what is known."""
        return self._mirror.snapshot

    def is_known(self) -> bool:
        """Whether all that is needed was read once, and what helps was, or is refused."""
        if not self._is_known and not self.problem():
            self._is_known = True
            for found in self._mirror.standings(self._clock.now()):
                if not found.is_read:
                    extra = {"resource": found.resource.plural, "problem": found.problem}
                    watch_log.warning("decided without it, for it cannot be read", extra=extra)
        return self._is_known

    def problem(self) -> str:
        """Say what is not known yet, empty if all is."""
        for found in self._mirror.standings(self._clock.now()):
            if found.is_read:
                continue
            is_helpful = found.resource in _HELPFUL
            if is_helpful and found.problem and found.stale_seconds > _HELPFUL_SECONDS:
                continue
            return found.unread
        return ""

    def unseen(self) -> str:
        """Say what was not seen for so long that nobody may act upon it, empty if nothing."""
        for found in self._mirror.standings(self._clock.now()):
            if found.missing or found.resource in _HELPFUL:
                continue
            if found.stale_seconds > _UNSEEN_SECONDS:
                seen = f"{found.resource.plural} were last seen {found.stale_seconds:.0f} s ago"
                return f"{seen}: {found.problem}" if found.problem else seen
        return ""

    def watch_ages(self) -> Mapping[str, float]:
        """Return for each watched resource how long nothing was heard, in seconds."""
        return watch_ages(self._mirror, self._clock)


def sources(namespace: str) -> Iterator[WatchedResource]:
    """Yield what is watched, in one namespace or in all."""
    yield watched_vpas(namespace, watch_log)
    yield WatchedResource(
        PODS, Collection.PODS, read_pod, namespace=namespace, field_selector=_LIVE_PODS
    )
    yield WatchedResource(
        LIMIT_RANGES, Collection.LIMIT_RANGES, read_limit_range, namespace=namespace
    )
    yield WatchedResource(
        POD_DISRUPTION_BUDGETS, Collection.BUDGETS, read_disruption_budget, namespace=namespace
    )
    yield WatchedResource(NODES, Collection.NODES, read_node)
    yield from watched_workloads(namespace)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the updater works with."""

    acting: Cluster  # where pods are evicted and resized
    telling: Cluster  # where events and annotations are written
    owners: Owners
    snapshot: Callable[[], Snapshot]
    is_known: Callable[[], bool]  # whether the snapshot is whole
    may_act: Callable[[], bool]  # whether we lead, see the cluster, and nobody told us to stop
    leads: Callable[[], bool]
    clock: Clock
    metrics: UpdaterMetrics
    in_time: Callable[[], Cluster] | None = None  # to act in, with a deadline of now; or `acting`


class Archive:
    """What can be asked about decisions and deeds."""

    def __init__(self, updater: Updater, notebook: Notebook) -> None:
        self._updater = updater
        self._notebook = notebook

    def told_at(self) -> datetime | None:
        """Return the time of the latest round."""
        return self._updater.told_at

    def decisions(self, namespace: str, /) -> Iterable[Decision]:
        """Return the decisions of the latest round."""
        return self._updater.book.decisions(namespace)

    def deeds(self) -> Mapping[str, Deed]:
        """Return the last deed for each pod."""
        return self._notebook.deeds()


@dataclass(frozen=True, slots=True)
class Team:
    """The parts of the updater that work on their own."""

    updater: Updater
    boosts: Boosts | None  # None: boosts are no matter of ours
    journal: Journal | None  # None: the cluster is told nothing
    summaries: Summaries | None
    notebook: Notebook
    carrier: Carrier

    @property
    def archive(self) -> Archive:
        """What can be asked over HTTP."""
        return Archive(self.updater, self.notebook)


def team(settings: UpdaterSettings, around: Surroundings) -> Team:
    """Put the parts together."""
    rules = update_rules(
        settings.deciding,
        settings.disruption,
        settings.thresholds,
        settings.scope,
        settings.loop.interval,
    )
    is_dry = settings.loop.dry_run
    journal = None if is_dry else Journal(around.telling, around.clock)
    summaries = Summaries(around.telling) if settings.acting.summaries and not is_dry else None
    teller = Teller(Counts(around.metrics), around.snapshot, journal=journal, summaries=summaries)
    notebook = Notebook(rules, around.clock)
    lease = WebhookLease(around.acting, lease_rules(settings.admission), around.clock)
    doors = _doors(settings, around, lease, teller, rules)
    hands = Hands(
        _decider(settings, rules, around),
        Carrier(doors, notebook, rules, settings.acting.concurrency),
        notebook,
        teller,
        around.metrics,
    )
    sources = Sources(
        around.snapshot,
        around.is_known,
        around.may_act,
        around.leads,
        lease.look,
        around.clock,
    )
    updater = Updater(sources, hands, RoundRules(settings.loop.interval, is_dry))
    boosts = _boosts(settings, rules, around, doors, notebook)
    return Team(updater, boosts, journal, summaries, notebook, hands.carrier)


def _boosts(
    settings: UpdaterSettings,
    rules: UpdateRules,
    around: Surroundings,
    doors: Doors,
    notebook: Notebook,
) -> Boosts | None:
    """Return what ends boosts, None if nobody is to."""
    if FeatureGate.CPU_STARTUP_BOOST not in settings.deciding.gates or settings.loop.dry_run:
        return None
    acting = settings.acting
    # Pods that start together are due together.
    workers = max(acting.boost_workers, acting.concurrency)
    return Boosts(
        _decider(settings, rules, around),
        Carrier(doors, notebook, rules, workers),
        notebook,
        around.snapshot,
        lambda: around.may_act() and around.is_known(),
        around.clock,
    )


def _decider(settings: UpdaterSettings, rules: UpdateRules, around: Surroundings) -> Decider:
    return Decider(rules, settings.deciding.gates, around.owners, around.clock)


def _doors(
    settings: UpdaterSettings,
    around: Surroundings,
    lease: WebhookLease,
    teller: Teller,
    rules: UpdateRules,
) -> Doors:
    disruption, acting = settings.disruption, settings.acting
    calls = Calls(around.in_time or (lambda: around.acting))
    rates = PaceRules(
        disruption.rate_per_second,
        disruption.burst,
        acting.namespace_rate_per_second,
        acting.namespace_burst,
    )

    def pace() -> Pace:
        return Pace(rates, around.clock)

    return Doors(
        calls,
        Doubts(calls, rules, around.clock, around.snapshot),
        Trials(around.acting),
        evictions=pace(),
        resizes=pace(),
        clock=around.clock,
        snapshot=around.snapshot,
        may_act=around.may_act,
        may_evict=lease.is_fresh,
        told=teller.tried,
    )


log = logging.getLogger("updater.process")

_CALL_SECONDS: Final = 10.0  # after which an eviction or a patch is given up
_LEAST_CALL_SECONDS: Final = 1.0  # for less no call is begun
_PATIENCE_INTERVALS: Final = 5  # without a round, then the process counts as dead
_TEND_SECONDS: Final = 1.0
_ROUND_SECONDS: Final = 15.0  # for the calls that are under way
_LOOP_SECONDS: Final = 2.0
_RETRY_SECONDS: Final = 10.0


def serve(settings: UpdaterSettings) -> int:
    """Update pods until a signal; return the exit code."""
    return run_until_signal(
        lambda: Process(settings, LiveRuntime()), settings.logging.verbosity, log
    )


class Process:
    """Starts everything, and ends it."""

    def __init__(self, settings: UpdaterSettings, place: Runtime) -> None:
        self._settings = settings
        self._place = place
        self._clock = clock = place.clock
        # Watches, actions, what is told and the Lease do not wait for one another.
        self._clusters = [place.connect(settings.cluster) for _ in range(4)]
        watched, acting, telling, leased = self._clusters
        self._acting = acting
        self._known = UpdaterKnowledge(watched, acting, settings.scope.namespace, place)
        registry = new_registry()
        self._numbers = ProcessMetrics(registry, version("plumbline"))
        self._stopping = self._leads = self._is_tidied = self._is_blind = False
        self._election = election(settings.election, leased, clock)
        self._term = 0
        around = Surroundings(
            acting=acting.within(_CALL_SECONDS),
            telling=telling.within(_CALL_SECONDS),
            owners=self._known.owners,
            snapshot=self._known.snapshot,
            is_known=self._known.is_known,
            may_act=self._may_act,
            leads=lambda: self._leads,
            clock=clock,
            metrics=UpdaterMetrics(registry),
            in_time=self._in_time,
        )
        self._team = team(settings, around)
        self._known.listen(self._note)
        self._working = list(self._workers())
        self._telling = list(self._tellers())
        self._tending = place.loop("tending", self._tend)
        campaign = Campaign(self._election, self._begin, self._end)
        self._campaign = place.loop("election", campaign.tick, at_end=campaign.close)
        app = probes(self._dead, self._known.problem, lambda: render(registry))
        add_decisions(app, self._team.archive)
        host, port = settings.loop.address
        self._health = Server(app, bound(host, port, "--address"))

    @property
    def archive(self) -> Archive:
        """What was decided and done."""
        return self._team.archive

    def start(self) -> None:
        """Begin."""
        self._health.start("health")
        self._known.start()
        if self._is_elected:
            self._campaign.start()
        else:
            self._begin()
        for loop in (self._tending, *self._telling, *self._working):
            loop.start()
        log.info("updater starts", extra={"dryRun": self._settings.loop.dry_run})

    def stop(self) -> None:
        """Finish what is under way, tell of it, let go of the Lease, and end."""
        self._stopping = True
        self._tending.stop(_LOOP_SECONDS)
        for loop in self._working:
            loop.stop(_ROUND_SECONDS)
        for loop in self._telling:
            loop.stop(_LOOP_SECONDS)
        if self._is_elected:
            self._campaign.stop()
        self._known.stop()
        for cluster in self._clusters:
            cluster.close()
        self._health.end()

    # --- who leads

    @property
    def _is_elected(self) -> bool:
        # Whoever touches nothing needs not lead.
        return self._settings.election.is_on and not self._settings.loop.dry_run

    def _may_act(self) -> bool:
        if self._stopping or not self._leads or self._is_blind:
            return False
        if not self._is_elected:
            return True
        return self._election.is_leading() and self._election.call_seconds() > _LEAST_CALL_SECONDS

    def _in_time(self) -> Cluster:
        """Return the cluster; calls that begin now are given up before somebody else may lead."""
        if not self._is_elected:
            return self._acting.within(_CALL_SECONDS)
        seconds = min(self._election.call_seconds(), _CALL_SECONDS)
        return self._acting.within(max(seconds, _LEAST_CALL_SECONDS))

    def _begin(self) -> None:
        """Begin to lead: if others led meanwhile, what was known before is out of date."""
        if self._term != self._election.term:
            self._term = self._election.term
            self._team.carrier.forget()
        if self._team.boosts is not None:
            self._team.boosts.refill()
        self._leads = True

    def _end(self) -> None:
        self._leads = False

    # --- loops

    def _workers(self) -> Iterator[Loop]:
        loop, longest = self._place.loop, _RETRY_SECONDS
        if self._team.boosts is not None:
            yield loop("boosts", self._team.boosts.tick, longest_retry_seconds=longest)
        yield loop("rounds", self._team.updater.tick, longest_retry_seconds=longest)
        yield loop("doubts", self._team.carrier.settle_doubts, longest_retry_seconds=longest)

    def _tellers(self) -> Iterator[Loop]:
        if self._team.journal is not None:
            yield _telling_loop("events", self._team.journal.tick, self._place)
        if self._team.summaries is not None:
            yield _telling_loop("summaries", self._team.summaries.tick, self._place)

    def _note(self, changes: Sequence[Change]) -> None:
        if self._team.boosts is not None:
            self._team.boosts.note(changes)

    def _tend(self, _now: datetime) -> float:
        """Tell how old our knowledge is; leave what was read first out of garbage collection."""
        for resource, seconds in self._known.watch_ages().items():
            self._numbers.watch_age(resource, seconds)
        self._look_whether_we_see()
        if not self._is_tidied and self._known.is_known():
            gc.collect()
            gc.freeze()
            self._is_tidied = True
        return _TEND_SECONDS

    def _look_whether_we_see(self) -> None:
        """Let nothing be done while the cluster is not seen: budgets would be guessed."""
        why = self._known.unseen()
        if why and not self._is_blind:
            log.warning("nothing is done, for the cluster is not seen", extra={"reason": why})
        elif self._is_blind and not why:
            log.info("the cluster is seen again")
        self._is_blind = bool(why)

    # --- health

    def _dead(self) -> str:
        """Say why the process should be started anew, empty if it works."""
        ended = self._team.updater.ended_at
        if ended is None:
            return ""
        silent = self._clock.monotonic() - ended
        if silent <= _PATIENCE_INTERVALS * self._settings.loop.interval.total_seconds():
            return ""
        return f"no round ended for {silent:.0f} s"


def _telling_loop(name: str, tick: Tick, place: Runtime) -> Loop:
    """Return a loop that tells what is left when it ends."""

    def last(now: datetime) -> None:
        tick(now)

    return place.loop(name, tick, longest_retry_seconds=_RETRY_SECONDS, at_end=last)
