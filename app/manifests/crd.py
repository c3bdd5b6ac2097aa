"""The two CustomResourceDefinitions, and `deploy/crd.yaml` made of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.manifests.checkpoint_schema import checkpoint
from app.manifests.rendering import printed_by, render
from app.manifests.schema import Schema
from app.manifests.vpa_schema import vpa_v1, vpa_v1beta2

GROUP = "autoscaling.k8s.io"
# An API server accepts definitions in a group under k8s.io only with a link to the approval.
APPROVED = "https://github.com/kubernetes/kubernetes/pull/63797"
HEADER = printed_by("crd")

_FIRST_TARGET = ".status.recommendation.containerRecommendations[0].target"
COLUMNS: tuple[dict[str, Any], ...] = (
    {"name": "Mode", "type": "string", "jsonPath": ".spec.updatePolicy.updateMode"},
    {"name": "CPU", "type": "string", "jsonPath": f"{_FIRST_TARGET}.cpu"},
    {"name": "Mem", "type": "string", "jsonPath": f"{_FIRST_TARGET}.memory"},
    {
        "name": "Provided",
        "type": "string",
        "jsonPath": ".status.conditions[?(@.type=='RecommendationProvided')].status",
    },
    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    {
        "name": "MinReplicas",
        "type": "integer",
        "jsonPath": ".spec.updatePolicy.minReplicas",
        "priority": 1,
    },
    {
        "name": "OOMSeconds",
        "type": "integer",
        "jsonPath": ".spec.updatePolicy.evictAfterOOMSeconds",
        "priority": 1,
    },
)


def documents() -> tuple[dict[str, Any], dict[str, Any]]:
    """The definitions of VerticalPodAutoscaler and VerticalPodAutoscalerCheckpoint."""
    return (
        _definition("VerticalPodAutoscaler", "vpa", [_vpa_v1(), _vpa_v1beta2()]),
        _definition(
            "VerticalPodAutoscalerCheckpoint",
            "vpacheckpoint",
            [
                _version("v1", checkpoint(), served=True),
                _version("v1beta2", checkpoint(), served=False),
            ],
        ),
    )


def text() -> str:
    """Both definitions as the YAML of `deploy/crd.yaml`."""
    return render(documents(), header=HEADER)


def _definition(kind: str, short_name: str, versions: list[dict[str, Any]]) -> dict[str, Any]:
    singular = kind.lower()
    plural = f"{singular}s"
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{plural}.{GROUP}",
            "annotations": {"api-approved.kubernetes.io": APPROVED},
        },
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": plural,
                "singular": singular,
                "shortNames": [short_name],
            },
            "versions": versions,
        },
    }


def _vpa_v1() -> dict[str, Any]:
    status_and_columns = {
        "subresources": {"status": {}},
        "additionalPrinterColumns": list(COLUMNS),
    }
    return _version("v1", vpa_v1(), served=True, more=status_and_columns)


def _vpa_v1beta2() -> dict[str, Any]:
    farewell = {
        "deprecated": True,
        "deprecationWarning": f"{GROUP}/v1beta2 API is deprecated",
        "subresources": {"status": {}},
    }
    return _version("v1beta2", vpa_v1beta2(), served=False, more=farewell)


def _version(
    name: str, schema: Schema, *, served: bool, more: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    return {
        "name": name,
        "served": served,
        "storage": served,
        **(more or {}),
        "schema": {"openAPIV3Schema": schema},
    }
