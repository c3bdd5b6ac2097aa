"""What tenants create and delete without end leaves nothing behind in the recommender."""

from __future__ import annotations

import gc

from prometheus_client import CollectorRegistry

from app.model.snapshot import Snapshot
from app.recommender.cluster_feed import ClusterFeed
from app.recommender.core.membership import MOST_ROWS
from app.recommender.core.model import Model
from app.recommender.core.rules import RecommenderRules
from app.recommender.core.usage import read_metrics
from app.recommender.metrics import QualityMetrics, RecommenderMetrics
from app.recommender.report import RecommenderReport
from app.runtime.exposition import render
from app.sandbox.stepped_clock import SteppedClock
from tests import make
from tests.reached_limits import ReachedLimits
from tests.updater.stage import NoOwners

PODS = 50  # of a round
_DELETED_WITHIN_TWO_HOURS = 12 * 2 * PODS  # rows of VPAs, each of which saw the pods of two rounds
WORKLOAD = make.workload()


class Churn:
    """A recommender's model, and a namespace in which nothing lives for longer than a round."""

    def __init__(self) -> None:
        self.clock = SteppedClock()
        self.model = Model(RecommenderRules(gathers_quality=True))
        self.feed = ClusterFeed(self.model, NoOwners(), self.clock)
        self.registry = CollectorRegistry()
        metrics = RecommenderMetrics(self.registry)
        self.snapshot = make.snapshot()
        self.report = RecommenderReport(
            metrics,
            QualityMetrics(self.registry),
            lambda: self.snapshot,
            ReachedLimits(),
            self.clock,
        )

    def changed(self, number: int) -> Snapshot:
        """Return the namespace with new pods, containers, VPAs and versions of one of them."""
        annotations = {"version": str(number)}
        vpas = [make.vpa("web", annotations=annotations), make.vpa(f"web-{number}")]
        pods = [
            make.pod(
                make.container_json(f"c-{number}-{at}", cpu=f"{number + 1}m"),
                name=f"web-{number}-{at}",
                labels=make.LABELS | {"hash": f"{number}-{at}"},
                metadata={"uid": f"{number}-{at}"},
                status={"phase": "Running"},
            )
            for at in range(PODS)
        ]
        return make.snapshot(*vpas, WORKLOAD, *pods)

    def round(self, number: int) -> None:
        """Go through a round of a recommender."""
        now, self.snapshot = self.clock.now(), self.changed(number)
        self.feed.tell_vpas(self.snapshot, now)
        self.feed.tell_gone_vpas(self.snapshot, now)
        self.feed.tell_gone_pods(self.snapshot)
        self.feed.tell_pods(self.snapshot, now)
        self.model.restore([], now)
        items = [
            {
                "metadata": {"namespace": pod.namespace, "name": pod.name},
                "timestamp": f"{now:%Y-%m-%dT%H:%M:%SZ}",
                "window": "15s",
                "containers": [
                    {"name": pod.containers[0].name, "usage": {"cpu": "100m", "memory": "1Gi"}}
                ],
            }
            for pod in self.snapshot.of("default").pods.values()
        ]
        self.model.usage(read_metrics({"items": items}), now)
        self.model.tick(now)
        self.model.checkpoints(now, 300)
        self.model.abandoned()
        self.report.show(self.model)
        self.clock.advance(600)

    def size(self) -> tuple[int, int]:
        """Return how many objects there are, and how long a scrape is."""
        gc.collect()
        return len(gc.get_objects()), len(render(self.registry))


def test_churn_leaves_nothing() -> None:
    """From a third of 1,800 pods, containers and versions to the end, nothing grows."""
    churn = Churn()
    for number in range(12):
        churn.round(number)
    objects, scrape = churn.size()
    for number in range(12, 36):
        churn.round(number)
    later_objects, later_scrape = churn.size()

    assert later_objects - objects < 0.02 * objects
    assert later_scrape - scrape < 500
    assert churn.model.row_count <= MOST_ROWS + _DELETED_WITHIN_TWO_HOURS
