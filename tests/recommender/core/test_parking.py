"""Rows that wait for their VPA."""

from __future__ import annotations

from app.recommender.core.detached import DetachedRows
from app.recommender.core.moments import DAY, HOUR
from app.recommender.core.rules import RecommenderRules, container_rules
from app.recommender.core.tables import NOWHERE, RowTable
from tests import make

KEY = ("default", "web")
RULES = RecommenderRules()


def rows_of(table: RowTable, *containers: str) -> dict[str, int]:
    """Begin rows that belong to the first VPA."""
    rows = {}
    for container in containers:
        row = rows[container] = table.start(container, 0)
        table.follow(row, 0, container_rules(make.vpa(), container, RULES))
    return rows


def test_rows_come_back_to_their_target() -> None:
    """What a VPA left for another target it gets back for the same one, once."""
    table = RowTable(RULES.aggregation)
    parking, rows = DetachedRows(table), rows_of(table, "app")
    parking.park(KEY, ("Deployment", "web"), rows)

    assert table.vpa[rows["app"]] == NOWHERE
    assert parking.fetch(KEY, ("Deployment", "db")) is None
    assert parking.fetch(KEY, ("Deployment", "web")) == rows
    assert parking.fetch(KEY, ("Deployment", "web")) is None


def test_nobody_came_back() -> None:
    """Rows go when their time is over, or when their history has expired."""
    table = RowTable(RULES.aggregation)
    parking = DetachedRows(table)
    parking.park(KEY, None, rows_of(table, "app"), until_ns=HOUR)
    parking.park(KEY, ("Deployment", "web"), rows_of(table, "app", "log"))
    table.last_any[1] = DAY

    assert parking.over(HOUR - 1) == []
    assert parking.over(HOUR) == [(KEY, 0)]
    assert parking.over(8 * DAY) == [(KEY, 2)]
    assert parking.over(9 * DAY) == [(KEY, 1)]
    assert parking.fetch(KEY, ("Deployment", "web")) is None
