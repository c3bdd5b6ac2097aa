"""When a container's probes succeed."""

from __future__ import annotations

import math

from app.ports import Json
from app.sandbox.kubelet.runs import ContainerRun


def next_probe(container: ContainerRun, now: float) -> float:
    """Return when, from now on, the probe is due that finds a container ready."""
    useful_at = container.useful_at
    startup, readiness = (container.spec.get(key) for key in ("startupProbe", "readinessProbe"))
    if startup is not None:
        useful_at = _due(startup, container.started_at, useful_at)
    if readiness is not None:
        return _due(readiness, container.started_at, max(useful_at, now))
    return max(useful_at, now) if startup is not None else now


def _due(probe: Json, started_at: float, earliest: float) -> float:
    """Return the first turn of a probe that is not before a moment."""
    first = started_at + float(probe.get("initialDelaySeconds") or 0)
    period = float(probe.get("periodSeconds") or 10)
    turns = max(math.ceil((earliest - first) / period - 1e-9), 0)
    return first + turns * period
