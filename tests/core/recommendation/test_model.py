"""The model as a whole: days of usage in, recommendations and checkpoints out."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from app.core.recommendation.moments import nanoseconds
from app.core.recommendation.rules import Departures, PublishRules, RecommenderRules
from tests.core.recommendation.scene import GI, MI, START, Scene

EAGER = RecommenderRules(publish=PublishRules(bound_tolerance=0.0, refresh=timedelta(0)))


def sawtooth(scene: Scene, first: int, last: int) -> None:
    """Use cpu in bursts and memory growing by the hour, a sample a minute."""
    for minute in range(first, last):
        scene.go(minute)
        hour = minute // 60 % 24
        scene.use(800 if minute % 60 < 9 else 100, (300 + 10 * hour) * MI)


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
    """W66: what is recommended after a sample, and up to a week."""
    scene = Scene(EAGER)
    scene.vpa()
    scene.pod()
    done = 0
    for samples, lower, target, upper in STEPS:
        sawtooth(scene, done, samples)
        done = samples
        scene.tick()

        shown = scene.shown()["app"]
        assert (shown["lower"], shown["target"], shown["upper"]) == (lower, target, upper)
        assert shown["uncapped"] == target


@pytest.mark.parametrize(
    ("samples", "cpu", "cpu_total", "memory", "memory_total"),
    [
        pytest.param(1441, {8: 10000, 32: 1751}, 207.89808989927872, {27: 10000}, 1.0, id="a day"),
        pytest.param(
            10081, {8: 10000, 32: 1745}, 26390.457417208327, {27: 10000}, 127.0, id="a week"
        ),
    ],
)
def test_checkpoint_of_usage(
    samples: int, cpu: dict[int, int], cpu_total: float, memory: dict[int, int], memory_total: float
) -> None:
    """W67: checkpoints leave the running peak out and tell of it beside."""
    scene = Scene()
    scene.vpa()
    scene.pod()
    sawtooth(scene, 0, samples)

    (stored,) = scene.store()

    assert (stored.cpu.weights, stored.memory.weights) == (cpu, memory)
    assert stored.cpu.total == pytest.approx(cpu_total, rel=2e-16)
    assert (stored.memory.total, stored.count) == (memory_total, samples)
    assert stored.cpu.reference_ns == nanoseconds(START)
    assert [window.usage_bytes for window in stored.windows] == [300 * MI]


def test_lower_bound_follows_the_fresh_interval() -> None:
    """W68: a fresh small peak takes two thirds of the weight after the first day."""
    scene = Scene(EAGER)
    scene.vpa()
    scene.pod()
    sawtooth(scene, 0, 1440)
    scene.tick()
    before = scene.shown()["app"]["lower"]
    sawtooth(scene, 1440, 1441)
    scene.tick()

    assert before.startswith("125m 67")
    assert scene.shown()["app"]["lower"] == "125m 379499094"


@pytest.mark.parametrize(
    ("persists", "lower", "target", "upper"),
    [
        pytest.param(False, "125m 250Mi", "126m 250Mi", "378m 744460440", id="W70: as upstream"),
        pytest.param(
            True, "125m 1233719960", "126m 1238659775", "378m 3715979325", id="open windows survive"
        ),
    ],
)
def test_restart_during_the_first_interval(
    persists: bool, lower: str, target: str, upper: str
) -> None:
    """What a restart leaves of a day that is not over."""
    departures = replace(Departures(), persist_open_windows=persists)
    scene = Scene(replace(EAGER, departures=departures), start=START + timedelta(hours=6))
    scene.vpa()
    scene.pod()
    for minute in range(12 * 60 + 1):
        scene.go(minute)
        scene.use(100, GI if 360 <= minute < 390 else 200 * MI)
    scene.tick()
    assert scene.shown()["app"]["target"] == "126m 1238659775"

    scene.restart()
    scene.use(100, 200 * MI)
    scene.tick()

    shown = scene.shown()["app"]
    assert (shown["lower"], shown["target"], shown["upper"]) == (lower, target, upper)
