"""A split of one VPA into several may begin with a little of what the old one knew."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from app.recommender.core.checkpoints import Checkpoint, StoredHistogram
from app.recommender.core.moments import DAY, HOUR, UNSET, nanoseconds
from app.recommender.core.rules import Extras, PublishRules, RecommenderRules
from tests.recommender.core.scene import MI, START, Scene

SEEDS = RecommenderRules(
    extras=Extras(seed_selectors=True),
    publish=PublishRules(bound_tolerance=0.0, refresh=timedelta(0)),
)
NOW_NS = nanoseconds(START)
# Eight days of samples a minute: one core, and a peak of memory each day.
HISTORY = Checkpoint(
    namespace="default", name="web-app", vpa="web", container="app",
    cpu=StoredHistogram(NOW_NS, {36: 10_000}, 207.7),
    memory=StoredHistogram(NOW_NS, {37: 10_000}, 2.0),
    first_ns=NOW_NS - 8 * DAY, last_ns=NOW_NS, count=11_520, updated_ns=NOW_NS,
)  # fmt: skip
LEADER = {"matchLabels": {"role": "leader"}}


def split(
    rules: RecommenderRules = SEEDS, *, pause_minutes: int = 0, history: Checkpoint = HISTORY
) -> Scene:
    """Return a scene in which a VPA with history has given way to one for leaders alone."""
    scene = Scene(rules)
    scene.vpa("web", restored=False)
    scene.model.restore([history], scene.now)
    scene.pod(role="leader")
    scene.tick()
    scene.model.vpa_gone(("default", "web"), scene.now)
    del scene.vpas["web"]
    scene.go(pause_minutes)
    scene.tick()
    scene.vpa("leader", selector=LEADER)
    scene.tick()
    return scene


def test_what_the_former_one_knew() -> None:
    """The new one recommends the same at once, with wide bounds."""
    shown = split().shown("leader")["app"]

    assert (shown["target"], shown["upper"]) == ("1168m 1238659775", "12848m 13625257525")


def test_a_former_one_without_cpu() -> None:
    """What knew nothing but memory gives that on."""
    blind = replace(HISTORY, cpu=StoredHistogram(), first_ns=UNSET, last_ns=UNSET, count=0)
    shown = split(history=blind).shown("leader")["app"]

    assert (shown["target"], shown["upper"]) == ("- 1238659775", "- 97656250000Ki")


@pytest.mark.parametrize(
    ("minutes", "is_free"), [pytest.param(170, False, id="soon"), pytest.param(200, True, id="3 h")]
)
def test_how_long_it_matters(minutes: int, is_free: bool) -> None:
    """Three hours of usage of its own are more than nine tenths of what it knows."""
    scene = split()
    for minute in range(1, minutes + 1):
        scene.go(minute)
        scene.use(100, 200 * MI)
    scene.tick()

    assert scene.shown("leader")["app"]["target"].startswith("126m") is is_free


@pytest.mark.parametrize(
    ("rules", "pause_minutes"),
    [
        pytest.param(replace(SEEDS, extras=Extras()), 0, id="not asked for"),
        pytest.param(SEEDS, 61, id="deleted too long ago"),
    ],
)
def test_a_blank_beginning(rules: RecommenderRules, pause_minutes: int) -> None:
    """Without a former VPA, or unless asked for, nothing is known at first."""
    assert split(rules, pause_minutes=pause_minutes).shown("leader") == {}


def test_history_of_its_own_comes_first() -> None:
    """What stands in a checkpoint of its own is neither replaced nor added to."""
    scene = Scene(SEEDS)
    scene.vpa("web", restored=False)
    scene.model.restore([HISTORY], scene.now)
    scene.model.vpa_gone(("default", "web"), scene.now)
    scene.vpa("leader", selector=LEADER, restored=False)
    own = replace(HISTORY, name="leader-app", vpa="leader", last_ns=NOW_NS - HOUR)
    scene.model.restore([own], scene.now, only=[("default", "leader")])
    scene.pod(role="leader")
    scene.model.not_stored(own)

    assert scene.store()[0].cpu.total == own.cpu.total
