"""What Prometheus and Grafana read, for kustomize and for the chart."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from app.manifests import alerts
from app.manifests.dashboards import FLEET, WORKLOAD
from app.manifests.grafana import text
from app.manifests.programs import Program, labels, metadata
from app.manifests.rendering import render
from app.ports import Json

_API: Final = "monitoring.coreos.com/v1"
_HEADER: Final = "Written by `make generate`; a change here is lost when it is written anew."
_DASHBOARDS: Final = {"fleet.json": FLEET, "workload.json": WORKLOAD}


def files(programs: Iterable[Program]) -> Mapping[str, str]:
    """Return what is generated, by its path in the repository."""
    dashboards = {name: text(dashboard) for name, dashboard in _DASHBOARDS.items()}
    rule = {
        "apiVersion": _API,
        "kind": "PrometheusRule",
        "metadata": metadata("plumbline", "monitoring"),
        "spec": alerts.groups(),
    }
    return {
        "deploy/monitoring/alerts.yaml": render([rule], header=_HEADER),
        "deploy/monitoring/service-monitors.yaml": render(
            map(_service_monitor, programs), header=_HEADER
        ),
        "deploy/chart/files/alerts.yaml": render([alerts.groups()], header=_HEADER),
        **{f"deploy/monitoring/{name}": found for name, found in dashboards.items()},
        **{f"deploy/chart/files/{name}": found for name, found in dashboards.items()},
    }


def _service_monitor(program: Program) -> Json:
    return {
        "apiVersion": _API,
        "kind": "ServiceMonitor",
        "metadata": metadata(program.name, program.component),
        "spec": {
            "selector": {"matchLabels": labels(program.component)},
            # Namespaces and containers that a metric names are not those of our own pods.
            "endpoints": [
                {"port": "prometheus", "path": page, "honorLabels": True} for page in program.pages
            ],
        },
    }
