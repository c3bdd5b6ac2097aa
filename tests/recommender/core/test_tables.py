"""Tables grow, rows are filed and expire."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from app.recommender.core.moments import DAY, UNSET
from app.recommender.core.rules import AggregationRules, RecommenderRules, container_rules
from app.recommender.core.tables import NOWHERE, ColumnTable, RowTable, VpaTable, column
from tests import make

RULES = RecommenderRules()


class Places(ColumnTable):
    """Two columns."""

    count: NDArray[np.int64] = column(np.int64)
    place: NDArray[np.int32] = column(np.int32, -1)


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


def test_dropped_rows_are_as_good_as_new() -> None:
    """What one row learned is not found in the next that takes its place."""
    table = RowTable(AggregationRules())
    row = table.start("app", 5)
    table.follow(row, 3, container_rules(make.vpa(), "app", RULES))
    table.learn_cpu(np.array([row]), np.array([1000]), np.array([DAY]))
    table.estimated[row] = 7
    assert table.expiry_ns[row] == 8 * DAY
    table.drop(row)
    again = table.start("log", 6)

    assert again == row
    assert (table.names[row], table.vpa[row], table.first[row]) == ("log", NOWHERE, UNSET)
    assert (table.cpu.totals[row], table.estimated[row].sum(), table.is_dirty[row]) == (0, 0, False)


def test_samples_of_a_batch() -> None:
    """First, last and count follow from all samples of a batch, in whatever order."""
    table = RowTable(AggregationRules())
    rows = np.array([table.start("app", 0), table.start("log", 0)])[[0, 1, 0, 0]]
    times = np.array([20, 7, 10, 30]) * DAY
    table.learn_cpu(rows, np.array([100, 100, 100, 100]), times, 60.0, 60)
    table.learn_cpu(rows[:1], np.array([100]), times[:1])

    assert table.first[:2].tolist() == [10 * DAY, 7 * DAY]
    assert table.last[:2].tolist() == [30 * DAY, 7 * DAY]
    assert table.counts[:2].tolist() == [181, 60]


def test_youth_and_expiry() -> None:
    """A row is as young as its last sign of life, or as its beginning."""
    table = RowTable(AggregationRules())
    row = table.start("app", 2 * DAY)
    table.follow(row, 0, container_rules(make.vpa(), "app", RULES))
    at = np.array([row])
    assert table.youth(at)[0] == 2 * DAY

    table.last_any[row] = DAY

    assert table.youth(at)[0] == DAY
    assert [bool(table.expired(at, now)[0]) for now in (9 * DAY - 1, 9 * DAY)] == [False, True]


def test_modes() -> None:
    """Modes are remembered as numbers, each once; a new line has none."""
    table = VpaTable()
    lines = [table.take() for _ in range(3)]
    for line, mode in zip(lines, ("Auto", "Off", "Auto"), strict=True):
        table.set_mode(line, mode)

    assert [table.modes[table.mode[line]] for line in [*lines, table.take()]] == [
        "Auto",
        "Off",
        "Auto",
        "",
    ]
    assert table.modes == ["", "Auto", "Off"]
