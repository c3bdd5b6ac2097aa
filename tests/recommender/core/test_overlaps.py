"""Pods that several VPAs with selectors claim."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.recommender.core.scene import GI, START, Scene

LEADERS = {"matchLabels": {"role": "leader"}}
EXISTS = {"matchExpressions": [{"key": "role", "operator": "Exists"}]}


def overlapping() -> Scene:
    """Return a scene in which a young VPA also selects what an old one does."""
    scene = Scene()
    scene.vpa("old", selector=LEADERS, created=START - timedelta(days=9))
    scene.vpa("young", selector=EXISTS, created=START - timedelta(days=1))
    scene.vpa("all")
    scene.pod(role="leader")
    scene.use(100, GI)
    scene.tick()
    return scene


def test_the_weaker_one_is_told() -> None:
    """Both learn; the younger one says that another comes first."""
    scene = overlapping()

    message = 'VPA "old" selects some of the same pods and comes first'
    assert scene.conditions("young")["SelectorOverlap"] == ("True", "OverlappingPods", message)
    assert "SelectorOverlap" not in scene.conditions("old")
    assert "SelectorOverlap" not in scene.conditions("all")
    assert scene.shown("young") == scene.shown("old")
    assert scene.model.overlapping_pods() == {"default": 1}


@pytest.mark.parametrize("way", ["label", "pod", "vpa"])
def test_overlaps_end(way: str) -> None:
    """When no pod is claimed twice any more, the condition goes."""
    scene = overlapping()
    scene.go(1)
    if way == "label":
        scene.pod(role="follower")
    elif way == "pod":
        scene.drop("web-0")
    else:
        scene.model.vpa_gone(("default", "old"), scene.now)
        del scene.vpas["old"]
    scene.tick()
    scene.go(2)

    assert "SelectorOverlap" not in scene.conditions("young")
    assert scene.model.overlapping_pods() == {}
    assert scene.tick() == []


def test_overlaps_that_stay_are_told_once() -> None:
    """A condition that holds is not written again."""
    scene = overlapping()
    scene.go(1)

    assert scene.tick() == []
    assert "SelectorOverlap" in scene.conditions("young")
