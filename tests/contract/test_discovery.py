"""What a server tells of itself."""

from __future__ import annotations

import pytest

from app.model.errors import NotFound
from app.ports import CUSTOM_RESOURCE_DEFINITIONS, DEPLOYMENTS, Cluster, Json, Ref, Resource
from tests.contract.building import add, definition, template, workload
from tests.contract.space import Space

GROUP = "contract.plumbline.example"
WIDGETS = Resource(GROUP, "v1", "widgets", "Widget")
SCALE = {
    "specReplicasPath": ".spec.replicas",
    "statusReplicasPath": ".status.replicas",
    "labelSelectorPath": ".status.selector",
}
DEFINITION = definition(
    "Widget",
    GROUP,
    {"x-kubernetes-preserve-unknown-fields": True},
    subresources={"status": {}, "scale": SCALE},
)


def resources(cluster: Cluster, path: str) -> dict[str, Json]:
    """The resources of a group's version, by name."""
    return {found["name"]: found for found in cluster.request("GET", path)["resources"]}


def test_version(cluster: Cluster) -> None:
    """A server tells its version."""
    found = cluster.request("GET", "/version")

    assert found["major"] == "1"
    assert found["gitVersion"].startswith("v1.")


def test_groups_and_resources(cluster: Cluster) -> None:
    """Groups, their versions and the resources with their subresources can be asked for."""
    groups = {found["name"]: found for found in cluster.request("GET", "/apis")["groups"]}
    alone = cluster.request("GET", "/apis/apps")
    core, apps = resources(cluster, "/api/v1"), resources(cluster, "/apis/apps/v1")

    assert groups["apps"]["preferredVersion"]["groupVersion"] == "apps/v1"
    assert alone["preferredVersion"] == groups["apps"]["preferredVersion"]
    assert "v1" in cluster.request("GET", "/api")["versions"]
    assert core["pods"]["kind"] == "Pod"
    assert {"pods/eviction", "pods/resize", "pods/status"} <= core.keys()
    assert {"get", "list", "watch", "create", "patch", "delete"} <= set(core["pods"]["verbs"])
    assert (core["nodes"]["namespaced"], core["pods"]["namespaced"]) == (False, True)
    assert (apps["deployments/scale"]["group"], apps["deployments/scale"]["kind"]) == (
        "autoscaling",
        "Scale",
    )


def test_unknown_groups(cluster: Cluster) -> None:
    """A group or version that is not served is not found."""
    for path in ("/apis/nobody.example.com/v1", "/apis/apps/v9", "/apis/nobody", "/nothing"):
        with pytest.raises(NotFound):
            cluster.request("GET", path)


def test_custom_kinds_come_and_go(space: Space) -> None:
    """A definition makes a resource with the subresources that it asks for."""
    space.cluster.create(Ref(CUSTOM_RESOURCE_DEFINITIONS), DEFINITION)
    path = f"/apis/{GROUP}/v1"
    found = space.eventually(lambda: resources(space.cluster, path))
    body = {"metadata": {"name": "w"}, "spec": {"replicas": 3, "free": "form"}}
    full = body | {"apiVersion": WIDGETS.api_version, "kind": "Widget"}
    created = space.eventually(lambda: space.create(WIDGETS, full))
    status = {"selector": "app=w", "replicas": 2}
    space.patch(WIDGETS, "w", [add("/status", status)], "status")
    scale = space.get(WIDGETS, "w", "scale")
    space.cluster.delete(Ref(CUSTOM_RESOURCE_DEFINITIONS, "", DEFINITION["metadata"]["name"]))

    assert {"widgets", "widgets/scale", "widgets/status"} <= found.keys()
    assert created["spec"] == body["spec"]
    assert (scale["kind"], scale["apiVersion"]) == ("Scale", "autoscaling/v1")
    assert (scale["spec"], scale["status"]) == (
        {"replicas": 3},
        {"replicas": 2, "selector": "app=w"},
    )

    def is_gone() -> bool:
        try:
            space.get(WIDGETS, "w")
        except NotFound:
            return True
        return False

    space.eventually(is_gone)


def test_scale_of_a_deployment(space: Space) -> None:
    """Scale shows replicas and selector, and changing it changes the Deployment."""
    body = workload(replicas=0, template=template(nodeSelector={"no": "such"}))
    created = space.create(DEPLOYMENTS, body)
    scale = space.get(DEPLOYMENTS, "web", "scale")
    operations = [{"op": "replace", "path": "/spec/replicas", "value": 4}]
    patched = space.patch(DEPLOYMENTS, "web", operations, "scale")
    after = space.get(DEPLOYMENTS, "web")

    assert scale["metadata"]["uid"] == created["metadata"]["uid"]
    assert scale["spec"].get("replicas", 0) == 0
    assert scale["status"]["selector"] == "app=contract"
    assert patched["spec"] == {"replicas": 4}
    assert (after["spec"]["replicas"], after["metadata"]["generation"]) == (4, 2)
