"""Tables of arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from app.recommender.core.tables import Fill, Table


class Places(Table):
    """Two columns."""

    FILLS: ClassVar[Mapping[str, Fill]] = {"count": (np.int64, 0), "place": (np.int32, -1)}

    count: np.ndarray[tuple[int], np.dtype[np.int64]]
    place: np.ndarray[tuple[int], np.dtype[np.int32]]


def test_lines_are_taken_released_and_taken_again() -> None:
    """A released line comes back as good as new."""
    table = Places()
    lines = [table.take() for _ in range(3)]
    table.count[1], table.place[1] = 7, 5
    table.release(1)

    assert lines == [0, 1, 2]
    assert len(table) == 2
    assert table.take() == 1
    assert (table.count[1], table.place[1]) == (0, -1)


def test_growing_keeps_what_there_is() -> None:
    """More lines than there is room for make more room."""
    table = Places()
    for number in range(40):
        line = table.take()
        table.count[line] = number

    assert table.count[:40].tolist() == list(range(40))
    assert (table.place == -1).all()
    assert len(table) == 40
