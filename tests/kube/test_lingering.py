"""What was deleted counts for a while, where it may be created again."""

from __future__ import annotations

from app.kube.watch_cache import Lingering, Value
from app.kube.watched_resources import WatchedResource, watched_scalers, watched_vpas
from app.sandbox.stepped_clock import SteppedClock
from tests.make import NOW

HPAS, _ = watched_scalers("")
PRESENT, GONE = Value("shop", "web", "an HPA"), Value("shop", "web", None)


def passed(lingering: Lingering, source: WatchedResource, *values: Value) -> list[Value]:
    """Return what counts at once."""
    found, kept = lingering.passed(source, values)
    assert found is source
    return list(kept)


def test_a_deletion_counts_after_its_time() -> None:
    """For five minutes nothing is said of it; then it is told once."""
    clock = SteppedClock(NOW)
    lingering = Lingering(clock)
    assert passed(lingering, HPAS, PRESENT) == [PRESENT]
    assert lingering.seconds() is None
    assert passed(lingering, HPAS, GONE) == []
    clock.advance(299)
    assert (lingering.due(), lingering.seconds()) == ([], 1.0)
    clock.advance(1)
    assert lingering.due() == [(HPAS, [GONE])]
    assert (lingering.due(), lingering.seconds()) == ([], None)


def test_what_comes_again_was_never_gone() -> None:
    """A deletion followed by a creation is a change like any other, and starts no second time."""
    clock = SteppedClock(NOW)
    lingering = Lingering(clock)
    passed(lingering, HPAS, GONE)
    clock.advance(200)
    assert passed(lingering, HPAS, PRESENT) == [PRESENT]
    clock.advance(200)
    assert lingering.due() == []
    passed(lingering, HPAS, GONE)
    assert lingering.seconds() == 300


def test_a_repeated_deletion_does_not_begin_anew() -> None:
    """That an object is not there may be heard again, as by a list; the first time counts."""
    clock = SteppedClock(NOW)
    lingering = Lingering(clock)
    passed(lingering, HPAS, GONE)
    clock.advance(200)
    passed(lingering, HPAS, GONE)
    assert lingering.seconds() == 100


def test_other_deletions_count_at_once() -> None:
    """A VPA that was deleted sizes no pod any more."""
    lingering = Lingering(SteppedClock(NOW))
    source = watched_vpas("")
    assert passed(lingering, source, GONE) == [GONE]
