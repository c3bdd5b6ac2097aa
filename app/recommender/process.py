"""The recommender's process: what it watches, who leads, its port, and its end.

Strategy: a standby watches as the leader does, so it needs nothing but the Lease and the
checkpoints to take over. Whoever ends stores history first and lets go of the Lease then.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from importlib.metadata import version
from typing import Final

from fastapi import FastAPI
from prometheus_client import CollectorRegistry

from app.kube.watch_cache import Transition, WatchedResource
from app.model.pods import read_pod
from app.model.snapshot import Collection, Snapshot
from app.model.vpa import Vpa
from app.ports import EVENTS, PODS, Delta
from app.recommender.api import add_recommendation_metrics
from app.recommender.flags import RecommenderSettings
from app.recommender.leader_loop import Tenure, Terms
from app.recommender.metrics import RecommenderMetrics
from app.recommender.quality_metrics import QualityMetrics
from app.recommender.recommendation_api import (
    ASKED_SECONDS,
    Asked,
    Previewer,
    recommendation_api,
)
from app.recommender.recommender import Heard, Recommender, RoundRules, Surroundings
from app.recommender.recommender_sources import has_past, past_reading, usage_source
from app.recommender.report import Showing
from app.recommender.rules import recommender_rules, variant_of
from app.runtime.candidacy import election
from app.runtime.election import Campaign, Unopposed
from app.runtime.exposition import new_registry, render
from app.runtime.lifecycle import run_until_signal
from app.runtime.live import Connection, LiveRuntime, Runtime
from app.runtime.probes import probes
from app.runtime.process_metrics import ProcessMetrics
from app.runtime.server import Server, bound
from app.runtime.watched import watch_ages, watched_vpas, watched_workloads

log = logging.getLogger("recommender.process")

_PATIENCE_INTERVALS: Final = 5
_LOOP_SECONDS: Final = 25.0  # for the round that is under way, and the last checkpoints


def serve(settings: RecommenderSettings, previewer: Previewer) -> int:
    """Recommend until a signal; return the exit code.

    Its API asks the previewer what the webhook would make of a pod.

    Raises:
        BadSetting: something is asked for that cannot be done.
    """
    return run_until_signal(
        lambda: Process(settings, LiveRuntime(), previewer), settings.logging.verbosity, log
    )


class Process:
    """Starts everything, and ends it."""

    def __init__(self, settings: RecommenderSettings, place: Runtime, previewer: Previewer) -> None:
        clock, namespace = place.clock, settings.scope.namespace
        # Watches, writes, the Lease and those who ask do not wait for one another.
        self._clusters = [place.connect(settings.cluster) for _ in range(4)]
        watched, written, leased, asked = self._clusters
        self._heard = Heard()
        self._mirror = place.mirror(watched, _sources(namespace))
        self._mirror.listen(self._note_pods)
        self._events = place.follow(watched, EVENTS, namespace, "reason=Evicted", self._note_events)
        self._owners = place.owners(written)
        registry = new_registry()
        self._numbers = ProcessMetrics(registry, version("plumbline"))
        metrics = RecommenderMetrics(registry)
        self._showing = Showing(metrics, QualityMetrics(registry), self._snapshot)
        self._rules = round_rules(settings)
        self._clock, self._past = clock, past_reading(settings, place, metrics)
        self._around = Surroundings(
            written,
            self._snapshot,
            self._owners,
            usage_source(settings, clock, written),
            clock,
            metrics,
            self._showing.show,
            self._past.memory if self._past is not None else None,
        )
        told = settings.election
        self._election = election(told, leased, clock)
        self._is_elected = told.is_on
        terms = Terms(
            self._election if self._is_elected else Unopposed(),
            lambda: self._mirror.synced,
            _PATIENCE_INTERVALS * self._rules.interval_seconds,
        )
        self._tenure = Tenure(terms, self._begin, clock)
        self._rounds = place.loop("rounds", self._tenure.tick, at_end=self._tenure.close)
        # The rounds see for themselves who leads.
        campaign = Campaign(self._election, lambda: None, lambda: None)
        self._campaign = place.loop("election", campaign.tick, at_end=campaign.close)
        host, port = settings.loop.address
        app = self._application(settings, asked, previewer, registry)
        self._health = Server(app, bound(host, port, "--address"))

    def _application(
        self,
        settings: RecommenderSettings,
        cluster: Connection,
        previewer: Previewer,
        registry: CollectorRegistry,
    ) -> FastAPI:
        """Return what answers behind the port."""
        asked = Asked(
            cluster=cluster.within(ASKED_SECONDS),
            owners=self._owners,
            clock=self._clock,
            snapshot=self._snapshot,
            unready=self._unready,
            is_leading=self._is_leading,
            showing=self._showing,
            rules=self._rules.model,
            previewer=previewer,
        )
        health = probes(self._tenure.problem, self._unready, lambda: self._page(registry))
        add_recommendation_metrics(health, self._vpas)
        return recommendation_api(settings, asked, health)

    def _page(self, registry: CollectorRegistry) -> bytes:
        """Return all numbers, with how old our knowledge is now."""
        for resource, seconds in watch_ages(self._mirror, self._clock).items():
            self._numbers.watch_age(resource, seconds)
        return render(registry)

    def _vpas(self) -> Iterator[Vpa]:
        for view in self._snapshot().namespaces.values():
            yield from view.vpas.values()

    def start(self) -> None:
        """Begin."""
        self._health.start("health")
        self._mirror.start()
        self._owners.start()
        self._events.start()
        if self._past is not None:
            self._past.start()
        if self._is_elected:
            self._campaign.start()
        self._rounds.start()
        log.info("recommender starts", extra={"recommender": self._rules.model.name})

    def stop(self) -> None:
        """Store history, let go of the Lease, and end."""
        self._tenure.hurry()
        self._rounds.stop(_LOOP_SECONDS)
        if self._past is not None:
            self._past.stop()
        if self._is_elected:
            self._campaign.stop()
        self._mirror.stop()
        self._events.stop()
        self._owners.close()
        for cluster in self._clusters:
            cluster.close()
        self._health.end()

    def _is_leading(self) -> bool:
        return not self._is_elected or self._election.is_leading()

    def _begin(self, may_write: Callable[[], bool]) -> Recommender:
        self._showing.begin()
        if self._past is not None:
            self._past.memory.begin(self._clock.now())
        return Recommender(self._rules, self._around, self._heard, may_write)

    def _snapshot(self) -> Snapshot:
        return self._mirror.snapshot

    def _unready(self) -> str:
        standings = self._mirror.standings(self._clock.now())
        return next((found.unread for found in standings if found.unread), "")

    def _note_pods(self, transitions: Sequence[Transition]) -> None:
        self._heard.pods.extend(
            (found.namespace, found.name)
            for found in transitions
            if found.resource == PODS and found.after is not None
        )

    def _note_events(self, changes: Sequence[Delta], _whole: bool) -> None:
        self._heard.events.extend(one.object for one in changes if one.object is not None)


def round_rules(settings: RecommenderSettings) -> RoundRules:
    """Return how rounds go."""
    loop, history, scope = settings.loop, settings.history, settings.scope
    return RoundRules(
        model=replace(
            recommender_rules(settings), gathers_quality=True, expects_past=has_past(settings)
        ),
        variant=variant_of(settings.likeness),
        interval_seconds=loop.interval.total_seconds(),
        namespace=scope.namespace,
        ignored_namespaces=frozenset(scope.ignored_namespaces),
        threads=loop.update_workers,
        keeps_checkpoints=not has_past(settings),
        checkpoint_seconds=history.checkpoints_timeout.total_seconds(),
        orphans_seconds=history.checkpoints_gc_interval.total_seconds(),
    )


def _sources(namespace: str) -> Iterator[WatchedResource]:
    yield watched_vpas(namespace)
    yield WatchedResource(
        PODS,
        Collection.PODS,
        read_pod,
        namespace=namespace,
        field_selector="status.phase!=Pending",
    )
    yield from watched_workloads(namespace, with_template=False)
