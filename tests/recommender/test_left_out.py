"""An object at which our own code fails is told of once, and all others go on as ever."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import pytest
from prometheus_client import CollectorRegistry

from app.model.kinds import Condition
from app.model.snapshot import Collection, Replacement, Snapshot
from app.ports import VPAS, Json
from app.recommender.core.rules import RecommenderRules
from app.recommender.core.skipped import SkippedObjects
from app.recommender.metrics import RecommenderMetrics
from app.recommender.recommender import Recommender
from app.recommender.report import SkippedReport
from app.recommender.rules import RoundRules
from tests.recommender.test_recommender import LOAD, Scene, vpa
from tests.sandbox.worlds import deployment, snapshot_of

NAMES = ("web", "shop", "odd", "torn", "lost")
_ROUNDS = 4
COUNT = "vpa_recommender_left_out_objects_total"


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
        around = replace(scene.around, snapshot=lambda: self._shows(snapshot_of(scene.sandbox)))
        recommender = Recommender(RoundRules(RecommenderRules()), around, scene.heard)
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
    told = [one.__dict__ for one in caplog.records if one.message.startswith("left out")]
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
        left_out.tell(skipped)

    assert [one.__dict__["of"] for one in caplog.records] == [20] * 5
    assert registry.get_sample_value(COUNT) == 40
