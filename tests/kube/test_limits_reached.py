"""Limits that are reached are counted each time, and told once a minute."""

from __future__ import annotations

import logging

import pytest

from app.kube.limits_reached import LimitsReached
from tests.stepped_clock import SteppedClock

log = logging.getLogger("kube.owners")


def test_limits(caplog: pytest.LogCaptureFixture) -> None:
    """The log names each limit once a minute, with how often it was reached since."""
    clock = SteppedClock()
    limits = LimitsReached(log, clock)
    for _ in range(3):
        limits.reached("seats", namespace="a")
    limits.reached("bytes", 10)
    clock.wait(59)
    limits.reached("seats", namespace="b")
    clock.wait(1)
    limits.reached("seats", namespace="c")

    told = [(one.limit, one.times, vars(one).get("namespace")) for one in caplog.records]  # type: ignore[attr-defined]  # by extra
    assert told == [("seats", 1, "a"), ("bytes", 10, None), ("seats", 4, "c")]
    assert limits.counts() == {"seats": 5, "bytes": 10}
