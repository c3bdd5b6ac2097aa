"""Alerts and dashboards ask for what there is, and each alert is explained."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from app.core.updating.decisions import Reason
from app.manifests.alerts import ALERTS, Alert
from app.manifests.dashboards import FLEET, WORKLOAD
from app.manifests.grafana import COLUMNS, Dashboard, text
from app.telemetry.page import page

ROOT = Path(__file__).parents[2]
SERIES = re.compile(r"\b((?:vpa|plumbline|apiserver|container|kube)_[a-z0-9_]+)\b(?!=)")
SUFFIXES = ("_bucket", "_count", "_sum", "")
OURS = set(re.findall(r"^\| `(\w+)`", page(), re.MULTILINE))
# Of the API server, of the kubelet and of kube-state-metrics.
THEIRS = {
    "apiserver_admission_webhook_admission_duration_seconds",
    "apiserver_admission_webhook_fail_open_count",
    "container_cpu_usage_seconds_total",
    "container_memory_working_set_bytes",
    "kube_pod_container_resource_requests",
}
DASHBOARDS = [pytest.param(found, id=found.uid) for found in (FLEET, WORKLOAD)]


def expressions(dashboard: Dashboard) -> list[str]:
    """Return all queries of a dashboard, those of its variables as well."""
    panels = [panel for row in dashboard.rows for panel in row.panels]
    queries = [query.expression for panel in panels for query in panel.queries]
    return [*queries, *(query for _, query in dashboard.variables)]


def unknown(expression: str) -> set[str]:
    """Return the series of an expression that nobody publishes."""
    return {
        name
        for name in SERIES.findall(expression)
        if not {name.removesuffix(suffix) for suffix in SUFFIXES} & (OURS | THEIRS)
    }


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_alerts_ask_for_what_there_is(alert: Alert) -> None:
    """An alert on a series that nobody publishes would never fire."""
    assert SERIES.findall(alert.expression)
    assert unknown(alert.expression) == set()
    for reason in re.findall(r'pod_decisions\{reason="(\w+)"\}', alert.expression):
        assert reason in {*Reason}


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_alerts_are_explained(alert: Alert) -> None:
    """Each alert leads to a heading of its own, where somebody reads what to do."""
    told = (ROOT / "docs/alerts.md").read_text(encoding="utf-8")
    assert f"\n## {alert.name}\n" in told
    assert alert.rule()["annotations"]["runbook"] == f"docs/alerts.md#{alert.name.lower()}"


@pytest.mark.parametrize("dashboard", DASHBOARDS)
def test_panels_ask_for_what_there_is(dashboard: Dashboard) -> None:
    """A panel on a series that nobody publishes would stay empty."""
    assert [found for one in expressions(dashboard) if (found := unknown(one))] == []


@pytest.mark.parametrize("dashboard", DASHBOARDS)
def test_panels_do_not_overlap(dashboard: Dashboard) -> None:
    """Every panel has room of its own within the page, and a number of its own."""
    document = json.loads(text(dashboard))
    cells: set[tuple[int, int]] = set()
    for panel in document["panels"]:
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= COLUMNS
        room = {(at["x"] + dx, at["y"] + dy) for dx in range(at["w"]) for dy in range(at["h"])}
        assert not room & cells
        cells |= room
    numbers = [panel["id"] for panel in document["panels"]]
    assert len(set(numbers)) == len(numbers)
