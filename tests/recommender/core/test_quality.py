"""How usage compares with what was recommended."""

from __future__ import annotations

from dataclasses import replace

from app.recommender.core.rules import RecommenderRules
from tests import make
from tests.recommender.core.scene import GI, MI, Scene

RULES = RecommenderRules(gathers_quality=True)


def started(rules: RecommenderRules = RULES) -> Scene:
    """Return a scene with VPAs of two modes and one that is Off, on the same pods."""
    scene = Scene(rules)
    for name, mode in (("web", None), ("auto", "Auto"), ("off", "Off")):
        vpa = scene.vpa(name)
        scene.change(replace(vpa, update_policy=make.vpa(mode=mode).update_policy))
    scene.pod("web-0")
    scene.pod("web-1")
    return scene


def test_comparisons() -> None:
    """Counted samples stand beside the uncapped target; VPAs that are Off take no part."""
    scene = started()
    scene.use(100, GI)
    first, _ = scene.model.quality()
    scene.tick()
    scene.use(200, 2 * GI, pod="web-1")
    scene.killed(1000 * MI)
    second, _ = scene.model.quality()

    assert [(one.mode, one.resource, one.is_oom) for one in second] == [
        (mode, resource, is_oom)
        for resource, is_oom in (("cpu", False), ("memory", False), ("memory", True))
        for mode in ("", "Auto")
    ]
    assert {float(one.recommended[0]) for one in first} == {0.0}
    assert [(one.used.tolist(), one.recommended.tolist()) for one in second[::2]] == [
        ([0.2], [0.126]),
        ([2.0 * GI], [1_238_659_775.0]),
        ([1_288_490_188.0], [1_238_659_775.0]),
    ]
    assert scene.model.quality() == ([], [])


def test_changes() -> None:
    """Each tick tells how far targets went, for those that had one."""
    scene = started()
    scene.use(100, GI)
    scene.tick()
    assert scene.model.quality()[1] == []
    scene.go(1)
    scene.use(9000, GI)
    scene.tick()
    _, changes = scene.model.quality()

    assert [(one.mode, one.resource, one.pods) for one in changes] == [
        (mode, resource, 2) for resource in ("cpu", "memory") for mode in ("", "Auto", "Off")
    ]
    assert [(one.before.tolist(), one.after.tolist()) for one in changes[::3]] == [
        ([0.126], [10.626]),
        ([1_238_659_775.0], [1_238_659_775.0]),
    ]


def test_nothing_is_gathered_unasked() -> None:
    """Without anybody who asks, nothing piles up."""
    scene = started(RecommenderRules())
    scene.use(100, GI)
    scene.tick()

    assert scene.model.quality() == ([], [])
