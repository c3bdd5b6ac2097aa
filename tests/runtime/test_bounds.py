"""What is held for clients has an end, and each end is counted and told now and then."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

import pytest
from prometheus_client import CollectorRegistry

from app.runtime.bounds import BoundName, BoundReport, Bounds, HeldBytes


@dataclass(eq=False)
class Connection:
    """Holds something."""

    cuts: list[BoundName] = field(default_factory=list)

    def cut_off(self, bound: BoundName, /) -> None:
        """Note that it has to end."""
        self.cuts.append(bound)


def test_a_bound_is_logged_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    """The first time is told at once, all others of the next minute with the one after it."""
    now, registry = [0.0], CollectorRegistry()
    report = BoundReport(registry, lambda: now[0])
    with caplog.at_level(logging.WARNING, "runtime.bounds"):
        for now[0] in (0.0, 1.0, 59.0, 60.0):
            report.hit(BoundName.HEADERS, Bounds(headers=5))
        report.hit(BoundName.CONNECTIONS, Bounds())
    told = [
        (vars(line)["bound"], vars(line)["limit"], vars(line)["times"]) for line in caplog.records
    ]
    assert told == [("headers", 5, 1), ("headers", 5, 3), ("connections", 1000, 1)]
    labels = {"bound": "headers"}
    assert registry.get_sample_value("plumbline_http_bounds_hit_total", labels) == 4


def test_every_bound_is_counted_from_the_start() -> None:
    """Alerts see the first time."""
    registry = CollectorRegistry()
    BoundReport(registry)
    name = "plumbline_http_bounds_hit_total"
    found = [registry.get_sample_value(name, {"bound": field}) for field in Bounds.__slots__]
    assert found == [0.0] * len(BoundName)


def test_who_holds_longest_goes_first() -> None:
    """The one that needs room last is not the one that is cut off."""
    held = HeldBytes(BoundName.RECEIVED_BYTES, 10)
    first, second, third = Connection(), Connection(), Connection()
    assert held.take(first, 4)
    assert held.take(second, 4)
    assert held.take(first, 5)  # still the first one
    assert held.take(third, 6)
    assert [one.cuts for one in (first, second, third)] == [[BoundName.RECEIVED_BYTES], [], []]


def test_who_holds_longest_may_not_hold_more() -> None:
    """A connection that would have to make room for itself gets none."""
    held = HeldBytes(BoundName.RECEIVED_BYTES, 10)
    first, second = Connection(), Connection()
    assert held.take(first, 5)
    assert held.take(second, 5)
    assert not held.take(first, 6)
    assert second.cuts == []


def test_what_is_kept_takes_room() -> None:
    """What no connection can give back counts as well, until it is released."""
    held = HeldBytes(BoundName.RECEIVED_BYTES, 10)
    held.keep(8)
    assert not held.take(Connection(), 3)
    held.release(8)
    assert held.has_room(7)
