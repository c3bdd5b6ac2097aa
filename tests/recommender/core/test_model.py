"""The model as a whole."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from random import Random

import pytest

from app.recommender.core.checkpoints import decode
from app.recommender.core.model import Model, RecommenderModel
from app.recommender.core.moments import nanoseconds
from app.recommender.core.rules import RecommenderRules
from app.recommender.core.status import Why
from app.recommender.upstream.aggregate_model import UpstreamModel
from tests.cases import cases
from tests.recommender.core.scene import EAGER, GI, MI, START, Scene, running, sawtooth
from tests.recommender.core.stories import Story, living
from tests.recommender.core.traces import STEP, Trace

STEPS = [
    (1, "25m 250Mi", "920m 380258472", "100G 97656250000Ki"),
    (10, "683m 282593989", "920m 380258472", "148120m 61221613992"),
    (61, "120m 362642738", "920m 380258472", "23 9506461800"),
    (721, "125m 509732018", "920m 511772986", "2760m 1535318958"),
    (1441, "125m 379499094", "920m 671629701", "1840m 1343259402"),
    (2881, "125m 379878498", "920m 671629701", "1380m 1007444551"),
    (10081, "125m 380149849", "920m 671629701", "1051m 767576801"),
]


def test_week_of_usage() -> None:
    """What is recommended after a sample, and up to a week."""
    scene = running(EAGER)
    done = 0
    for samples, lower, target, upper in STEPS:
        sawtooth(scene, done, samples)
        done = samples
        scene.tick()

        shown = scene.shown()["app"]
        assert (shown["lower"], shown["target"], shown["upper"]) == (lower, target, upper)
        assert shown["uncapped"] == target


@cases(
    "samples cpu cpu_total memory memory_total",
    {
        "a day": (1441, {8: 10000, 32: 1751}, 207.89808989927872, {27: 10000}, 1.0),
        "a week": (10081, {8: 10000, 32: 1745}, 26390.457417208327, {27: 10000}, 127.0),
    },
)
def test_checkpoint_of_usage(
    samples: int, cpu: dict[int, int], cpu_total: float, memory: dict[int, int], memory_total: float
) -> None:
    """Checkpoints leave the running peak out and tell of it beside."""
    scene = running()
    sawtooth(scene, 0, samples)

    (stored,) = scene.store()

    assert (stored.cpu.weights, stored.memory.weights) == (cpu, memory)
    assert stored.cpu.total == cpu_total
    assert (stored.memory.total, stored.count) == (memory_total, samples)
    assert stored.cpu.reference_ns == nanoseconds(START)
    assert [window.usage_bytes for window in stored.windows] == [300 * MI]


def roles(scene: Scene, leader: int) -> None:
    """Give three pods their roles."""
    for number in range(3):
        scene.pod(f"web-{number}", role="leader" if number == leader else "follower")


ROLES = {  # samples; cpu and memory as lower, target, upper
    "all": (8640, "246m 2406m 3609m", "4987083390 4992073454 7488977161"),
    "leader": (2880, "2403m 2406m 3609m", "4987083390 4992073454 7488977161"),
    "follower": (5760, "246m 247m 370m", "1237421614 1238659775 1858204782"),
}


def test_roles() -> None:
    """A workload of unlike pods, taken together and parted by role."""
    scene = Scene(EAGER, start=datetime(2026, 1, 10, tzinfo=UTC))
    for name in ROLES:
        selector = None if name == "all" else {"matchLabels": {"role": name}}
        scene.vpa(name, selector=selector)
    roles(scene, leader=0)
    for minute in range(2880):
        scene.go(minute)
        if minute == 1800:
            roles(scene, leader=1)
        leader = int(minute >= 1800)
        for number in range(3):
            used = (2000, 4 * GI) if number == leader else (200, GI)
            scene.use(*used, pod=f"web-{number}")
    scene.tick()
    counts = {one.vpa: one.count for one in scene.store()}

    for name, (samples, cpu, memory) in ROLES.items():
        shown = scene.shown(name)["app"]
        texts = [shown[word].split() for word in ("lower", "target", "upper")]
        assert [" ".join(column) for column in zip(*texts, strict=True)] == [cpu, memory]
        assert counts[name] == samples


def test_failed_writes_come_again() -> None:
    """What could not be written is asked for again."""
    scene = running(EAGER)
    scene.use(100, GI)
    (first,) = scene.model.tick(scene.now)
    (stored,) = scene.model.checkpoints(scene.now, None)
    assert scene.model.tick(scene.now) == []
    assert scene.model.checkpoints(scene.now, None) == []

    scene.model.not_published("default", "web")
    scene.model.not_published("default", "ghost")
    scene.model.not_stored(stored)
    scene.model.not_stored(replace(stored, vpa="ghost"))

    assert scene.model.tick(scene.now) == [first]
    assert scene.model.checkpoints(scene.now, None) == [stored]


def test_kills_are_answered_at_once() -> None:
    """A kill is published between ticks, for its VPA alone."""
    scene = Scene()
    scene.vpa("web")
    scene.vpa("other", of={"app": "other"})
    scene.pod("web-0")
    scene.pod("other-0", labels={"app": "other"})
    for pod in ("web-0", "other-0"):
        scene.use(100, 400 * MI, pod=pod)
    scene.tick()
    scene.use(100, 900 * MI, pod="other-0", at=scene.at(1))
    assert scene.tick(urgent=True) == []
    scene.killed(1000 * MI)

    (found,) = scene.tick(urgent=True)

    assert (found.name, found.why) == ("web", Why.KILL)
    assert scene.shown("web")["app"]["target"] == "126m 1470157273"
    assert scene.tick(urgent=True) == []


def test_checkpoints_are_awaited_whenever_a_vpa_comes() -> None:
    """A VPA that comes later gets its stored history too, and the others keep theirs."""
    scene = Scene(EAGER)
    scene.vpa("web", restored=False)
    scene.vpa("other", restored=False)
    assert scene.model.awaited() == [("default", "web"), ("default", "other")]

    scene.model.restore([], scene.now, only=[("default", "web"), ("default", "ghost")])

    assert scene.model.awaited() == [("default", "other")]


def test_abandoned_checkpoints_are_told_once() -> None:
    """A container that has been gone for the time of expiry gives its checkpoint up."""
    scene = running(EAGER)
    scene.use(100, GI)
    scene.tick()
    scene.store()
    scene.drop("web-0")
    scene.go(8 * 1440 + 60)
    scene.tick()
    scene.go(16 * 1440 + 120)
    scene.tick()

    assert scene.model.abandoned() == [("default", "web-app")]
    assert scene.model.abandoned() == []
    assert scene.model.row_count == 0
    scene.model.not_dropped("default", "web-app")
    assert scene.model.abandoned() == [("default", "web-app")]


def test_a_checkpoint_that_is_needed_again_is_not_abandoned() -> None:
    """What could not be deleted is left alone once its container is back."""
    scene = running(EAGER)
    scene.use(100, GI)
    scene.store()
    scene.model.not_dropped("default", "web-app")

    assert scene.model.abandoned() == []


@pytest.mark.parametrize("seed", range(5))
def test_random_days(seed: int) -> None:
    """Moves, kills, gaps, late and repeated samples, restarts: every amount agrees all the time."""
    trace = Trace(seed)
    for _ in range(3 * 1440 // STEP):
        trace.step()
        trace.compare()

    for checkpoint in trace.scene.store():
        row = trace.reference.rows[checkpoint.vpa, checkpoint.container]
        weights, total = decode(checkpoint.cpu)
        assert total == pytest.approx(row.cpu.total, rel=1e-9)
        assert total == pytest.approx(weights.sum(), rel=1e-9)
        assert weights.tolist() == pytest.approx(row.cpu.weights, rel=1e-3, abs=total / 10_000)
        assert checkpoint.count == row.count


@pytest.mark.parametrize("seed", range(12))
def test_any_story(seed: int) -> None:
    """Nothing fails; containers alive, instances and streams are those of the pods there are."""
    story = Story(Random(seed))
    for _ in range(300):
        story.happen()
        story.scene.model.quality()
        members = story.scene.members
        rows, routes = members.rows, members.routes
        found = {row: int(rows.live[row]) for row in (rows.vpa >= 0).nonzero()[0].tolist()}
        assert {row: live for row, live in found.items() if live} == living(members)
        assert len(routes.instances) == len(members.instances) == len(members.pod_of_instance)


@pytest.mark.parametrize("kind", [Model, UpstreamModel])
def test_nothing_comes_of_nothing(kind: Callable[[RecommenderRules], RecommenderModel]) -> None:
    """A model that was told nothing has nothing to say."""
    model, now = kind(RecommenderRules()), datetime(2026, 1, 5, tzinfo=UTC)
    assert (model.awaited(), model.tick(now), model.urgent(now)) == ([], [], [])
    assert (model.checkpoints(now, None), model.abandoned(), model.row_count) == ([], [], 0)
