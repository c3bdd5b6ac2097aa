"""OOM kills are counted once, for the rows their pods belonged to."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from app.recommender.core.oom import OomRecord
from app.recommender.core.rules import Extras, PublishRules, RecommenderRules
from tests import make
from tests.recommender.core.scene import GI, MI, Scene

EAGER = RecommenderRules(publish=PublishRules(bound_tolerance=0.0, refresh=timedelta(0)))


def started(rules: RecommenderRules = EAGER, *, policy: dict[str, Any] | None = None) -> Scene:
    """Return a scene with one pod."""
    scene = Scene(rules)
    scene.vpa(policies=None if policy is None else [policy])
    scene.pod()
    return scene


def target(scene: Scene) -> int:
    """Tick, and return the memory target in bytes."""
    scene.tick()
    return make.quantity(scene.shown()["app"]["target"].split()[1]).units


def peaks(scene: Scene) -> list[tuple[int, int]]:
    """Return the running peaks of usage and kills, in Mi."""
    scene.store()
    windows = scene.stored["web-app"].windows
    return [(one.usage_bytes // MI, one.oom_bytes // MI) for one in windows]


@pytest.mark.parametrize(
    ("requests", "expected"),
    [
        pytest.param([1000], 1_470_157_273, id="W39"),
        pytest.param([1], 262_144_000, id="W40"),
        pytest.param([500], 764_046_746, id="W41"),
        pytest.param([0], 262_144_000, id="W44"),
        pytest.param([1000, 999, 999, 2000], 2_975_900_105, id="W48"),
    ],
)
def test_targets(requests: list[int], expected: int) -> None:
    """What a kill asks for is published; weaker ones of the same interval add nothing."""
    scene = started()
    for minute, mebibytes in enumerate(requests):
        scene.killed(mebibytes * MI, at=scene.at(minute))

    assert target(scene) == expected


def test_running_peak() -> None:
    """W42: a kill above the running peak replaces it."""
    scene = started()
    scene.use(memory=3000 * MI)
    scene.killed(1000 * MI)

    assert target(scene) == 4_506_574_562
    assert peaks(scene) == [(3000, 3600)]


@pytest.mark.parametrize(
    ("order", "expected", "peak"),
    [
        pytest.param("used killed", 4_506_574_562, (3072, 3686), id="in order"),
        pytest.param("killed used", 4_506_574_562, (3072, 3686), id="usage is told later"),
        pytest.param("killed used killed", 4_506_574_562, (3072, 3686), id="told twice"),
        pytest.param("killed below used", 4_506_574_562, (3072, 3686), id="usage rises"),
        pytest.param("killed after", 3_861_631_195, (3072, 200), id="usage from after it"),
        pytest.param("killed after used", 3_861_631_195, (3072, 200), id="older than the last"),
    ],
)
def test_order_of_usage_and_kill(order: str, expected: int, peak: tuple[int, int]) -> None:
    """Usage from before a kill counts, and the kill builds on it, whichever is told first."""
    scene = started()
    scene.go(2)
    for told in order.split():
        match told:
            case "used":
                scene.use(memory=3 * GI, at=scene.at(1.8))
            case "below":
                scene.use(memory=2 * GI, at=scene.at(1.7))
            case "after":
                scene.use(memory=3 * GI, at=scene.at(1.95))
            case _:
                scene.killed(100 * MI, at=scene.at(1.9))
                scene.tick(urgent=True)

    assert peaks(scene) == [peak]
    assert target(scene) == expected


def test_kill_dated_ahead() -> None:
    """Usage that is told after a kill was heard of is no older than it, whatever its date."""
    scene = started()
    scene.killed(100 * MI, at=scene.at(600))
    scene.go(1)
    scene.use(memory=300 * MI)

    assert peaks(scene) == [(300, 200)]


@pytest.mark.parametrize(
    ("policy", "request_mi", "expected"),
    [
        pytest.param({"oomBumpUpRatio": "3"}, 1024, 3072, id="W43"),
        pytest.param({"oomBumpUpRatio": "1", "oomMinBumpUp": "0"}, 512, 512, id="W45"),
    ],
)
def test_own_bump(policy: dict[str, Any], request_mi: int, expected: int) -> None:
    """A policy sets its own bump; without it the flags' holds again."""
    scene = started(replace(EAGER, per_vpa_config=True), policy=make.policy_json("app", **policy))
    scene.killed(request_mi * MI)
    assert peaks(scene) == [(0, expected)]

    scene.vpa()
    scene.go(1440)
    scene.killed(2000 * MI)

    assert peaks(scene) == [(0, 2400)]


@pytest.mark.parametrize(
    ("interval", "hours", "counted"),
    [
        pytest.param(None, 30, 0, id="W46: older than a day"),
        pytest.param(None, 24, 1, id="W46: a day old"),
        pytest.param(3600, 2, 0, id="W47: older than the policy's interval"),
    ],
)
def test_late_kills(interval: int | None, hours: int, counted: int) -> None:
    """Kills that are too old do not count."""
    policy = make.policy_json("app", memoryAggregationIntervalSeconds=interval)
    scene = started(replace(EAGER, per_vpa_config=True), policy=policy)
    scene.use(memory=100 * MI)
    scene.killed(1000 * MI, at=scene.now - timedelta(hours=hours))

    tally = scene.model.tally
    assert (tally.kills, tally.kills_late) == (counted, 1 - counted)


@pytest.mark.parametrize(
    ("repeats", "expected"),
    [
        pytest.param(False, (650, 780), id="W49: kills do not build on kills"),
        pytest.param(True, (650, 780), id="usage leads here either way"),
    ],
)
def test_usage_and_kills(repeats: bool, expected: tuple[int, int]) -> None:
    """Usage after a kill leads when the next one is judged."""
    extras = Extras(repeat_oom_bump=repeats)
    scene = started(replace(EAGER, extras=extras))
    scene.use(memory=400 * MI)
    scene.killed(500 * MI, at=scene.at(1))
    scene.use(memory=650 * MI, at=scene.at(2))
    scene.killed(600 * MI, at=scene.at(3))

    assert peaks(scene) == [expected]


@pytest.mark.parametrize(
    ("repeats", "expected"),
    [pytest.param(False, 1200, id="as upstream"), pytest.param(True, 1440, id="on demand")],
)
def test_repeated_kills(repeats: bool, expected: int) -> None:
    """On demand, kills within one interval build on each other."""
    scene = started(replace(EAGER, extras=Extras(repeat_oom_bump=repeats)))
    for minute in range(2):
        scene.killed(1000 * MI, at=scene.at(minute))

    assert peaks(scene) == [(0, expected)]
    for seconds in (10, 20):
        scene.use(memory=100 * MI, at=scene.at(seconds / 60))
    assert peaks(scene) == [(0, expected)]  # what is told of usage later is no kill


def test_kill_after_the_interval() -> None:
    """W50: a kill begins the next interval, from the old peak, which stays."""
    scene = started()
    scene.use(memory=2000 * MI)
    scene.go(48 * 60)
    scene.killed(1000 * MI)

    assert peaks(scene) == [(0, 2400)]
    assert scene.stored["web-app"].memory.total == 1.0


def test_eight_kills() -> None:
    """W51: how a request that follows the target climbs."""
    scene = started()
    request, climb = 256 * MI, []
    for minute in range(9):
        scene.go(minute)
        scene.killed(request)
        request = target(scene)
        climb.append(round(request / MI))

    assert climb == [422, 641, 933, 1325, 1850, 2554, 3683, 5271, 7507]


def test_each_kill_counts_once() -> None:
    """The same kill told twice, by whomever, counts once; other pods' kills are their own."""
    scene = started()
    scene.pod("web-1")
    for pod in ("web-0", "web-0", "web-1"):
        scene.killed(1000 * MI, pod=pod)

    tally = scene.model.tally
    assert (tally.kills, tally.kills_repeated) == (2, 1)
    assert len(peaks(scene)) == 2


def end(finished: datetime | None) -> dict[str, Any]:
    """Return how a container ended, or that it runs."""
    if finished is None:
        return {"running": {}}
    return {"terminated": {"reason": "OOMKilled", "finishedAt": make.time(finished)}}


def killed_pod(
    scene: Scene, finished: datetime, again: datetime | None = None, *, restarts: int = 1
) -> None:
    """Show a pod that tells of a kill, or of two."""
    states = {"lastState": end(finished), "state": end(again)}
    told = {"name": "app", "restartCount": restarts, **states}
    scene.pod(memory="1000Mi", status={"containerStatuses": [told]})


def test_pods_that_tell_of_kills() -> None:
    """A pod that tells of a kill when it is first seen counts, unless it is too long ago."""
    scene = Scene(EAGER)
    scene.vpa()
    scene.go(30)
    killed_pod(scene, scene.at(20))
    killed_pod(scene, scene.at(20))
    scene.drop("web-0")
    scene.tick()
    killed_pod(scene, scene.at(-1440))

    assert scene.model.tally.kills == 1
    assert scene.model.tally.kills_late == 1


@pytest.mark.parametrize("is_first", [True, False], ids=["a VPA that comes", "a target found"])
def test_kills_of_pods_that_a_vpa_gets(is_first: bool) -> None:
    """What pods tell of kills counts for a VPA that gets them later, and once."""
    scene = Scene(EAGER)
    if not is_first:
        scene.vpa(problem="no such Deployment")
    scene.go(30)
    killed_pod(scene, scene.at(20))
    assert scene.model.tally.kills == 0

    for _ in range(2):
        scene.vpa()
    assert scene.model.tally.kills == 1
    assert target(scene) == 1_470_157_273


@pytest.mark.parametrize(
    "minutes", [[20], [20, 25], [20, 40 + 1440]], ids=["one", "two", "in two intervals"]
)
def test_a_restart_does_not_count_again(minutes: list[int]) -> None:
    """Kills that history holds are not counted once more by the next process."""
    scene = started()
    scene.use(memory=100 * MI)
    scene.go(minutes[0] + 5)
    killed_pod(scene, scene.at(minutes[0]))
    scene.go(minutes[-1] + 10)
    killed_pod(scene, *map(scene.at, minutes))
    scene.tick()
    before = scene.shown()
    scene.restart()
    scene.tick()

    assert scene.model.tally.kills == 0
    assert scene.model.tally.kills_repeated == len(minutes)
    assert scene.shown() == before


def test_no_more_kills_are_kept_than_may_be_told_again() -> None:
    """However often a container is killed, what is remembered of it does not grow."""
    scene = started()
    for minute in range(50):
        scene.go(minute)
        scene.killed(1000 * MI)
    scene.store()

    assert scene.model.tally.kills == 50
    kept = [second for _, second in scene.stored["web-app"].kills]
    assert kept == [int(scene.at(minute).timestamp()) for minute in (49, 48, 47)]


def test_a_kill_that_was_not_stored_counts_again() -> None:
    """What was lost with the process is found again."""
    scene = started()
    scene.use(100, 100 * MI)
    scene.store()
    scene.go(30)
    killed_pod(scene, scene.at(20))
    scene.restart(flush=False)

    assert scene.model.tally.kills == 1


@pytest.mark.parametrize("restores", [True, False])
def test_kills_wait_for_history(restores: bool) -> None:
    """While it is not known what history holds, kills are held back, until the next tick."""
    scene = started()
    killed_pod(scene, scene.at(0))
    scene.store()
    rest = Scene(EAGER)
    rest.vpa(restored=False)
    killed_pod(rest, scene.at(0))
    assert rest.model.tally.kills == 0

    if restores:
        rest.model.restore(scene.stored.values(), rest.now)
    rest.tick()

    assert rest.model.tally.kills == (0 if restores else 1)


def test_kills_of_others() -> None:
    """Unknown pods, containers and uids are told apart from those that are there."""
    scene = started()
    time_ns = 1
    scene.model.killed(
        [
            OomRecord("default", "web-9", "app", time_ns, GI),
            OomRecord("default", "web-0", "ghost", time_ns, GI),
            OomRecord("default", "web-0", "app", time_ns, GI, uid="other"),
        ],
        scene.now,
    )

    assert scene.model.tally.kills_unknown == 3


def test_kills_of_pods_without_a_vpa() -> None:
    """A kill that feeds nothing is not counted, nor remembered."""
    scene = Scene(EAGER)
    scene.pod()
    scene.killed(GI)

    assert scene.model.tally.kills == 0


def capped(rules: RecommenderRules) -> Scene:
    """Return a scene whose pod is killed every day because its maximum is too small."""
    scene = started(rules, policy=make.policy_json("app", max_allowed={"memory": "1000Mi"}))
    for day in range(3):
        scene.go(day * 1440)
        scene.use(100, 900 * MI)
        scene.killed(1000 * MI, at=scene.at(day * 1440 + 1))
        scene.tick()
    return scene


def test_the_same_peak_is_not_made_every_day() -> None:
    """A peak that stands already is not invented again while it is honoured."""
    scene = capped(EAGER)

    assert peaks(scene) == [(900, 0)]
    assert scene.model.tally.kills_equal == 2
    assert scene.model.tally.kills == 3


def test_a_peak_that_has_faded_is_made_again() -> None:
    """Once what is published falls below it, the peak counts again."""
    scene = capped(EAGER)
    for day in range(3, 14):
        scene.go(day * 1440)
        scene.use(100, 500 * MI)
        scene.tick()
    scene.killed(1000 * MI)

    assert peaks(scene) == [(500, 1200)]


def test_kills_of_pods_that_went_are_forgotten() -> None:
    """Nothing is kept of containers that are gone."""
    scene = started()
    scene.killed(1000 * MI)
    scene.drop("web-0")
    scene.go(61)
    scene.tick()
    scene.go(122)
    scene.tick()
    scene.pod()
    scene.killed(1000 * MI, at=scene.at(0))

    assert scene.model.tally.kills == 2


def test_kills_from_the_future() -> None:
    """A kill that is yet to come is not believed."""
    scene = started()
    scene.killed(1000 * MI, at=scene.now + timedelta(days=2))

    assert (scene.model.tally.kills, scene.model.tally.kills_late) == (0, 1)
