"""As upstream, too, usage is compared with what the loop before recommended."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.recommender.core.rules import RecommenderRules
from app.recommender.upstream.aggregate_model import UpstreamModel
from app.recommender.upstream.quality_record import QualityRecord
from app.recommender.upstream.variant import as_upstream
from tests import make
from tests.recommender.core.scene import GI, MI, Scene

RULES = as_upstream(RecommenderRules(gathers_quality=True))


def started(mode: str | None = "Auto", rules: RecommenderRules = RULES) -> Scene:
    """Return a scene with a VPA of a mode over two pods, after a loop without samples."""
    scene = Scene(rules, model=UpstreamModel)
    scene.vpa()
    scene.change(replace(scene.vpas["web"].vpa, update_policy=make.vpa(mode=mode).update_policy))
    scene.pod("web-0")
    scene.pod("web-1")
    return scene


def judged(scene: Scene) -> list[tuple[str, bool, list[float], list[float]]]:
    """Return all comparisons."""
    comparisons, _ = scene.model.quality()
    return [
        (one.resource, one.is_oom, one.used.tolist(), one.recommended.tolist())
        for one in comparisons
    ]


def test_comparisons() -> None:
    """Samples of a loop stand beside the targets of the one before, kills as what they needed."""
    scene = started()
    scene.use(100, GI)
    scene.tick()
    assert judged(scene) == [
        ("cpu", False, [0.1], [0.0]),
        ("memory", False, [float(GI)], [0.0]),
    ]
    scene.go(1)
    scene.use(200, 2 * GI)
    scene.use(300, GI, pod="web-1")
    scene.killed(1000 * MI, pod="web-1")
    scene.tick()

    assert judged(scene) == [
        ("cpu", False, [0.2, 0.3], [0.126, 0.126]),
        ("memory", False, [2.0 * GI, float(GI)], [1_238_659_775.0] * 2),
        ("memory", True, [1_288_490_188.0], [1_238_659_775.0]),
    ]
    assert judged(scene) == []


def test_changes() -> None:
    """Each loop tells how far the targets of each set of labels went."""
    scene = started()
    for minute, millicores in enumerate((100, 9000)):
        scene.go(minute)
        scene.use(millicores, GI)
        scene.tick()
    _, changes = scene.model.quality()

    assert [(one.mode, one.resource, one.pods) for one in changes] == [
        ("Auto", "cpu", 2),
        ("Auto", "memory", 2),
    ]
    assert [(one.before.tolist(), one.after.tolist()) for one in changes] == [
        ([0.126], [10.626]),
        ([1_238_659_775.0], [1_238_659_775.0]),
    ]


@pytest.mark.parametrize(("mode", "count"), [(None, 2), ("Auto", 2), ("Initial", 2), ("Off", 0)])
def test_modes(mode: str | None, count: int) -> None:
    """VPAs that are Off are not judged; a mode that is not told has no name."""
    scene = started(mode)
    scene.use(100, GI)
    scene.tick()
    comparisons, _ = scene.model.quality()

    assert [one.mode for one in comparisons] == [mode or ""] * count


def test_what_does_not_count() -> None:
    """Samples that are refused, of pods without a VPA, or unasked for, are not compared."""
    scene = started()
    scene.pod("other", labels={"app": "other"})
    scene.use(100, GI, pod="other")
    scene.use(-5, -5)
    scene.use(100, GI)
    scene.tick()
    scene.use(100, GI)
    scene.tick()
    assert judged(scene)[0] == ("cpu", False, [0.1], [0.0])

    scene = started(rules=as_upstream(RecommenderRules()))
    scene.use(100, GI)
    scene.tick()
    assert scene.model.quality() == ([], [])


def test_vpas_that_come_and_go() -> None:
    """A new VPA begins without a recommendation; of one that is gone nothing is compared."""
    scene = started()
    scene.use(100, GI)
    scene.tick()
    judged(scene)
    scene.model.vpa_gone(("default", "web"), scene.now)
    vpa = scene.vpas.pop("web")
    scene.go(1)
    scene.use(200, GI)
    scene.tick()
    assert judged(scene) == []
    scene.see(vpa)
    scene.go(2)
    scene.use(300, GI)
    scene.tick()

    assert judged(scene)[0] == ("cpu", False, [0.3], [0.0])


def test_aggregates_that_come_in_mid_loop() -> None:
    """They wait for the next loop."""
    judge = QualityRecord()
    judge.recommend(("default", "app=web", "app"), (100, 100))
    judge.note(("default", "app=web", "app"), "cpu", 100)

    assert judge.take() == ([], [])
