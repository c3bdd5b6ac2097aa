"""Custom objects are scaled by the paths that their definition names."""

from __future__ import annotations

import pytest
from hypothesis import given

from app.model.customs import CustomKind, ScalePaths, read_custom_kind, scale_custom
from app.model.errors import BadObject
from app.model.kinds import ObjectKey
from tests import make
from tests.junk import objects_like

PATHS = ScalePaths(".spec.size", ".status.labelSelector")
DEFINITION = {
    "spec": {
        "group": "example.com",
        "names": {"kind": "Gadget"},
        "versions": [
            {
                "name": "v1",
                "subresources": {
                    "scale": {
                        "specReplicasPath": ".spec.size",
                        "labelSelectorPath": ".status.labelSelector",
                    }
                },
            },
            {"name": "v2", "subresources": {"scale": {"specReplicasPath": ".spec.size"}}},
            {"name": "v3", "subresources": {"status": {}}},
            {"name": "v4", "served": True},
            {"name": "v5", "served": False},
        ],
    }
}
GADGET = {
    "apiVersion": "example.com/v1",
    "kind": "Gadget",
    "metadata": {
        "name": "g",
        "uid": "u",
        "resourceVersion": "3",
        "ownerReferences": [make.owner_json("Job/x")],
    },
    "spec": {"size": 4},
    "status": {"labelSelector": "app=web"},
}


def test_a_definition() -> None:
    """Each version that is served says for itself whether and how it is scaled."""
    found = read_custom_kind(DEFINITION)
    assert found == CustomKind(
        "example.com",
        "Gadget",
        is_namespaced=True,
        scales={"v1": PATHS, "v2": ScalePaths(".spec.size", ""), "v3": None, "v4": None},
    )


@pytest.mark.parametrize(("scope", "expected"), [("Cluster", False), ("Namespaced", True)])
def test_scopes(scope: str, expected: bool) -> None:
    """A definition says whether its objects live in namespaces."""
    definition = make.with_value(DEFINITION, "spec.scope", scope)
    assert read_custom_kind(definition).is_namespaced is expected


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("spec.group", 1),
        ("spec.names", "x"),
        ("spec.names.kind", 1),
        ("spec.versions", {}),
        ("spec.versions[0].name", 1),
        ("spec.versions[0].subresources", []),
        ("spec.versions[0].subresources.scale", 1),
        ("spec.versions[0].subresources.scale.specReplicasPath", 1),
        ("spec.versions[0].subresources.scale.labelSelectorPath", 1),
    ],
)
def test_wrong_definitions(path: str, value: object) -> None:
    """What is wrong is told with its path."""
    with pytest.raises(BadObject) as caught:
        read_custom_kind(make.with_value(DEFINITION, path, value))
    assert caught.value.path == path


def test_a_custom_object_shows_its_scale() -> None:
    """Size and selector come from where the definition says; owners do not come along."""
    found = scale_custom(GADGET, "default", PATHS)
    assert found.key == ObjectKey("example.com", "Gadget", "g")
    assert found.namespace == "default"
    assert found.replicas == 4
    assert found.owner is None
    assert found.selector.matches({"app": "web"})
    assert not found.selector.matches({})


def test_a_selector_that_is_not_there() -> None:
    """Who does not say which pods are his has none."""
    for path in ("", ".status.labelSelector.deeper"):
        found = scale_custom(GADGET, "default", ScalePaths(".spec.size", path))
        assert found.replicas == 4
        assert not found.selector.matches({"app": "web"})


@pytest.mark.parametrize("path", ["", ".spec.none", ".spec.size.deeper"])
def test_replicas_that_are_not_there(path: str) -> None:
    """Without a number of replicas an API server does not show a scale."""
    with pytest.raises(BadObject) as caught:
        scale_custom(GADGET, "default", ScalePaths(path, ".status.labelSelector"))
    assert (caught.value.path, caught.value.message) == (path[1:], "does not exist")


@given(objects_like(DEFINITION), objects_like(GADGET))
def test_anything_is_read_or_refused(definition: make.Json, item: make.Json) -> None:
    """Whatever is sent as a definition and an object of it, it is read or a bad object."""
    try:
        found = read_custom_kind(definition)
        scaled = [scale_custom(item, "default", paths) for paths in found.scales.values() if paths]
    except BadObject:
        return
    assert all(workload.namespace == "default" for workload in scaled)
