"""The custom resource definitions as documents."""

from typing import Any

import pytest

from app.kube.manifests.documents import objects
from app.ports import Json
from tests.cases import cases
from tests.kube.manifests.definitions import QUANTITY
from tests.kube.manifests.structural import fields

VPA, CHECKPOINT = objects("crd")
VERSIONS = [
    pytest.param(version, id=f"{crd['spec']['names']['kind']} {version['name']}")
    for crd in (VPA, CHECKPOINT)
    for version in crd["spec"]["versions"]
]


@cases(
    "crd plural short_name",
    {
        "vpa": (VPA, "verticalpodautoscalers", "vpa"),
        "checkpoint": (CHECKPOINT, "verticalpodautoscalercheckpoints", "vpacheckpoint"),
    },
)
def test_names(crd: dict[str, Any], plural: str, short_name: str) -> None:
    """An API server asks for matching names, and for an approval of groups under k8s.io."""
    spec = crd["spec"]

    assert crd["apiVersion"] == "apiextensions.k8s.io/v1"
    assert crd["metadata"] == {
        "name": f"{plural}.autoscaling.k8s.io",
        "annotations": {
            "api-approved.kubernetes.io": "https://github.com/kubernetes/kubernetes/pull/63797"
        },
    }
    assert (spec["group"], spec["scope"]) == ("autoscaling.k8s.io", "Namespaced")
    assert spec["names"]["plural"] == plural
    assert f"{spec['names']['kind'].lower()}s" == plural
    assert spec["names"]["listKind"] == f"{spec['names']['kind']}List"
    assert spec["names"]["shortNames"] == [short_name]
    assert set(spec) == {"group", "scope", "names", "versions"}


def test_versions() -> None:
    """Only v1 is served and stored, and only VPAs have a status of their own."""
    told_elsewhere = {"schema", "additionalPrinterColumns"}
    found = [
        {key: value for key, value in version.items() if key not in told_elsewhere}
        for crd in (VPA, CHECKPOINT)
        for version in crd["spec"]["versions"]
    ]
    status: Json = {"subresources": {"status": {}}}
    warning = "autoscaling.k8s.io/v1beta2 API is deprecated"
    first: Json = {"name": "v1", "served": True, "storage": True}
    old: Json = {"name": "v1beta2", "served": False, "storage": False}

    assert found == [
        first | status,
        old | status | {"deprecated": True, "deprecationWarning": warning},
        first,
        old,
    ]


def test_columns() -> None:
    """`kubectl get vpa` shows these columns, the last two only with `-o wide`."""
    target = ".status.recommendation.containerRecommendations[0].target"
    provided = ".status.conditions[?(@.type=='RecommendationProvided')].status"
    expected = [
        ("Mode", "string", ".spec.updatePolicy.updateMode", 0),
        ("CPU", "string", f"{target}.cpu", 0),
        ("Mem", "string", f"{target}.memory", 0),
        ("Provided", "string", provided, 0),
        ("Age", "date", ".metadata.creationTimestamp", 0),
        ("MinReplicas", "integer", ".spec.updatePolicy.minReplicas", 1),
        ("OOMSeconds", "integer", ".spec.updatePolicy.evictAfterOOMSeconds", 1),
    ]
    columns = VPA["spec"]["versions"][0]["additionalPrinterColumns"]

    shown = [(c["name"], c["type"], c["jsonPath"], c.get("priority", 0)) for c in columns]

    assert shown == expected


@pytest.mark.parametrize("version", VERSIONS)
def test_schema_is_structural(version: dict[str, Any]) -> None:
    """Every field has one type, which is what an API server needs to prune and to read."""
    root = version["schema"]["openAPIV3Schema"]

    assert root["type"] == "object"
    for path, below in fields(root):
        if below.get("x-kubernetes-int-or-string"):
            assert "type" not in below, path
            assert below["anyOf"] == [{"type": "integer"}, {"type": "string"}], path
            assert below["pattern"] == QUANTITY["pattern"], path
        else:
            assert below["type"] in {"object", "array", "string", "integer", "number"}, path
            assert ("items" in below) == (below["type"] == "array"), path


@pytest.mark.parametrize("version", VERSIONS)
def test_nothing_has_a_default(version: dict[str, Any]) -> None:
    """The API server fills nothing in: absent fields stay absent and mean their default."""
    assert [
        path for path, below in fields(version["schema"]["openAPIV3Schema"]) if "default" in below
    ] == []


@pytest.mark.parametrize("version", VERSIONS)
def test_every_field_is_explained(version: dict[str, Any]) -> None:
    """`kubectl explain` has a sentence on each field; metadata's comes from the API server."""
    root = version["schema"]["openAPIV3Schema"]
    named = {
        path: below
        for path, below in fields(root)
        if not path.endswith(("[]", "{}")) or "properties" in below
    }

    assert root["description"].endswith(".")
    for path, below in named.items():
        assert (path == "metadata") != below.get("description", "").endswith("."), path
