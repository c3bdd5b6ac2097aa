"""Rows of a recording lie by workload, pod and container."""

from __future__ import annotations

from app.backtest.core.recorded_fleet import fleet_of, parts
from app.backtest.recording import RecordedContainer

ROWS = [
    RecordedContainer("shop", "Deployment", "web", "web-2", "app"),
    RecordedContainer("shop", "", "", "stray", "app"),
    RecordedContainer("shop", "Deployment", "web", "web-1", "side"),
    RecordedContainer("shop", "Deployment", "cart", "cart-1", "app"),
    RecordedContainer("shop", "Deployment", "web", "web-1", "app"),
]


def test_order() -> None:
    """Those of a pod follow one another; containers of one name share a line."""
    found = fleet_of(ROWS)
    assert list(map(str, found.workloads)) == ["shop/Deployment/cart", "shop/Deployment/web"]
    assert found.rows.tolist() == [3, 4, 2, 0]
    assert [found.containers[line] for line in found.lines] == ["app", "app", "side", "app"]
    assert found.lines.tolist() == [0, 1, 2, 1]
    assert found.pods.tolist() == [0, 1, 1, 2]
    assert [found.workload_of(row) for row in range(4)] == [0, 1, 1, 1]
    assert found.rows_of_pod(1).tolist() == [1, 2]
    assert found.lines_of(1).tolist() == [1, 2]


def test_parts_are_whole_workloads() -> None:
    """No workload is cut, and pods without an owner are in none."""
    found = [part.rows.tolist() for part in parts(ROWS, 1)]
    assert found == [[3], [4, 2, 0]]
    assert [part.rows.tolist() for part in parts(ROWS, 9)] == [[3, 4, 2, 0]]
    assert list(parts(ROWS[1:2], 1)) == []
