"""Scenes of pods that are updated in place, for the tests around resizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

from app.model.fields import Json
from app.updater.core.memory import Infeasible, Memory, PodMemory
from app.updater.core.rules import UpdateRules
from tests import make
from tests.updater.core.scenes import (
    MINUTE,
    NOW,
    UNPROVEN,
    Scene,
    amounts,
    container,
    resize_condition,
    running,
    several,
    with_status,
)

SMALL = container("app", "100m/100Mi")
RESTARTS = container("app", "100m/100Mi", resize={"memory": "RestartContainer"})
POD = running(SMALL)
CALM = several(running(container("app", "200m/200Mi")), 3)[1:]  # as recommended
EITHER, ONLY = "InPlaceOrRecreate", "InPlace"
SKIPS = replace(UNPROVEN, skip_disruption_budget=True)


def asking(*conditions: Json, wanted: str = "200m/200Mi") -> Json:
    """Return a pod that asks for a new size and reports the old one."""
    pod = running(container("app", wanted), conditions=conditions)
    return with_status(pod, "app", resources={"requests": amounts("100m/100Mi")})


def scene(
    pods: Sequence[Json],
    mode: str = EITHER,
    *,
    rules: UpdateRules = UNPROVEN,
    replicas: int | None = None,
    min_replicas: int | None = None,
) -> Scene:
    """Return a scene of pods that are to be updated in place."""
    return Scene(pods, mode=mode, rules=rules, replicas=replicas, min_replicas=min_replicas)


def remembering(found: Scene, wanted: str) -> Scene:
    """Return the scene after its first pod was refused so much."""
    asked = {("app", name): make.quantity(text) for name, text in amounts(wanted).items()}
    past = Infeasible(asked, frozenset(), NOW - MINUTE, None)
    uid = found.pods[0]["metadata"]["uid"]
    return replace(found, memory=Memory(pods={uid: PodMemory("default", "web-0", infeasible=past)}))


def waits(kind: str, reason: str = "", message: str = "", ago: timedelta = timedelta()) -> Json:
    """Return a pod in a resize that began so long ago."""
    return asking(resize_condition(kind, reason, message, ago.total_seconds()))


MOMENT = timedelta(milliseconds=1)
