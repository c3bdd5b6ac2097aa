"""Caps that were learned say what the sizing says, or that they do not know."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

import numpy as np
import pytest

from app.backtest.core.known_caps import KnownCaps
from app.backtest.core.recorded_fleet import RecordedWorkload, fleet_of
from app.backtest.core.settings import Given
from app.backtest.core.sizes import NO_UPPER, Bounded, PodShape, Sizer
from app.backtest.recording import RecordedContainer
from app.model.limits import combined_limits
from app.recommender.core.histograms import Thousandths
from tests import make

WEB = RecordedWorkload("default", "StatefulSet", "web")
ROW = RecordedContainer("default", "StatefulSet", "web", "web-0", "app")
MI = 2**20
ALL = np.ones((1, 2), dtype=np.bool_)


def ranged(most: Mapping[str, str], least: Mapping[str, str]) -> Given:
    """Return a LimitRange for containers."""
    return Given(limits={"default": combined_limits([make.limit_range(most=most, least=least)])})


@pytest.mark.parametrize(
    "given",
    [
        ranged({"cpu": "600m", "memory": "300Mi"}, {}),
        ranged({}, {"cpu": "333m", "memory": "100Mi"}),
        ranged({"cpu": "777m", "memory": "700Mi"}, {"cpu": "50m", "memory": "50Mi"}),
        Given({WEB: make.vpa(policies=[make.policy_json("*", values="RequestsOnly")])}),
    ],
    ids=["a maximum", "a minimum", "both", "limits stay"],
)
@pytest.mark.parametrize("seed", range(8))
def test_what_is_known_is_what_sizing_says(given: Given, seed: int) -> None:
    """Whatever ratio requests and limits have."""
    dice = Random(seed)
    sizer, known, told = Sizer(fleet_of([ROW]), given), KnownCaps(1), 0
    ratio = dice.choice((0, 1, 1.5, 7))  # of limits to requests; 0 is no limit
    requests = dice.randint(1, 900), 100 * MI * 1000
    limits = tuple(int(each * ratio) or None for each in requests)
    shape = PodShape(0, ("app",), (dice.choice((requests, (None, None))),), (limits,))
    for _ in range(150):
        cpu = sorted(dice.randint(10, 1500) for _ in range(3))
        memory = sorted(dice.randint(10, 1500) * MI * 1000 for _ in range(3))
        amounts = np.array([[cpu, memory]])[..., [1, 0, 2]]  # the target lies between its bounds
        (one,) = sizer.bounded(
            shape, (Bounded(*(tuple(amounts[0, :, of].tolist()) for of in range(3))),)
        )
        wanted: Thousandths = np.array([[list(pair) for pair in zip(*one, strict=True)]])
        found, is_known = known.apply(amounts, ALL)
        if is_known.all():
            told += 1
            np.testing.assert_array_equal(found, wanted)
        known.learn(np.array([0]), amounts, wanted, ALL)
    assert told > 80


def test_what_does_not_fit_is_not_known() -> None:
    """Two roofs for one resource are none; what was forgotten is not known either."""
    known, rows = KnownCaps(1), np.array([0])
    asked = np.full((1, 2, 3), 500)
    known.learn(rows, asked, np.full((1, 2, 3), 400), ALL)
    assert known.apply(asked, ALL)[1].all()
    known.learn(rows, asked, np.full((1, 2, 3), 300), ALL)
    assert not known.apply(asked, ALL)[1].any()
    known.forget(rows)
    known.learn(rows, asked, asked, ALL)
    assert known.apply(asked, ALL)[1].all()
    assert not known.apply(asked + 1, ALL)[1].any()
    assert NO_UPPER > 2**60
