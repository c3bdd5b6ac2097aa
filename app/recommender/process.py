"""The recommender's process: what it watches, who leads, its port, and its end.

Strategy: a standby watches as the leader does, so it needs nothing but the Lease and the
checkpoints to take over. At its end a process stores history first and lets go of the Lease then.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from typing import Final

from fastapi import FastAPI
from prometheus_client import CollectorRegistry

from app.flags.shared import Horizontal
from app.kube.watch_cache import Transition
from app.kube.watched_resources import (
    WatchedResource,
    watched_scalers,
    watched_vpas,
    watched_workloads,
)
from app.model.errors import ClusterError
from app.model.gates import FeatureGates
from app.model.pods import read_pod
from app.model.snapshot import Collection
from app.model.vpa import Vpa
from app.ports import EVENTS, LEASES, PODS, Clock, Cluster, Delta, Owners, Ref
from app.recommender.api import (
    Derivations,
    Preview,
    Recommendations,
    add_recommendation_metrics,
    recommendations_app,
)
from app.recommender.checkpoint_store import ClusterCheckpoints
from app.recommender.configuration import (
    RecommenderContext,
    RoundRules,
    has_past,
    past_rules,
    round_rules,
)
from app.recommender.core.reading import Reading
from app.recommender.core.rules import RecommenderLimit
from app.recommender.core.usage import ExternalRules
from app.recommender.flags import RecommenderSettings
from app.recommender.leader_loop import LeaderLoop
from app.recommender.metrics import QualityMetrics, RecommenderMetrics
from app.recommender.past_reader import PastReader
from app.recommender.prometheus_connection import connection_of
from app.recommender.recommender import RecentChanges, Recommender, begin_term
from app.recommender.report import RecommenderReport
from app.recommender.usage_feed import PodMetricsUsage, UsageSource
from app.recommender.variants import Variant
from app.runtime.access import guard_of
from app.runtime.bounds import LimitReport
from app.runtime.election import Campaign, Leadership, Unopposed, election, lease_spec
from app.runtime.exposition import ProcessMetrics, new_registry, render
from app.runtime.http_server import Server, bound
from app.runtime.lifecycle import run_until_signal
from app.runtime.live import Connection, LiveRuntime, Runtime, WatchedCluster
from app.runtime.probes import probes
from app.runtime.tls import FileTls

log = logging.getLogger("recommender.process")
usage_log = logging.getLogger("recommender.usage")

_PATIENCE_INTERVALS: Final = 5
_LOOP_SECONDS: Final = 25.0  # for the round that is under way, and the last checkpoints
_ANSWER_SECONDS: Final = 5.0  # after which a call for an answer is given up

Previewer = Callable[[Cluster, Owners, Clock, FeatureGates], Preview]


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
        # Watches, writes, the Lease, questions and look-ups do not wait for one another.
        self._clusters = [place.connect(settings.cluster) for _ in range(6)]
        watched, named, self._written, leased, asked, looked = self._clusters
        self._recent = RecentChanges()
        registry = new_registry()
        self._limits = LimitReport(registry, RecommenderLimit)
        self._watch = WatchedCluster(
            place,
            watched,
            named,
            looked.within(_ANSWER_SECONDS),
            _sources(namespace, settings.loop.horizontal),
            self._limits.reached,
            role_leases=settings.loop.role_leases,
        )
        self._watch.listen(self._note_pods)
        self._events = place.follow(watched, EVENTS, namespace, "reason=Evicted", self._note_events)
        self._numbers = ProcessMetrics(registry, version("plumbline"))
        metrics = RecommenderMetrics(registry)
        self._report = RecommenderReport(
            metrics, QualityMetrics(registry), self._watch.snapshot, self._limits.reached, clock
        )
        self._rules, self._clock = round_rules(settings), clock
        self._past = past_loop(settings, self._rules, place, metrics)
        self._context = self._round_context(settings, metrics)
        elected = election(settings.election, leased, clock)
        self._is_elected = settings.election.is_on
        self._leadership: Leadership = elected if self._is_elected else Unopposed()
        patience = _PATIENCE_INTERVALS * self._rules.interval_seconds
        self._leader_loop = LeaderLoop(
            self._leadership, self._watch.is_read, self._begin, clock, patience
        )
        self._rounds = place.loop("rounds", self._leader_loop.tick, at_end=self._leader_loop.close)
        # The rounds see for themselves who leads.
        campaign = Campaign(elected)
        self._campaign = place.loop("election", campaign.tick, at_end=campaign.close)
        tls = FileTls.of(settings.access)
        self._renewing = place.loop("certificate", tls.tick) if tls else None
        self._health = Server(
            self._application(settings, asked, previewer, registry),
            bound(*settings.loop.address, "--address"),
            tls.context if tls else None,
            limits=self._limits,
        )

    def _round_context(
        self, settings: RecommenderSettings, metrics: RecommenderMetrics
    ) -> RecommenderContext:
        return RecommenderContext(
            snapshot=self._watch.snapshot,
            owners=self._watch.owners,
            usage=usage_source(settings, self._rules.variant, self._clock, self._written),
            checkpoints=ClusterCheckpoints(self._written, self._rules.namespace),
            clock=self._clock,
            metrics=metrics,
            report=self._report,
            past=self._past.reader if self._past is not None else None,
            server_now=self._written.server_now,
        )

    def _application(
        self,
        settings: RecommenderSettings,
        asked: Connection,
        previewer: Previewer,
        registry: CollectorRegistry,
    ) -> FastAPI:
        """Return what answers behind the port.

        Reading for answers and asking about tokens have a connection of their own, so that no
        question, however often it is put, takes from what rounds may ask of the API server.
        """
        cluster = asked.within(_ANSWER_SECONDS)
        reached = self._limits.reached
        guard = guard_of(settings.loop.address.host, settings.access, cluster, self._clock, reached)
        found = Recommendations(
            guard=guard,
            snapshot=self._watch.snapshot,
            derivations=self._derivations,
            leader=lambda: lease_holder(settings, cluster),
            problem=self._unready,
            preview=previewer(cluster, self._watch.owners, self._clock, settings.loop.gates),
            rules=self._rules.model_rules,
            namespace=settings.scope.namespace,
        )
        health = probes(self._leader_loop.problem, self._unready, lambda: self._page(registry))
        add_recommendation_metrics(health, self._vpas, guard, reached)
        return recommendations_app(found, health, reached)

    def _page(self, registry: CollectorRegistry) -> bytes:
        """Return all numbers, with how old our knowledge is now."""
        for resource, age in self._watch.watch_ages().items():
            self._numbers.watch_age(resource, age)
        return render(registry)

    def _vpas(self) -> Iterator[Vpa]:
        for view in self._watch.snapshot().namespaces.values():
            yield from view.vpas.values()

    def start(self) -> None:
        """Begin."""
        self._health.start("health")
        self._watch.start()
        self._events.start()
        if self._past is not None:
            self._past.start()
        if self._is_elected:
            self._campaign.start()
        if self._renewing is not None:
            self._renewing.start()
        self._rounds.start()
        log.info("recommender starts", extra={"recommender": self._rules.model_rules.name})

    def stop(self) -> None:
        """Store history, let go of the Lease, and end."""
        self._leader_loop.hurry()
        self._rounds.stop(_LOOP_SECONDS)
        if self._past is not None:
            self._past.stop()
        if self._is_elected:
            self._campaign.stop()
        if self._renewing is not None:
            self._renewing.stop(0)
        self._watch.stop()
        self._events.stop()
        for cluster in self._clusters:
            cluster.close()
        self._health.end()

    def _derivations(self) -> Derivations | None:
        return self._report.derivations if self._leadership.is_leading() else None

    def _begin(self, may_continue: Callable[[], bool]) -> Recommender:
        self._report.begin()
        if self._past is not None:
            self._past.reader.begin(self._clock.now())
        return begin_term(
            self._cluster_for_writes, self._rules, self._context, self._recent, may_continue
        )

    def _cluster_for_writes(self) -> Cluster:
        return self._written.until(self._leadership.calls_end_at)

    def _unready(self) -> str:
        return next((found.unread for found in self._watch.standings() if found.unread), "")

    def _note_pods(self, transitions: Sequence[Transition]) -> None:
        for found in transitions:
            if found.resource == PODS and found.after is not None:
                self._recent.pods.append((found.namespace, found.name))
            elif found.resource == LEASES:
                view = self._watch.snapshot().of(found.namespace)
                pods = view.pods_by_lease(found.name)
                self._recent.pods.extend((found.namespace, pod.name) for pod in pods)

    def _note_events(self, changes: Sequence[Delta], _whole: bool) -> None:
        for one in changes:
            if one.object is not None and not self._recent.note_event(one.object):
                self._limits.reached(RecommenderLimit.EVENT_BYTES)


class PastLoop:
    """The past, and the loop that reads it."""

    def __init__(
        self,
        settings: RecommenderSettings,
        reading: type[Reading],
        place: Runtime,
        metrics: RecommenderMetrics,
    ) -> None:
        # Imported only here: it is large, and most recommenders do without.
        from app.recommender.prometheus import PrometheusServer

        access = connection_of(settings.prometheus, settings.prometheus_access)
        server = PrometheusServer(access, metrics.prometheus_request)
        self.reader = PastReader(
            server, past_rules(settings), place.clock, settings.scope.namespace, reading
        )
        # Only the loop may close what it is just using.
        self._task = place.loop("history", self.reader.tick, at_end=lambda _now: server.close())

    def start(self) -> None:
        """Begin."""
        self._task.start()

    def stop(self) -> None:
        """End, as soon as the question that is asked just now has been answered or given up."""
        self.reader.end()
        self._task.stop(1.0)


def past_loop(
    settings: RecommenderSettings, rules: RoundRules, place: Runtime, metrics: RecommenderMetrics
) -> PastLoop | None:
    """Return what reads the past, if it is read at all."""
    if not has_past(settings):
        return None
    return PastLoop(settings, rules.variant.past_reading, place, metrics)


def usage_source(
    settings: RecommenderSettings, variant: Variant, clock: Clock, cluster: Cluster
) -> UsageSource:
    """Return where usage is read."""
    flags, loop = settings.external_metrics, settings.loop
    if not flags.is_on:
        return PodMetricsUsage(cluster, settings.scope.namespace, variant.most_usage)
    rules = ExternalRules(
        flags.cpu_metric, flags.memory_metric, settings.prometheus.container_name_label
    )
    if not rules.metrics:
        usage_log.warning("no external metric is named, so no usage will be read")
    seconds = loop.interval.total_seconds()
    return variant.external_usage(
        cluster, rules, variant.most_usage, clock, loop.update_workers, seconds
    )


def lease_holder(settings: RecommenderSettings, cluster: Cluster) -> str:
    """Return who holds the Lease, empty if it is free or cannot be read."""
    flags = settings.election
    try:
        lease = cluster.get(Ref(LEASES, flags.resource_namespace, flags.resource_name))
    except ClusterError:
        return ""
    return str(lease_spec(lease).get("holderIdentity") or "")


def _sources(namespace: str, horizontal: Horizontal) -> Iterator[WatchedResource]:
    yield watched_vpas(namespace)
    yield WatchedResource(
        PODS,
        Collection.PODS,
        read_pod,
        namespace=namespace,
        field_selector="status.phase!=Pending",
    )
    yield from watched_workloads(namespace, with_template=False)
    if horizontal is Horizontal.HOLD:
        yield from watched_scalers(namespace)
