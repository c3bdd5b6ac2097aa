"""The Lease object as client-go writes it: times in microseconds, fields under `spec`."""

from __future__ import annotations

from datetime import datetime

from app.ports import Json


def micro_time(moment: datetime) -> str:
    """Return a moment as Kubernetes writes a MicroTime."""
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def lease(namespace: str, name: str, spec: Json) -> Json:
    """Return a new Lease."""
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"namespace": namespace, "name": name},
        "spec": spec,
    }


def lease_spec(found: Json) -> Json:
    """Return a Lease's spec, empty when there is none."""
    spec = found.get("spec")
    return spec if isinstance(spec, dict) else {}
