"""The schemas of the definitions that are shipped, by kind and version."""

from typing import Any

from app.kube.manifests import documents


def schema(kind: str, version: str) -> dict[str, Any]:
    """Return the schema of a version of a kind."""
    (found,) = (
        each["schema"]["openAPIV3Schema"]
        for definition in documents.objects("crd")
        if definition["spec"]["names"]["kind"] == kind
        for each in definition["spec"]["versions"]
        if each["name"] == version
    )
    assert isinstance(found, dict)
    return found


VPA = schema("VerticalPodAutoscaler", "v1")
VPA_V1BETA2 = schema("VerticalPodAutoscaler", "v1beta2")
CHECKPOINT = schema("VerticalPodAutoscalerCheckpoint", "v1")
CPU_BOOST = VPA["properties"]["spec"]["properties"]["startupBoost"]["properties"]["cpu"]
QUANTITY = CPU_BOOST["properties"]["quantity"]
