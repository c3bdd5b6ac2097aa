"""The resize subresource, as far as the API server alone decides."""

from __future__ import annotations

import pytest

from app.model.errors import Conflict, Invalid, NotFound
from app.ports import PODS, Json
from tests.contract.building import add, container, pod, resources
from tests.contract.space import Space

BURSTABLE = resources({"cpu": "100m", "memory": "100Mi"}, {"cpu": "1"})
GUARANTEED = resources(limits={"cpu": "100m", "memory": "100Mi"})
PATH = "/spec/containers/0/resources"
LESS = {"op": "remove", "path": f"{PATH}/limits/cpu"}
DISK = add(f"{PATH}/requests/ephemeral-storage", "1Gi")
OTHER_CLASS = "Pod QOS Class may not change as a result of resizing"


@pytest.fixture
def created(space: Space) -> Json:
    """A burstable pod."""
    return space.create(PODS, pod("pod", container(resources=BURSTABLE)))


def resize(space: Space, *operations: Json) -> Json:
    """Resize the pod of the case."""
    return space.patch(PODS, "pod", list(operations), "resize")


@pytest.mark.usefixtures("created")
def test_a_resize_changes_the_spec_at_once(space: Space) -> None:
    """Resources and generation change; what the kubelet will say of it is another matter."""
    patched = resize(
        space,
        add(f"{PATH}/requests/cpu", "250500u"),
        add(f"{PATH}/limits/memory", "1024Mi"),
    )
    found = patched["spec"]["containers"][0]["resources"]

    assert found["requests"] == {"cpu": "251m", "memory": "100Mi"}
    assert found["limits"] == {"cpu": "1", "memory": "1Gi"}
    assert patched["metadata"]["generation"] == 2
    assert space.get(PODS, "pod")["spec"] == patched["spec"]
    assert space.get(PODS, "pod", "resize")["spec"] == patched["spec"]


def test_a_sidecar_is_resized_where_it_stands(space: Space) -> None:
    """Native sidecars can be resized as containers can."""
    init = [
        container("setup", resources=BURSTABLE),
        container("proxy", resources=BURSTABLE, restartPolicy="Always"),
    ]
    space.create(PODS, pod("pod", container(resources=BURSTABLE), initContainers=init))
    patched = resize(space, add("/spec/initContainers/1/resources/requests/cpu", "200m"))
    setup, proxy = patched["spec"]["initContainers"]

    assert setup["resources"]["requests"]["cpu"] == "100m"
    assert proxy["resources"]["requests"]["cpu"] == "200m"
    assert patched["metadata"]["generation"] == 2


@pytest.mark.usefixtures("created")
def test_all_else_is_dropped(space: Space) -> None:
    """Labels, annotations and images in a resize go nowhere, without a word."""
    patched = resize(
        space,
        add("/metadata/annotations", {"new": "one"}),
        add("/metadata/labels/new", "one"),
        add("/spec/containers/0/image", "other"),
        add(f"{PATH}/requests/cpu", "200m"),
    )

    assert "annotations" not in patched["metadata"]
    assert "new" not in patched["metadata"]["labels"]
    assert patched["spec"]["containers"][0]["image"] != "other"
    assert patched["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "200m"


def test_a_resize_to_the_same_is_none(space: Space, created: Json) -> None:
    """What changes nothing counts no generation."""
    assert resize(space, add(f"{PATH}/requests/cpu", "0.1")) == created


def test_a_dry_run_resizes_nothing(space: Space, created: Json) -> None:
    """A dry run answers as if."""
    operations = [add(f"{PATH}/requests/cpu", "200m")]
    planned = space.cluster.patch(space.ref(PODS, "pod", "resize"), operations, dry_run=True)

    assert planned["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "200m"
    assert space.get(PODS, "pod") == created


@pytest.mark.parametrize(
    ("asked", "operation", "reason", "message"),
    [
        ({}, add(f"{PATH}/requests", {"cpu": "1"}), "Invalid", OTHER_CLASS),
        (GUARANTEED, add(f"{PATH}/requests/cpu", "50m"), "Invalid", OTHER_CLASS),
        (BURSTABLE, LESS, "Forbidden", "resource limits cannot be removed"),
        (BURSTABLE, DISK, "Forbidden", "only cpu and memory resources are mutable"),
        (BURSTABLE, add(f"{PATH}/requests/cpu", "2"), "Invalid", "less than or equal to cpu limit"),
    ],
    ids=["from BestEffort", "from Guaranteed", "less limits", "other resources", "above limit"],
)
def test_what_cannot_be_resized(
    space: Space, asked: Json, operation: Json, reason: str, message: str
) -> None:
    """A resize that can never be is `Invalid`, and nothing changes."""
    created = space.create(PODS, pod("pod", container(resources=asked)))

    with pytest.raises(Invalid, match=message) as refused:
        resize(space, operation)

    assert refused.value.status == 422
    assert f"FieldValue{reason}" in [cause for cause, _ in refused.value.causes]
    assert space.get(PODS, "pod") == created


def test_static_pods_are_not_resized(space: Space) -> None:
    """What a node's own file asks for is not changed through the API."""
    body = pod("pod", container(resources=BURSTABLE), nodeName="nowhere")
    body["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "hash"}
    space.create(PODS, body)

    with pytest.raises(Invalid, match="static pods cannot be resized") as refused:
        resize(space, add(f"{PATH}/requests/cpu", "200m"))

    assert refused.value.status == 422


def test_a_resize_of_the_right_pod(space: Space, created: Json) -> None:
    """A test of the uid or a version holds a resize back from another pod of this name."""
    wanted = add(f"{PATH}/requests/cpu", "200m")
    is_other = {"op": "test", "path": "/metadata/uid", "value": "another"}
    is_this = {"op": "test", "path": "/metadata/uid", "value": created["metadata"]["uid"]}

    with pytest.raises(Invalid) as refused:
        resize(space, is_other, wanted)
    with pytest.raises(NotFound):
        space.patch(PODS, "nobody", [wanted], "resize")
    resize(space, is_this, wanted)
    old = {"metadata": {"resourceVersion": created["metadata"]["resourceVersion"]}}
    with pytest.raises(Conflict):
        space.merge(PODS, "pod", old | {"spec": {}}, "resize")

    assert refused.value.status == 422
