"""What stands published is not wiped out by ignorance."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import numpy as np
import pytest

from app.model.selectors import Selector
from app.recommender.core.checkpoints import Checkpoint, StoredHistogram
from app.recommender.core.moments import DAY, HOUR, nanoseconds
from app.recommender.core.rules import PublishRules, RecommenderRules
from app.recommender.core.targets import ObservedVpa
from app.recommender.core.usage import PastUsage
from tests import make
from tests.recommender.core.scene import GI, START, Scene

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
    vpa = make.vpa("web", policies=policies, recommendations=STANDS, target="StatefulSet/web")
    scene.see(ObservedVpa(vpa, Selector.of_labels(make.LABELS)))
    if restored:
        scene.model.restore([], scene.now)
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


def test_a_peak_after_the_start_is_forgotten_as_any_other() -> None:
    """What is not lowered is what stood before, not what was learned since."""
    scene = standing(FORGETFUL)
    scene.pod("web-0", "app")
    scene.use(2000, GI)
    assert targets(scene)["app"] == "2406m 3Gi"

    for minute in range(1, 100):
        scene.go(minute)
        scene.use(100, GI)
    assert targets(scene)["app"] == "900m 3Gi"


def test_when_the_past_is_known_it_counts() -> None:
    """What was learned stands, be it less; what nobody told of stays as it is."""
    scene = standing(FORGETFUL)
    scene.pod("web-0", "app", "log")
    scene.use(100, GI)
    scene.use(100, GI, container="log")
    used = np.full((1, 1), 100), np.full((1, 1), GI)
    times = np.array([nanoseconds(START) - HOUR])
    scene.model.learn_past(PastUsage({}, [("default", "web-0", "app")], times, *used), scene.now)

    assert targets(scene) == {"app": "126m 1238659775", "log": "900m 3Gi"}


def test_history_that_cannot_be_read() -> None:
    """A recommendation is not lowered either when a checkpoint is broken."""
    scene = standing(restored=False)
    scene.pod("web-0", "app", "log")
    scene.use(100, GI)
    scene.use(100, GI, container="log")
    scene.model.restore([known("app")], scene.now, lost={("default", "web"), ("default", "db")})

    assert targets(scene) == {"app": "126m 1238659775", "log": "900m 3Gi"}


def test_a_checkpoint_with_a_broken_date() -> None:
    """It is not used, and what stands is not lowered."""
    scene = standing(restored=False)
    scene.pod("web-0", "app")
    scene.use(100, GI)
    broken = replace(known("app"), last_ns=nanoseconds(START) + 999 * DAY)
    assert len(scene.model.restore([broken], scene.now)) == 1

    assert targets(scene)["app"] == "900m 3Gi"


def known(container: str) -> Checkpoint:
    """Return a checkpoint of an hour ago with one sample."""
    hour_ago = nanoseconds(START) - HOUR
    cpu = StoredHistogram(hour_ago, {8: 10_000}, 0.1)
    name = f"web-{container}"
    return Checkpoint(
        "default", name, "web", container, cpu, first_ns=hour_ago, last_ns=hour_ago, count=1
    )


def test_a_past_that_never_comes() -> None:
    """After a day enough was learned without it."""
    scene = standing(FORGETFUL)
    scene.pod("web-0", "app")
    scene.go(1440)
    scene.use(100, GI)

    assert targets(scene) == {"app": "126m 1238659775"}


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        pytest.param(make.policy_json("log", mode="Off"), {"app": "900m 3Gi"}, id="off"),
        pytest.param(
            make.policy_json("app", max_allowed=make.amounts("500m", "2Gi")),
            {"app": "500m 2Gi", "log": "900m 3Gi"},
            id="at most",
        ),
        pytest.param(
            make.policy_json("app", min_allowed=make.amounts("1")),
            {"app": "1 3Gi", "log": "900m 3Gi"},
            id="at least",
        ),
    ],
)
def test_policies_hold_for_what_stood(policy: dict[str, Any], expected: dict[str, str]) -> None:
    """A container that the policy leaves out is not kept, and its caps hold."""
    scene = standing(FORGETFUL, policies=[policy])
    scene.pod("web-0", "app")
    scene.use(100, GI)

    assert targets(scene) == expected
