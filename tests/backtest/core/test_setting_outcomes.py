"""Sums of days become the numbers that people compare."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pytest

from app.backtest.core.scores import Measure, Scores
from app.backtest.core.setting_outcomes import (
    Interval,
    Price,
    Prices,
    SettingOutcome,
    outcomes,
    quality,
)
from app.backtest.core.settings import AS_IT_WAS, Setting
from app.recommender.core.histograms import Indexes
from app.recommender.core.rules import RecommenderRules
from tests.backtest.core.scored import CART, WEB, Sums, scores
from tests.cases import cases

USUAL = Setting("usual", RecommenderRules(), flags=("--a=b",))
EACH_DAY: Indexes = np.array([[0, 0, 0, 0], [1, 1, 1, 1], [2, 2, 2, 2], [3, 3, 3, 3]])
WAS: Sums = {Measure.CPU_USED: 4, Measure.CPU_SLACK: 6}


def outcome(*settings: Sums, prices: Prices | None = None) -> SettingOutcome:
    """Return what came of the last setting."""
    return _outcomes(scores(*settings), prices)[-1]


def _outcomes(found: Scores, prices: Prices | None = None) -> list[SettingOutcome]:
    return outcomes(found, [USUAL] * (found.days.shape[1] - 1), EACH_DAY, prices)


def test_numbers() -> None:
    """What is reserved is what was used, and slack, without what was lacking."""
    found = outcome(
        WAS,
        {
            Measure.CPU_USED: 4,
            Measure.CPU_SLACK: 2,
            Measure.CPU_UNMET: 1,
            Measure.CPU_OVER: 3,
            Measure.CPU_STEPS: 12,
            Measure.KILLS: [1, 0, 0, 1],
            Measure.RESIZES: 3,
            Measure.EVICTIONS: 0.5,
        },
    )
    cpu = found.cpu
    assert (cpu.used, cpu.reserved, cpu.slack, cpu.unmet) == (16, 20, 8, 4)
    assert (cpu.over_share, cpu.slack_share) == (0.25, 0.4)
    assert (found.kills, found.resizes_a_day, found.evictions_a_day) == (2, 3, 0.5)
    assert (found.name, found.flags, found.cost) == ("usual", ("--a=b",), None)


def test_a_change_without_requests() -> None:
    """There is none; without a week nothing is said about certainty."""
    found = outcome(WAS, {Measure.CPU_USED: 4, Measure.CPU_SLACK: [1, 2, 3, 4]})
    assert found.cpu.change == pytest.approx(Interval(-0.35))
    assert found.memory.change is None
    assert found.memory.slack_share == found.memory.over_share == 0


def test_a_day_without_requests() -> None:
    """Draws in which nothing was requested before say nothing; the others do."""
    was: Sums = {Measure.CPU_SLACK: [0, 0, 0, 0, 0, 0, 10]}
    found = outcomes(
        scores(was, {Measure.CPU_SLACK: 5}, days=7), [USUAL], np.eye(7, dtype=np.int64) * 6, None
    )[-1]
    assert found.cpu.change is not None
    assert found.cpu.change.value == pytest.approx(2.5)
    assert found.cpu.change.least is not None


@pytest.mark.parametrize("days", [7, 13, 27])
def test_intervals_hold(days: int) -> None:
    """Of histories at random about 95 % have the true change in their interval."""
    dice, held = Random(days), 0
    draws = np.array([dice.choices(range(days), k=days) for _ in range(500)])
    for _ in range(600):
        slack = [dice.gauss(50, 10) for _ in range(days)]
        (_, found) = outcomes(
            scores({Measure.CPU_SLACK: 100}, {Measure.CPU_SLACK: slack}, days=days),
            [USUAL],
            draws,
            None,
        )
        change = found.cpu.change
        assert change is not None
        assert change.least is not None
        assert change.most is not None
        held += change.least <= -0.5 <= change.most
    assert 0.93 <= held / 600 <= 0.98


def test_kills_of_each_workload() -> None:
    """What is killed less in one and more in another is told apart."""
    found = scores({Measure.KILLS: 2}, {Measure.KILLS: 1}, workloads=(WEB, CART))
    found.days[1:, 1, 1, Measure.KILLS] = 3
    told = _outcomes(found)[-1]
    assert (told.kills, told.fewer_kills, told.more_kills) == (16, 4, 12)
    assert told.killed_more == (CART,)


def test_the_recording_comes_first() -> None:
    """It has a name and no change."""
    was = _outcomes(scores(WAS, WAS))[0]
    assert was.name == AS_IT_WAS
    assert was.cpu.change == Interval(0)


def test_money() -> None:
    """Hours have a price, in some namespaces another one."""
    told = {Measure.CPU_SLACK: 10, Measure.MEMORY_SLACK: 100}
    prices = Prices(Price(0.5, 0.01), {"shop": Price(1, 0.1)})
    assert outcome(WAS, told, prices=prices).cost == 4 * (10 + 10)
    assert outcome(WAS, told, prices=Prices(Price(0.5, 0.01))).cost == 4 * (5 + 1)


@cases(
    "web cart worst",
    {
        "kills come first": ({Measure.KILLS: 1}, {Measure.CPU_UNMET: 9}, WEB),
        "then shortage": ({}, {Measure.CPU_UNMET: 1}, CART),
        "by its share": (
            {Measure.CPU_USED: 2, Measure.CPU_UNMET: 1},
            {Measure.CPU_USED: 100, Measure.CPU_UNMET: 2},
            WEB,
        ),
        "none": ({Measure.CPU_USED: 2}, {}, None),
    },
)
def test_the_worst_workload(web: Sums, cart: Sums, worst: object) -> None:
    """It is the one that was killed most often, else the one that lacked most."""
    first, second = scores({}, web), scores({}, cart, workloads=[CART])
    together = replace(
        first, workloads=(WEB, CART), days=np.concatenate([first.days, second.days], axis=2)
    )
    assert _outcomes(together)[-1].worst == worst


def test_without_workloads() -> None:
    """There is no worst of nothing."""
    assert _outcomes(scores({}, workloads=[]))[0].worst is None


def test_quality() -> None:
    """Gaps are a share of all steps, what is cut off one of those that are known."""
    found = replace(
        scores({}, workloads=[WEB, CART]),
        steps=np.array([100, 100]),
        gaps=np.array([20, 0]),
        cut_off=np.array([9, 1]),
        is_lower_bound=np.array([True, False]),
    )
    told = quality(found, unknown_owners=3)
    assert (told.days, told.workloads, told.steps, told.unknown_owners) == (4, 2, 200, 3)
    assert told.gap_share == 0.1
    assert told.cut_off_share == pytest.approx(10 / 180)
    assert told.lower_bounds == (WEB,)
