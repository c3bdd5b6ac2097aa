"""Manifests that people write, right and wrong ones."""

from typing import Any

import pytest

from tests.kube.manifests.definitions import VPA as V1
from tests.kube.manifests.structural import problems

POLICIES = "spec.resourcePolicy.containerPolicies"
SHOP = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "shop"}


def vpa(**spec: object) -> dict[str, Any]:
    """A VPA on Deployment shop."""
    return {
        "apiVersion": "autoscaling.k8s.io/v1",
        "kind": "VerticalPodAutoscaler",
        "metadata": {"name": "shop", "labels": {"team": "sales"}},
        "spec": {"targetRef": SHOP, **spec},
    }


def containers(*policies: dict[str, Any]) -> dict[str, Any]:
    """A resource policy."""
    return {"containerPolicies": list(policies)}


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({}, id="only a target"),
        pytest.param(
            {
                "updatePolicy": {"updateMode": "Off"},
                "startupBoost": {"cpu": {"type": "Factor", "factor": 3, "duration": "10s"}},
            },
            id="boost alone",
        ),
        pytest.param({"updatePolicy": {"updateMode": "Auto"}}, id="scaling alone"),
        pytest.param(
            {
                "updatePolicy": {"updateMode": "Auto"},
                "startupBoost": {"cpu": {"type": "Factor", "factor": 3, "duration": "10s"}},
            },
            id="scaling and boost",
        ),
        pytest.param(
            {
                "resourcePolicy": containers(
                    {
                        "containerName": "warm-me-up",
                        "mode": "Off",
                        "startupBoost": {"cpu": {"type": "Quantity", "quantity": "2"}},
                    }
                )
            },
            id="one container is boosted and not scaled",
        ),
        pytest.param(
            {
                "startupBoost": {"cpu": {"type": "Factor", "factor": 2}},
                "resourcePolicy": containers(
                    {
                        "containerName": "not-me",
                        "startupBoost": {"cpu": {"type": "Factor", "factor": 1}},
                    }
                ),
            },
            id="one container opts out with factor 1",
        ),
        pytest.param(
            {
                "resourcePolicy": containers(
                    {
                        "containerName": "warm-me-up",
                        "minAllowed": {"cpu": "250m", "memory": "100Mi"},
                        "maxAllowed": {"cpu": "500m", "memory": "600Mi"},
                        "startupBoost": {"cpu": {"type": "Quantity", "quantity": "4"}},
                    }
                )
            },
            id="a boost beyond maxAllowed",
        ),
        pytest.param(
            {"startupBoost": {"cpu": {"type": "Factor", "factor": 2, "durationSeconds": 0}}},
            id="a duration in seconds",
        ),
        pytest.param(
            {"resourcePolicy": containers({"containerName": "*", "startupBoost": {}})},
            id="an empty boost",
        ),
        pytest.param({"selector": {"matchLabels": {"role": "leader"}}}, id="the leader"),
        pytest.param({"selector": {"matchLabels": {"role": "follower"}}}, id="the followers"),
        pytest.param(
            {
                "selector": {
                    "matchExpressions": [
                        {"key": "load", "operator": "In", "values": ["high"]},
                        {"key": "canary", "operator": "DoesNotExist"},
                    ]
                },
                "updatePolicy": {"updateMode": "InPlaceOrRecreate", "minReplicas": 1},
            },
            id="hot shards by expression",
        ),
        pytest.param({"selector": {}}, id="an empty selector"),
        pytest.param({"updatePolicy": {"updateMode": "UpscaleOnly"}}, id="upscale only"),
        pytest.param(
            {
                "updatePolicy": {
                    "updateMode": "Recreate",
                    "evictionRequirements": [
                        {
                            "resources": ["cpu", "memory"],
                            "changeRequirement": "TargetHigherThanRequests",
                        }
                    ],
                }
            },
            id="evict only for more",
        ),
        pytest.param(
            {
                "updatePolicy": {
                    "updateMode": "Recreate",
                    "evictionRequirements": [
                        {"resources": ["CPU"], "changeRequirement": "TargetHigherThanRequests"},
                        {"resources": [], "changeRequirement": "TargetLowerThanRequests"},
                    ],
                }
            },
            id="resource names are left to the webhook",
        ),
        pytest.param({"updatePolicy": {}}, id="a missing mode is left to the webhook"),
        pytest.param(
            {
                "recommenders": [{"name": "default"}],
                "updatePolicy": {"updateMode": "InPlace", "evictAfterOOMSeconds": 300},
                "resourcePolicy": containers(
                    {
                        "containerName": "*",
                        "mode": "Auto",
                        "minAllowed": {"cpu": 1, "memory": 134217728},
                        "controlledResources": ["cpu", "memory"],
                        "controlledValues": "RequestsOnly",
                        "oomBumpUpRatio": "1.5",
                        "oomMinBumpUp": "200Mi",
                        "memoryAggregationIntervalSeconds": 3600,
                        "memoryAggregationIntervalCount": 24,
                    }
                ),
            },
            id="everything else",
        ),
    ],
)
def test_accepted(spec: dict[str, Any]) -> None:
    """What people write passes, and no field of it would be dropped."""
    assert problems(V1, vpa(**spec)) == []


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({"targetRef": None}, ["spec.targetRef: type"], id="a target of null"),
        pytest.param(
            {"targetRef": {"apiVersion": "apps/v1"}},
            ["spec.targetRef.kind: required", "spec.targetRef.name: required"],
            id="half a target",
        ),
        pytest.param(
            {"updatePolicy": {"updateMode": "Sometimes"}},
            ["spec.updatePolicy.updateMode: enum"],
            id="an unknown mode",
        ),
        pytest.param(
            {"updatePolicy": {"updateMode": ""}},
            ["spec.updatePolicy.updateMode: enum"],
            id="an empty mode",
        ),
        pytest.param(
            {"updatePolicy": {"minReplicas": "two", "evictAfterOOMSeconds": 0}},
            [
                "spec.updatePolicy.minReplicas: type",
                "spec.updatePolicy.evictAfterOOMSeconds: invalid",
            ],
            id="numbers of an update policy",
        ),
        pytest.param(
            {"updatePolicy": {"evictionRequirements": [{"changeRequirement": "More"}]}},
            [
                "spec.updatePolicy.evictionRequirements[0].resources: required",
                "spec.updatePolicy.evictionRequirements[0].changeRequirement: enum",
            ],
            id="an eviction requirement",
        ),
        pytest.param(
            {"startupBoost": {"cpu": {"factor": 2}}},
            ["spec.startupBoost.cpu.type: required", *["spec.startupBoost.cpu: invalid"] * 2],
            id="a boost without a type",
        ),
        pytest.param(
            {"startupBoost": {"cpu": {"type": "Factor", "factor": "500m"}}},
            ["spec.startupBoost.cpu.factor: type"],
            id="a factor that is an amount",
        ),
        pytest.param(
            {"startupBoost": {"cpu": {"type": "Factor", "factor": 1.5}}},
            ["spec.startupBoost.cpu.factor: type"],
            id="a factor that is not whole",
        ),
        pytest.param(
            {"startupBoost": {"cpu": {"type": "Double", "factor": 0, "durationSeconds": -1}}},
            [
                "spec.startupBoost.cpu.type: enum",
                "spec.startupBoost.cpu.factor: invalid",
                "spec.startupBoost.cpu.durationSeconds: invalid",
                "spec.startupBoost.cpu: invalid",
            ],
            id="a boost that is all wrong",
        ),
        pytest.param(
            {"startupBoost": {"cpu": {"type": "Quantity", "quantity": "lots", "duration": "-1s"}}},
            ["spec.startupBoost.cpu.quantity: invalid", "spec.startupBoost.cpu.duration: invalid"],
            id="patterns of a boost",
        ),
        pytest.param(
            {"startupBoost": {"memory": {"type": "Factor", "factor": 2}}},
            ["spec.startupBoost.memory: unknown"],
            id="memory is never boosted",
        ),
        pytest.param(
            {"resourcePolicy": containers({"minAllowed": {"requests": {"cpu": "50m"}}})},
            [f"{POLICIES}[0].minAllowed.requests: type"],
            id="a bound that is no amount",
        ),
        pytest.param(
            {
                "resourcePolicy": containers(
                    {"mode": "On", "controlledValues": "Limits", "controlledResources": "cpu"},
                    {"memoryAggregationIntervalSeconds": 0, "memoryAggregationIntervalCount": 0},
                )
            },
            [
                f"{POLICIES}[0].mode: enum",
                f"{POLICIES}[0].controlledValues: enum",
                f"{POLICIES}[0].controlledResources: type",
                f"{POLICIES}[1].memoryAggregationIntervalSeconds: invalid",
                f"{POLICIES}[1].memoryAggregationIntervalCount: invalid",
            ],
            id="container policies",
        ),
        pytest.param(
            {"selector": {"matchLabels": {"role": 1}, "matchExpressions": [{"values": []}]}},
            [
                "spec.selector.matchLabels.role: type",
                "spec.selector.matchExpressions[0].key: required",
                "spec.selector.matchExpressions[0].operator: required",
            ],
            id="a selector",
        ),
        pytest.param(
            {"selector": "role=leader"}, ["spec.selector: type"], id="a selector in words"
        ),
        pytest.param(
            {"recommenders": [{}]}, ["spec.recommenders[0].name: required"], id="a recommender"
        ),
    ],
)
def test_refused(spec: dict[str, Any], expected: list[str]) -> None:
    """What is wrong by itself is refused without the webhook, field by field."""
    assert problems(V1, vpa(**spec)) == expected


def test_spec_is_required() -> None:
    """A VPA without a spec says nothing."""
    assert problems(V1, {"metadata": {"name": "shop"}}) == ["spec: required"]
