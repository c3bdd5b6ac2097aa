"""The resize subresource, as far as the API server alone decides."""

from __future__ import annotations

import pytest

from app.model.errors import Conflict, Invalid, NotFound
from app.ports import PODS, Cluster, Json, PatchKind, Ref
from tests.contract.building import add, container, pod, resources

BURSTABLE = resources({"cpu": "100m", "memory": "100Mi"}, {"cpu": "1"})
GUARANTEED = resources(limits={"cpu": "100m", "memory": "100Mi"})
PATH = "/spec/containers/0/resources"


@pytest.fixture
def created(cluster: Cluster, namespace: str) -> Json:
    """A burstable pod."""
    return cluster.create(Ref(PODS, namespace), pod("pod", container(resources=BURSTABLE)))


def resize(cluster: Cluster, namespace: str, *operations: Json) -> Json:
    """Resize the pod of the case."""
    return cluster.patch(Ref(PODS, namespace, "pod", subresource="resize"), list(operations))


@pytest.mark.usefixtures("created")
def test_a_resize_changes_the_spec_at_once(cluster: Cluster, namespace: str) -> None:
    """Resources and generation change; what the kubelet will say of it is another matter."""
    patched = resize(
        cluster,
        namespace,
        add(f"{PATH}/requests/cpu", "250500u"),
        add(f"{PATH}/limits/memory", "1024Mi"),
    )
    found = patched["spec"]["containers"][0]["resources"]

    assert found["requests"] == {"cpu": "251m", "memory": "100Mi"}
    assert found["limits"] == {"cpu": "1", "memory": "1Gi"}
    assert patched["metadata"]["generation"] == 2
    assert cluster.get(Ref(PODS, namespace, "pod"))["spec"] == patched["spec"]
    assert cluster.get(Ref(PODS, namespace, "pod", "resize"))["spec"] == patched["spec"]


@pytest.mark.usefixtures("created")
def test_all_else_is_dropped(cluster: Cluster, namespace: str) -> None:
    """Labels, annotations and images in a resize go nowhere, without a word."""
    patched = resize(
        cluster,
        namespace,
        add("/metadata/annotations", {"new": "one"}),
        add("/metadata/labels/new", "one"),
        add("/spec/containers/0/image", "other"),
        add(f"{PATH}/requests/cpu", "200m"),
    )

    assert "annotations" not in patched["metadata"]
    assert "new" not in patched["metadata"]["labels"]
    assert patched["spec"]["containers"][0]["image"] != "other"
    assert patched["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "200m"


def test_a_resize_to_the_same_is_none(cluster: Cluster, namespace: str, created: Json) -> None:
    """What changes nothing counts no generation."""
    assert resize(cluster, namespace, add(f"{PATH}/requests/cpu", "0.1")) == created


def test_a_dry_run_resizes_nothing(cluster: Cluster, namespace: str, created: Json) -> None:
    """A dry run answers as if."""
    operations = [add(f"{PATH}/requests/cpu", "200m")]
    planned = cluster.patch(
        Ref(PODS, namespace, "pod", subresource="resize"), operations, dry_run=True
    )

    assert planned["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "200m"
    assert cluster.get(Ref(PODS, namespace, "pod")) == created


@pytest.mark.parametrize(
    ("asked", "operation", "reason", "message"),
    [
        pytest.param(
            {},
            add(f"{PATH}/requests", {"cpu": "1"}),
            "FieldValueInvalid",
            "Pod QOS Class may not change as a result of resizing",
            id="from BestEffort",
        ),
        pytest.param(
            GUARANTEED,
            add(f"{PATH}/requests/cpu", "50m"),
            "FieldValueInvalid",
            "Pod QOS Class may not change as a result of resizing",
            id="from Guaranteed",
        ),
        pytest.param(
            BURSTABLE,
            {"op": "remove", "path": f"{PATH}/limits/cpu"},
            "FieldValueForbidden",
            "resource limits cannot be removed",
            id="less limits",
        ),
        pytest.param(
            BURSTABLE,
            add(f"{PATH}/requests/ephemeral-storage", "1Gi"),
            "FieldValueForbidden",
            "only cpu and memory resources are mutable",
            id="other resources",
        ),
        pytest.param(
            BURSTABLE,
            add(f"{PATH}/requests/cpu", "2"),
            "FieldValueInvalid",
            "must be less than or equal to cpu limit of 1",
            id="request above limit",
        ),
    ],
)
def test_what_cannot_be_resized(
    cluster: Cluster, namespace: str, asked: Json, operation: Json, reason: str, message: str
) -> None:
    """A resize that can never be is `Invalid`, and nothing changes."""
    created = cluster.create(Ref(PODS, namespace), pod("pod", container(resources=asked)))

    with pytest.raises(Invalid, match=message) as refused:
        resize(cluster, namespace, operation)

    assert refused.value.status == 422
    assert reason in [cause for cause, _ in refused.value.causes]
    assert cluster.get(Ref(PODS, namespace, "pod")) == created


def test_static_pods_are_not_resized(cluster: Cluster, namespace: str) -> None:
    """What a node's own file asks for is not changed through the API."""
    body = pod("pod", container(resources=BURSTABLE), nodeName="nowhere")
    body["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "hash"}
    cluster.create(Ref(PODS, namespace), body)

    with pytest.raises(Invalid, match="static pods cannot be resized") as refused:
        resize(cluster, namespace, add(f"{PATH}/requests/cpu", "200m"))

    assert refused.value.status == 422


def test_a_resize_of_the_right_pod(cluster: Cluster, namespace: str, created: Json) -> None:
    """A test of the uid or a version holds a resize back from another pod of this name."""
    wanted = add(f"{PATH}/requests/cpu", "200m")
    is_other = {"op": "test", "path": "/metadata/uid", "value": "another"}
    is_this = {"op": "test", "path": "/metadata/uid", "value": created["metadata"]["uid"]}

    with pytest.raises(Invalid) as refused:
        resize(cluster, namespace, is_other, wanted)
    with pytest.raises(NotFound):
        cluster.patch(Ref(PODS, namespace, "nobody", subresource="resize"), [wanted])
    resize(cluster, namespace, is_this, wanted)
    old = {"metadata": {"resourceVersion": created["metadata"]["resourceVersion"]}}
    with pytest.raises(Conflict):
        cluster.patch(
            Ref(PODS, namespace, "pod", subresource="resize"),
            old | {"spec": {}},
            kind=PatchKind.MERGE,
        )

    assert refused.value.status == 422
