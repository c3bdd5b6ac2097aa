"""Rows without a VPA wait for one, and expire."""

from __future__ import annotations

from app.recommender.core.detached import DetachedRows
from app.recommender.core.moments import DAY, HOUR
from app.recommender.core.rules import RecommenderRules, container_rules
from app.recommender.core.tables import NOWHERE, RowTable
from tests import make

KEY = ("default", "web")
DEFAULTS = RecommenderRules()


def rows_of(table: RowTable, *containers: str) -> dict[str, int]:
    """Begin rows that belong to the first VPA."""
    rows = {}
    for container in containers:
        row = rows[container] = table.start(container, 0)
        table.follow(row, 0, container_rules(make.vpa(), container, DEFAULTS))
    return rows


def test_rows_come_back_to_their_target() -> None:
    """What a VPA left for another target it gets back for the same one, once."""
    table = RowTable(DEFAULTS.aggregation)
    detached, rows = DetachedRows(table), rows_of(table, "app")
    detached.detach(KEY, ("Deployment", "web"), rows)

    assert table.vpa[rows["app"]] == NOWHERE
    assert detached.take_back(KEY, ("Deployment", "db")) is None
    assert detached.take_back(KEY, ("Deployment", "web")) == rows
    assert detached.take_back(KEY, ("Deployment", "web")) is None


def test_nobody_came_back() -> None:
    """Rows go when their time is over, or when their history has expired."""
    table = RowTable(DEFAULTS.aggregation)
    detached = DetachedRows(table)
    detached.detach(KEY, None, rows_of(table, "app"), until_ns=HOUR)
    detached.detach(KEY, ("Deployment", "web"), rows_of(table, "app", "log"))
    table.last_any[1] = DAY

    assert detached.take_expired(HOUR - 1) == []
    assert detached.take_expired(HOUR) == [(KEY, 0)]
    assert detached.take_expired(8 * DAY) == [(KEY, 2)]
    assert detached.take_expired(9 * DAY) == [(KEY, 1)]
    assert detached.take_back(KEY, ("Deployment", "web")) is None
