"""Alerts and dashboards ask for what there is, and each alert is explained."""

from __future__ import annotations

import re
from collections.abc import Iterator
from hashlib import sha256

import pytest
import yaml

from app.commands.metrics_page import page
from app.ports import Json
from app.updater.core.decisions import Reason
from tests.kube.manifests.monitored import (
    ALERTS,
    DEPLOY,
    FLEET,
    SERIES,
    SUFFIXES,
    THEIRS,
    WORKLOAD,
    expressions,
)

OURS = {
    name: set(re.findall(r"`(\w+)`", labels))
    for name, labels in re.findall(r"^\| `(\w+)` \| \w+ \| (.*?) \|", page(), re.MULTILINE)
}
KNOWN = OURS | THEIRS
COLUMNS = 24  # of Grafana
ALERTED = [pytest.param(alert, id=alert["alert"]) for alert in ALERTS]
DASHBOARDS = [pytest.param(found, id=found["uid"]) for found in (FLEET, WORKLOAD)]
QUERIES = [*(alert["expr"] for alert in ALERTS), *expressions(FLEET), *expressions(WORKLOAD)]
SELECTED = re.compile(rf"{SERIES.pattern}\{{(.*?)\}}")
GROUPED = re.compile(r"\bby \((.*?)\)")


def metric(series: str) -> str:
    """Return the metric of a series, empty if nothing publishes it."""
    names = (series.removesuffix(suffix) for suffix in SUFFIXES)
    return next((name for name in names if name in KNOWN), "")


def unknown_labels(expression: str) -> Iterator[tuple[str, set[str]]]:
    """Yield labels that an expression asks for and that its metrics do not have."""
    for series, labels in SELECTED.findall(expression):
        yield series, set(re.findall(r"(\w+)=", labels)) - KNOWN[metric(series)]
    has = {label for series in SERIES.findall(expression) for label in KNOWN[metric(series)]}
    for labels in GROUPED.findall(expression):
        yield "by", set(labels.split(", ")) - has - {"le"}
    for label in re.findall(r"^label_values\(.*, (\w+)\)$", expression):
        yield "label_values", {label} - has


@pytest.mark.parametrize("expression", QUERIES)
def test_metrics_exist(expression: str) -> None:
    """An alert on a metric that nothing publishes would never fire, a panel would stay empty."""
    series = SERIES.findall(expression)

    assert series
    assert [name for name in series if not metric(name)] == []


@pytest.mark.parametrize("expression", QUERIES)
def test_labels_exist(expression: str) -> None:
    """The same holds for a label that the metric does not have."""
    assert [found for found in unknown_labels(expression) if found[1]] == []


@pytest.mark.parametrize(
    "expression",
    [
        "sum by (cause) (vpa_updater_pod_decisions)",
        'vpa_updater_pod_decisions{cause="NoChange"}',
        'kube_pod_container_resource_requests{uid="a"}',
        "label_values(plumbline_recommendation, pod)",
    ],
)
def test_unknown_labels_are_found(expression: str) -> None:
    """A label that a metric does not have is noticed wherever it stands."""
    assert any(labels for _, labels in unknown_labels(expression))


def test_reasons_exist() -> None:
    """Alerts on decisions name reasons that the updater gives."""
    named = [
        reason
        for expression in QUERIES
        for reason in re.findall(r'pod_decisions\{reason="(\w+)"\}', expression)
    ]
    assert named
    assert set(named) <= set(Reason)


@pytest.mark.parametrize("alert", ALERTED)
def test_alerts_are_explained(alert: Json) -> None:
    """Each alert leads to a heading of its own, which says what to do."""
    name, told = alert["alert"], (DEPLOY.parent / "docs/alerts.md").read_text("utf-8")

    assert f"\n## {name}\n" in told
    assert alert["annotations"]["runbook_url"] == f"docs/alerts.md#{name.lower()}"
    assert alert["annotations"]["summary"].endswith(".")
    assert alert["labels"]["severity"] in {"critical", "warning"}
    assert set(alert) == {"alert", "expr", "for", "labels", "annotations"}


def test_explained_alerts_exist() -> None:
    """No heading is left of an alert that is gone."""
    told = (DEPLOY.parent / "docs/alerts.md").read_text("utf-8")

    assert re.findall(r"^## (Plumbline\w+)$", told, re.MULTILINE) == [
        alert["alert"] for alert in ALERTS
    ]


def test_rules_of_the_operator() -> None:
    """The Prometheus operator is given the same rules as a Prometheus without it."""
    rule = yaml.safe_load((DEPLOY / "monitoring/alerts.yaml").read_text("utf-8"))

    assert rule["kind"] == "PrometheusRule"
    assert rule["spec"] == {"groups": [{"name": "plumbline", "rules": ALERTS}]}


@pytest.mark.parametrize("name", ["fleet.json", "workload.json"])
def test_dashboards_of_the_chart(name: str) -> None:
    """The chart has the same dashboards as the kustomization."""
    copies = [(DEPLOY / folder / name).read_bytes() for folder in ("monitoring", "chart/files")]

    assert len({sha256(copy).digest() for copy in copies}) == 1, "run 'make generate'"


@pytest.mark.parametrize("dashboard", DASHBOARDS)
def test_panels_do_not_overlap(dashboard: Json) -> None:
    """Every panel has room of its own within the page, and a number of its own."""
    cells: set[tuple[int, int]] = set()
    for panel in dashboard["panels"]:
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= COLUMNS
        room = {(at["x"] + dx, at["y"] + dy) for dx in range(at["w"]) for dy in range(at["h"])}
        assert not room & cells
        cells |= room
    numbers = [panel["id"] for panel in dashboard["panels"]]
    assert len(set(numbers)) == len(numbers)


def test_links_to_runbooks_can_be_set() -> None:
    """What the chart puts its value in the place of stands in every rule, and nowhere else."""
    template = (DEPLOY / "chart/templates/monitoring.yaml").read_text("utf-8")
    replaced = re.findall(r'replace "(runbook_url: [^"]+)"', template)
    assert replaced == ["runbook_url: docs/alerts.md#"]
    rules = (DEPLOY / "chart/files/alerts.yaml").read_text("utf-8")
    assert rules.count(replaced[0]) == len(ALERTED)
