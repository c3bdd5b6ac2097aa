"""A recommender beside a cluster in memory, whose rounds are called one by one."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from prometheus_client import CollectorRegistry

from app.model.errors import ClusterError
from app.ports import Cluster, Resource
from app.recommender.checkpoint_store import ClusterCheckpoints
from app.recommender.configuration import RecommenderContext, RoundRules
from app.recommender.core.estimation import MOST
from app.recommender.core.rules import RecommenderRules
from app.recommender.metrics import QualityMetrics, RecommenderMetrics
from app.recommender.recommender import RecentChanges, Recommender, begin_term
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

    rules = RoundRules(RecommenderRules())

    def __init__(self) -> None:
        super().__init__()
        self.faults = Faults()
        self.heard = RecentChanges()
        self.registry = CollectorRegistry()
        self.watched = Watched(self.faults.before(self.sandbox.cluster))
        self.cluster = cast("Cluster", self.watched)
        metrics = RecommenderMetrics(self.registry)
        self.showing = RecommenderReport(
            metrics,
            QualityMetrics(self.registry),
            lambda: snapshot_of(self.sandbox),
            ReachedLimits(),
            self.clock,
        )
        self.around = RecommenderContext(
            snapshot=lambda: snapshot_of(self.sandbox),
            owners=NoOwners(),
            usage=PodMetricsUsage(self.cluster, "", MOST),
            checkpoints=ClusterCheckpoints(self.cluster, ""),
            clock=self.clock,
            metrics=metrics,
            report=self.showing,
        )
        self.apply(deployment("web", load=LOAD), vpa())
        self.recommender = self.started()
        self.sandbox.advance(60)

    def started(
        self, may_continue: Callable[[], bool] = lambda: True, *, rules: RoundRules | None = None
    ) -> Recommender:
        """Return a new recommender that knows nothing yet."""
        self.showing.begin()
        rules = rules or self.rules
        return begin_term(lambda: self.cluster, rules, self.around, self.heard, may_continue)

    def rounds(self, count: int, recommender: Recommender | None = None) -> None:
        """Go through rounds, a minute after each."""
        for _ in range(count):
            (recommender or self.recommender).round(self.clock.now())
            self.sandbox.advance(60)

    def fail(self, error: ClusterError, verb: str, resource: Resource, times: int = 99) -> None:
        """Let calls fail."""
        self.faults.order(Fault(error, verb, resource, times=times))


class Shown(Scene):
    """A cluster with a recommender that compares usage with what it recommends."""

    rules = RoundRules(RecommenderRules(gathers_quality=True))

    def number(self, name: str, **labels: str) -> float:
        """Return the sum of a metric's samples with some labels."""
        return total(render(self.registry).decode(), name, **labels)
