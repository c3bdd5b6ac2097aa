"""The ring keeps a day of usage of many containers in bounded memory."""

from __future__ import annotations

from datetime import datetime, timedelta
from math import isnan

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from app.model.quantity import MEMORY
from app.page.core.usage_ring import UsageRing, decoded, encoded
from app.page.core.usage_series import ChartRange
from app.recommender.core.estimation import MOST
from app.recommender.core.usage import ABSENT
from tests.make import NOW
from tests.page.core.usage_samples import MIB, batch, minutes, question, used_at


@given(st.integers(0, MOST))
def test_amounts_in_two_bytes(amount: int) -> None:
    """An amount is kept to the twentieth of a percent."""
    assert abs(decoded(encoded(np.array([amount])))[0] - amount) <= max(amount * 0.0005, 0.5)


@given(st.integers(-2, MOST), st.integers(-2, MOST))
def test_codes_are_in_order(one: int, other: int) -> None:
    """The greater amount never has the lower code."""
    codes = encoded(np.array(sorted((one, other))))

    assert codes[0] <= codes[1]


def test_amounts_that_are_not_given() -> None:
    """What is not known stays so; zero is an amount."""
    assert np.isnan(decoded(encoded(np.array([ABSENT])))[0])
    assert decoded(encoded(np.array([0])))[0] == 0


def test_an_hour() -> None:
    """Minutes say what the pods used in them; others say nothing."""
    ring = UsageRing(100)
    ring.take(batch({"web-0": (100, MIB), "web-1": (200, MIB), "db-0": (900, MIB)}), NOW)
    ring.take(batch({"web-0": (300, MIB)}), NOW + minutes(2))

    found = ring.read(question("web-.*", end=NOW + minutes(3)))

    assert used_at(found, NOW) == [100, 200, 200]
    assert used_at(found, NOW + minutes(1)) == [None] * 3
    assert used_at(found, NOW + minutes(2)) == [300, 300, 300]
    assert ring.read(question(end=NOW - minutes(1))) == {}


def test_a_day() -> None:
    """Five minutes are one point: CPU on average, memory at its peak."""
    ring = UsageRing(100)
    for minute, (cpu, memory) in enumerate([(100, 4), (200, 9), (300, 2)]):
        ring.take(batch({"web-0": (cpu, memory * MIB)}), NOW + minutes(minute))
    ring.take(batch({"web-0": (ABSENT, ABSENT)}), NOW + minutes(5))

    found = ring.read(question(chart=ChartRange.DAY, end=NOW + minutes(5)))

    assert used_at(found, NOW) == [200, 200, 200]
    assert round((used_at(found, NOW, MEMORY)[0] or 0) / MIB, 1) == 9


def test_the_day_goes_on() -> None:
    """What is older than a day is not shown, and its place is used again."""
    ring = UsageRing(100)
    for hour in range(40):
        ring.take(batch({"web-0": (hour + 1, MIB)}), NOW + timedelta(hours=hour))
        ring.take(batch({"web-0": (hour + 1, MIB)}), NOW + timedelta(hours=hour, minutes=5))

    end = NOW + timedelta(hours=39, minutes=10)
    series = ring.read(question(chart=ChartRange.DAY, end=end))["app", "cpu"]

    known = series.median[~np.isnan(series.median)]
    assert known[-1] == 40
    assert known[0] == 17
    assert len(known) == 24 * 2 - 1  # the last one has not ended


def known(ring: UsageRing, end: datetime) -> list[float]:
    """Return the medians that are known of the last hour."""
    found: list[float] = ring.read(question(end=end))["app", "cpu"].median.tolist()
    return [value for value in found if not isnan(value)]


def test_a_pause_of_days() -> None:
    """After a pause nothing of before is shown as of now."""
    ring = UsageRing(100)
    ring.take(batch({"web-0": (1, MIB)}), NOW)
    later = NOW + timedelta(days=9)
    ring.take(batch({"web-0": (2, MIB)}), later)

    assert known(ring, later + minutes(1)) == [2]


def test_a_clock_that_is_set_back() -> None:
    """A little is no matter; after hours all begins again, and does not wait for them."""
    ring = UsageRing(100)
    ring.take(batch({"web-0": (1, MIB)}), NOW)
    ring.take(batch({"web-0": (2, MIB)}), NOW - minutes(3))
    assert known(ring, NOW + minutes(1)) == [2]

    before = NOW - timedelta(hours=3)
    ring.take(batch({"web-0": (3, MIB)}), before)

    assert known(ring, before + minutes(1)) == [3]


def test_rows_are_used_again() -> None:
    """Pods that are gone give way to new ones; with too many at once the rest is counted."""
    ring = UsageRing(3)
    ring.take(batch({"a": (1, 1), "b": (1, 1), "c": (1, 1), "d": (1, 1)}), NOW)
    assert (len(ring), ring.left_out) == (3, 1)

    later = NOW + minutes(9)
    ring.take(batch({"c": (5, 1)}), later - minutes(1))
    ring.take(batch({"d": (7, 1), "c": (6, 1), "e": (8, 1)}), later)

    assert (len(ring), ring.left_out) == (3, 0)
    assert used_at(ring.read(question("d", end=later + minutes(1))), later)[0] == 7
    assert used_at(ring.read(question("c", end=later + minutes(1))), later)[0] == 6
    assert ring.read(question("a", end=later + minutes(1))) == {}


def test_rows_are_let_go_after_a_day() -> None:
    """A pod that is gone for a day takes no row."""
    ring = UsageRing(10)
    ring.take(batch({"a": (1, 1)}, "old"), NOW)
    ring.take(batch({"b": (1, 1)}), NOW + timedelta(days=1, minutes=6))

    assert len(ring) == 1


def size(ring: UsageRing) -> int:
    """Return how many bytes amounts take."""
    columns = (ring._minutes, ring._steps)
    return sum(codes.nbytes for one in columns for codes in one.codes.values())


def test_memory() -> None:
    """Memory grows with the containers, to 1.5 KB for each at most, and nothing is lost by it."""
    ring = UsageRing(9000)
    ring.take(batch({"first": (7, MIB)}), NOW)
    assert size(ring) < 1_500 * 4096

    ring.take(batch({f"pod-{number}": (1, MIB) for number in range(9500)}), NOW + minutes(1))

    assert (len(ring), ring.left_out) == (9000, 501)
    assert size(ring) < 1_500 * 9000
    assert used_at(ring.read(question("first", end=NOW + minutes(2))), NOW)[0] == 7
