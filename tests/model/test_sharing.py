"""Equal values are kept once."""

from __future__ import annotations

from app.model.sharing import shared, shared_text


def test_equal_values_become_one() -> None:
    """The first one is returned for all that are equal and of its type."""
    first, second = ("a", 1), ("a", 1)
    assert shared(first) is shared(second)
    assert shared(1.0) is not shared(1)


def test_long_texts_are_left_alone() -> None:
    """A text that hardly comes twice is not kept."""
    short, long = "Running", "x" * 65
    assert shared_text("".join(short)) is shared_text(short[:3] + short[3:])
    assert shared_text(long) is long
