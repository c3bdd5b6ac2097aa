"""Manifests that people write, right and wrong ones."""

from __future__ import annotations

import pytest
import yaml

from app.ports import Json
from tests.kube.manifests.definitions import VPA as V1
from tests.kube.manifests.structural import problems

SHOP = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "shop"}
POLICIES = "resourcePolicy.containerPolicies"
BOOST = "startupBoost.cpu"
MODE = "updatePolicy.updateMode"


def vpa(spec: str) -> Json:
    """A VPA on Deployment shop."""
    return {
        "apiVersion": "autoscaling.k8s.io/v1",
        "kind": "VerticalPodAutoscaler",
        "metadata": {"name": "shop", "labels": {"team": "sales"}},
        "spec": {"targetRef": SHOP, **yaml.safe_load(spec)},
    }


def boost(text: str) -> str:
    """A boost of CPU."""
    return f"startupBoost: {{cpu: {{{text}}}}}"


TRIPLE = boost("type: Factor, factor: 3, duration: 10s")


def policies(*texts: str) -> str:
    """Policies of containers."""
    return f"resourcePolicy: {{containerPolicies: [{', '.join(f'{{{text}}}' for text in texts)}]}}"


def requiring(texts: str) -> str:
    """Eviction requirements."""
    return f"updatePolicy: {{updateMode: Recreate, evictionRequirements: [{texts}]}}"


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param("{}", id="only a target"),
        pytest.param(f"updatePolicy: {{updateMode: 'Off'}}\n{TRIPLE}", id="boost alone"),
        pytest.param("updatePolicy: {updateMode: Auto}", id="scaling alone"),
        pytest.param(f"updatePolicy: {{updateMode: Auto}}\n{TRIPLE}", id="scaling and boost"),
        pytest.param(
            policies(f"containerName: a, mode: 'Off', {boost('type: Quantity, quantity: 2')}"),
            id="one container is boosted and not scaled",
        ),
        pytest.param(
            f"{boost('type: Factor, factor: 2')}\n"
            + policies(f"containerName: not-me, {boost('type: Factor, factor: 1')}"),
            id="one container opts out with factor 1",
        ),
        pytest.param(
            policies(
                "containerName: a, minAllowed: {cpu: 250m, memory: 100Mi}, "
                f"maxAllowed: {{cpu: 500m, memory: 600Mi}}, {boost('type: Quantity, quantity: 4')}"
            ),
            id="a boost beyond maxAllowed",
        ),
        pytest.param(
            boost("type: Factor, factor: 2, durationSeconds: 0"), id="a duration in seconds"
        ),
        pytest.param(policies("containerName: '*', startupBoost: {}"), id="an empty boost"),
        pytest.param("selector: {matchLabels: {role: leader}}", id="the leader"),
        pytest.param(
            "selector: {matchExpressions: [{key: load, operator: In, values: [high]}, "
            "{key: canary, operator: DoesNotExist}]}\n"
            "updatePolicy: {updateMode: InPlaceOrRecreate, minReplicas: 1}",
            id="hot shards by expression",
        ),
        pytest.param("selector: {}", id="an empty selector"),
        pytest.param("updatePolicy: {updateMode: UpscaleOnly}", id="upscale only"),
        pytest.param(
            requiring("{resources: [cpu, memory], changeRequirement: TargetHigherThanRequests}"),
            id="evict only for more",
        ),
        pytest.param(
            requiring(
                "{resources: [CPU], changeRequirement: TargetHigherThanRequests}, "
                "{resources: [], changeRequirement: TargetLowerThanRequests}"
            ),
            id="resource names are left to the webhook",
        ),
        pytest.param("updatePolicy: {}", id="a missing mode is left to the webhook"),
        pytest.param(
            "recommenders: [{name: default}]\n"
            "updatePolicy: {updateMode: InPlace, evictAfterOOMSeconds: 300}\n"
            + policies(
                "containerName: '*', mode: Auto, minAllowed: {cpu: 1, memory: 134217728}, "
                "controlledResources: [cpu, memory], controlledValues: RequestsOnly, "
                "oomBumpUpRatio: '1.5', oomMinBumpUp: 200Mi, "
                "memoryAggregationIntervalSeconds: 3600, memoryAggregationIntervalCount: 24"
            ),
            id="everything else",
        ),
    ],
)
def test_accepted(spec: str) -> None:
    """What people write passes, and no field of it would be dropped."""
    assert problems(V1, vpa(spec)) == []


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param("targetRef: null", "targetRef: type", id="a target of null"),
        pytest.param(
            "targetRef: {apiVersion: apps/v1}",
            "targetRef.kind: required, targetRef.name: required",
            id="half a target",
        ),
        pytest.param("updatePolicy: {updateMode: Sometimes}", f"{MODE}: enum", id="unknown mode"),
        pytest.param("updatePolicy: {updateMode: ''}", f"{MODE}: enum", id="an empty mode"),
        pytest.param(
            "updatePolicy: {minReplicas: two, evictAfterOOMSeconds: 0}",
            "updatePolicy.minReplicas: type, updatePolicy.evictAfterOOMSeconds: invalid",
            id="numbers of an update policy",
        ),
        pytest.param(
            "updatePolicy: {evictionRequirements: [{changeRequirement: More}]}",
            "updatePolicy.evictionRequirements[0].resources: required, "
            "updatePolicy.evictionRequirements[0].changeRequirement: enum",
            id="an eviction requirement",
        ),
        pytest.param(
            boost("factor: 2"),
            f"{BOOST}.type: required, {BOOST}: invalid, {BOOST}: invalid",
            id="a boost without a type",
        ),
        pytest.param(boost("type: Factor, factor: 500m"), f"{BOOST}.factor: type", id="an amount"),
        pytest.param(boost("type: Factor, factor: 1.5"), f"{BOOST}.factor: type", id="not whole"),
        pytest.param(
            boost("type: Double, factor: 0, durationSeconds: -1"),
            f"{BOOST}.type: enum, {BOOST}.factor: invalid, {BOOST}.durationSeconds: invalid, "
            f"{BOOST}: invalid",
            id="a boost that is all wrong",
        ),
        pytest.param(
            boost("type: Quantity, quantity: lots, duration: -1s"),
            f"{BOOST}.quantity: invalid, {BOOST}.duration: invalid",
            id="patterns of a boost",
        ),
        pytest.param(
            "startupBoost: {memory: {type: Factor, factor: 2}}",
            "startupBoost.memory: unknown",
            id="memory is never boosted",
        ),
        pytest.param(
            policies("minAllowed: {requests: {cpu: 50m}}"),
            f"{POLICIES}[0].minAllowed.requests: type",
            id="a bound that is no amount",
        ),
        pytest.param(
            policies(
                "mode: 'On', controlledValues: Limits, controlledResources: cpu",
                "memoryAggregationIntervalSeconds: 0, memoryAggregationIntervalCount: 0",
            ),
            f"{POLICIES}[0].mode: enum, {POLICIES}[0].controlledValues: enum, "
            f"{POLICIES}[0].controlledResources: type, "
            f"{POLICIES}[1].memoryAggregationIntervalSeconds: invalid, "
            f"{POLICIES}[1].memoryAggregationIntervalCount: invalid",
            id="container policies",
        ),
        pytest.param(
            "selector: {matchLabels: {role: 1}, matchExpressions: [{values: []}]}",
            "selector.matchLabels.role: type, selector.matchExpressions[0].key: required, "
            "selector.matchExpressions[0].operator: required",
            id="a selector",
        ),
        pytest.param("selector: role=leader", "selector: type", id="a selector in words"),
        pytest.param("recommenders: [{}]", "recommenders[0].name: required", id="a recommender"),
    ],
)
def test_refused(spec: str, expected: str) -> None:
    """What is wrong by itself is refused without the webhook, field by field."""
    found = problems(V1, vpa(spec))
    assert ", ".join(each.removeprefix("spec.") for each in found) == expected


def test_spec_is_required() -> None:
    """A VPA without a spec says nothing."""
    assert problems(V1, {"metadata": {"name": "shop"}}) == ["spec: required"]
