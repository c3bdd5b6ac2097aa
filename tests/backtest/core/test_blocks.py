"""An hour of a recording, in the recommender's units."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from app.backtest.core.blocks import Block, blocks, steps_a_round, whole_millicores
from app.backtest.core.recorded_fleet import fleet_of
from app.recommender.core.usage import ABSENT
from tests.backtest.recordings import START, STEP, recording
from tests.cases import cases

GAP = float("nan")


def only(**measured: float | list[float]) -> Block:
    """Return the only block of one container."""
    told = recording(count=6)
    for measure, amounts in measured.items():
        told.measured(measure)[:] = amounts
    (found,) = blocks(told, fleet_of(told.rows))
    return found


def test_amounts() -> None:
    """Usage is rounded up to whole millicores and bytes; times are ends of steps."""
    found = only(cpu=[0.1, 0.1004, GAP, 0, 2, 0.137], memory=[1e6, GAP, 0.0, 4097, 5e6, 3e6])
    assert found.cpu[:, 0].tolist() == [100, 101, ABSENT, 0, 2000, 137]
    assert found.memory[:, 0].tolist() == [10**6, ABSENT, 0, 4097, 5 * 10**6, 3 * 10**6]
    assert found.times.tolist() == [(START + STEP * step) * 10**9 for step in range(1, 7)]


def test_whole_millicores_stay() -> None:
    """Single precision does not make another millicore."""
    millicores = np.arange(2_048_000)
    cores = (millicores / 1000).astype(np.float32).astype(np.float64)
    assert np.array_equal(whole_millicores(cores), millicores)


def test_requests_are_believed_until_there_are_others() -> None:
    """A gap changes no request, and what was never known is none."""
    found = only(cpu_request=[GAP, 1, GAP, GAP, 2, GAP], memory_limit=[GAP, GAP, 8e6, GAP, 0, 0])
    assert found.requests[:, 0, 0].tolist() == [0, 1, 1, 1, 2, 2]
    assert found.limits[:, 0, 1].tolist() == [0, 0, 8e6, 8e6, 0, 0]


def test_what_is_known_by_then() -> None:
    """A request is known from its first step on; a pod that is heard of again was silent."""
    found = only(cpu_request=[GAP, 1, GAP, GAP, GAP, GAP], memory=[1, GAP, GAP, GAP, GAP, 1])
    assert found.knows[:, 0].tolist() == [[False, False], *[[True, False]] * 5]
    assert found.silence[:, 0].tolist() == [0, 0, 0, 0, 0, 1]


def test_a_pod_stays_for_a_while() -> None:
    """It is there from its first known step on, and a short gap does not end it."""
    found = only(cpu=[GAP, 1, GAP, GAP, GAP, 1])
    assert found.is_there[:, 0].tolist() == [False, True, True, True, False, True]


@cases(
    "measured is_cut_off",
    {
        "usage far below": ({"cpu": 0.9, "cpu_limit": 1.0}, False),
        "cpu at its limit": ({"cpu": 0.98, "cpu_limit": 1.0}, True),
        "memory at its limit": ({"memory": 98e6, "memory_limit": 1e8}, True),
        "no limit": ({"cpu": 0.98, "cpu_limit": 0.0, "memory": 1e8}, False),
        "throttled": ({"cpu": 0.5, "throttled": 0.0101}, True),
        "hardly throttled": ({"cpu": 0.5, "throttled": 0.0099}, False),
        "a little below 97%": ({"cpu": 0.969, "cpu_limit": 1.0}, False),
        "killed": ({"memory": 5e7, "oom_kills": 1.0}, True),
        "nothing known": ({"cpu_limit": 1.0}, False),
    },
)
def test_what_may_be_cut_off(measured: dict[str, float], is_cut_off: bool) -> None:
    """Usage near a limit, throttling and kills hide how much was wanted."""
    assert only(**measured).is_cut_off.all() == is_cut_off


@cases(
    "seconds steps", {"5m": (300, 12), "7m": (420, 8), "an hour": (3600, 1), "a day": (86400, 1)}
)
def test_an_hour(seconds: int, steps: int) -> None:
    """Decisions are an hour apart, or a step if that is longer."""
    assert steps_a_round(seconds) == steps
    told = replace(recording(count=2 * steps + 1), step=seconds)
    lengths = [len(block.times) for block in blocks(told, fleet_of(told.rows))]
    assert lengths == [steps, steps, 1]


def test_sums_do_not_share_memory() -> None:
    """A block is made of copies, so a recording never changes."""
    told = recording(count=2, cpu=1.0)
    (found,) = blocks(told, fleet_of(told.rows))
    found.requests[:] = 5
    assert np.isnan(told.cpu_request).all()
