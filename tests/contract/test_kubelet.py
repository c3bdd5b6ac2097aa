"""Pods on nodes: they start, are resized, end. These cases need a scheduler and a kubelet."""

from __future__ import annotations

import pytest

from app.model.errors import NotFound, Refused
from app.model.quantity import Quantity
from app.ports import EVENTS, NODES, PODS, Cluster, Json, PatchKind, Ref
from tests.contract.building import add, container, pod, resources
from tests.contract.conftest import KUBECONFIG
from tests.contract.running import (
    ASKED,
    LOAD,
    MEMORY_LIMIT,
    SCHEDULER,
    conditions,
    events,
    is_ready,
    is_resized,
    only_status,
    resize,
    running,
    started,
)
from tests.contract.waiting import Eventually

pytestmark = pytest.mark.usefixtures("node")


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
    cluster.create(Ref(PODS, namespace), body)
    found = eventually(
        lambda: conditions(cluster.get(Ref(PODS, namespace, "pod"))).get("PodScheduled")
    )

    assert (found["status"], found["reason"]) == ("False", "Unschedulable")
    assert "Insufficient cpu" in found["message"]
    assert cluster.get(Ref(PODS, namespace, "pod"))["status"]["phase"] == "Pending"
    fields = "involvedObject.name=pod,reason=FailedScheduling"
    assert eventually(lambda: cluster.list(EVENTS, namespace, field_selector=fields).items)


def test_pods_end(cluster: Cluster, namespace: str, eventually: Eventually) -> None:
    """A running pod that is deleted is marked, ends what it does, and is gone."""
    before = running(cluster, namespace, eventually)
    cluster.delete(Ref(PODS, namespace, "pod"))

    def is_gone() -> bool:
        try:
            found = cluster.get(Ref(PODS, namespace, "pod"))
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

    eventually(lambda: is_resized(cluster.get(Ref(PODS, namespace, "pod"))))
    after = cluster.get(Ref(PODS, namespace, "pod"))
    assert only_status(after)["resources"]["requests"]["cpu"] == "30m"
    assert only_status(after)["allocatedResources"]["cpu"] == "30m"
    assert only_status(after)["containerID"] == only_status(before)["containerID"]
    assert after["status"]["observedGeneration"] == 2
    assert eventually(lambda: events(cluster, namespace, "ResizeCompleted"))
    assert events(cluster, namespace, "ResizeStarted")


def test_a_resize_by_restart(cluster: Cluster, namespace: str, eventually: Eventually) -> None:
    """Where the resize policy says so, the container starts again."""
    policy = [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]
    before = running(
        cluster, namespace, eventually, container(resources=ASKED, resizePolicy=policy)
    )
    resize(cluster, namespace, "pod", "30m")
    eventually(lambda: is_resized(cluster.get(Ref(PODS, namespace, "pod"))))
    eventually(lambda: only_status(cluster.get(Ref(PODS, namespace, "pod")))["restartCount"] == 1)
    after = only_status(cluster.get(Ref(PODS, namespace, "pod")))

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
    """What the node has no room for now is deferred, until it has or nothing is asked any more."""
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
    small = cluster.get(Ref(PODS, namespace, "small"))["spec"]["containers"][0]["resources"]
    wanted = f"{int(milli * 0.7)}m"
    resize(cluster, namespace, "small", wanted)

    def pending() -> Json | None:
        return conditions(cluster.get(Ref(PODS, namespace, "small"))).get("PodResizePending")

    found = eventually(pending)
    waiting = cluster.get(Ref(PODS, namespace, "small"))
    assert (found["status"], found["reason"]) == ("True", "Deferred")
    assert "Node didn't have enough resource: cpu" in found["message"]
    assert found["observedGeneration"] == 2
    assert only_status(waiting)["resources"] == small
    assert only_status(waiting)["allocatedResources"] == small["requests"]

    resize(cluster, namespace, "small", small["requests"]["cpu"])
    eventually(lambda: is_resized(cluster.get(Ref(PODS, namespace, "small"))))
    resize(cluster, namespace, "small", wanted)
    eventually(pending)
    cluster.delete(Ref(PODS, namespace, "large"))
    eventually(lambda: is_resized(cluster.get(Ref(PODS, namespace, "small"))))
    requests = only_status(cluster.get(Ref(PODS, namespace, "small")))["resources"]["requests"]
    assert Quantity.read(requests["cpu"]) == Quantity.read(wanted)


def test_a_deferred_pod_keeps_its_room_from_others(
    cluster: Cluster, namespace: str, node: Json, eventually: Eventually
) -> None:
    """The scheduler counts what a pod asks for, though it does not have it yet."""
    milli = Quantity.read(node["status"]["allocatable"]["cpu"]).milli
    home = {"kubernetes.io/hostname": node["metadata"]["labels"]["kubernetes.io/hostname"]}
    for name in ("large", "small"):
        share = container(resources=resources({"cpu": f"{int(milli * 0.4)}m"}))
        running(cluster, namespace, eventually, share, name=name, nodeSelector=home)
    resize(cluster, namespace, "small", f"{int(milli * 0.7)}m")
    eventually(lambda: events(cluster, namespace, "ResizeDeferred", "small"))
    little = container(resources=resources({"cpu": f"{int(milli * 0.05)}m"}))
    started(cluster, namespace, "third", little, nodeSelector=home)

    assert eventually(lambda: events(cluster, namespace, "FailedScheduling", "third"))
    assert not cluster.get(Ref(PODS, namespace, "third"))["spec"].get("nodeName")
    cluster.delete(Ref(PODS, namespace, "large"))
    eventually(lambda: is_ready(cluster.get(Ref(PODS, namespace, "third"))))


def failing(cluster: Cluster, namespace: str, eventually: Eventually) -> Json:
    """Wait until a resize is told to be in error."""

    def error() -> Json | None:
        found = conditions(cluster.get(Ref(PODS, namespace, "pod"))).get("PodResizeInProgress", {})
        return found if "reason" in found else None

    return eventually(error)


def test_memory_that_is_in_use_is_not_taken_away(
    cluster: Cluster, namespace: str, eventually: Eventually
) -> None:
    """A limit below what is used is set aside, but not applied; what was asked before still can."""
    load = {LOAD: "memory: constant 80Mi, noise: 0"}
    running(cluster, namespace, eventually, container(resources=ASKED), annotations=load)
    resize(cluster, namespace, "pod", "60Mi", MEMORY_LIMIT)
    found = failing(cluster, namespace, eventually)
    status = only_status(cluster.get(Ref(PODS, namespace, "pod")))

    assert (found["status"], found["reason"]) == ("True", "Error")
    lower = "memory limit (62914560) below current usage"
    assert found["message"].startswith(
        f"cannot decrease memory limits: [attempting to set pod {lower} ("
    )
    assert f'attempting to set container "main" {lower} (' in found["message"]
    assert found["observedGeneration"] == 2
    assert status["resources"]["limits"]["memory"] == "100Mi"
    assert events(cluster, namespace, "ResizeError")
    resize(cluster, namespace, "pod", "100Mi", MEMORY_LIMIT)
    eventually(lambda: is_resized(cluster.get(Ref(PODS, namespace, "pod"))))
    assert only_status(cluster.get(Ref(PODS, namespace, "pod")))["restartCount"] == 0


def test_a_runtime_that_refuses(cluster: Cluster, namespace: str, eventually: Eventually) -> None:
    """Its words are told, and what was asked before is back at once."""
    odd = {"sandbox.plumbline/resize": "refuse not today"}
    running(cluster, namespace, eventually, container(resources=ASKED), annotations=odd)
    resize(cluster, namespace, "pod", "30m")
    found = failing(cluster, namespace, eventually)
    status = only_status(cluster.get(Ref(PODS, namespace, "pod")))

    assert found["reason"] == "Error"
    assert "not today" in found["message"]
    assert status["allocatedResources"]["cpu"] == "30m"
    assert status["resources"]["requests"]["cpu"] == "20m"
    resize(cluster, namespace, "pod", "20m")
    eventually(lambda: is_resized(cluster.get(Ref(PODS, namespace, "pod"))))


@pytest.mark.skipif(
    bool(KUBECONFIG), reason="only a CPU manager with static policy, on real cores, says so"
)
def test_a_resize_that_can_never_be(
    cluster: Cluster, namespace: str, node: Json, eventually: Eventually
) -> None:
    """Where cores belong to pods for good, a Guaranteed one is Infeasible to resize."""
    name = node["metadata"]["name"]
    labels = {"sandbox.plumbline/cpu-manager": "static"}
    cluster.patch(Ref(NODES, "", name), {"metadata": {"labels": labels}}, kind=PatchKind.MERGE)
    exact = container(resources=resources(limits={"cpu": "1", "memory": "100Mi"}))
    running(cluster, namespace, eventually, exact, nodeName=name)
    wanted = {"cpu": "2", "memory": "100Mi"}
    both = {"requests": wanted, "limits": wanted}
    path = "/spec/containers/0/resources"
    cluster.patch(Ref(PODS, namespace, "pod", subresource="resize"), [add(path, both)])

    def pending() -> Json | None:
        return conditions(cluster.get(Ref(PODS, namespace, "pod"))).get("PodResizePending")

    found = eventually(pending)
    assert (found["status"], found["reason"]) == ("True", "Infeasible")
    why = 'Resize is infeasible for Guaranteed Pods alongside CPU Manager policy "static"'
    assert found["message"] == why
    assert (
        only_status(cluster.get(Ref(PODS, namespace, "pod")))["resources"]["limits"]["cpu"] == "1"
    )
    assert events(cluster, namespace, "ResizeInfeasible")
