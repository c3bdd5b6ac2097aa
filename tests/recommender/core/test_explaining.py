"""Every step of a derivation can be told."""

from __future__ import annotations

from datetime import timedelta

import pytest

from app.recommender.core.explaining import Absence, Explanation
from app.recommender.core.rules import PublishRules, RecommenderRules
from tests import make
from tests.recommender.core.scene import GI, START, Scene

EAGER = RecommenderRules(publish=PublishRules(bound_tolerance=0.0, refresh=timedelta(0)))


def explained(scene: Scene, container: str = "app") -> Explanation:
    """Return the explanation of a container."""
    found = scene.model.explain("default", "web", container, scene.now)
    assert found is not None
    return found


def test_steps() -> None:
    """From the percentile's bucket over margin, confidence and floor to the cap."""
    scene = Scene(EAGER)
    scene.vpa(policies=[make.policy_json("app", max_allowed={"cpu": "1"})])
    scene.pod()
    for minute in range(61):
        scene.go(minute)
        scene.use(1000, GI)
    found = explained(scene)
    cpu, memory = found.resources

    assert (found.absence, found.samples, found.living) == (Absence.NONE, 61, 1)
    assert (found.first_sample, found.last_sample) == (START, scene.now)
    assert cpu.confidence == pytest.approx(0.041667, abs=1e-6)
    target, lower, upper = cpu.steps
    assert (target.word, target.fraction, target.bucket) == ("target", 0.9, 36)
    assert (target.percentile, target.with_margin, target.multiplier) == (1016, 1168, 1.0)
    assert (target.estimate, target.capped, target.capped_by) == (1168, 1000, "maxAllowed")
    assert target.bucket_start == pytest.approx(958.36, abs=0.01)
    assert (lower.estimate, upper.estimate, upper.capped_by) == (1113, 29200, "maxAllowed")
    assert (memory.steps[0].floor, memory.is_shown) == (262_144_000, True)
    assert target.quantity == make.quantity("1")


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

    found = {name: explained(scene, name).absence for name in ("app", "log", "old", "new")}

    assert found == {
        "app": Absence.NONE,
        "log": Absence.OFF,
        "old": Absence.STALE,
        "new": Absence.NO_SAMPLES,
    }
    steps = explained(scene, "new").resources[0].steps[0]
    assert (steps.bucket, steps.bucket_start, steps.percentile) == (None, None, 0)
