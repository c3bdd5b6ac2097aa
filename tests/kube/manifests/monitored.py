"""What the files for Prometheus and Grafana hold."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import yaml

from app.ports import Json

DEPLOY: Final = Path(__file__).parents[3] / "deploy"
RULES: Final = DEPLOY / "chart/files/alerts.yaml"
(_GROUP,) = yaml.safe_load(RULES.read_text("utf-8"))["groups"]
ALERTS: Final[list[Json]] = _GROUP["rules"]
FLEET, WORKLOAD = (
    json.loads((DEPLOY / "monitoring" / name).read_text("utf-8"))
    for name in ("fleet.json", "workload.json")
)
SERIES: Final = re.compile(r"\b((?:vpa|plumbline|apiserver|container|kube)_[a-z0-9_]+)\b(?!=)")
SUFFIXES: Final = ("_bucket", "_count", "_sum", "")
# Labels that are used of metrics of the API server, of the kubelet and of kube-state-metrics.
THEIRS: Final = {
    "apiserver_admission_webhook_admission_duration_seconds": {"name"},
    "apiserver_admission_webhook_fail_open_count": {"name"},
    "container_cpu_usage_seconds_total": {"namespace", "container"},
    "container_memory_working_set_bytes": {"namespace", "container"},
    "kube_pod_container_resource_requests": {"namespace", "container", "resource"},
}


def panels(dashboard: Json) -> Iterator[tuple[str, list[str]]]:
    """Yield the title and the queries of each panel."""
    for panel in dashboard["panels"]:
        if panel["type"] != "row":
            yield panel["title"], [target["expr"] for target in panel["targets"]]


def expressions(dashboard: Json) -> list[str]:
    """Return all queries of a dashboard, those of its variables as well."""
    variables = [one for one in dashboard["templating"]["list"] if one["type"] == "query"]
    return [
        *(query for _, queries in panels(dashboard) for query in queries),
        *(one["query"]["query"] for one in variables),
    ]
