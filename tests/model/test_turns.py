"""Namespaces take turns."""

from __future__ import annotations

from app.model.turns import in_turns
from tests.cases import cases


@cases(
    "first order",
    {
        "the first": (0, "a1 b1 c1 a2 c2 a3"),
        "the next": (1, "b1 c1 a1 c2 a2 a3"),
        "round again": (5, "c1 a1 b1 c2 a2 a3"),
    },
)
def test_turns(first: int, order: str) -> None:
    """Each namespace has one item before any has two; another one begins each time."""
    items = {"a": ["a1", "a2", "a3"], "b": ["b1"], "c": ["c1", "c2"]}
    assert " ".join(in_turns(items, first)) == order


def test_turns_of_none() -> None:
    """Where there is nothing, none has a turn."""
    assert list(in_turns({"a": []}, 3)) == []
    assert list(in_turns({}, 3)) == []
