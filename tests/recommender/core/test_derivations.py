"""On what published numbers rest is kept as long as they stand."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from app.model.quantity import Quantity
from app.recommender.core.estimation import Derivation
from app.recommender.core.explanation import explained
from app.recommender.core.rules import (
    PublishRules,
    RecommenderRules,
)
from app.recommender.upstream.model import UpstreamModel
from app.recommender.upstream.tuning import as_upstream
from tests import make
from tests.recommender.core.scene import GI, MI, Scene

EAGER = RecommenderRules(publish=PublishRules(bound_tolerance=0.0, refresh=timedelta(0)))
LAZY = RecommenderRules(publish=PublishRules(bound_tolerance=0.5, refresh=timedelta(days=365)))
AS_UPSTREAM = as_upstream(RecommenderRules())
WEB = ("default", "web")


def derived(scene: Scene, container: str = "app") -> dict[str, str]:
    """Return what the derivation of a container ends in, as `Scene.shown` does."""
    found = scene.explained(container)
    cpu, memory = found["derivation"]["cpu"], found["derivation"]["memory"]
    words = ("target", "lowerBound", "upperBound")
    return {word: f"{cpu[word]['quantity']} {memory[word]['quantity']}" for word in words}


def steps(scene: Scene, derivation: Derivation) -> make.Json:
    """Return all that a derivation explains."""
    vpa = scene.vpas["web"].vpa
    return explained([(vpa, derivation)], scene.rules, with_steps=True)[0]


def published(scene: Scene, container: str = "app") -> dict[str, str]:
    """Return what is published of a container, in the same words."""
    shown = scene.shown()[container]
    words = {"target": "target", "lowerBound": "lower", "upperBound": "upper"}
    return {word: shown[name] for word, name in words.items()}


@pytest.mark.parametrize(
    "begin",
    [
        pytest.param(lambda: Scene(EAGER), id="every change"),
        pytest.param(lambda: Scene(LAZY), id="slight moves wait"),
        pytest.param(lambda: Scene(AS_UPSTREAM, model=UpstreamModel), id="as upstream"),
    ],
)
def test_they_end_in_what_stands(begin: Callable[[], Scene]) -> None:
    """After every tick the derivation leads to the status, also where newer numbers wait."""
    scene = begin()
    scene.vpa(policies=[make.policy_json("*", max_allowed={"cpu": "1500m"})])
    scene.pod("web-0", "app", "log")
    for minute in range(90):
        scene.go(minute)
        scene.use(1000 + minute, GI)
        scene.use(10 * minute, 300 * MI, container="log")
        scene.tick()

        assert derived(scene) == published(scene)
        assert derived(scene, "log") == published(scene, "log")
        assert set(scene.explained()["origin"].values()) == {"computed"}  # the uncapped target too


def test_slight_moves_leave_them_alone() -> None:
    """What is told of a number is how it was made, not how it would be made now."""
    scene = Scene(LAZY)
    scene.vpa()
    scene.pod()
    for minute in range(600):
        scene.go(minute)
        scene.use(1000, GI)
        scene.tick()
    found = scene.model.derivations()[WEB]

    told = scene.explained()
    assert found.at < scene.now
    assert told["evidence"]["samples"] < 600
    assert told["origin"] == {"cpu": "computed", "memory": "computed"}


def test_they_are_there_after_a_restart() -> None:
    """What stands is explained at once, also where it is not worth a write yet."""
    scene = Scene(LAZY)
    scene.vpa()
    scene.pod()
    for minute in range(600):
        scene.go(minute)
        scene.use(1000, GI)
        scene.tick()
    before = published(scene)
    scene.restart()
    scene.go(601)
    assert scene.tick() == []

    assert derived(scene)["target"] == published(scene)["target"] == before["target"]
    assert derived(scene)["lowerBound"] != before["lowerBound"]


def test_a_kill_renews_them() -> None:
    """What is published between two ticks can be derived at once."""
    scene = Scene()
    scene.vpa()
    scene.pod()
    scene.use(100, GI)
    scene.tick()
    scene.go(0.5)
    scene.killed(2 * GI)
    scene.tick(urgent=True)

    assert derived(scene) == published(scene)
    assert Quantity.parse(derived(scene)["target"].split()[1]) > Quantity.parse("2Gi")


def test_what_is_held_stays() -> None:
    """Later ticks change nothing in what somebody was given."""
    scene = Scene(EAGER)
    scene.vpa()
    scene.pod()
    scene.use(100, GI)
    scene.tick()
    held = scene.model.derivations()
    before = steps(scene, held[WEB])["containers"][0]["derivation"]
    scene.go(1)
    scene.use(9000, 8 * GI)
    scene.tick()

    assert steps(scene, held[WEB])["containers"][0]["derivation"] == before
    assert scene.explained()["derivation"] != before
    with pytest.raises(ValueError, match="read-only"):
        held[WEB].basis["samples"] = 0


def test_gone_vpas_take_them_along() -> None:
    """Nothing is kept of a VPA that is gone, and nothing is there before the first tick."""
    scene = Scene()
    scene.vpa()
    scene.pod()
    assert scene.model.derivations() == {}
    scene.tick()
    assert scene.model.derivations().keys() == {WEB}
    scene.model.vpa_gone(WEB, scene.now)
    del scene.vpas["web"]
    scene.tick()

    assert scene.model.derivations() == {}


def test_without_containers() -> None:
    """A VPA without containers has no lines; as upstream there is nothing before a loop."""
    scene = Scene()
    scene.vpa()
    scene.tick()
    found = scene.model.derivations()[WEB]

    assert (found.containers, steps(scene, found)["containers"]) == ((), [])
    assert Scene(AS_UPSTREAM, model=UpstreamModel).model.derivations() == {}
