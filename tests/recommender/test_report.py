"""A recommender shows what became of everything, and how its numbers came about."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import pytest
from prometheus_client import CollectorRegistry

from app.ports import Cluster
from app.recommender.core.model import Model
from app.recommender.core.rules import RecommenderRules
from app.recommender.metrics import QualityMetrics, RecommenderMetrics, ResourcesSource, RoundStep
from app.recommender.recommender import Recommender
from app.recommender.report import RecommenderReport
from app.recommender.rules import RoundRules
from app.runtime.exposition import render
from tests import make
from tests.cluster.numbers import total
from tests.recommender.test_recommender import Scene, vpa
from tests.sandbox_objects import pods_in
from tests.updater.stage import Watched

KEY = ("default", "web")
QUALITY = "vpa_quality_usage_recommendation_relative_diffs_count"


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


@pytest.fixture
def scene() -> Shown:
    """One Deployment, its VPA, a recommender that has not begun."""
    return Shown()


def test_usage_is_compared(scene: Shown) -> None:
    """The first sample finds no recommendation, the ones after it do."""
    scene.rounds(1)
    missing = "vpa_quality_usage_sample_missing_recommendation_count"
    pods = len(pods_in(scene.sandbox))
    assert scene.number(missing, resource="cpu") == pods
    assert scene.number(QUALITY) == 0
    scene.rounds(1)

    assert scene.number(missing, resource="cpu") == pods
    assert scene.number(QUALITY, resource="cpu", update_mode="", is_oom="false") == pods
    assert scene.number("vpa_quality_relative_recommendation_changes_count") == 2
    assert scene.number("vpa_quality_cpu_recommendations_cores_sum") == pytest.approx(0.247 * pods)


def test_samples_are_counted_by_fate(scene: Shown) -> None:
    """What became of samples adds up over the models that a process has had."""
    pods = len(pods_in(scene.sandbox))
    scene.rounds(2)
    scene.rounds(1, scene.again())

    assert scene.number("vpa_recommender_samples_total", fate="cpu") == 3 * pods


def test_trouble_with_numbers_stops_nothing(scene: Shown, caplog: pytest.LogCaptureFixture) -> None:
    """When numbers cannot be counted, here because they shrink, that is logged and no more."""
    scene.rounds(1)
    scene.showing.show(Model(RecommenderRules()))

    assert "numbers are not shown" in caplog.text
    assert scene.showing.derivations == {}


def test_derivations_are_swapped(scene: Shown) -> None:
    """They come with what is published, and a new model begins without."""
    assert scene.showing.derivations == {}
    scene.rounds(1)
    first = scene.showing.derivations
    assert first[KEY].containers == ("app",)
    scene.rounds(1)
    assert scene.showing.derivations is not first
    scene.again()

    assert scene.showing.derivations == {}


def test_they_are_there_before_history_is_stored(scene: Shown) -> None:
    """Nobody has to wait for checkpoints to learn why."""
    watched = Watched(scene.around.cluster)
    seen: dict[str, object] = {}
    watched.before = lambda call: seen.setdefault(call.name, scene.showing.derivations)
    scene.around = replace(scene.around, cluster=cast("Cluster", watched))
    scene.rounds(1, scene.again())

    assert seen["web-app"] == scene.showing.derivations != {}


def test_looks_at_resources_are_counted() -> None:
    """A container is looked at when its pod came or changed, by where its resources stand."""
    registry, model = CollectorRegistry(), Model(RecommenderRules())
    resources = [{"name": "app", "resources": {"requests": {"cpu": "1"}}}]
    told = {"containerStatuses": resources}
    items = [
        make.pod_json(
            make.container_json("app"), make.container_json("log"), name="a", status=told
        ),
        make.pod_json(make.container_json("app"), name="b"),
    ]
    known = make.snapshot(*items)
    showing = RecommenderReport(
        RecommenderMetrics(registry), QualityMetrics(registry), lambda: known
    )

    def looks() -> tuple[float, float]:
        showing.show(model)
        page, name = render(registry).decode(), "vpa_resources_get_resources_count"
        return total(page, name, source=ResourcesSource.STATUS), total(
            page, name, source=ResourcesSource.SPEC
        )

    assert looks() == (1, 2)
    assert looks() == (1, 2)
    labels = {"role": "leader"}
    known = known.changed(
        [make.change(make.pod_json(make.container_json("app"), name="b", labels=labels))]
    )
    assert looks() == (1, 3)


def test_overlaps_are_told_by_namespace(scene: Shown) -> None:
    """Pods that two VPAs claim by selectors are counted, until they are no more."""
    name = "vpa_recommender_overlapping_pods"
    for number in (1, 2):
        item = vpa(f"web-{number}")
        item["spec"]["targetRef"]["name"] = "web"
        item["spec"]["selector"] = {"matchLabels": {"app": "web"}}
        scene.apply(item)
    scene.rounds(1)
    assert scene.number(name, namespace="default") == len(pods_in(scene.sandbox))
    item["spec"]["selector"] = {"matchLabels": {"app": "other"}}
    scene.apply(item)
    scene.rounds(1)

    assert name + "{" not in render(scene.registry).decode()


@pytest.mark.parametrize("step", list(RoundStep))
def test_every_step_is_timed(scene: Shown, step: RoundStep) -> None:
    """A round has all steps."""
    scene.rounds(1)

    assert scene.number("vpa_recommender_execution_latency_seconds_count", step=step) == 1
