"""What stands published is not wiped out by ignorance."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import numpy as np
import pytest

from app.core.recommendation.past import PastUsage
from app.core.recommendation.rules import PublishRules, RecommenderRules
from tests import make
from tests.core.recommendation.scene import GI, Scene

EAGER = RecommenderRules(publish=PublishRules(bound_tolerance=0.0, refresh=timedelta(0)))
STANDS = [
    make.recommendation_json(
        name, cpu="900m", memory="3Gi", lower=make.amounts("1m", "1Mi"), upper=make.amounts("9")
    )
    for name in ("app", "log")
]


def standing(
    rules: RecommenderRules = EAGER,
    *,
    restored: bool = True,
    policies: list[dict[str, Any]] | None = None,
) -> Scene:
    """Return a scene with a VPA for which something stands published already."""
    scene = Scene(rules)
    vpa = scene.vpa(restored=restored, policies=policies)
    recommended = make.vpa(recommendations=STANDS).recommendation
    scene.change(replace(vpa, recommendation=recommended))
    return scene


def targets(scene: Scene) -> dict[str, str]:
    """Tick, and return the targets."""
    scene.tick()
    return {name: one["target"] for name, one in scene.shown().items()}


def test_unread_history() -> None:
    """Until its history is read, everything stays as it stands."""
    scene = standing(restored=False)
    scene.pod("web-0", "app")
    scene.use(100, GI)
    assert targets(scene) == {"app": "900m 3Gi", "log": "900m 3Gi"}

    scene.model.restore([], scene.now)

    assert targets(scene) == {"app": "126m 1238659775"}


@pytest.mark.parametrize(
    ("cpu", "memory", "expected"),
    [
        pytest.param(-1, -1, "900m 3Gi", id="nothing sampled"),
        pytest.param(100, -1, "126m 3Gi", id="cpu sampled"),
        pytest.param(-1, GI, "900m 1238659775", id="memory sampled"),
        pytest.param(100, GI, "126m 1238659775", id="both"),
    ],
)
def test_resources_without_samples(cpu: int, memory: int, expected: str) -> None:
    """A resource that was never sampled keeps what stands; containers that are gone do not."""
    scene = standing()
    scene.pod("web-0", "app")
    scene.use(cpu, memory)

    assert targets(scene) == {"app": expected}
    upper = scene.shown()["app"]["upper"]
    assert upper.startswith("9 " if cpu < 0 else "100G")


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        pytest.param(make.policy_json("app", mode="Off"), {"log": "900m 3Gi"}, id="off"),
        pytest.param(
            make.policy_json("app", resources=["cpu"]),
            {"app": "900m -", "log": "900m 3Gi"},
            id="cpu only",
        ),
    ],
)
def test_policies_hold(policy: dict[str, Any], expected: dict[str, str]) -> None:
    """Nothing is kept that the policy does not want."""
    scene = standing(policies=[policy])
    scene.pod("web-0", "app", "log")

    assert targets(scene) == expected


def test_no_container_in_sight() -> None:
    """Without any container a recommendation stays for as long as history would."""
    scene = standing()
    assert targets(scene) == {"app": "900m 3Gi", "log": "900m 3Gi"}
    assert scene.conditions()["RecommendationProvided"][0] == "True"
    scene.go(8 * 1440)
    scene.change(replace(scene.vpas["web"].vpa, generation=2))

    assert targets(scene) == {}


FORGETFUL = replace(EAGER, expects_past=True)
NO_AMOUNTS = np.zeros((0, 0), np.int64)
NOTHING = PastUsage({}, [], np.zeros(0, np.int64), NO_AMOUNTS, NO_AMOUNTS)


@pytest.mark.parametrize(
    ("cpu", "memory", "expected"),
    [
        pytest.param(100, GI, "900m 3Gi", id="less than stands"),
        pytest.param(2000, GI, "2406m 3Gi", id="more CPU"),
        pytest.param(100, 4 * GI, "900m 4992073454", id="more memory"),
    ],
)
def test_until_the_past_is_known_amounts_only_grow(cpu: int, memory: int, expected: str) -> None:
    """A few samples after a start do not outweigh all that was known before it."""
    scene = standing(FORGETFUL)
    scene.pod("web-0", "app")
    scene.use(cpu, memory)

    assert targets(scene) == {"app": expected, "log": "900m 3Gi"}


def test_when_the_past_is_known_it_counts() -> None:
    """What was learned stands, be it less, as soon as there is nothing more to come."""
    scene = standing(FORGETFUL)
    scene.pod("web-0", "app")
    scene.use(100, GI)
    scene.resolve(problem="it does not exist")
    scene.model.learn_past(NOTHING, scene.now)
    assert targets(scene) == {"app": "900m 3Gi", "log": "900m 3Gi"}

    scene.resolve()
    scene.model.learn_past(NOTHING, scene.now, only={("default", "other")})
    assert targets(scene) == {"app": "900m 3Gi", "log": "900m 3Gi"}

    scene.model.learn_past(NOTHING, scene.now, only={("default", "web")})
    assert targets(scene) == {"app": "126m 1238659775"}


def test_a_past_that_never_comes() -> None:
    """After a day enough was learned without it."""
    scene = standing(FORGETFUL)
    scene.pod("web-0", "app")
    scene.go(1440)
    scene.use(100, GI)

    assert targets(scene) == {"app": "126m 1238659775"}


def test_the_past_of_what_nobody_wants() -> None:
    """A container that the policy leaves out is not kept, whatever may be known of it."""
    scene = standing(FORGETFUL, policies=[make.policy_json("log", mode="Off")])
    scene.pod("web-0", "app")
    scene.use(100, GI)

    assert targets(scene) == {"app": "900m 3Gi"}
