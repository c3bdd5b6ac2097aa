"""Why nothing is recommended for a container."""

from __future__ import annotations

from datetime import timedelta

from app.recommender.core.explanation import Absence
from app.recommender.core.rules import PublishRules, RecommenderRules
from tests import make
from tests.recommender.core.scene import GI, Scene

EAGER = RecommenderRules(publish=PublishRules(bound_tolerance=0.0, refresh=timedelta(0)))


def test_absence() -> None:
    """Why a container is not recommended for."""
    scene = Scene(EAGER)
    scene.vpa(policies=[make.policy_json("log", mode="Off")])
    scene.pod("web-0", "app", "log", "old", "new")
    for container in ("app", "log", "old"):
        scene.use(100, GI, container=container)
    scene.pod("web-1", "app", "log", "new")
    scene.drop("web-0")
    scene.tick()
    scene.go(25 * 60)
    scene.tick()

    found = {name: scene.explained(name)["absence"] for name in ("app", "log", "old", "new")}

    assert found == {
        "app": Absence.NONE,
        "log": Absence.OFF,
        "old": Absence.STALE,
        "new": Absence.NO_SAMPLES,
    }
    target = scene.explained("new")["derivation"]["cpu"]["target"]
    assert (target["bucket"], target["bucketStart"], target["percentileAmount"]) == (None, None, 0)
