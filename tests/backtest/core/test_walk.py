"""A walk counts what one container after the other would have met, and never looks ahead."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from random import Random

import numpy as np
import pytest

from app.backtest.core.recorded_fleet import Fleet, RecordedWorkload, fleet_of, parts
from app.backtest.core.scores import Measure, Scores, together
from app.backtest.core.settings import Given, Setting
from app.backtest.core.walk import Walk
from app.backtest.recording import MEASURES, RecordedContainer, Recording
from app.model.fields import Json
from app.model.update_modes import UpdateMode
from app.recommender.core.rules import AggregationRules, RecommenderRules
from tests import make
from tests.backtest.core.plain import PlainWalk
from tests.backtest.histories import given_for, random_recording
from tests.backtest.recordings import recording
from tests.cases import cases

USUAL = Setting("usual", RecommenderRules())
WEB = RecordedContainer("default", "StatefulSet", "web", "web-1", "app")
WORKLOAD = RecordedWorkload("default", "StatefulSet", "web")
ONE_REPLICA = Given({WORKLOAD: make.vpa(min_replicas=1)})
SHORT = AggregationRules(
    memory_half_life=timedelta(minutes=5), memory_interval=timedelta(minutes=10)
)
MI = 2**20


def alone(dice: Random, days: int, step: int) -> Recording:
    """Return what one container used that has limits, is killed sometimes, leaps and grows."""
    count = days * 86_400 // step
    found = recording((WEB,), count=count)
    found = replace(found, step=step)
    request = dice.randint(200, 900) * 2**20
    growth = np.linspace(1, dice.uniform(0.5, 3), count)
    for at in range(count):
        found.cpu_request[0, at], found.cpu_limit[0, at] = 0.5, 1.0
        found.memory_request[0, at], found.memory_limit[0, at] = request, request * 1.25
        if dice.random() > 0.03:
            found.cpu[0, at] = dice.randint(5, 900) / 1000 * growth[at]
        if dice.random() > 0.03:
            leap = dice.uniform(1, 3) if dice.random() < 0.02 else 1
            used = request * growth[at] * dice.uniform(0.5, 1) * leap
            found.memory[0, at] = used
        found.oom_kills[0, at] = dice.random() < 0.005
    return found


def scores_of(
    told: Recording, settings: Sequence[Setting], given: Given, fleet: Fleet | None = None
) -> Scores:
    """Return what a walk to the end counts."""
    walk = Walk(told, fleet or fleet_of(told.rows), settings, given)
    assert list(walk.hours())
    return walk.scores()


@pytest.mark.parametrize("mode", ["InPlaceOrRecreate", "Recreate", "UpscaleOnly", "Initial"])
@pytest.mark.parametrize("seed", range(5))
def test_scores_are_those_of_a_plain_reference(seed: int, mode: str) -> None:
    """Slack, over-use, kills, resizes and evictions of one container, counted in plain loops."""
    told = alone(Random(seed), days=5, step=300 if seed % 2 else 900)
    setting = replace(USUAL, mode=UpdateMode(mode))
    scores = scores_of(told, [setting], ONE_REPLICA)
    found = scores.of(1).sum(axis=0)
    plain = PlainWalk(told, mode).walk()
    assert dict(zip(Measure, found.tolist(), strict=True)) == pytest.approx(
        {measure: plain[measure] for measure in Measure}
    )


def in_force(told: Recording, until_ns: int) -> list[tuple[int, list[int], list[float]]]:
    """Return what is recommended and in force at each hour up to a time."""
    walk = Walk(told, fleet_of(told.rows), [USUAL], given_for(told))
    found = []
    for time_ns in walk.hours():
        if time_ns > until_ns:
            break
        amounts = walk.recommended[0].amounts.ravel().tolist()
        found.append((time_ns, amounts, walk.in_force.ravel().tolist()))
    return found


@pytest.mark.parametrize("seed", range(6))
def test_nothing_of_the_future_is_known(seed: int) -> None:
    """Noise in place of all that was recorded after a time changes nothing before it."""
    dice = Random(seed)
    told = random_recording(dice, workloads=6, hours=40, limits=True)
    first = dice.randrange(4, told.count)
    noisy = Recording.unknown(told.start, told.step, told.count, told.rows)
    for measure in MEASURES:
        noisy.measured(measure)[:] = told.measured(measure)
        for row in range(len(told.rows)):
            for at in range(first, told.count):
                unknown = dice.random() < 0.2
                noisy.measured(measure)[row, at] = np.nan if unknown else dice.random() * 1e5
    noisy.throttled[:] = told.throttled
    until_ns = (told.start + first * told.step) * 10**9
    assert in_force(noisy, until_ns) == in_force(told, until_ns)


@pytest.mark.parametrize("seed", range(4))
def test_without_updates_all_is_as_it_was(seed: int) -> None:
    """Mode Off changes nothing, whatever owners changed, how often, and when that was known."""
    dice = Random(seed)
    told = random_recording(dice, workloads=5, hours=60, limits=True)
    told.oom_kills[:] *= 3
    for row in range(len(told.rows)):
        change = dice.randrange(told.count)
        for measure in (told.memory_request, told.memory_limit, told.cpu_limit):
            measure[row, change:] *= dice.choice((0.5, 1, 2))
        if dice.random() < 0.3:
            told.memory_limit[row] = np.where(np.isnan(told.memory_limit[row]), np.nan, 0)
        known = np.flatnonzero(~np.isnan(told.memory_request[row]))
        late = known[: dice.choice((0, 1, 7))]
        for measure in (told.memory_request, told.memory_limit):
            measure[row, late] = np.nan
        silent = dice.randrange(told.count)
        for name in MEASURES:
            told.measured(name)[row, silent : silent + 20] = np.nan
    limits = np.where(told.memory_limit > 0, told.memory_limit, np.float32(np.inf))
    np.minimum(told.memory, limits, out=told.memory)  # no container uses more than that
    scores = scores_of(told, [replace(USUAL, mode=UpdateMode.OFF)], given_for(told))
    was, off = scores.days[:, 0], scores.days[:, 1]
    assert was[..., Measure.KILLS].sum() > 0
    np.testing.assert_allclose(off, was, rtol=1e-5, atol=1e-9)


def test_what_is_known_late_is_what_it_was() -> None:
    """Requests and limits that the first scrape missed switch nothing off."""
    kills = {}
    for late in (0, 1):
        told = recording((WEB,), count=576, cpu=0.1, cpu_request=1, memory_request=300 * MI)
        told.memory[:], told.memory_limit[:] = 100 * MI, 300 * MI
        told.memory[0, 400::50] = 900 * MI
        for measure in (told.cpu_request, told.memory_request, told.memory_limit):
            measure[0, :late] = np.nan
        scores = scores_of(told, [USUAL], ONE_REPLICA)
        assert scores.of(1)[:, Measure.CPU_STEPS].sum() == 576 - late
        kills[late] = scores.of(1)[:, Measure.KILLS].sum()
    assert kills[0] == kills[1] > 0


def test_requests_that_are_never_known() -> None:
    """Settings are counted, the recording is not, for nothing is no request."""
    told = recording((WEB,), count=576, cpu=0.1, memory=100 * MI)
    scores = scores_of(told, [USUAL], ONE_REPLICA)
    assert scores.of(0)[:, Measure.CPU_STEPS].sum() == 0
    assert scores.of(1)[:, Measure.CPU_STEPS].sum() == 576
    assert scores.of(1)[:, Measure.MEMORY_SLACK].sum() > 0
    assert len(together([scores]).days) == 2


@cases("apart early", {"five minutes": (1, 1), "a quarter of an hour": (3, 0)})
def test_a_second_kill_is_early(apart: int, early: int) -> None:
    """Within ten minutes of the one before it, the pod is changed though it is in its bounds."""
    rows = (WEB, WEB._replace(pod="web-2"))
    told = recording(rows, count=6 * 288, cpu=0.1, cpu_request=0.115, memory_request=365 * MI)
    told.memory[:], told.memory_limit[:] = 300 * MI, 500 * MI
    for name in MEASURES:
        told.measured(name)[1, :1460] = np.nan  # it is younger than half a day
    told.oom_kills[1, [1500, 1500 + apart]] = 1
    resizes = []
    for until in (1500, 1506):
        part = told.part(0, until)
        resizes.append(scores_of(part, [USUAL], ONE_REPLICA).of(1)[:, Measure.RESIZES].sum())
    assert resizes[1] - resizes[0] == early


def test_an_outage_is_a_gap() -> None:
    """Pods that are heard of again were there all the time, and are no new ones."""
    told = recording((WEB,), count=576, cpu=0.1, memory=100 * MI, cpu_request=1)
    told.memory_request[:] = 900 * MI
    told.cpu[0, 200:440] = told.memory[0, 200:440] = np.nan
    told.cpu_request[0, 200:440] = told.memory_request[0, 200:440] = np.nan
    scores = scores_of(told, [USUAL], ONE_REPLICA)
    assert (scores.steps[0], scores.gaps[0]) == (576, 240)
    assert scores.of(1)[:, Measure.RESIZES].sum() >= 1


@cases(
    "cut_off killed is_lower_bound",
    {
        "one in a hundred": (2, 0, False),
        "more of one container": (3, 0, True),
        "a kill": (0, 1, True),
    },
)
def test_one_container_makes_a_lower_bound(
    cut_off: int, killed: int, is_lower_bound: object
) -> None:
    """However many others a workload has, of which all is known."""
    rows = [WEB._replace(pod=f"web-{pod}") for pod in range(30)]
    told = recording(rows, count=200, cpu=0.1, memory=MI, cpu_limit=1)
    told.cpu[7, :cut_off], told.oom_kills[7, :killed] = 0.97, 1
    found = scores_of(told, [USUAL], Given())
    assert found.is_lower_bound.tolist() == [is_lower_bound]


def test_a_gap_is_a_step_without_any_usage() -> None:
    """CPU or memory alone is enough."""
    told = recording((WEB,), count=6, cpu_request=1)
    told.cpu[0, :3], told.memory[0, 2:5] = 0.1, MI
    found = scores_of(told, [USUAL], Given())
    assert (found.steps.tolist(), found.gaps.tolist()) == ([6], [1])


def test_a_later_kill_does_not_lower_what_is_needed() -> None:
    """A container that was killed with more keeps that as its minimum."""
    told = recording((WEB,), count=48, cpu=0.1, memory=50 * MI, memory_request=MI)
    told.memory_limit[0], told.memory_limit[0, 24:] = 800 * MI, 400 * MI
    told.oom_kills[0, [3, 30]] = 1
    walk = Walk(told, fleet_of(told.rows), [USUAL], Given(), keeps_killed=True)
    assert list(walk.hours())
    assert [one.memory_bytes for one in walk.floors()] == [800 * MI]


def test_parts_add_up() -> None:
    """Workloads are walked in parts with the same result."""
    told, given = random_recording(Random(1), workloads=7, hours=50, limits=True), Given()
    whole = scores_of(told, [USUAL], given)
    part_scores = [scores_of(told, [USUAL], given, part) for part in parts(told.rows, 4)]
    assert len(part_scores) > 2
    _same(together(part_scores), whole)


def _same(found: Scores, other: Scores) -> None:
    assert found.workloads == other.workloads
    for name in ("days", "steps", "gaps", "cut_off"):
        assert np.array_equal(getattr(found, name), getattr(other, name)), name


@cases(
    "most expected",
    {
        "what killed it": (None, 800 * MI),
        "a maximum comes first": ("700Mi", 700 * MI),
    },
)
def test_no_less_than_what_killed(most: str | None, expected: int) -> None:
    """A container that was killed keeps at least the limit of that time, if that is asked for."""
    told = recording((WEB,), count=48, cpu=0.1, memory=50 * MI, cpu_request=1, memory_request=MI)
    told.memory_limit[:], told.oom_kills[0, 3] = 800 * MI, 1
    policy = make.policy_json("*", max_allowed=make.amounts(memory=most))
    given = Given({WORKLOAD: make.vpa(policies=[policy])})
    least = {}
    for keeps_killed in (False, True):
        setting = replace(USUAL, rules=replace(USUAL.rules, aggregation=SHORT))
        walk = Walk(told, fleet_of(told.rows), [setting], given, keeps_killed=keeps_killed)
        assert list(walk.hours())
        least[keeps_killed] = walk.recommended[0].amounts[0, 1, 0] // 1000
    assert least == {False: 250 * MI, True: expected}


@cases(
    "limit policy expected",
    {
        "its limit": (800, {}, [800]),
        "what it used, without request and limit": (0, {}, [50]),
        "a minimum that is too low": (800, {"min_allowed": {"memory": "799Mi"}}, [800]),
        "a minimum that is enough": (800, {"min_allowed": {"memory": "800Mi"}}, []),
        "no more than a maximum": (800, {"max_allowed": {"memory": "700Mi"}}, [700]),
    },
)
def test_what_was_killed_needs_a_minimum(limit: int, policy: Json, expected: list[int]) -> None:
    """Flags alone promise nothing for next month, so what a container had is to be its minimum."""
    told = recording((WEB,), count=48, cpu=0.1, memory=50 * MI, cpu_request=1)
    told.memory_limit[:], told.oom_kills[0, 3] = limit * MI, 1
    given = Given({WORKLOAD: make.vpa(policies=[make.policy_json("*", **policy)])})
    walk = Walk(told, fleet_of(told.rows), [USUAL], given, keeps_killed=True)
    assert list(walk.hours())
    assert [one.memory_bytes for one in walk.floors()] == [each * MI for each in expected]
