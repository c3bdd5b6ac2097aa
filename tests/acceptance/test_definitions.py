"""Our CustomResourceDefinitions on a real API server."""

from __future__ import annotations

import json
import os
import subprocess
from copy import deepcopy
from pathlib import Path

import pytest

from app.ports import CHECKPOINTS, CUSTOM_RESOURCE_DEFINITIONS, VPAS, Resource
from tests.acceptance.cluster import Cluster
from tests.acceptance.definitions import install, ours
from tests.acceptance.space import Space, vpa
from tests.acceptance.specs import boost, mode, policy, selecting
from tests.cluster.api import Api, Json, Refusal


def test_definitions_apply(admin: Api) -> None:
    """The API server takes both with strict fields and has nothing to warn of."""
    answers = install(admin, ours())

    assert [answer.warnings for answer in answers] == [(), ()]
    names = [document["metadata"]["name"] for document in ours()]
    found = [admin.get(CUSTOM_RESOURCE_DEFINITIONS, "", name) for name in names]
    conditions = {
        (name, condition["type"]): condition["status"]
        for name, document in zip(names, found, strict=True)
        for condition in document["status"]["conditions"]
    }
    assert conditions.get((names[0], "NonStructuralSchema"), "False") == "False"
    assert conditions.get((names[1], "NonStructuralSchema"), "False") == "False"


ACCEPTED = [
    pytest.param({}, id="target only"),
    pytest.param(mode("UpscaleOnly"), id="UpscaleOnly"),
    pytest.param(selecting(role="leader"), id="selector"),
    pytest.param(
        {"selector": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}}, id="expressions"
    ),
    pytest.param(boost(type="Factor", factor=1), id="factor 1"),
    pytest.param(boost(type="Quantity", quantity="500m"), id="quantity"),
    pytest.param(boost(type="Quantity", quantity=1), id="quantity as a number"),
    pytest.param(boost(type="Factor", factor=2, duration="1m30s"), id="duration"),
    pytest.param(boost(type="Factor", factor=2, duration="0"), id="duration without unit"),
    pytest.param(boost(type="Factor", factor=2, duration="1.5h3µs"), id="duration with micro"),
    pytest.param(boost(type="Factor", factor=2, durationSeconds=0), id="durationSeconds"),
    pytest.param({"startupBoost": {}}, id="empty boost"),
    pytest.param(policy(startupBoost={"cpu": {"type": "Factor", "factor": 3}}), id="policy boost"),
    pytest.param(policy(minAllowed={"cpu": "1.5e3", "memory": 5}), id="amounts in any spelling"),
    pytest.param(policy(oomBumpUpRatio="1.5", memoryAggregationIntervalSeconds=1), id="ratio"),
]

REFUSED = [
    pytest.param({"targetRef": None}, "spec.targetRef: Required", id="no target"),
    pytest.param({"targetRef": {"kind": "Deployment"}}, "spec.targetRef.name", id="no name"),
    pytest.param(mode("Sometimes"), "spec.updatePolicy.updateMode", id="mode"),
    pytest.param(boost(type="Factor"), "factor must be set if type is Factor", id="factor missing"),
    pytest.param(
        boost(type="Quantity", quantity="1", factor=2), "and only then", id="a factor too many"
    ),
    pytest.param(
        boost(type="Quantity"), "quantity must be set if type is Quantity", id="no quantity"
    ),
    pytest.param(
        boost(type="Factor", factor=2, quantity="1"), "and only then", id="a quantity too many"
    ),
    pytest.param(
        boost(type="Factor", factor=2, duration="1s", durationSeconds=1),
        "set only one of them",
        id="two durations",
    ),
    pytest.param(boost(type="Factor", factor=0), "factor", id="factor 0"),
    pytest.param(boost(type="Factor", factor=2, duration="-1s"), "duration", id="negative"),
    pytest.param(boost(type="Factor", factor=2, duration="1 min"), "duration", id="not a duration"),
    pytest.param(boost(factor=2), "type", id="boost without type"),
    pytest.param(
        policy(startupBoost={"cpu": {"type": "Factor"}}), "factor must be set", id="policy boost"
    ),
    pytest.param(policy(minAllowed={"cpu": "lots"}), "minAllowed", id="no amount"),
    pytest.param(policy(oomBumpUpRatio=1.5), "oomBumpUpRatio", id="a ratio as a number"),
    pytest.param(policy(mode="Maybe"), "mode", id="policy mode"),
    pytest.param(policy(memoryAggregationIntervalCount=0), "Count", id="no interval"),
    pytest.param({"updatePolicy": {"evictAfterOOMSeconds": 0}}, "evictAfterOOM", id="no seconds"),
]


@pytest.mark.parametrize("spec", ACCEPTED)
def test_schema_accepts(space: Space, spec: Json) -> None:
    """What makes sense passes the schema, and is stored whole."""
    made = space.vpa(**spec)

    assert {key: made["spec"][key] for key in spec} == spec


@pytest.mark.parametrize(("spec", "words"), REFUSED)
def test_schema_refuses(space: Space, spec: Json, words: str) -> None:
    """What makes none is refused with the field's name, before any webhook."""
    item = vpa(**{key: value for key, value in spec.items() if key != "targetRef"})
    if "targetRef" in spec:
        item["spec"].pop("targetRef")
        item["spec"] |= {"targetRef": spec["targetRef"]} if spec["targetRef"] else {}
    with pytest.raises(Refusal, match=words) as caught:
        space.create(item)

    assert caught.value.status == 422


def test_old_version_is_not_served(admin: Api, space: Space) -> None:
    """Only v1 can be written and read."""
    item = {**vpa(), "apiVersion": "autoscaling.k8s.io/v1beta2"}
    with pytest.raises(Refusal) as caught:
        space.create(item)

    assert caught.value.status == 404
    versions = admin.call("GET", "/apis/autoscaling.k8s.io").body["versions"]
    assert [found["version"] for found in versions] == ["v1"]


def test_unknown_fields_are_dropped_with_a_warning(admin: Api, space: Space) -> None:
    """Fields that newer clients may write do no harm."""
    item = deepcopy(vpa())
    item["metadata"]["namespace"] = space.name
    item["spec"]["fieldOfTheFuture"] = {"a": 1}
    answer = admin.call("POST", VPAS.path(space.name), item)

    assert answer.warnings == ('unknown field "spec.fieldOfTheFuture"',)
    assert "fieldOfTheFuture" not in answer.body["spec"]


def test_status_is_a_subresource(admin: Api, space: Space) -> None:
    """Status is written beside the spec, and does not count as a change of it."""
    space.vpa()
    space.recommend({"hamster": "250m/200Mi"})
    found = admin.get(VPAS, space.name, "vpa")

    assert found["metadata"]["generation"] == 1
    assert found["status"]["recommendation"]["containerRecommendations"][0]["target"] == {
        "cpu": "250m",
        "memory": "200Mi",
    }


CHECKPOINT: Json = {
    "apiVersion": CHECKPOINTS.api_version,
    "kind": CHECKPOINTS.kind,
    "metadata": {"name": "vpa-hamster"},
    "spec": {"vpaObjectName": "vpa", "containerName": "hamster"},
    "status": {
        "version": "v3",
        "lastUpdateTime": None,
        "firstSampleStart": "2026-01-05T10:00:00Z",
        "totalSamplesCount": 12,
        "cpuHistogram": {
            "referenceTimestamp": None,
            "bucketWeights": {"0": 10000, "17": 12},
            "totalWeight": 1.25,
        },
    },
}


def test_checkpoint_is_kept_whole(space: Space) -> None:
    """A checkpoint comes back as it was written, nothing pruned."""
    made = space.create(deepcopy(CHECKPOINT))

    assert made["spec"] == CHECKPOINT["spec"]
    assert made["status"] == CHECKPOINT["status"]


def kubectl(cluster: Cluster, folder: Path, *words: str) -> str:
    """Return what kubectl prints."""
    plane = cluster.plane
    kubeconfig = str(plane.kubeconfig) if plane else os.environ["KUBECONFIG"]
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "KUBECONFIG": kubeconfig}
    return subprocess.run(
        [cluster.kubectl, *words], env=environment, check=True, capture_output=True, text=True
    ).stdout


@pytest.mark.parametrize(
    ("field", "words"),
    [
        pytest.param("vpa.spec", "What to scale and how", id="spec"),
        pytest.param("vpa.spec.updatePolicy.updateMode", "UpscaleOnly", id="modes"),
        pytest.param("vpa.spec.startupBoost.cpu.factor", "whole number from 1", id="factor"),
        pytest.param("vpacheckpoint.status", "history", id="checkpoint"),
    ],
)
def test_explain(cluster: Cluster, tmp_path: Path, field: str, words: str) -> None:
    """`kubectl explain` tells of every field in our words."""
    text = kubectl(cluster, tmp_path, "explain", field)

    assert "<no description>" not in text
    assert words in " ".join(text.split())


COLUMNS = ["NAME", "MODE", "CPU", "MEM", "PROVIDED", "AGE", "MINREPLICAS", "OOMSECONDS"]


def test_printer_columns(cluster: Cluster, space: Space, tmp_path: Path) -> None:
    """`kubectl get vpa` shows the mode and what is recommended."""
    space.vpa(updatePolicy={"updateMode": "Initial", "minReplicas": 3})
    space.recommend({"hamster": "250m/200Mi"})
    condition = {
        "type": "RecommendationProvided",
        "status": "True",
        "lastTransitionTime": "2026-01-05T10:00:00Z",
    }
    space.admin.merge(VPAS, space.name, "vpa", {"status": {"conditions": [condition]}}, "status")
    lines = kubectl(cluster, tmp_path, "get", "vpa", "-n", space.name, "-o", "wide").splitlines()

    assert lines[0].split() == COLUMNS
    assert lines[1].split()[:5] == ["vpa", "Initial", "250m", "200Mi", "True"]


def test_short_names(cluster: Cluster, space: Space, tmp_path: Path) -> None:
    """The short names lead to the resources."""
    space.vpa()
    space.create(deepcopy(CHECKPOINT))
    names: dict[str, Resource] = {"vpa": VPAS, "vpacheckpoint": CHECKPOINTS}
    for short, resource in names.items():
        found = json.loads(kubectl(cluster, tmp_path, "get", short, "-n", space.name, "-o", "json"))

        assert [item["kind"] for item in found["items"]] == [resource.kind]
