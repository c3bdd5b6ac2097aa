"""Samples on their way into the rows, and how usage compares with what was recommended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from app.model.fields import Json
from app.model.pods import BOOST_KEY_PREFIX
from app.recommender.core.moments import MINUTE, nanoseconds
from app.recommender.core.rules import RecommenderRules
from app.recommender.core.usage import UsageBatch
from tests import make
from tests.cases import cases
from tests.recommender.core.scene import GI, MI, Scene, running

LEADERS = {"matchLabels": {"role": "leader"}}
FOLLOWERS = {"matchLabels": {"role": "follower"}}
BOOSTED = {f"{BOOST_KEY_PREFIX}app": "1"}
BOOST = make.boost_json(factor=3, duration="2m")
WITH_BOOSTS = replace(RecommenderRules(), cpu_startup_boost=True)


def stored(scene: Scene, name: str = "web-app") -> tuple[int, float]:
    """Return the number of CPU samples and the memory peaks a row holds, day by day."""
    scene.store()
    found = scene.stored.get(name)
    return (found.count, len(found.windows) + round(found.memory.total)) if found else (0, 0)


def split(rules: RecommenderRules | None = None) -> Scene:
    """Return a scene with a pod that was promoted in minute 10."""
    scene = Scene(rules)
    split_in(scene)
    return scene


def split_in(scene: Scene) -> None:
    """Let a pod be promoted in minute 10."""
    scene.vpa("leader", selector=LEADERS)
    scene.vpa("follower", selector=FOLLOWERS)
    scene.pod(role="follower")
    scene.go(10)
    scene.pod(role="leader")


@cases(
    "minute window leader follower",
    {
        "after the move": (11, 30, (1, 1), (0, 0)),
        "before it": (9, 30, (0, 0), (1, 1)),
        "averaged over it, memory counts": (10.2, 17, (0, 1), (0, 0)),
        "at its very moment": (10, 17, (1, 1), (0, 0)),
    },
)
def test_samples_around_a_move(
    minute: float, window: float, leader: tuple[int, int], follower: tuple[int, int]
) -> None:
    """A sample goes where its pod belonged when it was taken."""
    scene = split()
    scene.go(12)
    scene.use(1000, GI, at=scene.at(minute), window=window)

    assert (stored(scene, "leader-app"), stored(scene, "follower-app")) == (leader, follower)
    assert scene.model.tally.cpu_moved == (1 if minute == 10.2 else 0)


def test_repeated_and_late_samples() -> None:
    """Equal times count once for cpu; older ones not at all; equal ones still for memory."""
    scene = running()
    scene.go(1)
    scene.use(100, 100 * MI)
    scene.use(100, 200 * MI)
    scene.use(100, 300 * MI, at=scene.at(0))
    scene.use(-2, -2, at=scene.at(2))
    scene.use()

    tally = scene.model.tally
    assert stored(scene) == (1, 1)
    assert scene.stored["web-app"].windows[0].usage_bytes == 200 * MI
    assert (tally.cpu_repeated, tally.memory_late) == (2, 1)
    assert (tally.cpu_refused, tally.memory_refused) == (1, 1)


def test_one_batch_may_hold_a_container_several_times() -> None:
    """Samples of one container are taken in the order of their times, whatever their order."""
    scene = Scene()
    scene.vpa()
    scene.pod("web-0")
    scene.pod("web-1")
    start = nanoseconds(scene.now)
    lines = [
        (("default", pod, "app"), 100, mebibytes * MI, start + minute * MINUTE, 0)
        for pod, minute, mebibytes in (
            ("web-0", 2, 50),
            ("web-1", 1, 70),
            ("web-0", 1, 90),
            ("web-0", 0, 60),
        )
    ]
    scene.model.usage(UsageBatch.of(lines))

    assert stored(scene) == (4, 2)
    assert sorted(one.usage_bytes // MI for one in scene.stored["web-app"].windows) == [70, 90]
    assert scene.model.tally.cpu == 4


@cases("gate counted", {"with the gate": (True, 2), "without": (False, 5)})
def test_boosted_usage(gate: bool, counted: int) -> None:
    """Usage during a startup boost is no demand; memory is."""
    scene = Scene(replace(RecommenderRules(), cpu_startup_boost=gate))
    scene.vpa(boost=BOOST)
    scene.pod(annotations=BOOSTED)
    scene.use(3000, GI, at=scene.at(1))
    scene.use(3000, GI, at=scene.at(2))
    scene.go(3)
    scene.pod()
    scene.use(3000, 2 * GI, at=scene.at(3.1), window=30)
    scene.use(100, GI, at=scene.at(4), window=30)
    scene.use(100, GI, at=scene.at(5), window=30)

    assert stored(scene) == (counted, 1)
    assert scene.stored["web-app"].windows[0].usage_bytes == 2 * GI
    assert scene.model.tally.cpu_boosted == 5 - counted


def learned_from(scene: Scene, minutes: int) -> int | None:
    """Use cpu every minute; return the minute of the first sample that counts, None if none."""
    begin = round((scene.now - scene.start) / timedelta(minutes=1))
    for minute in range(begin, begin + minutes):
        scene.go(minute)
        scene.use(3000)
        if scene.model.tally.cpu:
            return minute
    return None


POLICY_OFF = make.policy_json("app", boost={})


@cases(
    "vpa pod expected",
    {
        "so long after Ready, and until the end has come": ({"boost": BOOST}, {"ready": 1}, 4),
        "without a duration": ({"boost": make.boost_json(factor=3)}, {"ready": 1}, 2),
        "never ready: so long after its start": ({"boost": BOOST}, {"started": 4}, 366),
        "never ready, and it is not known since when it runs": ({"boost": BOOST}, {}, None),
        "ready, but it is not known since when": ({"boost": BOOST}, {"ready": None}, 0),
        "ready since tomorrow": ({"boost": BOOST}, {"ready": 1440}, 0),
        "a forged mark": ({}, {"ready": 1}, 0),
        "a forged mark of a container without a boost": (
            {"boost": BOOST, "policies": [POLICY_OFF]},
            {},
            0,
        ),
        "a duration beyond the calendar": (
            {"boost": make.boost_json(factor=3, duration="2000000h")},
            {"ready": 0},
            None,
        ),
    },
)
def test_how_long_a_boost_keeps_cpu_from_being_learned(
    vpa: Mapping[str, Any], pod: Mapping[str, int | None], expected: int | None
) -> None:
    """CPU is learned from when a boost is due, though its mark stays for as long as it likes."""
    scene = Scene(WITH_BOOSTS)
    scene.vpa(**vpa)
    status: dict[str, object] = {}
    if "ready" in pod:
        minute = pod["ready"]
        since = None if minute is None else make.time(scene.at(minute))
        status["conditions"] = [{"type": "Ready", "status": "True", "lastTransitionTime": since}]
    if (minute := pod.get("started")) is not None:
        status["startTime"] = make.time(scene.at(minute))
    scene.pod(annotations=BOOSTED, status=status)

    assert learned_from(scene, 400) == expected


def test_a_boost_that_is_over_does_not_begin_again() -> None:
    """A pod that is not ready any more, and marked because its boost cannot end, is learned."""
    scene = Scene(WITH_BOOSTS)
    scene.vpa(boost=BOOST)
    scene.pod(annotations=BOOSTED, ready_at=scene.at(0))
    scene.go(3)
    scene.pod(annotations=BOOSTED)

    assert learned_from(scene, 5) == 3


def test_a_pod_that_gets_ready_later_is_boosted_longer() -> None:
    """A boost that is not over yet ends so long after the pod was last found ready."""
    scene = Scene(WITH_BOOSTS)
    scene.vpa(boost=BOOST)
    scene.pod(annotations=BOOSTED, ready_at=scene.at(0))
    scene.go(2)
    scene.pod(annotations=BOOSTED)
    scene.go(10)
    scene.pod(annotations=BOOSTED, ready_at=scene.at(10))

    assert learned_from(scene, 10) == 13


@cases(
    "boost policies expected",
    {
        "shorter": (make.boost_json(factor=3, duration="10s"), None, 2),
        "longer": (make.boost_json(factor=3, duration="5m"), None, 6),
        "none": (None, None, 1),
        "none for this container": (BOOST, [POLICY_OFF], 1),
    },
)
def test_the_vpa_as_it_is_now_says_how_long(
    boost: Json | None, policies: Sequence[Json] | None, expected: int
) -> None:
    """A boost of which the VPA changes its mind ends as it says then."""
    scene = Scene(WITH_BOOSTS)
    scene.vpa(boost=BOOST)
    scene.pod(annotations=BOOSTED, ready_at=scene.at(0))
    scene.go(1)
    scene.vpa(boost=boost, policies=policies)

    assert learned_from(scene, 10) == expected


def test_a_vpa_that_comes_later_says_how_long() -> None:
    """A boosted pod is known to be boosted as soon as a VPA that boosts it is seen."""
    scene = Scene(WITH_BOOSTS)
    scene.pod(annotations=BOOSTED, ready_at=scene.at(0))
    scene.vpa(boost=BOOST)

    assert learned_from(scene, 10) == 3


def test_pods_nobody_wants() -> None:
    """Samples of pods without a VPA are remembered as seen and feed nothing."""
    scene = Scene()
    scene.pod()
    scene.use(100, GI)
    scene.vpa()
    scene.use(100, GI)

    assert stored(scene) == (0, 1)
    assert scene.model.tally.cpu_repeated == 1


def test_zero_peaks() -> None:
    """A zero does not freeze the interval, and what is absent is no zero."""
    scene = running()
    scene.use(cpu=100)
    scene.go(1)
    scene.use(100, 0)
    scene.go(2)
    scene.use(100, 500 * MI)

    assert stored(scene) == (3, 1)
    assert scene.stored["web-app"].windows[0].usage_bytes == 500 * MI


def test_moved_pods_feed_every_vpa_they_fed() -> None:
    """Late samples of a pod that fed two VPAs reach both."""
    scene = Scene()
    scene.vpa("all")
    split_in(scene)
    scene.go(12)
    scene.use(100, GI, at=scene.at(9))
    scene.use(100, GI, at=scene.at(11))

    scene.store()
    counts = {name: one.count for name, one in scene.stored.items()}
    assert counts == {"leader-app": 1, "follower-app": 1, "all-app": 2}


@cases(
    "days counted",
    {
        "long ago": (-401, False),
        "late": (-399, True),
        "a clock that is ahead": (1, True),
        "from the future": (1.1, False),
        "from beyond all times": (30_000, False),
    },
)
def test_broken_dates(days: float, counted: bool) -> None:
    """A sample that cannot be from now does not age all others to nothing."""
    scene = running()
    scene.use(100, GI)
    scene.pod("web-1")
    scene.use(9000, GI, pod="web-1", at=scene.now + timedelta(days=days))
    scene.go(1)
    scene.use(100, GI)

    assert stored(scene)[0] == (3 if counted else 2)
    assert scene.model.tally.misdated == (0 if counted else 1)


def test_without_a_date_to_compare_with_all_dates_are_sound() -> None:
    """Usage that comes without the present time is believed."""
    scene = running()
    scene.model.usage(scene.batch(100, GI, at=scene.at(1440 * 5)))

    assert stored(scene)[0] == 1


RULES = RecommenderRules(gathers_quality=True)


def started(rules: RecommenderRules = RULES) -> Scene:
    """Return a scene with VPAs of two modes and one that is Off, on the same pods."""
    scene = Scene(rules)
    for name, mode in (("web", None), ("auto", "Auto"), ("off", "Off")):
        vpa = scene.vpa(name)
        scene.change(replace(vpa, update_policy=make.vpa(mode=mode).update_policy))
    scene.pod("web-0")
    scene.pod("web-1")
    return scene


def test_comparisons() -> None:
    """Counted samples stand beside the uncapped target; VPAs that are Off take no part."""
    scene = started()
    scene.use(100, GI)
    first, _ = scene.model.quality()
    scene.tick()
    scene.use(200, 2 * GI, pod="web-1")
    scene.killed(1000 * MI)
    second, _ = scene.model.quality()

    assert [(one.mode, one.resource, one.is_oom) for one in second] == [
        (mode, resource, is_oom)
        for resource, is_oom in (("cpu", False), ("memory", False), ("memory", True))
        for mode in ("", "Auto")
    ]
    assert {float(one.recommended[0]) for one in first} == {0.0}
    assert [(one.used.tolist(), one.recommended.tolist()) for one in second[::2]] == [
        ([0.2], [0.126]),
        ([2.0 * GI], [1_238_659_775.0]),
        ([1_288_490_188.0], [1_238_659_775.0]),
    ]
    assert scene.model.quality() == ([], [])


def test_changes() -> None:
    """Each tick tells how far targets went, for those that had one."""
    scene = started()
    scene.use(100, GI)
    scene.tick()
    assert scene.model.quality()[1] == []
    scene.go(1)
    scene.use(9000, GI)
    scene.tick()
    _, changes = scene.model.quality()

    assert [(one.mode, one.resource, one.pods) for one in changes] == [
        (mode, resource, 2) for resource in ("cpu", "memory") for mode in ("", "Auto", "Off")
    ]
    assert [(one.before.tolist(), one.after.tolist()) for one in changes[::3]] == [
        ([0.126], [10.626]),
        ([1_238_659_775.0], [1_238_659_775.0]),
    ]


def test_nothing_is_gathered_unasked() -> None:
    """Without anybody who asks, nothing piles up."""
    scene = started(RecommenderRules())
    scene.use(100, GI)
    scene.tick()

    assert scene.model.quality() == ([], [])
