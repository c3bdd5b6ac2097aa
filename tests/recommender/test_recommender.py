"""The recommender learns from a whole cluster, writes little, and loses nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any, cast

import pytest
from prometheus_client import CollectorRegistry

from app.kube.manifests import documents
from app.model.errors import ClusterError, NotFound, TooMany, Unavailable
from app.model.quantity import Quantity
from app.ports import CHECKPOINTS, POD_METRICS, VPAS, Cluster, Json, Ref, Resource
from app.recommender.configuration import RecommenderContext, RoundRules
from app.recommender.core.rules import RecommenderRules
from app.recommender.core.usage import UsageLimits
from app.recommender.metrics import RecommenderMetrics
from app.recommender.recommender import RecentChanges, Recommender
from app.recommender.usage_feed import PodMetricsUsage
from app.sandbox.clock import SteppedClock
from app.sandbox.sandbox import Sandbox
from tests.faults import Fault, Faults
from tests.sandbox.worlds import deployment, snapshot_of
from tests.sandbox_objects import pods_in
from tests.updater.stage import NoOwners, Watched

LOAD = "cpu: constant 0.2, memory: constant 150Mi, noise: 0"


class Scene:
    """A cluster with one Deployment and its VPA, and a recommender beside it."""

    def __init__(self) -> None:
        self.sandbox = Sandbox(SteppedClock())
        self.faults = Faults()
        self.heard = RecentChanges()
        self.registry = CollectorRegistry()
        metrics = RecommenderMetrics(self.registry)
        self.watched = Watched(self.faults.before(self.sandbox.cluster))
        cluster = cast("Cluster", self.watched)
        self.around = RecommenderContext(
            cluster,
            lambda: snapshot_of(self.sandbox),
            NoOwners(),
            PodMetricsUsage(cluster, "", UsageLimits()),
            self.sandbox.clock,
            metrics,
        )
        assert self.sandbox.apply(documents.text("crd")) == []
        self.apply(deployment("web", load=LOAD), vpa("web"))
        self.recommender = self.started()
        self.sandbox.advance(60)

    def apply(self, *items: Json) -> None:
        """Bring objects into the cluster."""
        assert self.sandbox.apply(*items) == []

    def started(self, may: Callable[[], bool] = lambda: True) -> Recommender:
        """Return a new recommender that knows nothing yet."""
        return Recommender(RoundRules(RecommenderRules()), self.around, self.heard, may)

    def rounds(self, count: int, recommender: Recommender | None = None) -> None:
        """Go through rounds, a minute after each."""
        for _ in range(count):
            (recommender or self.recommender).round(self.sandbox.clock.now())
            self.sandbox.advance(60)

    def fail(self, error: ClusterError, verb: str, resource: Resource, times: int = 99) -> None:
        """Let calls fail."""
        self.faults.order(Fault(error, verb, resource, times=times))

    def status(self) -> Json:
        """Return the status of the VPA."""
        found: Json = self.sandbox.cluster.get(Ref(VPAS, "default", "web")).get("status", {})
        return found

    def recommended(self) -> list[Any]:
        """Return what is recommended."""
        found: list[Any] = (
            self.status().get("recommendation", {}).get("containerRecommendations", [])
        )
        return found

    def checkpoints(self) -> list[str]:
        """Return the names of all checkpoints."""
        items = self.sandbox.cluster.list(CHECKPOINTS).items
        return sorted(item["metadata"]["name"] for item in items)


def vpa(name: str) -> Json:
    """Return a VPA for a Deployment of the same name."""
    return {
        "apiVersion": "autoscaling.k8s.io/v1",
        "kind": "VerticalPodAutoscaler",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}},
    }


@pytest.fixture
def scene() -> Scene:
    """One Deployment, its VPA, a recommender that has not begun."""
    return Scene()


def test_one_round_is_enough(scene: Scene) -> None:
    """The first round publishes a recommendation and stores what it was made from."""
    assert scene.recommender.tick(scene.sandbox.clock.now()) <= 0.2

    assert scene.recommended()[0]["target"]["cpu"] == "247m"
    assert scene.checkpoints() == ["web-app"]
    count = "vpa_recommender_recommendation_latency_seconds_count"
    assert scene.registry.get_sample_value(count) == 1


def test_every_round_leaves_a_line(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    """A round tells in one line what it did and how long each step took, also if a step fails."""
    caplog.set_level("INFO")
    scene.rounds(1)
    scene.fail(Unavailable("down"), "list", POD_METRICS)
    scene.rounds(1)

    lines = [record for record in caplog.records if record.message == "round finished"]
    assert [line.__dict__["samples"] for line in lines] == [1, 0]
    for line in lines:
        assert {"LoadVPAs", "LoadPods", "LoadMetrics", "UpdateVPAs"} <= line.__dict__[
            "steps"
        ].keys()


def test_rounds_go_from_start_to_start(scene: Scene) -> None:
    """Between two rounds nothing is done, until the interval is over."""
    for seconds in (0, 59.5):
        scene.sandbox.advance(seconds)
        scene.recommender.tick(scene.sandbox.clock.now())
    assert scene.recommender.model.tally.cpu == 1

    scene.sandbox.advance(0.5)
    scene.recommender.tick(scene.sandbox.clock.now())
    assert scene.recommender.model.tally.cpu == 2


class SlowToTake:
    """A cluster that takes more than a minute to take a status."""

    def __init__(self, cluster: Cluster, sandbox: Sandbox) -> None:
        self._cluster = cluster
        self._sandbox = sandbox

    def __getattr__(self, verb: str) -> object:
        return getattr(self._cluster, verb)

    def patch(self, ref: Ref, body: Json) -> Json:
        """Take it, late."""
        if ref.subresource:
            self._sandbox.advance(61)
        return self._cluster.patch(ref, body)


def test_usage_is_read_while_writes_go_on(scene: Scene) -> None:
    """A round that writes for longer than an interval misses no usage."""
    slow = cast("Cluster", SlowToTake(scene.around.cluster, scene.sandbox))
    scene.around = replace(scene.around, cluster=slow)
    recommender = scene.started()
    scene.rounds(1, recommender)

    assert recommender.model.tally.cpu == 2


def test_what_did_not_change_is_not_written(scene: Scene) -> None:
    """Rounds that bring nothing new leave the object at its version."""
    scene.rounds(3)
    scene.fail(Unavailable("down"), "list", POD_METRICS)
    before = scene.sandbox.cluster.get(Ref(VPAS, "default", "web"))["metadata"]["resourceVersion"]
    scene.rounds(3)

    after = scene.sandbox.cluster.get(Ref(VPAS, "default", "web"))["metadata"]["resourceVersion"]
    assert after == before


@pytest.mark.parametrize("error", [Unavailable("500"), TooMany("429"), NotFound("404")])
def test_a_failed_status_comes_again(scene: Scene, error: ClusterError) -> None:
    """What could not be published is counted, and published by the next round."""
    scene.fail(error, "patch", VPAS, times=1)
    scene.rounds(1)
    assert not scene.recommended()
    name, labels = "vpa_recommender_failed_writes_total", {"object": "status"}
    assert scene.registry.get_sample_value(name, labels) == 1

    scene.rounds(1)
    assert scene.recommended()


def test_without_metrics_nothing_is_lost(scene: Scene) -> None:
    """While usage cannot be read, what was recommended stays, and is counted as an error."""
    scene.rounds(2)
    before = scene.recommended()
    scene.fail(Unavailable("down"), "list", POD_METRICS, times=2)
    scene.rounds(2)

    assert before
    assert scene.recommended()[0]["target"] == before[0]["target"]
    labels = {"is_error": "true", "client_name": "default-metrics-client"}
    name = "vpa_recommender_metric_server_responses_total"
    assert scene.registry.get_sample_value(name, labels) == 2


@pytest.mark.parametrize("hours", [1, 30 * 24])
def test_time_that_runs_backwards(scene: Scene, hours: int) -> None:
    """While the clock shows a past day nothing is lost, and it goes on when it is right again."""
    scene.rounds(2)
    before = scene.recommended()[0]["target"]
    for _ in range(3):
        scene.recommender.round(scene.sandbox.clock.now() - timedelta(hours=hours))
        scene.sandbox.advance(60)
    assert scene.recommended()[0]["target"] == before

    scene.rounds(1)
    assert scene.recommended()[0]["target"] == before
    assert scene.recommender.model.tally.cpu >= 3


def test_history_survives_a_restart(scene: Scene) -> None:
    """What is flushed at the end is what the next process begins with."""
    scene.rounds(3)
    scene.recommender.flush(scene.sandbox.clock.now(), 5, lambda: True)
    fresh = scene.started()
    scene.rounds(1, fresh)
    fresh.flush(scene.sandbox.clock.now(), 5, lambda: True)

    stored = scene.sandbox.cluster.get(Ref(CHECKPOINTS, "default", "web-app"))["status"]
    assert stored["totalSamplesCount"] == 4


def test_unread_checkpoints_are_not_overwritten(scene: Scene) -> None:
    """As long as history cannot be read nothing is stored, and the recommendation stays."""
    scene.rounds(3)
    scene.recommender.flush(scene.sandbox.clock.now(), 5, lambda: True)
    stored, recommended = scene.sandbox.cluster.list(CHECKPOINTS).items, scene.recommended()
    fresh = scene.started()
    scene.fail(Unavailable("down"), "list", CHECKPOINTS, times=2)
    scene.rounds(2, fresh)
    fresh.flush(scene.sandbox.clock.now(), 5, lambda: True)

    assert scene.sandbox.cluster.list(CHECKPOINTS).items == stored
    assert scene.recommended() == recommended
    scene.rounds(1, fresh)
    assert fresh.model.awaited() == []


def test_orphans_are_deleted_after_complete_lists_only(scene: Scene) -> None:
    """A checkpoint goes when its VPA is gone, but not while VPAs cannot be listed."""
    scene.rounds(1)
    item = scene.sandbox.cluster.list(CHECKPOINTS).items[0]
    body = {"apiVersion": item["apiVersion"], "kind": item["kind"], "status": item["status"]}
    spec = {"vpaObjectName": "gone", "containerName": "app"}
    scene.apply({**body, "metadata": {"name": "gone-app", "namespace": "default"}, "spec": spec})
    scene.sandbox.advance(600)
    scene.fail(Unavailable("down"), "list", VPAS, times=1)
    scene.rounds(1)
    assert scene.checkpoints() == ["gone-app", "web-app"]

    scene.rounds(1)
    assert scene.checkpoints() == ["web-app"]


def test_only_a_leader_writes(scene: Scene) -> None:
    """Without the right to write nothing is written."""
    scene.rounds(1, scene.started(lambda: False))

    assert scene.status() == {}
    assert scene.checkpoints() == []


def test_a_kill_is_published_before_the_next_round(scene: Scene) -> None:
    """An eviction for memory raises the recommendation as soon as it is heard of."""
    scene.recommender.tick(scene.sandbox.clock.now())
    before = scene.recommended()[0]["target"]["memory"]
    pod = pods_in(scene.sandbox)[0]["metadata"]
    involved = {"kind": "Pod", "namespace": "default", "name": pod["name"], "uid": pod["uid"]}
    blame = {
        "offending_containers": "app",
        "offending_containers_usage": "2Gi",
        "starved_resource": "memory",
    }
    stamp = f"{scene.sandbox.clock.now():%Y-%m-%dT%H:%M:%SZ}"
    metadata = {"creationTimestamp": stamp, "annotations": blame}
    scene.heard.events.append(
        {"reason": "Evicted", "involvedObject": involved, "metadata": metadata}
    )
    scene.heard.pods.append(("default", pod["name"]))
    scene.sandbox.advance(1)
    scene.recommender.tick(scene.sandbox.clock.now())

    after = scene.recommended()[0]["target"]["memory"]
    assert Quantity.parse(after) > Quantity.parse("2Gi") > Quantity.parse(before)
