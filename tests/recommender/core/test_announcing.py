"""Which statuses are worth a write."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from app.model.kinds import Condition
from app.recommender.core.checkpoints import Checkpoint, StoredHistogram
from app.recommender.core.moments import DAY, nanoseconds
from app.recommender.core.rules import PublishRules, RecommenderRules
from app.recommender.core.status import Why
from tests import make
from tests.recommender.core.scene import GI, MI, START, Scene

EAGER = RecommenderRules(publish=PublishRules(bound_tolerance=0.0, refresh=timedelta(0)))


def sawtooth(scene: Scene, minute: int) -> None:
    """Use cpu in bursts and memory growing by the hour."""
    scene.go(minute)
    scene.use(800 if minute % 60 < 9 else 100, (300 + 10 * (minute // 60 % 24)) * MI)


@pytest.mark.parametrize(
    ("rules", "least", "most"),
    [
        pytest.param(EAGER, 1439, 1440, id="W69: every minute"),
        pytest.param(RecommenderRules(), 100, 160, id="by tolerance and turn"),
    ],
)
def test_writes_of_a_day(rules: RecommenderRules, least: int, most: int) -> None:
    """How often one steady VPA is written on its second day."""
    scene = Scene(rules)
    scene.vpa()
    scene.pod()
    for minute in range(1440):
        sawtooth(scene, minute)
    scene.tick()
    before = scene.writes
    for minute in range(1440, 2880):
        sawtooth(scene, minute)
        scene.tick()

    assert least <= scene.writes - before <= most


def test_turns_are_spread() -> None:
    """VPAs that began together do not refresh together, but each in its time."""
    scene = Scene()
    start = nanoseconds(START)
    history = StoredHistogram(start, {30: 10000}, 1000.0)
    for number in range(40):
        name = f"vpa-{number}"
        scene.vpa(name, of={"n": str(number)}, restored=False)
        scene.pod(f"pod-{number}", labels={"n": str(number)})
        stored = Checkpoint("default", f"{name}-app", name, "app", history, history)
        stored = replace(stored, first_ns=start - 10 * DAY, last_ns=start, count=14400)
        scene.model.restore([stored], scene.now, only=[("default", name)])
    written = []
    for minute in range(1, 32):
        scene.go(minute)
        for number in range(40):
            scene.use(680, 680_000_000, pod=f"pod-{number}")
        written.append(len(scene.tick()))

    assert written[0] == 40
    assert [sum(written[turn : turn + 10]) for turn in (1, 11, 21)] == [40, 40, 40]
    assert max(written[1:]) <= 5


def test_a_clock_that_was_put_right() -> None:
    """Bounds that moved slightly do not wait until the time has come that was thought to be."""
    scene = Scene()
    start = nanoseconds(START)
    history = StoredHistogram(start, {30: 10000}, 1000.0)
    scene.vpa(restored=False)
    scene.pod()
    stored = Checkpoint("default", "web-app", "web", "app", history, history)
    stored = replace(stored, first_ns=start - 10 * DAY, last_ns=start, count=14400)
    scene.model.restore([stored], scene.now)
    scene.use(680, 680_000_000, at=scene.at(1))
    scene.tick()
    scene.use(680, 680_000_000, at=scene.at(2))
    scene.go(-1440)

    assert [one.why for one in scene.tick()] == [Why.REFRESH]


def test_target_changes_are_told_at_once() -> None:
    """A changed target does not wait for a turn; unchanged statuses are not written."""
    scene = Scene()
    scene.vpa()
    scene.pod()
    scene.use(100, GI)
    assert [one.why for one in scene.tick()] == [Why.FIRST]
    assert scene.tick() == []
    scene.go(1)
    scene.use(9000, GI)

    assert [one.why for one in scene.tick()] == [Why.TARGET]


def test_edits_are_acknowledged() -> None:
    """A new generation is observed with the next tick, and policies apply."""
    scene = Scene()
    vpa = scene.vpa()
    scene.pod()
    scene.use(100, GI)
    scene.tick()
    edited = make.vpa(policies=[make.policy_json("*", min_allowed={"cpu": "500m"})])
    status = scene.vpas["web"].vpa
    scene.change(replace(status, policies=edited.policies, generation=vpa.generation + 1))
    (found,) = scene.tick()

    assert found.why is Why.GENERATION
    assert found.status.observed_generation == vpa.generation + 1
    assert scene.shown()["app"]["target"].startswith("500m")
    assert scene.shown()["app"]["uncapped"].startswith("126m")


def test_what_others_wrote_is_put_right() -> None:
    """A status that somebody wiped is written again; conditions of others stay."""
    scene = Scene()
    scene.vpa()
    scene.pod()
    scene.use(100, GI)
    scene.tick()
    custom = Condition("Custom", "True", last_transition=scene.now)
    wiped = replace(scene.vpas["web"].vpa, recommendation=None, conditions=(custom,))
    scene.change(wiped)
    scene.tick()

    assert "app" in scene.shown()
    assert list(scene.conditions()) == ["Custom", "RecommendationProvided"]


def test_a_slow_echo_is_no_change() -> None:
    """Until our own write is seen, nothing is written twice."""
    scene = Scene()
    scene.vpa()
    scene.pod()
    scene.use(100, GI)

    assert len(scene.model.tick(scene.now)) == 1
    assert scene.model.tick(scene.now) == []


def test_restart_writes_nothing_new() -> None:
    """After a restart, statuses that still hold are left alone."""
    scene = Scene()
    for number in range(10):
        scene.vpa(f"vpa-{number}", of={"n": str(number)})
        scene.pod(f"pod-{number}", labels={"n": str(number)})
        scene.use(100, GI, pod=f"pod-{number}")
    scene.tick()
    scene.restart()

    assert scene.tick() == []


def test_all_off() -> None:
    """A VPA whose containers are all Off recommends nothing, but learns."""
    scene = Scene(EAGER)
    scene.vpa(policies=[make.policy_json("*", mode="Off")])
    scene.pod()
    scene.use(100, GI)
    scene.tick()

    assert scene.conditions() == {"RecommendationProvided": ("False", "", "")}
    assert scene.vpas["web"].vpa.recommendation == ()
    assert len(scene.store()) == 1


def test_vpa_without_generation() -> None:
    """An object without generation has none to observe."""
    scene = Scene(EAGER)
    vpa = scene.vpa()
    scene.change(replace(vpa, generation=0))
    (found,) = scene.tick()

    assert found.status.observed_generation is None
    assert scene.tick() == []
