"""HorizontalPodAutoscalers: what the API fills in and refuses, and how many replicas they make.

What is to be seen takes a minute of real time, most of it until usage is measured; so all the
workloads of the table live side by side, in one case.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Final, NamedTuple

import pytest

from app.model.errors import Invalid
from app.model.quantity import Quantity
from app.ports import DEPLOYMENTS, HPAS, POD_METRICS, Cluster, Json
from tests.cases import cases
from tests.contract.building import container, resources
from tests.contract.running import LOAD
from tests.contract.space import Space

SECONDS: Final = 300  # until all is settled, also on a busy machine
ASKED: Final = resources({"cpu": "100m", "memory": "50Mi"})
LONGEST: Final = {"stabilizationWindowSeconds": 3601}


def target(amount: object) -> Json:
    """A target of so many percent, or of an amount."""
    if isinstance(amount, int):
        return {"type": "Utilization", "averageUtilization": amount}
    return {"type": "AverageValue", "averageValue": amount}


def cpu(amount: object, of: str = "") -> Json:
    """A metric of the cpu of pods, or of one of their containers."""
    source: Json = {"name": "cpu", "target": target(amount)}
    if of:
        return {"type": "ContainerResource", "containerResource": {**source, "container": of}}
    return {"type": "Resource", "resource": source}


def hpa(
    *metrics: Json, name: str = "web", least: int | None = 1, most: int = 4, **spec: object
) -> Json:
    """An HPA on the Deployment of its name."""
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}
    found: Json = {"scaleTargetRef": reference, "minReplicas": least, "maxReplicas": most, **spec}
    if metrics:
        found["metrics"] = list(metrics)
    return {"metadata": {"name": name}, "spec": found}


def deployment(name: str, *containers: Json, load: str, replicas: int = 1) -> Json:
    """A Deployment whose pods get a node, and use so much."""
    labels = {"app": name}
    spec = {"containers": list(containers), "terminationGracePeriodSeconds": 1}
    metadata = {"labels": labels, "annotations": {LOAD: load}}
    return {
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": metadata, "spec": spec},
        },
    }


def test_what_is_left_out(space: Space) -> None:
    """One replica at least, 80 % of the cpu, and no generation; amounts are written as usual."""
    created = space.create(HPAS, hpa(least=None))
    told = space.create(HPAS, hpa(cpu("0.07"), name="told"))

    assert created["spec"]["minReplicas"] == 1
    assert created["spec"]["metrics"] == [cpu(80)]
    assert "behavior" not in created["spec"]
    assert "generation" not in created["metadata"]
    assert told["spec"]["metrics"] == [cpu("70m")]


def test_what_a_behavior_leaves_out(space: Space) -> None:
    """Each direction gets the rules that it does not name; only the window down stays open."""
    by_percent = {"type": "Percent", "value": 100, "periodSeconds": 15}
    slow = {"type": "Pods", "value": 1, "periodSeconds": 60}
    created = space.create(HPAS, hpa(behavior={"scaleDown": {"policies": [slow]}}))

    assert created["spec"]["behavior"] == {
        "scaleUp": {
            "stabilizationWindowSeconds": 0,
            "selectPolicy": "Max",
            "policies": [{"type": "Pods", "value": 4, "periodSeconds": 15}, by_percent],
        },
        "scaleDown": {"selectPolicy": "Max", "policies": [slow]},
    }


@cases(
    "body field",
    {
        "fewer than the least": (hpa(least=5), "spec.maxReplicas"),
        "no most": (hpa(most=0), "spec.maxReplicas"),
        "none": (hpa(least=0), "spec.minReplicas"),
        "no target": (hpa(scaleTargetRef={"kind": "Deployment"}), "spec.scaleTargetRef.name"),
        "an unknown metric": (hpa({"type": "Much"}), "spec.metrics[0].type"),
        "a metric without source": (hpa({"type": "Resource"}), "spec.metrics[0].resource"),
        "another source": (
            hpa({**cpu(50), "containerResource": cpu(50, "app")["containerResource"]}),
            "spec.metrics[0].containerResource",
        ),
        "no container": (
            hpa({"type": "ContainerResource", "containerResource": cpu(50)["resource"]}),
            "spec.metrics[0].containerResource.container",
        ),
        "no percent": (hpa(cpu(0)), "spec.metrics[0].resource.target.averageUtilization"),
        "no amount": (hpa(cpu("0")), "spec.metrics[0].resource.target.averageValue"),
        "no size of a target": (
            hpa({"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Value"}}}),
            "spec.metrics[0].resource.target.averageUtilization",
        ),
        "a long window": (
            hpa(behavior={"scaleUp": LONGEST}),
            "spec.behavior.scaleUp.stabilizationWindowSeconds",
        ),
        "no policies": (
            hpa(behavior={"scaleDown": {"policies": []}}),
            "spec.behavior.scaleDown.policies",
        ),
        "an unknown choice": (
            hpa(behavior={"scaleDown": {"selectPolicy": "Any"}}),
            "spec.behavior.scaleDown.selectPolicy",
        ),
    },
)
def test_what_is_refused(space: Space, body: Json, field: str) -> None:
    """What makes no sense is refused, with the field."""
    with pytest.raises(Invalid) as refused:
        space.create(HPAS, body)

    assert refused.value.status == 422
    assert f"{field}: " in refused.value.message


class Row(NamedTuple):
    """A workload with its HPA, and what is to be seen of them at last."""

    workload: Json | None
    hpa: Json
    replicas: int | None
    conditions: Mapping[str, str]  # the reasons, with the status in front
    shown: float | None = None  # what the metric shows: percent, or thousandths
    why: str = ""  # a part of the message of what is False
    rivals: tuple[Json, ...] = ()  # other HPAs of the same workload


ABLE = {"AbleToScale": "True ReadyForNewScale", "ScalingActive": "True ValidMetricFound"}
LIMITED = {**ABLE, "ScalingLimited": "True TooManyReplicas"}
IN_RANGE = {**ABLE, "ScalingLimited": "False DesiredWithinRange"}
NOT_MEASURED = {
    "AbleToScale": "True SucceededGetScale",
    "ScalingActive": "False FailedGetResourceMetric",
}

ROWS: Final[Mapping[str, Row]] = {
    "utilization": Row(
        deployment("utilization", container(resources=ASKED), load="cpu: constant 150m, noise: 0"),
        hpa(cpu(60), name="utilization", most=3),
        3,
        LIMITED,
        150,
    ),
    "tolerance": Row(
        deployment("tolerance", container(resources=ASKED), load="cpu: constant 106m, noise: 0"),
        hpa(cpu(100), name="tolerance"),
        1,
        IN_RANGE,
        106,
    ),
    "amount": Row(
        deployment("amount", container(), load="cpu: constant 100m, noise: 0"),
        hpa(cpu("50m"), name="amount", most=2),
        2,
        LIMITED,
        100,
    ),
    "container": Row(
        deployment(
            "container",
            container("busy"),
            container("idle", resources=ASKED),
            load="cpu: constant 50m, noise: 0",
        ),
        hpa(cpu(25, "idle"), name="container", most=2),
        2,
        LIMITED,
        50,
    ),
    "paused": Row(
        deployment("paused", container(resources=ASKED), load="cpu: constant 150m, noise: 0"),
        hpa(cpu(50), name="paused", least=2, most=2),
        2,
        LIMITED,
        150,
    ),
    "no-request": Row(
        deployment(
            "no-request",
            container("without"),
            container("with", resources=ASKED),
            load="cpu: constant 150m, noise: 0",
        ),
        hpa(cpu(50), name="no-request"),
        1,
        NOT_MEASURED,
        why="missing request for cpu in container without of Pod no-request-",
    ),
    "no-container": Row(
        deployment("no-container", container(resources=ASKED), load="cpu: constant 1, noise: 0"),
        hpa(cpu(50, "other"), name="no-container"),
        1,
        {**NOT_MEASURED, "ScalingActive": "False FailedGetContainerResourceMetric"},
    ),
    "one-of-two": Row(
        deployment("one-of-two", container(resources=ASKED), load="cpu: constant 1, noise: 0"),
        hpa(cpu(50), name="one-of-two"),
        1,
        {"AbleToScale": "True SucceededGetScale", "ScalingActive": "False AmbiguousSelector"},
        why="pods by selector app=one-of-two are controlled by multiple HPAs: [",
        rivals=({**hpa(cpu(50), name="one-of-two"), "metadata": {"name": "other"}},),
    ),
    "zero": Row(
        deployment("zero", container(resources=ASKED), load="", replicas=0),
        hpa(cpu(50), name="zero"),
        0,
        {"AbleToScale": "True SucceededGetScale", "ScalingActive": "False ScalingDisabled"},
    ),
    "nothing": Row(
        None,
        hpa(cpu(50), name="nothing"),
        None,
        {"AbleToScale": "False FailedGetScale"},
        why='deployments.apps "nothing" not found',
    ),
}


@pytest.mark.usefixtures("node")
def test_replicas(space: Space, cluster: Cluster) -> None:
    """Each workload comes to have the replicas that its usage asks for; the status says why."""
    if POD_METRICS.group not in {one["name"] for one in cluster.request("GET", "/apis")["groups"]}:
        pytest.skip("nothing measures here")
    for row in ROWS.values():
        for item in (row.hpa, *row.rivals):  # rivals know of each other before there is usage
            space.create(HPAS, item)
        if row.workload is not None:
            space.create(DEPLOYMENTS, row.workload)

    for name, row in ROWS.items():
        wanted = row.replicas, row.conditions

        def is_settled(row: Row = row, wanted: object = wanted) -> bool:
            return _settled(space, row) == wanted

        with suppress(AssertionError):  # what it became instead is shown below
            space.eventually(is_settled, SECONDS)
        status = space.get(HPAS, name)["status"]

        assert _settled(space, row) == wanted, f"{name}: {status}"
        assert _shown(status) == pytest.approx(row.shown or 0, rel=0.05), name
        assert any(row.why in one["message"] for one in status["conditions"]), name
        assert status.get("currentReplicas", 0) == (row.replicas or 0), name


def _settled(space: Space, row: Row) -> tuple[int | None, Mapping[str, str]]:
    """The replicas of a workload, and the conditions of its HPA."""
    name, replicas = row.hpa["metadata"]["name"], None
    if row.workload is not None:
        replicas = int(space.get(DEPLOYMENTS, name)["spec"]["replicas"])
    found = space.get(HPAS, name).get("status", {}).get("conditions") or ()
    return replicas, {one["type"]: f"{one['status']} {one['reason']}" for one in found}


def _shown(status: Json) -> float:
    """What the only metric shows: percent of requests, or thousandths; 0 if it shows nothing."""
    for metric in status.get("currentMetrics") or ():
        current = (metric.get("resource") or metric.get("containerResource") or {}).get("current")
        if current:
            share = current.get("averageUtilization")
            return Quantity.read(current["averageValue"]).milli if share is None else share
    return 0
