"""What is forgotten, and when."""

from __future__ import annotations

from datetime import timedelta

import pytest

from app.recommender.core.checkpoints import Checkpoint
from app.recommender.core.history import orphans
from app.recommender.core.rules import PublishRules, RecommenderRules
from tests.recommender.core.scene import GI, Scene

EAGER = RecommenderRules(publish=PublishRules(bound_tolerance=0.0, refresh=timedelta(0)))


def gone_for(days: float, *, cpu: int = 100, memory: int = GI) -> Scene:
    """Return a scene whose only pod was sampled once and then went for some days."""
    scene = Scene(EAGER)
    scene.vpa()
    scene.pod()
    scene.use(cpu, memory)
    scene.drop("web-0")
    scene.tick()
    scene.go(days * 1440)
    scene.tick()
    return scene


@pytest.mark.parametrize(
    ("cpu", "memory", "days", "left"),
    [
        pytest.param(100, GI, 7.9, 1, id="cpu and memory, in time"),
        pytest.param(100, GI, 8, 0, id="cpu and memory, expired"),
        pytest.param(-1, GI, 7.9, 1, id="memory alone is history"),
        pytest.param(-1, GI, 8, 0, id="memory alone expires too"),
        pytest.param(-1, -1, 0.05, 0, id="nothing learned, nothing kept"),
    ],
)
def test_expiry(cpu: int, memory: int, days: float, left: int) -> None:
    """History outlives its last container by the time of expiry."""
    assert gone_for(days, cpu=cpu, memory=memory).model.row_count == left


def test_living_containers_keep_their_history() -> None:
    """While its container lives, nothing expires, however long metrics are missing."""
    scene = Scene(EAGER)
    scene.vpa()
    scene.pod()
    scene.use(100, GI)
    for day in range(0, 30, 5):
        scene.go(day * 1440)
        scene.tick()

    assert scene.model.row_count == 1
    assert scene.shown()["app"]["target"].startswith("126m")


def test_vpas_that_wait_for_history_lose_nothing() -> None:
    """A row is not dropped while its stored history may still come."""
    scene = Scene(EAGER)
    scene.vpa(restored=False)
    scene.pod()
    scene.drop("web-0")
    scene.tick()
    scene.go(61)
    scene.tick()
    assert scene.model.row_count == 1

    scene.model.restore([], scene.now)
    scene.go(122)
    scene.tick()

    assert scene.model.row_count == 0


def test_expired_history_ends_the_recommendation() -> None:
    """When the last row goes, the recommendation goes."""
    scene = gone_for(8.1)

    assert scene.shown() == {}
    assert scene.conditions()["RecommendationProvided"][0] == "False"


def test_windows_nobody_came_for() -> None:
    """Restored windows are dropped when their interval is over."""
    scene = Scene(EAGER)
    scene.vpa()
    scene.pod("web-0")
    scene.use(100, GI)
    scene.go(100)
    scene.pod("web-1")
    scene.use(100, GI, pod="web-1")
    scene.store()
    scene.pods = {}
    scene.restart()
    for minute in (200, 1460, 1600):
        scene.go(minute)
        scene.tick()
    scene.pod("web-0")
    scene.pod("web-1")
    scene.use(100, GI, pod="web-0")

    (stored,) = scene.store()
    assert len(stored.windows) == 1
    assert stored.memory.total == pytest.approx(2.0, rel=0.1)


def test_a_clock_that_was_put_right() -> None:
    """What is over is forgotten, not when the time has come that was thought to be."""
    scene = Scene()
    scene.vpa()
    scene.pod()
    scene.go(60 * 1440)
    scene.tick()
    scene.drop("web-0")
    scene.go(1440)
    scene.tick()

    assert scene.model.row_count == 0


@pytest.mark.parametrize(
    ("namespace", "vpa", "expected"),
    [
        pytest.param("a", "gone", True, id="its VPA is gone"),
        pytest.param("a", "web", False, id="W106: its VPA is there, whoever handles it"),
        pytest.param("kept", "gone", False, id="W105: its namespace is not ours"),
        pytest.param("b", "web", True, id="a VPA of that name in another namespace"),
    ],
)
def test_orphans(namespace: str, vpa: str, expected: bool) -> None:
    """A checkpoint is an orphan if its VPA does not exist in a namespace that is ours."""
    checkpoint = Checkpoint(namespace, "x", vpa, "app")

    found = orphans([checkpoint], {("a", "web"), ("kept", "web")}, kept_namespaces={"kept"})

    assert found == ([checkpoint] if expected else [])
