"""Whoever must end does not wait for what others may never send."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from threading import Event

import pytest

from app.model.errors import Refused, Unavailable
from app.recommender.paging import leavable


def test_pages_come_as_they_are_read() -> None:
    """All of them, in order, each read when it is asked for."""
    read = list[int]()

    def pages() -> Iterator[int]:
        for number in range(1, 4):
            read.append(number)
            yield number

    found = [(page, len(read)) for page in leavable("pods", pages(), lambda: False)]

    assert found == [(1, 1), (2, 2), (3, 3)]


@pytest.mark.parametrize(
    ("error", "kind"), [(Refused("403"), Refused), (TimeoutError("a defect"), Unavailable)]
)
def test_an_error_ends_the_reading(error: Exception, kind: type[Exception]) -> None:
    """What was read before an error is there; a defect is an error like others."""

    def pages() -> Iterator[int]:
        yield 1
        raise error

    found = leavable("pods", pages(), lambda: True)
    assert next(found) == 1
    with pytest.raises(kind):
        next(found)


def test_a_page_that_does_not_come_is_left() -> None:
    """Who may not wait any longer goes, although the call still hangs; until then one waits."""
    answered, looks = Event(), iter([True, False])

    def pages() -> Iterator[int]:
        answered.wait(20)
        yield 1

    with pytest.raises(Unavailable, match="no longer leads"):
        next(leavable("pods", pages(), lambda: next(looks)))
    assert not answered.is_set()
    answered.set()


def test_a_page_that_never_comes_is_told_of_and_given_up(caplog: pytest.LogCaptureFixture) -> None:
    """A round ends although a call hangs: after half a minute the log says what it waits for."""
    answered, moments = Event(), count(0, 20)

    def pages() -> Iterator[int]:
        answered.wait(20)
        yield 1

    with pytest.raises(Unavailable, match="pods: no answer within 140 s"):
        next(leavable("pods", pages(), lambda: True, lambda: float(next(moments))))
    answered.set()
    told = [(one.message, vars(one)["what"], vars(one)["seconds"]) for one in caplog.records]
    assert told == [("still waiting", "pods", 40)]
