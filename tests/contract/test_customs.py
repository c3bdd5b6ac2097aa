"""Custom resources: their schema, their status, their versions."""

from __future__ import annotations

import pytest

from app.model.errors import Invalid
from app.ports import VPAS, Json
from tests.contract.building import add, vpa
from tests.contract.space import Space

pytestmark = pytest.mark.usefixtures("customs")

BOOST = {"type": "Factor", "factor": 2}


def test_unknown_fields_are_pruned(space: Space) -> None:
    """What the schema does not know is not kept."""
    body = vpa(unheard={"of": 1}, updatePolicy={"updateMode": "Off", "also": 2})
    created = space.create(VPAS, body | {"more": 3})

    assert created["spec"].keys() == {"targetRef", "updatePolicy"}
    assert created["spec"]["updatePolicy"] == {"updateMode": "Off"}
    assert "more" not in created


@pytest.mark.parametrize(
    ("spec", "reason", "message"),
    [
        ({"targetRef": {"kind": "Deployment"}}, "Required", "spec.targetRef.name: Required"),
        (
            {"updatePolicy": {"updateMode": "Sometimes"}},
            "NotSupported",
            'spec.updatePolicy.updateMode: Unsupported value: "Sometimes": supported values: "',
        ),
        ({"updatePolicy": {"minReplicas": "two"}}, "TypeInvalid", "minReplicas: Invalid value:"),
        ({"updatePolicy": {"evictAfterOOMSeconds": 0}}, "Invalid", "greater than or equal to 1"),
        (
            {"resourcePolicy": {"containerPolicies": [{"maxAllowed": {"cpu": "much"}}]}},
            "Invalid",
            r"spec.resourcePolicy.containerPolicies\[0\].maxAllowed.cpu: Invalid value",
        ),
        (
            {"startupBoost": {"cpu": BOOST | {"type": "Quantity"}}},
            "Invalid",
            "factor must be set if type is Factor, and only then",
        ),
    ],
    ids=["required", "enum", "type", "minimum", "pattern", "rule"],
)
def test_the_schema_refuses(space: Space, spec: Json, reason: str, message: str) -> None:
    """A value that the schema does not allow is refused with its path."""
    with pytest.raises(Invalid, match=message) as refused:
        space.create(VPAS, vpa(**spec))

    assert refused.value.status == 422
    assert f"FieldValue{reason}" in [cause for cause, _ in refused.value.causes]
    assert 'VerticalPodAutoscaler.autoscaling.k8s.io "vpa" is invalid' in refused.value.message


def test_rules_that_hold(space: Space) -> None:
    """What all rules allow goes in as it is."""
    created = space.create(VPAS, vpa(startupBoost={"cpu": BOOST}))

    assert created["spec"]["startupBoost"] == {"cpu": BOOST}


def test_changes_are_checked_too(space: Space) -> None:
    """A patch that makes the object wrong changes nothing."""
    created = space.create(VPAS, vpa())
    wrong = {"spec": {"updatePolicy": {"updateMode": "Sometimes"}}}

    with pytest.raises(Invalid, match="Unsupported value"):
        space.merge(VPAS, "vpa", wrong)

    assert space.get(VPAS, "vpa") == created


def test_status_of_a_custom_resource(space: Space) -> None:
    """Status is left out of a new object, changed by its own door, and counts no generation."""
    conditions = [{"type": "NoPodsMatched", "status": "True"}]
    created = space.create(VPAS, vpa() | {"status": {"conditions": conditions}})
    patch = {
        "metadata": {"labels": {"not": "here"}},
        "spec": {"updatePolicy": {"updateMode": "Off"}},
        "status": {"conditions": conditions},
    }
    patched = space.merge(VPAS, "vpa", patch, "status")
    operations = [add("/status/conditions/-", {"type": "LowConfidence", "status": "False"})]
    again = space.patch(VPAS, "vpa", operations, "status")

    assert not created.get("status")
    assert patched["spec"] == created["spec"]
    assert "labels" not in patched["metadata"]
    assert patched["status"] == {"conditions": conditions}
    assert [found["type"] for found in again["status"]["conditions"]] == [
        "NoPodsMatched",
        "LowConfidence",
    ]
    assert again["metadata"]["generation"] == created["metadata"]["generation"] == 1


def test_the_schema_holds_for_status(space: Space) -> None:
    """A status that the schema does not allow is refused."""
    space.create(VPAS, vpa())
    patch = {"status": {"conditions": [{"type": "NoPodsMatched"}]}}

    with pytest.raises(Invalid, match=r"status.conditions\[0\].status: Required value"):
        space.merge(VPAS, "vpa", patch, "status")


def test_generations_of_a_custom_resource(space: Space) -> None:
    """Only the spec counts."""
    space.create(VPAS, vpa())
    labelled = space.patch(VPAS, "vpa", [add("/metadata/labels", {"a": "b"})])
    changed = space.patch(VPAS, "vpa", [add("/spec/updatePolicy", {"updateMode": "Off"})])

    assert [item["metadata"]["generation"] for item in (labelled, changed)] == [1, 2]


def test_replacing_needs_a_version(space: Space) -> None:
    """A custom resource is not replaced blindly."""
    created = space.create(VPAS, vpa())

    with pytest.raises(Invalid, match=r"metadata.resourceVersion: .*must be specified"):
        space.replace(VPAS, "vpa", vpa())

    off = vpa(updatePolicy={"updateMode": "Off"}) | {"metadata": created["metadata"]}
    assert space.replace(VPAS, "vpa", off)["metadata"]["generation"] == 2
