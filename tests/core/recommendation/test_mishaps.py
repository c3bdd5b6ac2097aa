"""What fails costs itself alone, and is kept with its name."""

from __future__ import annotations

import pytest

from app.core.recommendation.mishaps import Mishaps


def test_each() -> None:
    """All but the failing ones come out, in their order; those are told of once."""
    mishaps = Mishaps()
    found = mishaps.each("share", [1, 0, 2, 0], lambda one: f"by {one}", lambda one: 4 // one)

    assert found == [4, 2]
    told = mishaps.taken()
    assert [(one.kind, one.name, type(one.error)) for one in told] == [
        ("share", "by 0", ZeroDivisionError),
        ("share", "by 0", ZeroDivisionError),
    ]
    assert mishaps.taken() == []


def test_name_that_fails() -> None:
    """What cannot even be named is left out too."""
    mishaps = Mishaps()
    assert mishaps.each("share", [0, 4], lambda one: str(1 // one), lambda one: 4 // one) == [1]
    assert [one.name for one in mishaps.taken()] == ["?"]


def test_end_of_the_process() -> None:
    """What is meant to end more than one object does."""

    def end(_one: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Mishaps().each("share", [1], str, end)
