"""Grafana dashboards as values, and the JSON that Grafana reads.

Strategy: a panel is a title, its queries and a unit; where it stands follows from the order.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from app.ports import Json

COLUMNS: Final = 24
_HEIGHT: Final = 8
_WIDTH: Final = 8
_SOURCE: Final = {"type": "prometheus", "uid": "${source}"}


@dataclass(frozen=True, slots=True)
class Query:
    """One query of a panel, and what its lines are called."""

    expression: str
    legend: str


@dataclass(frozen=True, slots=True)
class Panel:
    """One graph."""

    title: str
    queries: tuple[Query, ...]
    unit: str = "short"
    about: str = ""
    width: int = _WIDTH
    is_stacked: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """Panels under a heading."""

    title: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True, slots=True)
class Dashboard:
    """A page of panels."""

    uid: str
    title: str
    rows: tuple[Row, ...]
    variables: tuple[tuple[str, str], ...] = ()  # names, and the query for their values


def text(dashboard: Dashboard) -> str:
    """Return a dashboard as Grafana reads it."""
    return json.dumps(_document(dashboard), indent=1) + "\n"


def _document(dashboard: Dashboard) -> Json:
    return {
        "uid": dashboard.uid,
        "title": dashboard.title,
        "tags": ["plumbline", "vpa"],
        "schemaVersion": 39,
        "refresh": "1m",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": [_SOURCE_VARIABLE, *map(_variable, dashboard.variables)]},
        "panels": _panels(dashboard.rows),
    }


_SOURCE_VARIABLE: Final = {
    "name": "source",
    "label": "Prometheus",
    "type": "datasource",
    "query": "prometheus",
}


def _variable(named: tuple[str, str]) -> Json:
    name, query = named
    return {
        "name": name,
        "type": "query",
        "datasource": _SOURCE,
        "query": {"query": query, "refId": name},
        "refresh": 2,
        "sort": 1,
    }


def _panels(rows: Sequence[Row]) -> list[Json]:
    found: list[Json] = []
    y = 0
    for row in rows:
        found.append(
            {
                "id": len(found) + 1,
                "type": "row",
                "title": row.title,
                "gridPos": {"x": 0, "y": y, "w": COLUMNS, "h": 1},
            }
        )
        x, y = 0, y + 1
        for panel in row.panels:
            if x + panel.width > COLUMNS:
                x, y = 0, y + _HEIGHT
            place = {"x": x, "y": y, "w": panel.width, "h": _HEIGHT}
            found.append({"id": len(found) + 1, "gridPos": place, **_panel(panel)})
            x += panel.width
        y += _HEIGHT
    return found


def _panel(panel: Panel) -> Json:
    stacking = {"stacking": {"mode": "normal"}, "fillOpacity": 30} if panel.is_stacked else {}
    return {
        "type": "timeseries",
        "title": panel.title,
        **({"description": panel.about} if panel.about else {}),
        "datasource": _SOURCE,
        "fieldConfig": {"defaults": {"unit": panel.unit, "custom": stacking}, "overrides": []},
        "targets": [
            {
                "refId": chr(ord("A") + index),
                "datasource": _SOURCE,
                "expr": query.expression,
                "legendFormat": query.legend,
            }
            for index, query in enumerate(panel.queries)
        ],
    }
