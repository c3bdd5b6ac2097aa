"""Our CustomResourceDefinitions on a real API server."""

from __future__ import annotations

import json
from copy import deepcopy

import pytest

from app.model.fields import Json
from app.ports import CHECKPOINTS, CUSTOM_RESOURCE_DEFINITIONS, VPAS, Resource
from tests.acceptance.cluster import Cluster, kubectl
from tests.acceptance.definitions import install, ours
from tests.acceptance.space import Space, boost, item_of, mode, policy, selecting, vpa
from tests.cases import cases
from tests.cluster.api import Api, Refusal


def test_definitions_apply(admin: Api) -> None:
    """The API server takes both with strict fields and has nothing to warn of."""
    answers = install(admin, ours())

    assert [answer.warnings for answer in answers] == [(), ()]
    names = [document["metadata"]["name"] for document in ours()]
    found = [admin.get(CUSTOM_RESOURCE_DEFINITIONS, "", name) for name in names]
    for document in found:
        conditions = {each["type"]: each["status"] for each in document["status"]["conditions"]}
        assert conditions.get("NonStructuralSchema", "False") == "False"


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

# What every CEL rule is there for; each stands at a VPA's boost and at that of a container policy.
WRONG_BOOSTS: dict[str, tuple[Json, str]] = {
    "factor missing": ({"type": "Factor"}, "factor must be set if type is Factor"),
    "a factor too many": ({"type": "Quantity", "quantity": "1", "factor": 2}, "and only then"),
    "no quantity": ({"type": "Quantity"}, "quantity must be set if type is Quantity"),
    "a quantity too many": ({"type": "Factor", "factor": 2, "quantity": "1"}, "and only then"),
    "two durations": (
        {"type": "Factor", "factor": 2, "duration": "1s", "durationSeconds": 1},
        "set only one of them",
    ),
}

REFUSED = [
    pytest.param({"targetRef": None}, "spec.targetRef: Required", id="no target"),
    pytest.param({"targetRef": {"kind": "Deployment"}}, "spec.targetRef.name", id="no name"),
    pytest.param(mode("Sometimes"), "spec.updatePolicy.updateMode", id="mode"),
    *(pytest.param(boost(**cpu), words, id=name) for name, (cpu, words) in WRONG_BOOSTS.items()),
    *(
        pytest.param(policy(startupBoost={"cpu": cpu}), words, id=f"{name} in a policy")
        for name, (cpu, words) in WRONG_BOOSTS.items()
    ),
    pytest.param(boost(type="Factor", factor=0), "factor", id="factor 0"),
    pytest.param(boost(type="Factor", factor=2, duration="-1s"), "duration", id="negative"),
    pytest.param(boost(type="Factor", factor=2, duration="1 min"), "duration", id="not a duration"),
    pytest.param(boost(factor=2), "type", id="boost without type"),
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


def rules_of(schema: object) -> list[Json]:
    """Return the CEL rules of a schema, wherever they stand."""
    if isinstance(schema, list):
        return [rule for part in schema for rule in rules_of(part)]
    if not isinstance(schema, dict):
        return []
    below = [rule for part in schema.values() for rule in rules_of(part)]
    return [*schema.get("x-kubernetes-validations", ()), *below]


def test_every_rule_refuses() -> None:
    """Each CEL rule has a case above in which it refuses, at each place where it stands."""
    rules = [rule["message"] for rule in rules_of(ours())]
    shown = [str(case.values[1]) for case in REFUSED]
    assert rules
    for message in rules:
        found = sum(words in message for words in shown)
        assert found >= rules.count(message), message


def test_written_by_a_typed_client(admin: Api, space: Space) -> None:
    """Empty fields of typed clients do no harm, and what they put back whole is taken."""
    item = vpa(resourcePolicy={})
    item["metadata"] |= {"creationTimestamp": None, "managedFields": None}
    made = space.create({**item, "status": {}})
    made["status"] = {"recommendation": {}, "conditions": None}
    path = VPAS.path(space.name, "vpa", "status")
    answer = admin.call("PUT", path, made, query={"fieldValidation": "Strict"})

    assert answer.warnings == ()
    assert admin.replace({**answer.body, "status": None})["spec"] == made["spec"]


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


CHECKPOINT = item_of(
    CHECKPOINTS,
    "vpa-hamster",
    spec={"vpaObjectName": "vpa", "containerName": "hamster"},
    status={
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
)


def test_checkpoint_is_kept_whole(space: Space) -> None:
    """A checkpoint comes back as it was written, nothing pruned."""
    made = space.create(deepcopy(CHECKPOINT))

    assert made["spec"] == CHECKPOINT["spec"]
    assert made["status"] == CHECKPOINT["status"]


@cases(
    "field words",
    {
        "spec": ("vpa.spec", "What to scale and how"),
        "modes": ("vpa.spec.updatePolicy.updateMode", "UpscaleOnly"),
        "factor": ("vpa.spec.startupBoost.cpu.factor", "whole number from 1"),
        "checkpoint": ("vpacheckpoint.status", "history"),
    },
)
def test_explain(cluster: Cluster, field: str, words: str) -> None:
    """`kubectl explain` tells of every field in our words."""
    text = kubectl(cluster, "explain", field)

    assert "<no description>" not in text
    assert words in " ".join(text.split())


COLUMNS = ["NAME", "MODE", "CPU", "MEM", "PROVIDED", "AGE", "MINREPLICAS", "OOMSECONDS"]


def test_printer_columns(cluster: Cluster, space: Space) -> None:
    """`kubectl get vpa` shows the mode and what is recommended."""
    space.vpa(updatePolicy={"updateMode": "Initial", "minReplicas": 3})
    space.recommend({"hamster": "250m/200Mi"})
    condition = {
        "type": "RecommendationProvided",
        "status": "True",
        "lastTransitionTime": "2026-01-05T10:00:00Z",
    }
    space.admin.merge(VPAS, space.name, "vpa", {"status": {"conditions": [condition]}}, "status")
    lines = kubectl(cluster, "get", "vpa", "-n", space.name, "-o", "wide").splitlines()

    assert lines[0].split() == COLUMNS
    assert lines[1].split()[:5] == ["vpa", "Initial", "250m", "200Mi", "True"]


def test_short_names(cluster: Cluster, space: Space) -> None:
    """The short names lead to the resources."""
    space.vpa()
    space.create(deepcopy(CHECKPOINT))
    names: dict[str, Resource] = {"vpa": VPAS, "vpacheckpoint": CHECKPOINTS}
    for short, resource in names.items():
        found = json.loads(kubectl(cluster, "get", short, "-n", space.name, "-o", "json"))

        assert [item["kind"] for item in found["items"]] == [resource.kind]
