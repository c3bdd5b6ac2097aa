"""The time of a cluster follows ours, and keys change how fast."""

from __future__ import annotations

import math

from app.run.speed import SpeedControl
from app.run.view import REAL_TIME, ClusterSpeed
from app.sandbox.stepped_clock import SteppedClock
from tests.cases import cases


def moved(
    speed: float | None, keys: str = "", seconds: float = 0.1
) -> tuple[list[float], ClusterSpeed]:
    """Press keys, let our time pass, and return by what the cluster's was moved."""
    clock = SteppedClock()
    steps: list[float] = []
    speed_control = SpeedControl(steps.append, clock, speed)
    for key in keys:
        speed_control.press(key)
    clock.advance(seconds)
    speed_control.step(math.inf)
    return [round(step, 6) for step in steps], speed_control.pace


@cases(
    "speed keys steps pace",
    {
        "as it was asked for": (60.0, "", [6.0], ClusterSpeed(60.0)),
        "faster": (60.0, "+", [10.0], ClusterSpeed(120.0)),
        "faster without shift": (10.0, "=", [2.0], ClusterSpeed(20.0)),
        "slower": (60.0, "--", [1.5], ClusterSpeed(15.0)),
        "faster and back": (60.0, "+-", [6.0], ClusterSpeed(60.0)),
        "paused": (60.0, " ", [], ClusterSpeed(60.0, is_paused=True)),
        "paused and not": (60.0, "  ", [6.0], ClusterSpeed(60.0)),
        "another key": (60.0, "x\x1b[A", [6.0], ClusterSpeed(60.0)),
        "as fast as can be": (math.inf, "+", [10.0], ClusterSpeed(math.inf)),
        "no more so fast": (math.inf, "-", [10.0], ClusterSpeed(3840.0)),
        "not slower than an eighth": (1.0, "-------", [0.0125], ClusterSpeed(0.125)),
        "not faster than an hour a second": (3840.0, "+", [10.0], ClusterSpeed(3840.0)),
        "real time": (None, "+- ", [], REAL_TIME),
    },
)
def test_keys(speed: float | None, keys: str, steps: list[float], pace: ClusterSpeed) -> None:
    """Plus doubles, minus halves, space stops time and lets it go on; a real one is left alone."""
    assert moved(speed, keys) == (steps, pace)


def test_a_pause_is_not_caught_up() -> None:
    """What passed while it was paused is no debt."""
    clock = SteppedClock()
    steps: list[float] = []
    speed_control = SpeedControl(steps.append, clock, 60.0)
    speed_control.press(" ")
    clock.advance(1000.0)
    speed_control.step(math.inf)
    speed_control.press(" ")
    clock.advance(0.1)
    speed_control.step(math.inf)

    assert [round(step, 6) for step in steps] == [6.0]


def test_what_cannot_be_caught_up_is_let_go() -> None:
    """A machine that is too slow makes the cluster's time slower, and leaves nothing out."""
    clock = SteppedClock()
    steps: list[float] = []
    speed_control = SpeedControl(steps.append, clock, 600.0)
    clock.advance(100.0)

    assert speed_control.step(math.inf)
    assert not [speed_control.step(math.inf) for _ in range(10)][-1]
    assert sum(steps) < 100
