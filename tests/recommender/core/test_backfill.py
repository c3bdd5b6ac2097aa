"""The past counts as if it had been seen live, whenever it is told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.model.quantity import Quantity
from app.model.selectors import Selector
from app.recommender.core.moments import HOUR, nanoseconds
from app.recommender.core.rules import RecommenderRules
from app.recommender.core.tables import RowTable
from app.recommender.core.targets import ObservedVpa
from app.recommender.core.usage import ABSENT, UsageBatch
from tests import make
from tests.cases import cases
from tests.recommender.core.past_usage import past
from tests.recommender.core.scene import GI, MI, START, Scene

USED = [(1000, GI)]
SPLIT = {"matchLabels": {"role": "leader"}}


def scene_of(rules: RecommenderRules | None = None, *pods: str) -> Scene:
    """Return a VPA with pods."""
    scene = Scene(rules)
    scene.vpa()
    for pod in pods or ("web-0",):
        scene.pod(pod)
    return scene


def rows(scene: Scene) -> RowTable:
    """Return the rows of our model."""
    return scene.members.rows


def peaks(scene: Scene, row: int = 0) -> dict[str, float]:
    """Return what each memory peak weighs, by its end."""
    bank = rows(scene).memory
    scale = 2.0 ** ((nanoseconds(START) - int(bank.references[row])) / (24 * HOUR))
    found = bank.weights[row]
    return {str(bucket): found[bucket] / scale for bucket in np.flatnonzero(found)}


def window(scene: Scene, pod: str = "web-0") -> tuple[float, int, int]:
    """Return when the interval of a container ends, in hours, and its peaks in MiB."""
    members = scene.members
    (stream,) = members.routes.active_of(members.instances["default", pod, "app"]).values()
    windows = members.routes.streams
    hours = (int(windows.ends[stream]) - nanoseconds(START)) / HOUR
    return hours, int(windows.usage[stream]) // MI, int(windows.oom[stream]) // MI


# --- as if it had been live

amounts = st.lists(
    st.tuples(st.integers(ABSENT, 5000), st.integers(ABSENT, 3000).map(lambda n: max(n * MI, -1))),
    max_size=30,
)
NAMES = ("web-0/app", "web-0/log", "web-1/app", "web-1/log")


def live(scene: Scene, used: Sequence[Sequence[tuple[int, int]]], end: datetime) -> None:
    """Tell of usage hour by hour, up to a time."""
    for back in reversed(range(max(map(len, used), default=0))):
        time_ns = nanoseconds(end - back * HOURS)
        lines = [
            (("default", *name.partition("/")[::2]), *found[-1 - back], time_ns, 0)
            for name, found in zip(NAMES, used, strict=True)
            if back < len(found)
        ]
        scene.model.usage(UsageBatch.of(lines), scene.now)


HOURS = timedelta(hours=1)


def two_pods(start: datetime) -> Scene:
    """Return two VPAs of two pods with two containers."""
    scene = Scene(start=start)
    scene.vpa()
    scene.vpa("other")
    for pod in ("web-0", "web-1"):
        scene.pod(pod, "app", "log")
    return scene


def state(scene: Scene) -> list[np.ndarray[tuple[Any, ...], np.dtype[Any]]]:
    """Return everything that depends on usage."""
    table, routes = scene.members.rows, scene.members.routes
    found: list[np.ndarray[tuple[Any, ...], np.dtype[Any]]]
    found = [table.first, table.last, table.counts, table.last_any, routes.instances.last_cpu]
    found += [routes.streams.ends, routes.streams.usage, routes.instances.last_memory]
    for bank in (table.cpu, table.memory):
        found += [bank.weights, bank.totals, bank.references]
    return [array[:8] for array in found]


@settings(max_examples=40)
@given(before=st.tuples(*[amounts] * 4), after=st.tuples(*[amounts] * 4))
def test_past_first(
    before: Sequence[Sequence[tuple[int, int]]], after: Sequence[Sequence[tuple[int, int]]]
) -> None:
    """The past and then live usage are the same as all of it live, to the last bit."""
    end, later = START, START + 100 * HOURS
    scenes = two_pods(later), two_pods(later)
    live(scenes[0], before, end)
    told = past(dict(zip(NAMES, before, strict=True)), end)
    scenes[1].model.learn_past(told, later)
    for scene in scenes:
        live(scene, after, later)
        scene.check()
        scene.tick()

    for one, other in zip(*map(state, scenes), strict=True):
        assert (one == other).all()
    for name in ("web", "other"):
        assert scenes[0].shown(name) == scenes[1].shown(name)


@settings(max_examples=40)
@given(
    before=st.tuples(*[amounts] * 4),
    after=st.tuples(*[amounts.map(lambda found: found[:12])] * 4),
    rest=st.tuples(*[amounts] * 4),
)
def test_past_in_the_midst(
    before: Sequence[Sequence[tuple[int, int]]],
    after: Sequence[Sequence[tuple[int, int]]],
    rest: Sequence[Sequence[tuple[int, int]]],
) -> None:
    """What is told late ends in the same numbers, but for peaks that span two intervals."""
    end, middle, later = START, START + 12 * HOURS, START + 100 * HOURS
    scenes = two_pods(later), two_pods(later)
    told = past(dict(zip(NAMES, before, strict=True)), end)
    live(scenes[0], before, end)
    for scene in scenes:
        live(scene, after, middle)
    scenes[1].model.learn_past(told, later)
    spans = state(scenes[0])[5] != state(scenes[1])[5]
    for scene in scenes:
        live(scene, rest, later)
        scene.check()

    at_once, late = rows(scenes[0]), rows(scenes[1])
    assert (at_once.counts[:4] == late.counts[:4]).all()
    assert (at_once.first[:4] == late.first[:4]).all()
    for bank, other in ((at_once.cpu, late.cpu), (at_once.memory, late.memory)):
        for row in range(4):
            if bank is at_once.memory and spans.any():
                continue
            mine = bank.weights[row] / (bank.totals[row] or 1.0)
            theirs = other.weights[row] / (other.totals[row] or 1.0)
            assert mine == pytest.approx(theirs, abs=1e-6)


def test_past_agrees_with_sampling() -> None:
    """Days of hourly averages say the same as those days of samples, a minute each."""
    end, days = START + timedelta(days=3), 3
    hourly = scene_of()
    hourly.now = end
    used = [(200 + 100 * (hour % 5), (300 + hour % 24) * MI) for hour in range(24 * days)]
    hourly.model.learn_past(past({"web-0/app": used}, end, stands_for=60.0), end)
    sampled = scene_of()
    sampled.now = end
    for hour, (cpu, memory) in enumerate(used):
        for minute in range(60):
            at = START + timedelta(hours=hour, minutes=minute + 1)
            sampled.use(cpu, memory, at=at)
    for scene in (hourly, sampled):
        scene.tick()

    one, other = hourly.shown()["app"], sampled.shown()["app"]
    assert one["target"] == other["target"]
    assert rows(hourly).counts[0] == rows(sampled).counts[0] == 60 * 24 * days
    assert rows(hourly).cpu.totals[0] == pytest.approx(rows(sampled).cpu.totals[0], rel=0.02)


@cases(
    "stands_for count weight",
    {"an hour of minutes": (60.0, 180, 18.0), "half a sample each": (0.5, 1, 0.15)},
)
def test_weight(stands_for: float, count: int, weight: float) -> None:
    """An amount weighs as much as the samples whose place it takes."""
    scene = scene_of()
    step = timedelta(microseconds=1)
    told = past({"web-0/app": USED * 3}, START, step=step, stands_for=stands_for)
    scene.model.learn_past(told, START)

    table = rows(scene)
    assert table.counts[0] == count
    assert table.cpu.totals[0] == pytest.approx(weight)


def test_confidence() -> None:
    """Eight days of hourly amounts are eight days."""
    scene = scene_of()
    used = {"web-0/app": USED * 193}
    scene.model.learn_past(past(used, START, stands_for=60.0), START)
    scene.tick()

    amounts = [
        Quantity.parse(scene.shown()["app"][word].split()[0]) for word in ("upper", "target")
    ]
    assert amounts[0].milli / amounts[1].milli == pytest.approx(1.124, rel=1e-3)


# --- memory intervals


@cases(
    "back was now expected count",
    {
        "the past was higher": (1, 300, 200, (23, 300, 0), 1),
        "live usage is higher": (1, 300, 400, (23, 400, 0), 1),
        "the interval of the past was over": (30, 300, 200, (18, 200, 0), 2),
    },
)
def test_joined_intervals(
    back: int, was: int, now: int, expected: tuple[float, int, int], count: int
) -> None:
    """What was seen live goes into the interval that had begun in the past."""
    scene = scene_of()
    scene.go(5)
    scene.use(memory=now * MI)
    used = [(ABSENT, was * MI)] + [(ABSENT, ABSENT)] * back
    scene.model.learn_past(past({"web-0/app": used}, START), scene.now)

    assert window(scene) == expected
    scene.check()
    assert len(peaks(scene)) == count
    scene.go(22 * 60)
    scene.use(memory=500 * MI)
    assert window(scene)[1] == 500


def test_live_usage_of_days() -> None:
    """What was seen over several intervals stays in them."""
    scene = scene_of()
    for minute in (5, 2000, 4000):
        scene.go(minute)
        scene.use(memory=minute * MI)
    before = window(scene)
    scene.model.learn_past(past({"web-0/app": [(ABSENT, 300 * MI)]}, START), scene.now)

    assert window(scene) == before
    assert len(peaks(scene)) == 4
    scene.check()


def test_kill_before_the_past_is_told() -> None:
    """A kill is judged again by what the container had used before."""
    scene = scene_of()
    scene.go(5)
    scene.use(memory=200 * MI)
    scene.killed(100 * MI)
    assert window(scene) == (24 + 5 / 60, 200, 300)

    scene.model.learn_past(past({"web-0/app": [(ABSENT, 1000 * MI)]}, START), scene.now)

    assert window(scene) == (24, 1000, 1200)
    scene.check()


def test_live_usage_older_than_the_past() -> None:
    """A stale sample of before does not count again; nor does a stale peak move anything."""
    scene = scene_of()
    scene.model.learn_past(past({"web-0/app": USED}, START), START)
    scene.use(500, GI, at=START - timedelta(minutes=1))
    tally = scene.model.tally
    assert (tally.cpu, tally.cpu_repeated, tally.memory, tally.memory_late) == (1, 1, 1, 1)

    stale = scene_of()
    stale.use(memory=100 * MI, at=START - timedelta(minutes=1))
    before = window(stale)
    stale.model.learn_past(past({"web-0/app": USED}, START), START)
    assert window(stale) == before


# --- whose it is


def test_pods_that_are_gone() -> None:
    """They feed what their labels ask for, and are no pods of anybody."""
    scene = scene_of()
    scene.model.learn_past(past({"old/app": USED, "old/log": USED}, START), START)
    scene.model.learn_past(past({"alien/app": USED}, START, labels={"app": "other"}), START)
    scene.tick()

    assert scene.model.tally.cpu == 2
    assert list(scene.shown()) == ["app", "log"]
    assert list(scene.members.pods) == [("default", "web-0")]


def test_init_containers() -> None:
    """Init containers are not followed, in pods that live and by their names in those gone."""
    scene = scene_of()
    pod = make.pod(name="web-1", init=[make.container_json("setup")], status={"phase": "Running"})
    scene.model.pod_seen(pod, START)
    used = {"web-1/setup": USED, "old/setup": USED, "old/app": USED}
    scene.model.learn_past(past(used, START), START)
    scene.tick()

    assert list(scene.shown()) == ["app"]
    assert (scene.model.tally.unknown, scene.model.tally.cpu) == (1, 1)


def test_pod_that_moved_since() -> None:
    """The past belongs to whom the pod belonged to when the past ended."""
    scene = Scene()
    for role in ("leader", "follower"):
        scene.vpa(role, of=Selector.of_labels({"role": role}))
    scene.pod("web-0", role="follower")
    scene.go(10)
    scene.pod("web-0", role="leader")
    scene.model.learn_past(past({"web-0/app": USED}, START), scene.now)
    scene.tick()

    assert (scene.shown("leader"), list(scene.shown("follower"))) == ({}, ["app"])


def test_unknown_owners_are_no_owners() -> None:
    """A VPA with a selector learns from its own pods, not from those that are not told of."""
    scene = Scene()
    scene.vpa(selector=SPLIT)
    scene.pod("web-0", role="leader")
    labels = make.LABELS | {"role": "leader"}
    scene.model.learn_past(past({"web-0/app": USED, "old/app": USED}, START, labels=labels), START)

    assert scene.model.tally.cpu == 1


def test_vpas_that_come_late() -> None:
    """The past can be told to some VPAs alone; those that are gone do not matter."""
    scene = scene_of()
    told = past({"web-0/app": USED, "old/app": USED}, START)
    scene.model.learn_past(told, START)
    found = ObservedVpa(make.vpa("late"), Selector.of_labels(make.LABELS))
    scene.see(found)
    scene.model.restore([], START)
    scene.model.learn_past(told, START, only=[found.key, ("default", "gone")])

    assert rows(scene).counts[:2].tolist() == [2, 2]
    scene.model.learn_past(told, START, only=[])
    assert rows(scene).counts[:2].tolist() == [2, 2]


def test_nothing_is_told() -> None:
    """An empty past changes nothing."""
    scene = scene_of()
    scene.model.learn_past(past({}, START), START)
    scene.model.learn_past(past({"web-0/app": []}, START), START)

    assert scene.model.tally.counts() == Scene().model.tally.counts()


def test_flaws_of_the_past() -> None:
    """What could not be read is counted, whatever it would have fed."""
    scene = Scene()
    told = replace(past({"web-0/app": USED}, START), refused_series=2, refused_points=3)
    scene.model.learn_past(told, START)

    tally = scene.model.tally
    assert (tally.past_series_refused, tally.past_points_refused) == (2, 3)


def test_boosted_containers() -> None:
    """What a container used before its boost ended is not learned."""
    rules = replace(RecommenderRules(), cpu_startup_boost=True)
    scene = scene_of(rules, "web-1")
    scene.vpa(boost=make.boost_json(factor=2))
    scene.pod("web-0", annotations={"vpaCpuStartupBoost/app": "{}"})
    used = {"web-0/app": USED, "web-1/app": USED, "old/app": USED}
    scene.model.learn_past(past(used, START), START)

    tally = scene.model.tally
    assert (tally.cpu, tally.cpu_boosted, tally.memory) == (2, 1, 3)

    empty = Scene(rules)
    empty.vpa()
    empty.model.learn_past(past({"old/app": USED}, START), START)
    assert empty.model.tally.cpu == 1
