"""Owners, their pods and VPAs, for the tests of who controls whom."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from app.model.fields import Json
from app.model.kinds import ObjectKey
from app.model.workloads import LookedUp, Workload, scaled_workload
from app.updater.core.memory import Memory
from app.updater.core.plan import Plan, PlanOptions, plan
from app.updater.core.rules import UpdateRules
from tests import make
from tests.make import ALL_GATES
from tests.updater.core.scenes import (
    NOW,
    UNPROVEN,
    container,
    named,
    recommended,
    running,
    with_metadata,
)

POD = running(container("app", "100m/100Mi"))
FAR = [recommended("200m/200Mi = =")]
NEAR = [recommended("100m/100Mi = =")]


def vpa() -> Json:
    """Return a VPA that recommends more."""
    return make.vpa_json(mode="Recreate", recommendations=FAR)


def group(name: str, *pods: Json, replicas: int | None = None) -> list[Json]:
    """Return a StatefulSet, its VPA, and its pods under names of their own."""
    target = f"StatefulSet/{name}"
    owned = [
        with_metadata(named(pod, f"{name}-{number}"), ownerReferences=[make.owner_json(target)])
        for number, pod in enumerate(pods)
    ]
    vpa = make.vpa_json(name, target=target, mode="Recreate", recommendations=FAR)
    return [make.workload_json(target, replicas=replicas or len(pods)), vpa, *owned]


def rollout(replicas: int | None = None) -> Workload:
    """Return a custom owner as its scale tells of it."""
    spec = {} if replicas is None else {"replicas": replicas}
    scale = {"metadata": {"name": "web"}, "spec": spec, "status": {"selector": "app=web"}}
    return scaled_workload("default", "example.com/v1", "Rollout", scale)


def planned(
    *items: Json, rules: UpdateRules = UNPROVEN, looked_up: Mapping[str, LookedUp] | None = None
) -> Plan:
    """Return the plan for some objects."""
    around = PlanOptions(looked_up=looked_up or {})
    return plan(make.snapshot(*items), rules, ALL_GATES, Memory(), NOW, around)


def owners(*items: Json, rules: UpdateRules = UNPROVEN) -> dict[str, str]:
    """Return the VPA of each controlled pod."""
    return {found.pod: found.vpa for found in planned(*items, rules=rules).decisions}


SET = make.workload_json(replicas=1)
OLD = make.vpa_json("b", mode="Recreate", recommendations=FAR, created=timedelta(seconds=10))
YOUNG = make.vpa_json("a", mode="Recreate", recommendations=FAR, created=timedelta(seconds=5))


ROLLOUT = running(container("app", "100m"), owner="example.com/v1/Rollout/web")
TO_ROLLOUT = make.vpa_json(
    target="example.com/v1/Rollout/web", mode="Recreate", recommendations=FAR
)
KEY = ObjectKey("example.com", "Rollout", "web")
