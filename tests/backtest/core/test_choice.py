"""A profile is proposed only where it is better by enough in more than one part of the history."""

from __future__ import annotations

from random import Random

import numpy as np

from app.backtest.core.choice import Choice, choose
from app.backtest.core.scores import Measure
from app.backtest.core.setting_outcomes import Price, Prices
from app.recommender.core.histograms import Indexes
from tests.backtest.core.scored import CART, WEB, Sums, scores
from tests.cases import cases

PRICES = Prices(Price(1, 0))
SLACK, UNMET, KILLS = Measure.CPU_SLACK, Measure.CPU_UNMET, Measure.KILLS
STEADY = [10.0, 11, 10, 11, 10, 11]


def each_day(days: int) -> Indexes:
    """Draw each day alone: the error is how much days differ."""
    return np.repeat(np.arange(days), days).reshape(days, days)


def chosen(*profiles: Sums) -> Choice:
    """Choose on six days; the first profile is the present one."""
    found = scores({}, *profiles, days=6)
    return choose(found, range(1, len(profiles) + 1), PRICES, each_day)


@cases(
    "other proposed",
    {
        "less is reserved, always": ({SLACK: 5}, 1),
        "less, by two parts of three": ({SLACK: [5, 5, 5, 5, 13, 13]}, 1),
        "less in one part alone": ({SLACK: [1, 1, 20, 20, 20, 20]}, 0),
        "less on average, but not surely": ({SLACK: [1, 20, 20, 1, 1, 20]}, 0),
        "less on average, by less than an error": ({SLACK: [1, 19, 1, 19, 1, 19]}, 0),
        "as much": ({SLACK: STEADY}, 0),
        "less, but a little short": ({SLACK: 1, UNMET: 0.01}, 0),
        "less, but killed": ({SLACK: 5, KILLS: [0, 0, 1, 0, 1, 0]}, 0),
        "killed where it is judged": ({SLACK: 5, KILLS: [1, 0, 0, 0, 0, 0]}, 0),
    },
)
def test_one_other(other: Sums, proposed: int) -> None:
    """It has to win twice, by more than an error and without more kills."""
    assert chosen({SLACK: STEADY}, other).proposed == proposed


def test_the_best_of_several() -> None:
    """The one that loses least is chosen, not the first that is better."""
    found = chosen({SLACK: STEADY}, {SLACK: 5}, {SLACK: 4}, {SLACK: 6})
    assert found.proposed == 2
    assert [turn.chosen for turn in found.turns] == [2, 2, 2]
    assert [turn.gain for turn in found.turns] == [6.5, 6.5, 6.5]


def test_no_profile_that_kills_more() -> None:
    """What killed more often in the other parts is not even judged."""
    found = chosen({SLACK: STEADY, KILLS: 1}, {SLACK: 1, KILLS: 2}, {SLACK: 5, KILLS: 1})
    assert found.proposed == 2


def test_profiles_that_are_equal_are_seldom_proposed() -> None:
    """Of fleets for which nothing is better, about one in twelve is told otherwise by chance."""
    dice, proposed = Random(1), 0
    draws = np.array([dice.choices(range(4), k=4) for _ in range(500)])
    for _ in range(400):
        profiles = [{SLACK: [dice.gauss(10, 0.5) for _ in range(12)]} for _ in range(12)]
        found = scores({}, *profiles, days=12)
        proposed += choose(found, range(1, 13), PRICES, lambda _: draws).proposed > 0
    assert proposed / 400 <= 0.1


def test_fewer_kills_elsewhere_do_not_make_up_for_more() -> None:
    """Kills of the judged part count, also where the other parts had fewer."""
    found = chosen(
        {SLACK: STEADY, KILLS: [0, 0, 0, 0, 1, 0]}, {SLACK: 5, KILLS: [1, 0, 1, 0, 0, 0]}
    )
    assert [turn.chosen for turn in found.turns] == [1, 1, 0]
    assert [turn.more_kills for turn in found.turns] == [1, 1, 0]
    assert found.proposed == 0


def test_shortage_of_the_judged_part_counts() -> None:
    """A profile that lacks more where it is judged has not won, whatever it saves."""
    found = chosen(
        {SLACK: STEADY, UNMET: [0, 0, 0, 0, 0.2, 0.2]},
        {SLACK: 1, UNMET: [0.1, 0.1, 0.1, 0.1, 0, 0]},
    )
    assert [turn.is_short for turn in found.turns] == [True, True, False]
    assert found.proposed == 0


def test_kills_of_one_workload_do_not_make_up_for_those_of_another() -> None:
    """A profile under which other workloads are killed is not proposed, however few they are."""
    present: Sums = {SLACK: STEADY, KILLS: 2}
    other: Sums = {SLACK: 5, KILLS: 0}
    found = scores({}, present, other, days=6, workloads=(WEB, CART))
    assert choose(found, (1, 2), PRICES, each_day).proposed == 1
    found.days[1:, 2, 1, KILLS] = 1
    assert choose(found, (1, 2), PRICES, each_day).proposed == 0


def test_what_wins_once_each() -> None:
    """Two profiles that take turns in being the best are not surely better."""
    first = {SLACK: [9.0, 9, 1, 1, 20, 20]}
    second = {SLACK: [2.0, 2, 9, 9, 9, 9]}
    found = chosen({SLACK: [10.0] * 6}, first, second)
    wins = [turn.chosen for turn in found.turns if turn.is_won]
    assert found.proposed == 0 or wins.count(found.proposed) > 1
