"""Upstream's behaviour, weaknesses included."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from app.model.selectors import EVERYTHING
from app.model.vpa import ContainerRecommendation
from app.recommender.core.checkpoints import Checkpoint
from app.recommender.core.rules import RecommenderRules
from app.recommender.core.usage import ABSENT
from app.recommender.upstream.aggregate_model import UpstreamModel
from app.recommender.upstream.variant import as_upstream
from tests import make
from tests.cases import cases
from tests.recommender.core.past_usage import past
from tests.recommender.core.scene import GI, MI, START, Scene
from tests.recommender.upstream.plain_traces import Trace

RULES = as_upstream(RecommenderRules())
FLOOR = "25m 250Mi"


def scene_of(rules: RecommenderRules = RULES, *, start_hours: float = 0) -> Scene:
    """Return a scene that behaves as upstream does."""
    return Scene(rules, start=START + timedelta(hours=start_hours), model=UpstreamModel)


def begun() -> Scene:
    """Return a scene with a VPA and its pod, after a loop."""
    scene = scene_of()
    scene.vpa()
    scene.pod()
    scene.tick()
    return scene


def loop(scene: Scene, minute: float) -> None:
    """Let the loop of a minute go by."""
    scene.go(minute)
    scene.tick()


def test_nothing_known_is_the_floor() -> None:
    """A container without samples gets the floor three times."""
    scene = scene_of()
    scene.vpa()
    scene.pod("web-0", "app", "log", "proxy")
    scene.tick()

    assert scene.shown() == {
        name: dict.fromkeys(("lower", "target", "upper", "uncapped"), "8m 87381333")
        for name in ("app", "log", "proxy")
    }


def test_a_container_without_controlled_resources() -> None:
    """It has an entry whose four lists are empty, and its share of what a pod gets at least."""
    scene = scene_of()
    scene.vpa(policies=[make.policy_json("app", controlledResources=[])])
    scene.pod("web-0", "app", "log")
    scene.tick()
    scene.use(100, GI)
    loop(scene, 1)

    app, _ = scene.vpas["web"].vpa.recommendation or ()
    assert app == ContainerRecommendation("app", {}, {}, {}, {})
    assert scene.shown()["log"]["target"] == "12m 125Mi"


@pytest.mark.parametrize("minutes", [1, 10], ids=["after the first sample", "later"])
@pytest.mark.parametrize("restarts", [1, 2])
def test_a_restart_restores_confidence(minutes: int, restarts: int) -> None:
    """First sample, last sample and their number are those stored; unread usage is lost."""

    def cpu() -> list[str]:
        return [amounts.split()[0] for amounts in scene.shown()["app"].values()]

    scene = begun()
    for minute in range(minutes):
        scene.use(100 * minute, at=scene.at(minute))
        loop(scene, minute + 0.5)
    (before,), shown = scene.store(), cpu()
    scene.use(4000, at=scene.at(minutes))
    for _ in range(restarts):
        scene.restart(flush=False)
    loop(scene, minutes + 1.5)

    (after,) = scene.store()
    assert (after.first_ns, after.last_ns, after.count) == (
        before.first_ns,
        before.last_ns,
        minutes,
    )
    assert cpu() == shown


def test_kills_without_cpu_samples() -> None:
    """OOM peaks alone: bounds know nothing, and the aggregate goes with its pod."""
    scene = begun()
    scene.killed(1000 * MI)
    loop(scene, 1)
    shown = scene.shown()["app"]
    assert (shown["lower"], shown["upper"]) == (FLOOR, "25m 97656250000Ki")

    scene.drop("web-0")
    for minute in (2, 70, 71):
        loop(scene, minute)

    assert (scene.shown(), scene.model.row_count) == ({}, 0)


def test_late_kills() -> None:
    """Kills older than an interval before the last sample do not count."""
    scene = begun()
    scene.use(100, 100 * MI)
    scene.killed(1000 * MI, at=scene.now - timedelta(hours=30))
    scene.killed(500 * MI, at=scene.now - timedelta(hours=24))
    scene.killed(500 * MI, pod="web-9")
    loop(scene, 1)

    tally = scene.model.tally
    assert (tally.kills, tally.kills_late, tally.kills_unknown) == (1, 1, 1)
    assert scene.shown()["app"]["target"].endswith(" 764046746")


def test_move_corrupts_the_new_aggregate() -> None:
    """A promoted pod takes its old peak out of an aggregate that never held it."""
    scene = scene_of()
    scene.vpa("leader", of=make.LABELS | {"role": "leader"})
    scene.pod("web-0", role="leader")
    scene.pod("web-1", role="follower")
    scene.tick()
    for day, peak in enumerate((4, 4, 2)):
        scene.go(day * 1440)
        scene.use(100, peak * GI, pod="web-0")
        scene.use(100, GI, pod="web-1")
    scene.tick()
    before = scene.store()[0].memory.total
    scene.pod("web-1", role="leader")
    loop(scene, 2 * 1440 + 1)
    scene.use(100, 4 * GI, pod="web-1")
    scene.tick()

    (stored,) = scene.store()
    assert before == 3.0
    assert (stored.memory.total, stored.memory.weights) == (0.0, {63: 10000})


def test_moved_containers_hold_on_to_their_aggregate() -> None:
    """After a label change, samples go to the aggregate given then, collected or not."""
    scene = scene_of()
    scene.vpa()
    scene.pod("web-0", role="a")
    scene.pod("web-1", role="a")
    scene.tick()
    scene.pod("web-0", role="b")
    loop(scene, 1)
    loop(scene, 9 * 1440)
    loop(scene, 9 * 1440 + 1)
    assert scene.model.row_count == 0

    scene.use(500, GI, pod="web-0")
    scene.use(500, GI, pod="web-1")
    loop(scene, 9 * 1440 + 2)

    assert scene.model.row_count == 1
    (stored,) = scene.store()
    assert stored.count == 1


def test_broken_target_wipes_everything() -> None:
    """A target that is missed for one loop costs the checkpointed history."""
    scene = begun()
    scene.use(1000, GI)
    loop(scene, 1)
    scene.restart()
    scene.tick()
    known = scene.shown()
    scene.resolve(problem="cannot be read")
    loop(scene, 2)
    assert scene.shown() == {}
    assert scene.conditions() == {
        "ConfigUnsupported": ("True", "", "cannot be read"),
        "NoPodsMatched": ("True", "NoPodsMatched", "No pods match this VPA object"),
        "RecommendationProvided": ("False", "NoPodsMatched", "No pods match this VPA object"),
    }
    scene.resolve()
    loop(scene, 3)

    assert known["app"]["target"] == "1168m 250Mi"
    assert scene.shown()["app"]["target"] == FLOOR
    assert list(scene.conditions()) == ["RecommendationProvided"]


def test_nothing_and_everything_look_alike() -> None:
    """A selector for all pods and none at all have one text, so a VPA keeps the first."""
    scene = scene_of()
    scene.vpa(of=EVERYTHING)
    scene.pod()
    scene.tick()
    scene.use(1000, GI)
    scene.resolve(problem="gone")
    loop(scene, 1)

    assert scene.shown()["app"]["target"].startswith("1168m")


def test_checkpoints_are_read_once() -> None:
    """Only VPAs that are there at start get their history; no other is asked for."""
    scene = scene_of()
    scene.vpa("web", restored=False)
    assert scene.model.awaited() == [("default", "web")]
    scene.model.restore([], scene.now)
    scene.vpa("other", restored=False)
    scene.model.restore([], scene.now)

    assert scene.model.awaited() == []


def test_equal_status_is_not_written() -> None:
    """Nothing is written when nothing differs."""
    scene = begun()
    scene.go(1)

    assert (scene.writes, scene.tick()) == (1, [])


@cases(
    "phase controlled days left",
    {
        "seven days": ("Running", True, 7.9, 1),
        "eight days": ("Running", True, 8, 0),
        "over and nobody's": ("Succeeded", False, 0.1, 0),
        "over and somebody's": ("Succeeded", True, 7.9, 1),
        "over and too old": ("Succeeded", True, 8, 0),
    },
)
def test_collection(phase: str, controlled: bool, days: float, left: int) -> None:
    """Aggregates without samples live as long as they are fed, and never beyond eight days."""
    scene = scene_of()
    scene.vpa(of=make.LABELS if controlled else {"app": "other"})
    scene.pod(phase=phase)
    scene.tick()
    loop(scene, days * 1440)
    loop(scene, days * 1440 + 1)

    assert scene.model.row_count == left


def test_own_interval_count() -> None:
    """A policy's count sets when history expires, and stays set."""
    scene = scene_of(replace(RULES, per_vpa_config=True))
    policy = make.policy_json("app", memoryAggregationIntervalCount=4, oomBumpUpRatio="3")
    scene.vpa(policies=[policy])
    scene.pod()
    scene.tick()
    scene.use(100, GI)
    scene.killed(1024 * MI)
    loop(scene, 1)
    assert scene.shown()["app"]["target"] == "126m 3861631195"
    scene.vpa()
    loop(scene, 2)
    scene.drop("web-0")
    loop(scene, 4 * 1440)
    loop(scene, 4 * 1440 + 1)

    assert scene.model.row_count == 0


def test_pending_pods_are_not_seen() -> None:
    """A pod counts from when it is no longer pending."""
    scene = scene_of()
    scene.vpa()
    scene.pod(phase="Pending")
    scene.tick()
    assert "NoPodsMatched" in scene.conditions()

    scene.pod(phase="Running")
    loop(scene, 1)
    scene.pod(phase="Pending")
    loop(scene, 2)

    assert "NoPodsMatched" in scene.conditions()


def test_a_pod_that_comes_back_between_loops_goes_on() -> None:
    """A pod is its name: one that is deleted and made again between loops keeps its window."""
    scene = scene_of()
    scene.vpa()
    scene.pod(uid="one")
    scene.tick()
    scene.use(100, 2 * GI)
    loop(scene, 1)
    scene.drop("web-0")
    scene.pod(uid="two")
    scene.use(100, GI, at=scene.at(1))
    loop(scene, 2)

    (stored,) = scene.store()
    assert stored.memory.total == 0.0
    assert stored.count == 2


def test_kills_find_pods_that_went() -> None:
    """A pod that went since the last loop is still there for its samples and kills."""
    scene = begun()
    scene.drop("web-0")
    scene.killed(1000 * MI)
    loop(scene, 1)

    assert scene.shown()["app"]["target"] == "25m 1470157273"
    assert "NoPodsMatched" in scene.conditions()


def test_what_is_not_told_counts_as_nothing() -> None:
    """A missing amount is a zero, and a zero freezes the interval; refused ones do not count."""
    scene = begun()
    scene.use(cpu=100)
    scene.use(100, 500 * MI, at=scene.at(1))
    scene.use(-2, -2, at=scene.at(2))
    scene.use(100, GI, container="ghost")
    loop(scene, 3)

    tally = scene.model.tally
    assert scene.shown()["app"]["target"] == "126m 250Mi"
    assert (tally.cpu, tally.cpu_repeated, tally.memory_late, tally.unknown) == (2, 1, 1, 1)


def test_init_containers_do_not_count() -> None:
    """Samples of init containers are dropped, whatever they are."""
    scene = scene_of()
    scene.vpa()
    pod = make.pod(
        init=[make.container_json("app", restartPolicy="Always")], status={"phase": "Running"}
    )
    scene.model.pod_seen(pod, scene.now)
    scene.tick()
    scene.use(1000, GI)
    loop(scene, 1)

    assert scene.model.tally.unknown == 1


def test_what_is_not_told_counts_as_nothing_used() -> None:
    """A sample of memory alone is one of no CPU too."""
    scene = begun()
    scene.use(memory=GI)
    loop(scene, 1)

    assert (scene.model.tally.cpu, scene.model.tally.memory) == (1, 1)


def test_memory_saver() -> None:
    """Pods that no VPA selects are skipped, also when they have changed."""
    scene = scene_of(replace(RULES, memory_saver=True))
    scene.vpa()
    scene.pod("web-0")
    scene.pod("other", labels={"app": "other"})
    scene.tick()
    scene.pod("web-0", labels={"app": "other"})
    loop(scene, 1)

    assert scene.model.row_count == 1
    assert "NoPodsMatched" not in scene.conditions()


def test_vpa_that_goes() -> None:
    """A VPA that goes leaves its aggregates behind for the next one."""
    scene = begun()
    scene.use(1000, GI)
    loop(scene, 1)
    scene.model.vpa_gone(("default", "web"), scene.now)
    loop(scene, 2)
    assert scene.store() == []
    scene.vpa("again")
    loop(scene, 3)

    assert scene.shown("again")["app"]["target"].startswith("1168m")


@pytest.mark.parametrize("budget", [0, None])
def test_all_checkpoints_are_stored(budget: int | None) -> None:
    """There is one for each container of each VPA, whatever the budget."""
    scene = scene_of()
    for number in range(5):
        scene.vpa(f"vpa-{number}", of={"number": str(number)})
        scene.pod(f"pod-{number}", "app", "log", labels={"number": str(number)})
    scene.tick()

    assert len(scene.store(budget)) == 10


def test_failed_checkpoints_come_first_again() -> None:
    """A checkpoint that could not be written is not counted as stored."""
    scene = scene_of()
    for name in ("a", "b"):
        scene.vpa(name)
    scene.pod()
    scene.tick()
    scene.store()
    scene.go(1)
    (last, *_) = [one for one in scene.store() if one.vpa == "b"]
    scene.model.not_stored(last)
    scene.model.not_stored(replace(last, vpa="unknown"))
    scene.model.not_published("default", "b")
    scene.model.not_dropped("default", "b-app")

    assert scene.model.abandoned() == []
    assert [one.vpa for one in scene.store()] == ["b", "a"]


def test_past_usage() -> None:
    """History from elsewhere is there before the first loop, its pods only until then."""
    scene = scene_of()
    scene.vpa()
    told = past({"gone/app": [(1000, GI), (ABSENT, GI), (1000, ABSENT)]}, START)
    scene.model.learn_past(told, scene.now)
    loop(scene, 1)

    assert scene.shown()["app"]["target"].startswith("1168m")
    assert "NoPodsMatched" in scene.conditions()
    assert [one.count for one in scene.store()] == [2]


def test_past_usage_of_living_pods() -> None:
    """A pod that is seen again goes on where its past ended."""
    scene = scene_of()
    scene.vpa()
    scene.pod()
    scene.model.learn_past(past({"web-0/app": [(1000, GI)]}, START), scene.now)
    scene.use(1000, GI)
    scene.go(1)
    scene.use(1000, GI)
    scene.tick()

    assert [one.count for one in scene.store()] == [2]
    assert (scene.model.tally.cpu, scene.model.tally.cpu_repeated) == (2, 1)


def test_nothing_is_urgent() -> None:
    """Kills wait for the loop, overlaps are not looked for, no checkpoint is abandoned."""
    scene = begun()
    scene.killed(1000 * MI)

    assert scene.tick(urgent=True) == []
    assert (scene.model.overlapping_pods(), scene.model.abandoned()) == ({}, [])
    assert scene.model.quality() == ([], [])


def test_checkpoints_of_others_are_left_alone() -> None:
    """Checkpoints of VPAs that are not there restore nothing; a pod shown twice is seen once."""
    scene = scene_of()
    scene.vpa("web", restored=False)
    scene.pod()
    pod, _ = scene.pods["web-0"]
    scene.model.pod_seen(pod, scene.now)
    scene.model.restore([Checkpoint("default", "gone-app", "gone", "app")], scene.now)
    scene.tick()

    assert list(scene.shown()) == ["app"]


@pytest.mark.parametrize("seed", range(12))
def test_random_days(seed: int) -> None:
    """What upstream's way comes to is the same, object by object and all at once."""
    trace = Trace(seed)
    for _ in range(150):
        trace.step()
    trace.compare_stored()
