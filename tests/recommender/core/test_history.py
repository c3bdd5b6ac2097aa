"""History is stored, restored and forgotten."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import NoReturn

import numpy as np
import pytest

from app.model.kinds import Condition
from app.model.quantity import Quantity
from app.model.selectors import EVERYTHING
from app.model.vpa import ContainerRecommendation
from app.recommender.core.checkpoints import Checkpoint, OpenWindow, StoredHistogram
from app.recommender.core.moments import DAY, nanoseconds
from app.recommender.core.rules import (
    AggregationRules,
    RecommenderRules,
)
from app.recommender.core.targets import ObservedVpa
from tests import make
from tests.cases import cases
from tests.recommender.core.scene import EAGER, GI, MI, START, Scene, running

START_NS = nanoseconds(START)


def used(scene: Scene, first: int, last: int, *pods: str) -> None:
    """Let pods use cpu and memory that rise and fall, a sample a minute."""
    for minute in range(first, last):
        scene.go(minute)
        for number, pod in enumerate(pods or ("web-0",)):
            wave = abs(minute % 120 - 60) + 10 * number
            scene.use(100 + 9 * wave, (300 + wave) * MI, pod=pod)


@pytest.mark.parametrize("minutes", [1, 90, 1439, 1440, 2000])
def test_a_restart_changes_nothing(minutes: int) -> None:
    """A model that was restored recommends what the old one would have."""
    scene, other = Scene(EAGER), Scene(EAGER)
    for one in (scene, other):
        one.vpa()
        one.pod("web-0")
        one.pod("web-1")
        used(one, 0, minutes, "web-0", "web-1")
    scene.restart()
    for one in (scene, other):
        used(one, minutes, minutes + 30, "web-0", "web-1")
        one.tick()

    assert scene.shown() == other.shown()
    mine, theirs = scene.store()[0], other.store()[0]
    assert mine.count == theirs.count
    assert mine.windows == theirs.windows
    assert mine.memory.total == pytest.approx(theirs.memory.total, rel=1e-3)


def test_two_restarts_without_a_pod_in_sight() -> None:
    """Open windows wait through restarts until their pod is seen, or their time is over."""
    scene = running(EAGER)
    used(scene, 0, 10)
    pods, scene.pods = scene.pods, {}
    first = scene.store()[0]
    for minute in (10, 20):
        scene.go(minute)
        scene.restart(flush=False)
        scene.model.not_stored(first)
        scene.model.tick(scene.now)
    second = scene.model.checkpoints(scene.now, None)
    scene.pods = pods
    scene.pod()
    scene.use(10, 310 * MI)

    assert [one.windows for one in second] == [first.windows]
    (third,) = scene.store()
    assert third.windows == first.windows
    assert third.memory.total == 0.0


def test_windows_that_ended_meanwhile_are_peaks() -> None:
    """A running peak whose interval is over when it is read counts as any other."""
    scene = running(EAGER)
    used(scene, 0, 10)
    scene.store()
    scene.go(1500)
    scene.restart(flush=False)
    used(scene, 1500, 1501)

    (stored,) = scene.store()
    assert (stored.memory.total, len(stored.windows)) == (1.0, 1)


def test_windows_beside_live_ones() -> None:
    """A pod that was sampled before its history came has a peak from each."""
    scene = Scene(EAGER)
    scene.vpa()
    scene.pod("web-0")
    scene.pod("web-1")
    used(scene, 0, 10, "web-0", "web-1")
    scene.store()
    late = Scene(EAGER)
    late.vpa(restored=False)
    late.pod("web-0")
    late.pod("web-1")
    late.go(20)
    late.use(100, 50 * MI, pod="web-0")
    late.model.restore(scene.stored.values(), late.now)

    (stored,) = late.store()
    assert sorted(one.usage_bytes // MI for one in stored.windows) == [50, 370]
    assert stored.memory.total == 1.0
    assert stored.count == 21


@cases("limit told total", {"the highest": (2, [304, 303], 3.0), "all": (9, 5, 0.0)})
def test_open_windows_are_limited(limit: int, told: object, total: float) -> None:
    """Peaks beyond the limit are stored as if their interval had ended."""
    scene = Scene(replace(EAGER, publish=replace(EAGER.publish, open_windows=limit)))
    scene.vpa()
    for number in range(5):
        scene.pod(f"web-{number}")
        scene.use(100, (300 + number) * MI, pod=f"web-{number}")

    (stored,) = scene.store()
    found = [one.usage_bytes // MI for one in stored.windows]
    assert (found if limit == 2 else len(found)) == told
    assert stored.memory.total == total


CHECKPOINT = Checkpoint(
    "default",
    "web-app",
    "web",
    "app",
    StoredHistogram(START_NS, {36: 10000}, 100.0),
    StoredHistogram(START_NS, {26: 10000}, 3.0),
    START_NS - 7 * DAY,
    START_NS,
    count=10_000,
    updated_ns=START_NS,
)


def test_history_joins_what_was_learned() -> None:
    """A VPA that comes with history and samples has both."""
    scene = running(EAGER, restored=False)
    scene.go(1)
    scene.use(1000, 600 * MI)
    scene.model.restore([CHECKPOINT], scene.now)
    scene.model.restore([CHECKPOINT], scene.now)

    (stored,) = scene.store()
    assert (stored.count, stored.first_ns, stored.last_ns) == (
        10_001,
        START_NS - 7 * DAY,
        nanoseconds(scene.now),
    )
    assert stored.cpu.total == pytest.approx(100.1, rel=1e-3)


def test_the_richest_of_two_checkpoints_counts() -> None:
    """Of two objects for one container the one with more samples is taken, and keeps its name."""
    scene = Scene(EAGER)
    scene.vpa(restored=False)
    poor = replace(CHECKPOINT, name="web-app-old", count=5)
    rich = replace(CHECKPOINT, name="web-app-new")
    others = [replace(CHECKPOINT, vpa="gone"), replace(CHECKPOINT, namespace="other")]
    scene.model.restore([poor, rich, poor, *others], scene.now)
    scene.pod()
    scene.go(1)
    scene.use(1000, 600 * MI)

    (stored,) = scene.store()
    assert (stored.name, stored.count) == ("web-app-new", 10_001)


def test_memory_alone_is_history() -> None:
    """A checkpoint without cpu samples is as old as its last update."""
    only_memory = replace(
        CHECKPOINT,
        cpu=StoredHistogram(),
        first_ns=Checkpoint("", "", "", "").first_ns,
        last_ns=Checkpoint("", "", "", "").last_ns,
        count=0,
    )
    scene = Scene(EAGER)
    scene.vpa(restored=False)
    scene.model.restore([only_memory], scene.now)
    scene.go(7 * 1440)
    scene.tick()
    assert scene.shown()["app"]["target"] == "- 628694953"

    scene.go(8 * 1440 + 60)
    scene.tick()

    assert scene.model.row_count == 0


def test_nothing_is_overwritten_before_it_is_read() -> None:
    """A VPA whose checkpoints were not read yet writes none."""
    scene = running(EAGER, restored=False)
    scene.use(1000, GI)
    assert scene.store() == []
    assert scene.model.checkpoints(scene.now, 100) == []

    scene.model.restore([], scene.now)

    assert len(scene.model.checkpoints(scene.now, 100)) == 1


def test_nothing_is_written_while_somebody_fetches() -> None:
    """A VPA whose status says that its history is being fetched has no checkpoint written."""
    scene = Scene()
    vpa = scene.vpa()
    scene.pod()
    scene.use(1000, GI)
    for status, written in (("True", 0), ("False", 1)):
        scene.change(replace(vpa, conditions=(Condition("FetchingHistory", status),)))
        assert len(scene.model.checkpoints(scene.now, 100)) == written


@pytest.mark.parametrize("ahead", [timedelta(days=1), timedelta(days=30_000)])
def test_a_clock_that_was_put_right(ahead: timedelta) -> None:
    """A checkpoint from a time that has yet to come is written again, not when that has come."""
    scene = running()
    scene.use(1000, GI)
    scene.store(100)
    stored = scene.stored["web-app"]
    updated_ns = stored.updated_ns + nanoseconds(START + ahead) - START_NS
    scene.stored["web-app"] = replace(stored, updated_ns=updated_ns)
    scene.restart(flush=False)
    scene.go(1)
    scene.use(1000, GI)

    assert len(scene.store(100)) == 1
    scene.go(2)
    scene.use(1000, GI)
    assert scene.store(100) == []


def test_due() -> None:
    """A checkpoint is written at once, then after a pause if enough moved, then when it is old."""
    scene = running()
    writes = []
    for minute in range(24 * 60):
        used(scene, minute, minute + 1)
        if scene.store(100):
            writes.append(minute)

    pauses = np.diff(writes)
    assert writes[0] == 0
    assert pauses[:10].min() >= 3
    assert pauses[:10].max() <= 5
    assert pauses[-5:].min() >= 11
    assert pauses[-5:].max() <= 15


def test_budget() -> None:
    """The budget is kept; what has changed most and waited longest goes first."""
    scene = Scene()
    for number in range(6):
        scene.vpa(f"vpa-{number}", of={"n": str(number)})
        scene.pod(f"pod-{number}", labels={"n": str(number)})
    written: list[str] = []
    for minute in range(6):
        scene.go(minute)
        for number in range(6):
            scene.use(100, GI, pod=f"pod-{number}")
        written += [one.vpa for one in scene.store(1)]

    assert len(written) == len(set(written)) == 6


def test_at_the_end_the_most_urgent_come_first() -> None:
    """When there may be no time for all, what would lose most is written first."""
    scene = Scene()
    for number in range(4):
        scene.vpa(f"vpa-{number}", of={"n": str(number)})
        scene.pod(f"pod-{number}", labels={"n": str(number)})
        scene.go(number)
        scene.use(100, GI, pod=f"pod-{number}")
        if number < 3:
            scene.store()
    for number in range(4):
        scene.use(200, GI, pod=f"pod-{number}", at=scene.at(3.5))

    assert [one.vpa for one in scene.store()] == ["vpa-3", "vpa-0", "vpa-1", "vpa-2"]


def test_what_could_not_be_written_comes_first() -> None:
    """Of what was never stored all would be lost, so it goes before news of others."""
    scene = Scene()
    for name in ("a", "b"):
        scene.vpa(name, of={"n": name})
        scene.pod(f"pod-{name}", labels={"n": name})
        scene.use(100, GI, pod=f"pod-{name}")
    last = next(one for one in scene.store() if one.vpa == "b")
    scene.model.not_stored(last)
    scene.go(1)
    scene.use(100, GI, pod="pod-a")

    assert [one.vpa for one in scene.store()] == ["b", "a"]


def test_unchanged_rows_are_not_written() -> None:
    """Nothing learned, nothing to store; a lower value within an interval moves memory nothing."""
    scene = running()
    scene.use(memory=GI)
    assert len(scene.store(10)) == 1
    scene.go(60)
    scene.use(memory=GI - 1)

    assert scene.store(10) == []
    assert scene.store() == []


def test_colliding_names() -> None:
    """Two containers whose names make one checkpoint name get one object each."""
    scene = Scene(EAGER)
    scene.vpa("web", of={"app": "web"})
    scene.vpa("web-app", of={"app": "other"})
    scene.pod("web-0", "app-x")
    scene.pod("other-0", "x", labels={"app": "other"})
    scene.use(100, GI, pod="web-0", container="app-x")
    scene.use(900, GI, pod="other-0", container="x")

    names = [one.name for one in scene.store()]
    assert len(set(names)) == 2
    scene.restart()
    scene.tick()
    assert scene.shown("web")["app-x"]["target"].startswith("126m")
    assert scene.shown("web-app")["x"]["target"].startswith("1038m")


@pytest.mark.parametrize(("minute", "free"), [(50, False), (200, True)])
def test_names_of_vpas_that_are_gone_are_free(minute: int, free: bool) -> None:
    """A name is held as long as a VPA may come back, and no longer."""
    scene = Scene(EAGER)
    scene.vpa("web")
    scene.pod("web-0", "app-x")
    scene.use(100, GI, container="app-x")
    scene.store()
    scene.model.vpa_gone(("default", "web"), scene.now)
    scene.tick()

    scene.go(minute)
    scene.tick()
    scene.vpa("web-app", of={"app": "other"})
    scene.pod("other-0", "x", labels={"app": "other"})
    scene.use(100, GI, pod="other-0", container="x")
    (stored,) = scene.store()
    assert (stored.name == "web-app-x") is free


@pytest.mark.parametrize("way", ["deleted", "for another target"])
def test_history_of_a_vpa_that_comes_back_is_stored_again(way: str) -> None:
    """Its checkpoint was deleted meanwhile, or holds what was learned of another target."""
    scene = running(EAGER)
    used(scene, 0, 30)
    (before,) = scene.store()
    if way == "deleted":
        scene.model.vpa_gone(("default", "web"), scene.now)
    else:
        scene.vpa(target="StatefulSet/other")
    used(scene, 30, 35)
    scene.store()
    scene.vpa()

    (after,) = scene.store(budget=10)
    assert (after.name, after.count) == (before.name, before.count)


def test_history_of_vpas_that_went_meanwhile() -> None:
    """Reading for a VPA that is gone by now restores nothing."""
    scene = Scene(EAGER)
    scene.model.restore([CHECKPOINT], scene.now, only=[("default", "web")])
    scene.vpa(restored=False)
    scene.pod()
    scene.use(100, GI)
    scene.model.restore([CHECKPOINT], scene.now, only=[("default", "other")])

    assert scene.model.awaited() == [("default", "web")]


def test_windows_of_pods_that_go_before_they_feed_again() -> None:
    """A pod that goes takes its waiting windows along, not those of its namesakes elsewhere."""
    scene = Scene(EAGER)
    scene.vpa("web", restored=False)
    scene.see(ObservedVpa(make.vpa("web", namespace="other"), EVERYTHING))
    window = OpenWindow("web-0", START_NS + DAY, GI, 0)
    stored = [
        replace(CHECKPOINT, namespace=namespace, windows=(window,))
        for namespace in ("default", "other")
    ]
    scene.model.restore(stored, scene.now)
    scene.pod("web-0", labels={"app": "elsewhere"})
    scene.drop("web-0")
    scene.model.tick(scene.now)
    scene.model.not_stored(stored[0])
    scene.model.not_stored(stored[1])

    found = {one.namespace: one.windows for one in scene.model.checkpoints(scene.now, None)}
    assert found == {"default": (), "other": (window,)}


def test_windows_of_pods_that_go_while_their_vpa_is_away() -> None:
    """A window of a deleted VPA waits with its row, whatever becomes of the pod meanwhile."""
    scene = Scene(EAGER)
    scene.vpa("web", restored=False)
    window = OpenWindow("web-0", START_NS + DAY, GI, 0)
    scene.model.restore([replace(CHECKPOINT, windows=(window,))], scene.now)
    scene.model.vpa_gone(("default", "web"), scene.now)
    scene.pod("web-0")
    scene.drop("web-0")
    scene.model.tick(scene.now)
    scene.vpa("web", restored=False)

    (found,) = scene.model.checkpoints(scene.now, None)
    assert found.windows == (window,)


FAR = START_NS + 10 * DAY
NEVER = START_NS + 400 * DAY


@cases(
    "broken",
    {
        "cpu": (replace(CHECKPOINT, cpu=StoredHistogram(NEVER, {36: 1}, 1.0)),),
        "memory": (replace(CHECKPOINT, memory=StoredHistogram(NEVER, {36: 1}, 1.0)),),
        "last sample": (replace(CHECKPOINT, last_ns=FAR),),
        "first sample": (replace(CHECKPOINT, first_ns=FAR),),
    },
)
def test_checkpoints_from_the_future(broken: Checkpoint) -> None:
    """A checkpoint with a broken date is named, and the container starts without it."""
    scene = running(EAGER, restored=False)

    problems = scene.model.restore([broken], scene.now)
    scene.use(100, GI)
    scene.tick()

    assert problems == ["checkpoint default/web-app: it is from the future"]
    assert scene.shown()["app"]["target"].startswith("126m")


LONG = timedelta(days=40)
WEEKLY = replace(EAGER, aggregation=AggregationRules(memory_interval=timedelta(days=7)))
MONTHLY = replace(EAGER, aggregation=AggregationRules(LONG, LONG))
PER_VPA = replace(EAGER, per_vpa_config=True)


@cases(
    "before after",
    {
        "a shorter interval": (WEEKLY, EAGER),
        "shorter half-lives": (MONTHLY, EAGER),
        "an interval of a week in the policy": (PER_VPA, PER_VPA),
        "which are not asked of any more": (PER_VPA, EAGER),
    },
)
def test_settings_that_change_cost_no_history(
    before: RecommenderRules, after: RecommenderRules
) -> None:
    """What was learned with other intervals and half-lives is known, and outweighed in time."""
    scene = Scene(before)
    scene.vpa(policies=[{"containerName": "*", "memoryAggregationIntervalSeconds": 604_800}])
    scene.pod()
    used(scene, 0, 1000)
    scene.tick()
    known = scene.shown()["app"]["target"]

    scene.restart(after)
    scene.tick()
    assert scene.shown()["app"]["target"] == known

    for hour in range(24, 240):
        scene.go(hour * 60)
        scene.use(3000, 3 * GI)
    scene.tick()
    assert scene.shown()["app"]["target"] == "3481m 3861631195"


def test_an_open_window_that_never_ends() -> None:
    """A peak with a broken date does not make everything else weigh nothing."""
    scene = running(EAGER, restored=False)
    window = OpenWindow("web-0", START_NS + 30_000 * DAY, GI, 0)
    memory = StoredHistogram(START_NS, {50: 10_000}, 10.0)

    scene.model.restore([replace(CHECKPOINT, memory=memory, windows=(window,))], scene.now)
    scene.tick()

    assert scene.shown()["app"]["target"] == "1168m 2539377048"


class OddWeights(dict[int, int]):
    """Weights that our own code fails to add up."""

    def values(self) -> NoReturn:
        """Fail."""
        raise ZeroDivisionError


def test_a_mistake_of_ours_about_one_checkpoint() -> None:
    """It costs one VPA its history and not what stands published; the others have theirs."""
    scene = Scene(EAGER)
    for name in ("web", "shop"):
        scene.vpa(name, of={"app": name}, restored=False)
        scene.pod(f"{name}-0", labels={"app": name})
        amounts = {"cpu": Quantity.parse("3"), "memory": Quantity.parse("3Gi")}
        stood = ContainerRecommendation("app", amounts, amounts, amounts, amounts)
        scene.change(replace(scene.vpas[name].vpa, recommendation=(stood,)))
    sound = replace(CHECKPOINT, vpa="shop", name="shop-app")
    odd = replace(CHECKPOINT, cpu=StoredHistogram(0, OddWeights({36: 1}), 1.0))

    assert scene.model.restore([odd, sound], scene.now) == []
    for name in ("web", "shop"):
        scene.use(100, GI, pod=f"{name}-0")
    scene.tick()

    assert [(one.kind, one.name) for one in scene.model.skipped.taken()] == [
        ("checkpoint", "default/web-app")
    ]
    assert scene.shown("web")["app"]["target"] == "3 3Gi"
    assert scene.shown("shop")["app"]["target"].startswith("1168m")


def gone_for(days: float, *, cpu: int = 100, memory: int = GI) -> Scene:
    """Return a scene whose only pod was sampled once and then went for some days."""
    scene = running(EAGER)
    scene.use(cpu, memory)
    scene.drop("web-0")
    scene.tick()
    scene.go(days * 1440)
    scene.tick()
    return scene


@cases(
    "cpu memory days left",
    {
        "cpu and memory, in time": (100, GI, 7.9, 1),
        "cpu and memory, expired": (100, GI, 8, 0),
        "memory alone is history": (-1, GI, 7.9, 1),
        "memory alone expires too": (-1, GI, 8, 0),
        "nothing learned, nothing kept": (-1, -1, 0.05, 0),
    },
)
def test_expiry(cpu: int, memory: int, days: float, left: int) -> None:
    """History outlives its last container by the time of expiry."""
    assert gone_for(days, cpu=cpu, memory=memory).model.row_count == left


def test_history_expires_by_the_earlier_of_two_clocks() -> None:
    """A clock that is far ahead expires nothing as long as the other one says it is early."""
    scene = gone_for(7.9)
    scene.go(30 * 1440)
    scene.model.tick(scene.now, expiry_now=scene.at(7.9 * 1440))
    early = scene.model.row_count
    scene.go(30 * 1440 + 61)
    scene.model.tick(scene.now, expiry_now=scene.at(8.1 * 1440))

    assert (early, scene.model.row_count) == (1, 0)


def test_a_mistake_of_ours_in_the_upkeep() -> None:
    """Rows that were dropped before it are gone as a whole, so the next upkeep ends well."""
    scene = Scene(EAGER)
    scene.vpa()
    scene.pod("web-0", "app", "log")
    for container in ("app", "log"):
        scene.use(100, GI, container=container)
    scene.drop("web-0")
    scene.tick()
    names = scene.members.rows.names
    last = names.index("log")
    names[last] = "odd"
    scene.go(8.1 * 1440)
    scene.tick()
    left = scene.model.row_count
    failed = [one.kind for one in scene.model.skipped.taken()]
    names[last] = "log"
    scene.go(8.2 * 1440)
    scene.tick()

    assert (left, failed) == (1, ["upkeep"])
    assert (scene.model.row_count, scene.model.skipped.taken()) == (0, [])


def test_living_containers_keep_their_history() -> None:
    """While its container lives, nothing expires, however long metrics are missing."""
    scene = running(EAGER)
    scene.use(100, GI)
    for day in range(0, 30, 5):
        scene.go(day * 1440)
        scene.tick()

    assert scene.model.row_count == 1
    assert scene.shown()["app"]["target"].startswith("126m")


def test_vpas_that_wait_for_history_lose_nothing() -> None:
    """A row is not dropped while its stored history may still come."""
    scene = running(EAGER, restored=False)
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


def test_forgetting_after_a_clock_was_put_right() -> None:
    """What is over is forgotten, not when the time has come that was thought to be."""
    scene = running()
    scene.go(60 * 1440)
    scene.tick()
    scene.drop("web-0")
    scene.go(1440)
    scene.tick()

    assert scene.model.row_count == 0


def test_a_row_that_cannot_be_stored_is_named() -> None:
    """A row at which our own code fails is kept by the name of its checkpoint."""
    scene = running()
    scene.use(100, GI)
    bank = scene.members.rows.cpu
    bank.references = bank.references[:0]

    assert scene.store() == []
    assert [one.name for one in scene.model.skipped.taken()] == ["default/web-app/web/app"]
