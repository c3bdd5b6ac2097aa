"""Time moves as it is told, and what is due happens in order."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from threading import Thread

from app.sandbox.stepped_clock import START, SteppedClock


def test_what_is_due_happens_in_order_of_time() -> None:
    """Each thing happens at its moment; what was noted for one moment, in that order."""
    clock = SteppedClock()
    seen: list[tuple[str, float]] = []

    def note(name: str) -> None:
        seen.append((name, clock.monotonic()))

    for name, seconds in (("late", 5), ("early", 1), ("same", 1), ("never", 11)):
        clock.call_later(seconds, partial(note, name))
    clock.advance(10)

    assert seen == [("early", 1), ("same", 1), ("late", 5)]
    assert clock.now() == START + timedelta(seconds=10)


def test_what_happens_may_note_more() -> None:
    """What is noted on the way happens in the same step if it is due."""
    clock = SteppedClock()
    seen: list[float] = []

    def again() -> None:
        seen.append(clock.monotonic())
        clock.call_later(2, again)

    clock.call_later(1, again)
    clock.advance(6)

    assert seen == [1, 3, 5]


def test_the_stepper_never_waits_for_ever() -> None:
    """Waiting in the thread that steps moves the time, also from within what is due."""
    clock = SteppedClock()
    seen: list[float] = []

    def slow() -> None:
        clock.wait(3)
        seen.append(clock.monotonic())

    clock.call_later(1, slow)
    clock.call_later(2, lambda: seen.append(clock.monotonic()))
    clock.wait(2)

    assert seen == [2, 4]
    assert clock.monotonic() == 4


def test_other_threads_wait_for_the_stepper() -> None:
    """A thread that waits goes on when the time has come."""
    clock = SteppedClock()
    seen: list[float] = []

    def work() -> None:
        clock.wait(5)
        seen.append(clock.monotonic())

    thread = Thread(target=work)
    thread.start()
    clock.advance(4)
    assert thread.is_alive()
    while thread.is_alive():  # it may have begun to wait only after the step
        clock.advance(5)
        thread.join(0.01)

    assert seen
    assert seen[0] >= 5
