"""What fails costs itself alone, and is kept with its name."""

from __future__ import annotations

import pytest

from app.recommender.core.skipped import SkippedObjects


def test_guard() -> None:
    """What fails is left out and told of once; the others go on."""
    skipped, found = SkippedObjects(), list[float]()
    for one in (1, 0, 2, 0):
        with skipped.guard("share", "by", str(one)):
            found.append(4 / one)

    assert found == [4, 2]
    told = skipped.taken()
    assert [(one.kind, one.name, type(one.error)) for one in told] == [
        ("share", "by/0", ZeroDivisionError),
        ("share", "by/0", ZeroDivisionError),
    ]
    assert skipped.taken() == []


def test_name_that_fails() -> None:
    """What cannot even be named is left out too."""
    skipped = SkippedObjects()
    with skipped.guard("share", 0, name=lambda one: str(1 // one)):
        raise ValueError
    assert [one.name for one in skipped.taken()] == ["?"]


def test_end_of_the_process() -> None:
    """What is meant to end more than one object does."""
    with pytest.raises(KeyboardInterrupt), SkippedObjects().guard("share", "1"):
        raise KeyboardInterrupt
