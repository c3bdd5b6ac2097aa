"""A workload is told hour by hour: what its pods used and requested together."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np

from app.backtest.core.past_hours import HourlyWalk, PastHours
from app.backtest.core.recorded_fleet import fleet_of
from app.backtest.core.scores import GIB, Measure
from app.backtest.core.settings import Given, Setting
from app.backtest.core.walk import Walk
from app.backtest.recording import RecordedContainer, Recording
from app.recommender.core.rules import RecommenderRules
from tests.backtest.histories import given_for, random_recording
from tests.backtest.recordings import STEP, WEB, recording

USUAL = Setting("usual", RecommenderRules())
OTHER = RecordedContainer("shop", "Deployment", "web", "web-2", "app")


def walked(told: Recording, given: Given | None = None) -> list[PastHours]:
    """Return what is told of all workloads."""
    walk = HourlyWalk(told, fleet_of(told.rows), [USUAL], given or Given())
    assert sum(1 for _ in walk.hours()) == -(-told.count * told.step // 3600)
    return list(walk.found())


def test_amounts_of_pods_add_up() -> None:
    """CPU is the average of an hour, memory its peak, of both pods; the last hour is not whole."""
    told = recording((WEB, OTHER), count=18, cpu=0.1, memory=1000, cpu_request=0.5)
    told.memory_request[:] = 4000
    told.cpu[0, :6], told.memory[1, 3] = 0.3, 2500
    told.oom_kills[1, 13] = 1
    (found,) = walked(told)

    assert np.allclose(found.used, [[300, 3500], [200, 2000]])
    assert np.allclose(found.requested[0], [[1000, 8000], [1000, 8000]])
    assert found.kills.tolist() == [0, 1]
    assert found.is_lower_bound
    assert STEP * 12 == 3600


def test_gaps_are_not_known() -> None:
    """An hour without samples uses nothing that is known; one sample in an hour is enough."""
    told = recording((WEB,), count=36, memory_request=4000)
    told.cpu[0, 25], told.memory[0, 25] = 0.2, 700
    (found,) = walked(told)

    assert np.isnan(found.used[:2]).all()
    assert not found.is_lower_bound
    assert np.allclose(found.used[2], [200, 700])


def test_pods_that_are_gone_request_nothing() -> None:
    """What is in force of a pod counts as long as it is there."""
    told = recording((WEB, OTHER), count=48, cpu=0.1, cpu_request=0.5)
    told.cpu[1, 12:], told.cpu_request[1, 12:] = np.nan, np.nan
    (found,) = walked(told)

    assert found.requested[0, :, 0].tolist() == [1000, 500, 500, 500]
    assert found.requested.shape == (2, 4, 2)


def test_amounts_are_those_of_the_walk() -> None:
    """Requests and sums are what a walk without hours finds."""
    told = random_recording(Random(5), workloads=3, hours=60)
    told = replace(told, oom_kills=np.nan_to_num(told.oom_kills))
    given, fleet = given_for(told), fleet_of(told.rows)
    found = walked(told, given)
    walk = Walk(told, fleet, [USUAL], given)
    for _ in walk.hours():
        pass

    for at, one in enumerate(found):
        rows = slice(*fleet.row_bounds[at : at + 2])
        there = walk.in_force[:, rows] * walk.is_there[rows][:, None]
        assert np.allclose(one.requested[:, -1], there.sum(axis=1) * [1000, GIB])
        assert np.allclose(one.sums, walk.scores().days[1:, :, at].sum(axis=0))
        assert one.workload == fleet.workloads[at]
        assert one.sums.shape == (2, len(Measure))
