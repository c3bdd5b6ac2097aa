"""Every limit that is reached is counted each time, and logged once a minute."""

from __future__ import annotations

import logging

import pytest
from prometheus_client import CollectorRegistry

from app.admission.metrics import ReviewLimit
from app.kube.lookup_limits import LookupLimit
from app.runtime.bounds import PortLimit
from app.runtime.limit_report import LimitReport
from app.runtime.logs import OncePerMinute
from tests.stepped_clock import SteppedClock

NAME = "plumbline_limits_reached_total"


def counted(registry: CollectorRegistry, limit: str) -> float | None:
    """Return how often a limit was reached, None if it is not known."""
    return registry.get_sample_value(NAME, {"limit": limit})


def test_limits(caplog: pytest.LogCaptureFixture) -> None:
    """The log names each limit once a minute, with how often it was reached since."""
    registry, clock = CollectorRegistry(), SteppedClock()
    report = LimitReport(registry, ReviewLimit, clock.monotonic)
    for _ in range(3):
        report.reached(LookupLimit.OWNERS_KEPT, namespace="a")
    report.reached(ReviewLimit.PENDING_VPAS, 10)
    clock.wait(59)
    report.reached(LookupLimit.OWNERS_KEPT, namespace="b")
    clock.wait(1)
    report.reached(LookupLimit.OWNERS_KEPT, namespace="c")

    lines = [(line.name, line.levelno, line.message) for line in caplog.records]
    assert lines == [("runtime.limits", logging.WARNING, "limit reached")] * 3
    told = [(one.limit, one.times, vars(one).get("namespace")) for one in caplog.records]  # type: ignore[attr-defined]  # by extra
    assert told == [("owners_kept", 1, "a"), ("pending_vpas", 10, None), ("owners_kept", 4, "c")]
    assert (counted(registry, "owners_kept"), counted(registry, "pending_vpas")) == (5, 10)


def test_limits_are_counted_from_the_start() -> None:
    """Alerts see the first time; a process has no series for limits of another one."""
    registry = CollectorRegistry()
    LimitReport(registry)
    assert {counted(registry, limit) for limit in (*PortLimit, *LookupLimit)} == {0.0}
    assert counted(registry, ReviewLimit.PENDING_VPAS) is None


def test_each_word_has_its_own_minute() -> None:
    """What happens between two lines is told with the second one, whatever else is told."""
    clock = SteppedClock()
    lines = OncePerMinute(clock.monotonic)
    found = [lines.due("a"), lines.due("a", 5), lines.due("b")]
    clock.wait(60)
    assert [*found, lines.due("a"), lines.due("a")] == [1, 0, 1, 6, 0]
