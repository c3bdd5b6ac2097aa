"""A recommender beside a cluster in memory, whose rounds are called one by one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import cast

from prometheus_client import CollectorRegistry

from app.model.errors import ClusterError
from app.ports import Cluster, Resource
from app.recommender.configuration import RecommenderContext, RoundRules
from app.recommender.core.rules import RecommenderRules
from app.recommender.core.usage import UsageLimits
from app.recommender.metrics import QualityMetrics, RecommenderMetrics
from app.recommender.recommender import RecentChanges, Recommender
from app.recommender.report import RecommenderReport
from app.recommender.usage_feed import PodMetricsUsage
from app.runtime.exposition import render
from tests.cluster.numbers import total
from tests.faults import Fault, Faults
from tests.flows.recommending import RecommendedCluster, vpa
from tests.reached_limits import ReachedLimits
from tests.sandbox.worlds import deployment, snapshot_of
from tests.updater.stage import NoOwners, Watched

LOAD = "cpu: constant 0.2, memory: constant 150Mi, noise: 0"


class Scene(RecommendedCluster):
    """A cluster with one Deployment and its VPA, and a recommender beside it."""

    def __init__(self) -> None:
        super().__init__()
        self.faults = Faults()
        self.heard = RecentChanges()
        self.registry = CollectorRegistry()
        self.watched = Watched(self.faults.before(self.sandbox.cluster))
        cluster = cast("Cluster", self.watched)
        self.around = RecommenderContext(
            cluster,
            lambda: snapshot_of(self.sandbox),
            NoOwners(),
            PodMetricsUsage(cluster, "", UsageLimits()),
            self.clock,
            RecommenderMetrics(self.registry),
            ReachedLimits(),
            lambda: cluster,
        )
        self.apply(deployment("web", load=LOAD), vpa())
        self.recommender = self.started()
        self.sandbox.advance(60)

    def started(self, may_continue: Callable[[], bool] = lambda: True) -> Recommender:
        """Return a new recommender that knows nothing yet."""
        return Recommender(RoundRules(RecommenderRules()), self.around, self.heard, may_continue)

    def rounds(self, count: int, recommender: Recommender | None = None) -> None:
        """Go through rounds, a minute after each."""
        for _ in range(count):
            (recommender or self.recommender).round(self.clock.now())
            self.sandbox.advance(60)

    def fail(self, error: ClusterError, verb: str, resource: Resource, times: int = 99) -> None:
        """Let calls fail."""
        self.faults.order(Fault(error, verb, resource, times=times))


class Shown(Scene):
    """A cluster with a recommender that shows itself."""

    def started(self, *_: object) -> Recommender:
        """Return a new recommender."""
        around = self.around
        quality = QualityMetrics(self.registry)
        self.showing = RecommenderReport(around.metrics, quality, around.snapshot)
        return self.again()

    def again(self) -> Recommender:
        """Return a new recommender of the same process."""
        self.showing.begin()
        shown = replace(self.around, show=self.showing.show)
        rules = RoundRules(RecommenderRules(gathers_quality=True))
        return Recommender(rules, shown, self.heard)

    def number(self, name: str, **labels: str) -> float:
        """Return the sum of a metric's samples with some labels."""
        return total(render(self.registry).decode(), name, **labels)
