"""Manifests that people write, right and wrong ones."""

from __future__ import annotations

import yaml

from app.ports import Json
from tests.cases import cases
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


@cases(
    "spec",
    {
        "only a target": ("{}",),
        "boost alone": (f"updatePolicy: {{updateMode: 'Off'}}\n{TRIPLE}",),
        "scaling alone": ("updatePolicy: {updateMode: Auto}",),
        "scaling and boost": (f"updatePolicy: {{updateMode: Auto}}\n{TRIPLE}",),
        "one container is boosted and not scaled": (
            policies(f"containerName: a, mode: 'Off', {boost('type: Quantity, quantity: 2')}"),
        ),
        "one container opts out with factor 1": (
            f"{boost('type: Factor, factor: 2')}\n"
            + policies(f"containerName: not-me, {boost('type: Factor, factor: 1')}"),
        ),
        "a boost beyond maxAllowed": (
            policies(
                "containerName: a, minAllowed: {cpu: 250m, memory: 100Mi}, "
                f"maxAllowed: {{cpu: 500m, memory: 600Mi}}, {boost('type: Quantity, quantity: 4')}"
            ),
        ),
        "a duration in seconds": (boost("type: Factor, factor: 2, durationSeconds: 0"),),
        "an empty boost": (policies("containerName: '*', startupBoost: {}"),),
        "the leader": ("selector: {matchLabels: {role: leader}}",),
        "hot shards by expression": (
            "selector: {matchExpressions: [{key: load, operator: In, values: [high]}, "
            "{key: canary, operator: DoesNotExist}]}\n"
            "updatePolicy: {updateMode: InPlaceOrRecreate, minReplicas: 1}",
        ),
        "an empty selector": ("selector: {}",),
        "upscale only": ("updatePolicy: {updateMode: UpscaleOnly}",),
        "evict only for more": (
            requiring("{resources: [cpu, memory], changeRequirement: TargetHigherThanRequests}"),
        ),
        "resource names are left to the webhook": (
            requiring(
                "{resources: [CPU], changeRequirement: TargetHigherThanRequests}, "
                "{resources: [], changeRequirement: TargetLowerThanRequests}"
            ),
        ),
        "a missing mode is left to the webhook": ("updatePolicy: {}",),
        "everything else": (
            "recommenders: [{name: default}]\n"
            "updatePolicy: {updateMode: InPlace, evictAfterOOMSeconds: 300}\n"
            + policies(
                "containerName: '*', mode: Auto, minAllowed: {cpu: 1, memory: 134217728}, "
                "controlledResources: [cpu, memory], controlledValues: RequestsOnly, "
                "oomBumpUpRatio: '1.5', oomMinBumpUp: 200Mi, "
                "memoryAggregationIntervalSeconds: 3600, memoryAggregationIntervalCount: 24"
            ),
        ),
    },
)
def test_accepted(spec: str) -> None:
    """What people write passes, and no field of it would be dropped."""
    assert problems(V1, vpa(spec)) == []


@cases(
    "spec expected",
    {
        "a target of null": ("targetRef: null", "targetRef: type"),
        "an empty mode": ("updatePolicy: {updateMode: ''}", f"{MODE}: enum"),
        "numbers of an update policy": (
            "updatePolicy: {minReplicas: two, evictAfterOOMSeconds: 0}",
            "updatePolicy.minReplicas: type, updatePolicy.evictAfterOOMSeconds: invalid",
        ),
        "an amount": (boost("type: Factor, factor: 500m"), f"{BOOST}.factor: type"),
        "not whole": (boost("type: Factor, factor: 1.5"), f"{BOOST}.factor: type"),
        "memory is never boosted": (
            "startupBoost: {memory: {type: Factor, factor: 2}}",
            "startupBoost.memory: unknown",
        ),
        "a bound that is no amount": (
            policies("minAllowed: {requests: {cpu: 50m}}"),
            f"{POLICIES}[0].minAllowed.requests: type",
        ),
        "container policies": (
            policies(
                "mode: 'On', controlledValues: Limits, controlledResources: cpu",
                "memoryAggregationIntervalSeconds: 0, memoryAggregationIntervalCount: 0",
            ),
            f"{POLICIES}[0].mode: enum, {POLICIES}[0].controlledValues: enum, "
            f"{POLICIES}[0].controlledResources: type, "
            f"{POLICIES}[1].memoryAggregationIntervalSeconds: invalid, "
            f"{POLICIES}[1].memoryAggregationIntervalCount: invalid",
        ),
        "a selector": (
            "selector: {matchLabels: {role: 1}, matchExpressions: [{values: []}]}",
            "selector.matchLabels.role: type, selector.matchExpressions[0].key: required, "
            "selector.matchExpressions[0].operator: required",
        ),
        "a selector in words": ("selector: role=leader", "selector: type"),
    },
)
def test_refused(spec: str, expected: str) -> None:
    """What is wrong by itself is refused without the webhook, field by field."""
    found = problems(V1, vpa(spec))
    assert ", ".join(each.removeprefix("spec.") for each in found) == expected
