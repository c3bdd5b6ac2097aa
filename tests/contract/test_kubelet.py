"""Pods on nodes: they start, are resized, end. These cases need a scheduler and a kubelet."""

from __future__ import annotations

import pytest

from app.model.errors import NotFound, Refused
from app.model.quantity import Quantity
from app.ports import EVENTS, NODES, POD_METRICS, PODS, Cluster, Json
from tests.contract.building import add, container, pod, resources
from tests.contract.waiting import Eventually

pytestmark = pytest.mark.usefixtures("node")

SCHEDULER = "default-scheduler"
ASKED = resources({"cpu": "20m", "memory": "20Mi"}, {"cpu": "1", "memory": "100Mi"})
CPU = "/spec/containers/0/resources/requests/cpu"


@pytest.fixture
def node(cluster: Cluster) -> Json:
    """A node that takes pods."""
    for found in cluster.list(NODES).items:
        if not found["spec"].get("unschedulable") and not found["spec"].get("taints"):
            return found
    pytest.skip("the cluster has no node")


def running(
    cluster: Cluster, namespace: str, eventually: Eventually, *containers: Json, **spec: object
) -> Json:
    """Create a pod and wait until it is Ready."""
    name = str(spec.pop("name", "pod"))
    cluster.create(PODS, namespace, pod(name, *containers, schedulerName=SCHEDULER, **spec))
    eventually(lambda: is_ready(cluster.get(PODS, namespace, name)))
    return cluster.get(PODS, namespace, name)


def conditions(item: Json) -> dict[str, Json]:
    """The conditions of a pod by type."""
    return {found["type"]: found for found in item["status"].get("conditions") or ()}


def is_ready(item: Json) -> bool:
    """Whether a pod is Ready."""
    return conditions(item).get("Ready", {}).get("status") == "True"


def only_status(item: Json) -> Json:
    """The status of the only container."""
    (found,) = item["status"]["containerStatuses"]
    assert isinstance(found, dict)
    return found


def resize(cluster: Cluster, namespace: str, name: str, cpu: str) -> Json:
    """Ask for another cpu request."""
    return cluster.patch(PODS, namespace, name, [add(CPU, cpu)], subresource="resize")


def is_resized(item: Json) -> bool:
    """Whether what runs is what is asked for, and nothing is still to be done."""
    asked = item["spec"]["containers"][0]["resources"]
    has = only_status(item).get("resources")
    seen = item["status"].get("observedGeneration", 0) >= item["metadata"]["generation"]
    return has == asked and seen and not is_resizing(item)


def is_resizing(item: Json) -> bool:
    """Whether the pod tells of a resize."""
    return bool(conditions(item).keys() & {"PodResizePending", "PodResizeInProgress"})


def test_pods_start(cluster: Cluster, namespace: str, eventually: Eventually) -> None:
    """A pod gets a node, runs, becomes Ready, and tells what it has."""
    found = running(cluster, namespace, eventually, container(resources=ASKED))
    status = only_status(found)

    assert found["spec"]["nodeName"]
    assert found["status"]["phase"] == "Running"
    assert conditions(found)["PodScheduled"]["status"] == "True"
    assert (status["ready"], status["restartCount"]) == (True, 0)
    assert status["state"]["running"]["startedAt"]
    assert status["containerID"]
    assert status["resources"] == found["spec"]["containers"][0]["resources"]
    assert status["allocatedResources"] == {"cpu": "20m", "memory": "20Mi"}
    assert found["status"]["observedGeneration"] == found["metadata"]["generation"] == 1


def test_pods_that_fit_nowhere(cluster: Cluster, namespace: str, eventually: Eventually) -> None:
    """A pod too large for every node stays Pending and tells why."""
    asked = resources({"cpu": "100k"})
    body = pod("pod", container(resources=asked), schedulerName=SCHEDULER)
    cluster.create(PODS, namespace, body)
    found = eventually(lambda: conditions(cluster.get(PODS, namespace, "pod")).get("PodScheduled"))

    assert (found["status"], found["reason"]) == ("False", "Unschedulable")
    assert "Insufficient cpu" in found["message"]
    assert cluster.get(PODS, namespace, "pod")["status"]["phase"] == "Pending"
    fields = "involvedObject.name=pod,reason=FailedScheduling"
    assert eventually(lambda: cluster.list(EVENTS, namespace, field_selector=fields).items)


def test_pods_end(cluster: Cluster, namespace: str, eventually: Eventually) -> None:
    """A running pod that is deleted is marked, ends what it does, and is gone."""
    before = running(cluster, namespace, eventually)
    cluster.delete(PODS, namespace, "pod")

    def is_gone() -> bool:
        try:
            found = cluster.get(PODS, namespace, "pod")
        except NotFound:
            return True
        assert found["metadata"]["deletionTimestamp"]
        assert found["metadata"]["generation"] == before["metadata"]["generation"] + 1
        return False

    assert eventually(is_gone)


def test_a_resize_in_place(cluster: Cluster, namespace: str, eventually: Eventually) -> None:
    """The kubelet gives what is asked for, without a restart."""
    before = running(cluster, namespace, eventually, container(resources=ASKED))
    patched = resize(cluster, namespace, "pod", "30m")
    assert patched["metadata"]["generation"] == 2

    eventually(lambda: is_resized(cluster.get(PODS, namespace, "pod")))
    after = cluster.get(PODS, namespace, "pod")
    assert only_status(after)["resources"]["requests"]["cpu"] == "30m"
    assert only_status(after)["allocatedResources"]["cpu"] == "30m"
    assert only_status(after)["containerID"] == only_status(before)["containerID"]
    assert after["status"]["observedGeneration"] == 2


def test_a_resize_by_restart(cluster: Cluster, namespace: str, eventually: Eventually) -> None:
    """Where the resize policy says so, the container starts anew."""
    policy = [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]
    before = running(
        cluster, namespace, eventually, container(resources=ASKED, resizePolicy=policy)
    )
    resize(cluster, namespace, "pod", "30m")
    eventually(lambda: is_resized(cluster.get(PODS, namespace, "pod")))
    eventually(lambda: only_status(cluster.get(PODS, namespace, "pod"))["restartCount"] == 1)
    after = only_status(cluster.get(PODS, namespace, "pod"))

    assert after["containerID"] != only_status(before)["containerID"]
    assert after["lastState"]["terminated"]["finishedAt"]


def test_a_resize_beyond_the_node(cluster: Cluster, namespace: str, eventually: Eventually) -> None:
    """More than the whole node is refused at once, with a cause to tell it by."""
    asked = resources({"cpu": "20m"})
    running(cluster, namespace, eventually, container(resources=asked))

    with pytest.raises(Refused, match="didn't have enough allocatable resources: cpu") as refused:
        resize(cluster, namespace, "pod", "100k")

    assert refused.value.status == 403
    assert [reason for reason, _ in refused.value.causes] == ["NodeCapacity"]


def test_a_resize_that_waits_for_room(
    cluster: Cluster, namespace: str, node: Json, eventually: Eventually
) -> None:
    """What the node has no room for now is deferred, until it has or nobody asks any more."""
    milli = Quantity.read(node["status"]["allocatable"]["cpu"]).milli
    home = {"kubernetes.io/hostname": node["metadata"]["labels"]["kubernetes.io/hostname"]}
    for name, share in (("large", 0.5), ("small", 0.2)):
        asked = resources({"cpu": f"{int(milli * share)}m"})
        running(
            cluster,
            namespace,
            eventually,
            container(resources=asked),
            name=name,
            nodeSelector=home,
        )
    small = cluster.get(PODS, namespace, "small")["spec"]["containers"][0]["resources"]
    wanted = f"{int(milli * 0.7)}m"
    resize(cluster, namespace, "small", wanted)

    def pending() -> Json | None:
        return conditions(cluster.get(PODS, namespace, "small")).get("PodResizePending")

    found = eventually(pending)
    waiting = cluster.get(PODS, namespace, "small")
    assert (found["status"], found["reason"]) == ("True", "Deferred")
    assert "Node didn't have enough resource: cpu" in found["message"]
    assert found["observedGeneration"] == 2
    assert only_status(waiting)["resources"] == small
    assert only_status(waiting)["allocatedResources"] == small["requests"]

    resize(cluster, namespace, "small", small["requests"]["cpu"])
    eventually(lambda: is_resized(cluster.get(PODS, namespace, "small")))
    resize(cluster, namespace, "small", wanted)
    eventually(pending)
    cluster.delete(PODS, namespace, "large")
    eventually(lambda: is_resized(cluster.get(PODS, namespace, "small")))
    requests = only_status(cluster.get(PODS, namespace, "small"))["resources"]["requests"]
    assert Quantity.read(requests["cpu"]) == Quantity.read(wanted)


def test_usage_is_measured(cluster: Cluster, namespace: str, eventually: Eventually) -> None:
    """A running pod comes to have samples, with its labels and a window of time."""
    groups = {found["name"] for found in cluster.request("GET", "/apis")["groups"]}
    if POD_METRICS.group not in groups:
        pytest.skip("nobody measures here")
    running(cluster, namespace, eventually, container("a"), container("b"))
    eventually(lambda: cluster.list(POD_METRICS, namespace).items, seconds=120)
    (found,) = cluster.list(POD_METRICS, namespace, label_selector="app=contract").items
    alone = cluster.get(POD_METRICS, namespace, "pod")

    assert found["metadata"]["name"] == alone["metadata"]["name"] == "pod"
    assert found["metadata"]["labels"]["app"] == "contract"
    assert sorted(entry["name"] for entry in found["containers"]) == ["a", "b"]
    assert found["timestamp"].endswith("Z")
    assert found["window"].endswith("s")
    for entry in found["containers"]:
        assert Quantity.read(entry["usage"]["cpu"]).nano >= 0
        assert Quantity.read(entry["usage"]["memory"]).nano > 0
    assert not cluster.list(POD_METRICS, namespace, label_selector="app=other").items
    with pytest.raises(NotFound):
        cluster.get(POD_METRICS, namespace, "nobody")
