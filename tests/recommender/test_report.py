"""What a recommender reports: numbers, VPAs without recommendation, objects that were skipped."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import cast

import pytest
from prometheus_client import CollectorRegistry

from app.model.kinds import Condition
from app.model.snapshot import Collection, Replacement, Snapshot
from app.model.vpa import ContainerRecommendation, Vpa, read_vpa
from app.ports import VPAS, Cluster, Json
from app.recommender.core.model import Model
from app.recommender.core.rules import RecommenderRules
from app.recommender.core.skipped import SkippedObjects
from app.recommender.metrics import QualityMetrics, RecommenderMetrics, ResourcesSource
from app.recommender.report import RecommenderReport, SkippedReport, UnrecommendedVpas
from app.runtime.exposition import render
from app.sandbox.stepped_clock import SteppedClock
from tests import make
from tests.cluster.numbers import total
from tests.flows.recommending import vpa
from tests.reached_limits import ReachedLimits
from tests.recommender.scenes import LOAD, Scene, Shown
from tests.sandbox.worlds import deployment, snapshot_of
from tests.sandbox_objects import pods_in
from tests.updater.stage import Watched

KEY = ("default", "web")
QUALITY = "vpa_quality_usage_recommendation_relative_diffs_count"

NAMES = ("web", "shop", "odd", "torn", "lost")
_ROUNDS = 4
COUNT = "vpa_recommender_left_out_objects_total"


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
    scene.rounds(1, scene.started())

    assert scene.number("vpa_recommender_samples_total", fate="cpu") == 3 * pods


def test_trouble_with_numbers_stops_nothing(scene: Shown, caplog: pytest.LogCaptureFixture) -> None:
    """When numbers cannot be counted, here because they shrink, that is logged and no more."""
    scene.rounds(1)
    scene.showing.show(Model(RecommenderRules()))

    assert "metrics are not exposed" in caplog.text
    assert scene.showing.derivations == {}


def test_derivations_are_swapped(scene: Shown) -> None:
    """They come with what is published, and a new model begins without."""
    assert scene.showing.derivations == {}
    scene.rounds(1)
    first = scene.showing.derivations
    assert first[KEY].containers == ("app",)
    scene.rounds(1)
    assert scene.showing.derivations is not first
    scene.started()

    assert scene.showing.derivations == {}


def test_they_are_there_before_history_is_stored(scene: Shown) -> None:
    """Nobody has to wait for checkpoints to learn why."""
    watched = Watched(scene.cluster)
    seen: dict[str, object] = {}
    watched.before = lambda call: seen.setdefault(call.name, scene.showing.derivations)
    scene.cluster = cast("Cluster", watched)
    scene.rounds(1, scene.started())

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
    clock = SteppedClock()
    showing = RecommenderReport(
        RecommenderMetrics(registry),
        QualityMetrics(registry),
        lambda: known,
        ReachedLimits(),
        clock,
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


def bare_vpa(name: str) -> Vpa:
    """Return a VPA without recommendation."""
    return read_vpa({"metadata": {"namespace": "default", "name": name}, "spec": {}})


def told(caplog: pytest.LogCaptureFixture) -> list[tuple[int, list[str]]]:
    """Return what was told since the last look, line by line."""
    found = [(line.__dict__["count"], line.__dict__["vpas"]) for line in caplog.records]
    caplog.clear()
    return found


def test_who_has_none_for_long_is_named(caplog: pytest.LogCaptureFixture) -> None:
    """After more than half an hour, and after another one again; who has one starts anew."""
    caplog.set_level("INFO")
    clock = SteppedClock()
    missing = UnrecommendedVpas(clock)
    a, b = bare_vpa("a"), bare_vpa("b")
    fine = replace(b, recommendation=(ContainerRecommendation("app", {}, {}, {}, {}),))
    rounds = {0: [a, b], 20: [fine, a], 30: [a, b], 31: [b, a], 60: [a, b], 62: [a, b]}
    lines, began = {}, clock.monotonic()
    for minute, seen in rounds.items():
        clock.advance(began + minute * 60 - clock.monotonic())
        missing.look(seen)
        lines[minute] = told(caplog)

    assert lines == {
        0: [],
        20: [],
        30: [],
        31: [(1, ["default/a"])],
        60: [],
        62: [(2, ["default/a", "default/b"])],
    }


def test_a_line_names_few(caplog: pytest.LogCaptureFixture) -> None:
    """However many there are, it is one line, which says how many; who went is forgotten."""
    caplog.set_level("INFO")
    clock = SteppedClock()
    missing = UnrecommendedVpas(clock)
    crowd = [bare_vpa(f"vpa-{number:03}") for number in range(200)]
    for seen in (crowd, crowd[1:]):
        missing.look(seen)
        clock.advance(1801)
    missing.look(crowd)

    ((count, names), *_) = told(caplog)
    assert (count, len(names)) == (199, 10)
    assert "default/vpa-000" not in names


class Spite(Exception):
    """A mistake that nobody expects."""


class OddConditions(tuple[Condition, ...]):
    """Conditions that cannot be looked through."""

    __slots__ = ()

    def __iter__(self) -> Iterator[Condition]:
        raise Spite


class OddNumber(int):
    """A generation that cannot be looked at."""

    def __bool__(self) -> bool:
        raise Spite


class Odd(Mapping[str, str]):
    """What can be asked for what it has, and not be listed."""

    def __init__(self, **has: str) -> None:
        self._has = has

    def __getitem__(self, key: str) -> str:
        if key not in self._has:
            raise Spite
        return self._has[key]

    def __iter__(self) -> Iterator[str]:
        raise Spite

    def __len__(self) -> int:
        return len(self._has)


def planted(found: Snapshot) -> Snapshot:
    """Return a cluster in which two VPAs and a pod are such that our own code fails at them."""
    view = found.of("default")
    odd = [
        replace(view.vpas["odd"], conditions=OddConditions()),
        replace(view.vpas["torn"], generation=OddNumber(1)),
    ]
    pods = [
        replace(pod, labels=Odd(app="lost"))
        for pod in view.pods.values()
        if pod.labels["app"] == "lost"
    ]
    assert len(pods) == 1
    vpas = [Replacement(Collection.VPAS, "default", one.name, one) for one in odd]
    return found.changed(
        [*vpas, *(Replacement(Collection.PODS, "default", one.name, one) for one in pods)]
    )


class Story:
    """A cluster in which objects become odd after some rounds of four."""

    def __init__(self, sound_rounds: int) -> None:
        self.scene = scene = Scene()
        for name in NAMES[1:]:
            scene.apply(deployment(name, load=LOAD), vpa(name))
        scene.sandbox.advance(60)
        self._shows: Callable[[Snapshot], Snapshot] = lambda found: found
        scene.around = replace(
            scene.around, snapshot=lambda: self._shows(snapshot_of(scene.sandbox))
        )
        recommender = scene.started()
        scene.rounds(sound_rounds, recommender)
        self.before = self.statuses()
        if sound_rounds < _ROUNDS:
            self._shows = planted
            scene.heard.events.append(Odd())
        scene.rounds(_ROUNDS - sound_rounds, recommender)

    def statuses(self) -> dict[str, Json]:
        """Return what is published, by VPA."""
        items = self.scene.sandbox.cluster.list(VPAS).items
        return {item["metadata"]["name"]: item.get("status", {}) for item in items}


@pytest.mark.parametrize("sound_rounds", [0, 1])
def test_odd_objects(sound_rounds: int, caplog: pytest.LogCaptureFixture) -> None:
    """They are named once, not each round, and keep what they have; the others go on as ever."""
    story = Story(sound_rounds)
    scene, found, usual = story.scene, story.statuses(), Story(_ROUNDS).statuses()

    assert {name: found[name] for name in ("web", "shop")} == {
        name: usual[name] for name in ("web", "shop")
    }
    assert found["web"]["recommendation"]
    for name in ("odd", "torn"):
        assert found[name] == story.before[name]
        assert bool(found[name]) == bool(sound_rounds)
    told = [one.__dict__ for one in caplog.records if one.message.startswith("skipped because")]
    pod = next(name for name in snapshot_of(scene.sandbox).of("default").pods if "lost" in name)
    assert sorted((one["kind"], one["object"]) for one in told) == [
        ("VPA", "default/odd"),
        ("VPA", "default/torn"),
        ("event", "?"),
        ("pod", f"default/{pod}"),
    ]
    assert all(one["exc_info"] for one in told)
    assert (scene.registry.get_sample_value(COUNT) or 0) >= len(told)


def test_many(caplog: pytest.LogCaptureFixture) -> None:
    """Of a mistake that meets all, five are told, and how many there are."""
    registry, skipped = CollectorRegistry(), SkippedObjects()
    left_out = SkippedReport(RecommenderMetrics(registry))
    for _ in range(2):
        for one in range(20):
            with skipped.guard("share", str(one)):
                raise ZeroDivisionError
        left_out.log(skipped)

    assert [one.__dict__["of"] for one in caplog.records] == [20] * 5
    assert registry.get_sample_value(COUNT) == 40
