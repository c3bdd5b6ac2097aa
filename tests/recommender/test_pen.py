"""Writes are made side by side, but never two of the same object."""

from __future__ import annotations

from threading import Event

import pytest

from app.model.errors import Unavailable
from app.recommender.publishing import Fate, QueuedWrite, WriteQueue
from app.sandbox.clock import SteppedClock

A, B = ("Kind", "default", "a"), ("Kind", "default", "b")


def nothing(_fate: Fate = Fate.WRITTEN) -> None:
    """Do nothing."""


def finish(pen: WriteQueue) -> None:
    """Make all writes."""
    while pen.is_busy:
        pen.step()
    pen.rest()


def test_an_object_is_written_once_at_a_time() -> None:
    """What is newer waits for what is under way; others overtake both."""
    pen, other = WriteQueue(SteppedClock(), 3, lambda: True), Event()
    order = list[str]()

    def slow() -> None:
        assert other.wait(20)
        order.append("older")

    def quick() -> None:
        order.append("other")
        other.set()

    pen.add([QueuedWrite(A, slow, nothing)])
    pen.step()
    pen.add(
        [QueuedWrite(A, lambda: order.append("newer"), nothing), QueuedWrite(B, quick, nothing)]
    )
    finish(pen)

    assert order == ["other", "older", "newer"]


def test_what_is_newer_takes_the_place_of_what_waits() -> None:
    """Only the newest is written; what is urgent goes first."""
    pen, order = WriteQueue(SteppedClock(), 1, lambda: True), list[str]()
    pen.add(
        [
            QueuedWrite(A, lambda: order.append("old"), nothing),
            QueuedWrite(B, lambda: order.append("b"), nothing),
        ]
    )
    pen.add([QueuedWrite(A, lambda: order.append("new"), nothing)], urgent=True)
    finish(pen)

    assert order == ["new", "b"]


@pytest.mark.parametrize("error", [Unavailable("503"), Unavailable(""), ValueError("a defect")])
def test_what_fails_is_told_once(error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    """However a write fails, the others are made, and one line counts those that failed."""
    pen, fates = WriteQueue(SteppedClock(), 2, lambda: True), list[tuple[str, Fate]]()

    def fail() -> None:
        raise error

    pen.add([QueuedWrite(A, fail, lambda fate: fates.append(("a", fate)))])
    pen.add([QueuedWrite(B, nothing, lambda fate: fates.append(("b", fate)))])
    finish(pen)

    assert sorted(fates) == [("a", Fate.FAILED), ("b", Fate.WRITTEN)]
    lines = [one.__dict__ for one in caplog.records if one.message == "not everything was written"]
    assert [line["failed"] for line in lines] == [1]
    assert lines[0]["error"]


def test_without_the_right_to_write_nothing_is_begun() -> None:
    """A write that is not allowed any more is put off."""
    pen, fates, made = WriteQueue(SteppedClock(), 2, lambda: False), list[Fate](), list[int]()
    pen.add([QueuedWrite(A, lambda: made.append(1), fates.append)])
    finish(pen)

    assert (fates, made) == ([Fate.PUT_OFF], [])
