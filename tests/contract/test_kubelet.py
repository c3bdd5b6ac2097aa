"""Pods on nodes: they start, are resized, end. These cases need a scheduler and a kubelet."""

from __future__ import annotations

import pytest

from app.model.errors import NotFound, Refused
from app.model.quantity import Quantity
from app.ports import NODES, PODS, Json, PatchKind, Ref
from tests.contract.building import container, resources
from tests.contract.conftest import KUBECONFIG
from tests.contract.running import (
    ASKED,
    LOAD,
    MEMORY_LIMIT,
    NodePods,
    conditions,
    is_ready,
    only_status,
)
from tests.contract.space import Space

pytestmark = pytest.mark.usefixtures("node")


@pytest.fixture
def pods(space: Space) -> NodePods:
    """The pods of the case."""
    return NodePods(space.cluster, space.namespace, space.eventually)


def test_pods_start(pods: NodePods) -> None:
    """A pod gets a node, runs, becomes Ready, and tells what it has."""
    found = pods.run(container(resources=ASKED))
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


def test_pods_that_fit_nowhere(pods: NodePods) -> None:
    """A pod too large for every node stays Pending and tells why."""
    pods.start(container(resources=resources({"cpu": "100k"})))
    found = pods.await_condition("PodScheduled")

    assert (found["status"], found["reason"]) == ("False", "Unschedulable")
    assert "Insufficient cpu" in found["message"]
    assert pods.now()["status"]["phase"] == "Pending"
    assert pods.eventually(lambda: pods.events("FailedScheduling"))


def test_pods_end(pods: NodePods) -> None:
    """A running pod that is deleted is marked, ends what it does, and is gone."""
    before = pods.run()
    pods.delete(PODS, "pod")

    def is_gone() -> bool:
        try:
            found = pods.now()
        except NotFound:
            return True
        assert found["metadata"]["deletionTimestamp"]
        assert found["metadata"]["generation"] == before["metadata"]["generation"] + 1
        return False

    assert pods.eventually(is_gone)


def test_a_resize_in_place(pods: NodePods) -> None:
    """The kubelet gives what is asked for, without a restart."""
    before = pods.run(container(resources=ASKED))
    patched = pods.resize("30m")
    assert patched["metadata"]["generation"] == 2

    after = pods.await_resized()
    assert only_status(after)["resources"]["requests"]["cpu"] == "30m"
    assert only_status(after)["allocatedResources"]["cpu"] == "30m"
    assert only_status(after)["containerID"] == only_status(before)["containerID"]
    assert after["status"]["observedGeneration"] == 2
    assert pods.eventually(lambda: pods.events("ResizeCompleted"))
    assert pods.events("ResizeStarted")


def test_a_resize_by_restart(pods: NodePods) -> None:
    """Where the resize policy says so, the container starts again."""
    policy = [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]
    before = pods.run(container(resources=ASKED, resizePolicy=policy))
    pods.resize("30m")
    pods.await_resized()
    pods.eventually(lambda: only_status(pods.now())["restartCount"] == 1)
    after = only_status(pods.now())

    assert after["containerID"] != only_status(before)["containerID"]
    assert after["lastState"]["terminated"]["finishedAt"]


def test_a_resize_beyond_the_node(pods: NodePods) -> None:
    """More than the whole node is refused at once, with a cause to tell it by."""
    asked = resources({"cpu": "20m"})
    pods.run(container(resources=asked))

    with pytest.raises(Refused, match="didn't have enough allocatable resources: cpu") as refused:
        pods.resize("100k")

    assert refused.value.status == 403
    assert [reason for reason, _ in refused.value.causes] == ["NodeCapacity"]


def test_a_resize_that_waits_for_room(pods: NodePods, node: Json) -> None:
    """What the node has no room for now is deferred, until it has or nothing is asked any more."""
    milli = Quantity.read(node["status"]["allocatable"]["cpu"]).milli
    home = {"kubernetes.io/hostname": node["metadata"]["labels"]["kubernetes.io/hostname"]}
    for name, share in (("large", 0.5), ("small", 0.2)):
        asked = resources({"cpu": f"{int(milli * share)}m"})
        pods.run(container(resources=asked), name=name, nodeSelector=home)
    small = pods.now("small")["spec"]["containers"][0]["resources"]
    wanted = f"{int(milli * 0.7)}m"
    pods.resize(wanted, name="small")
    found = pods.await_condition("PodResizePending", "small")
    waiting = pods.now("small")
    assert (found["status"], found["reason"]) == ("True", "Deferred")
    assert "Node didn't have enough resource: cpu" in found["message"]
    assert found["observedGeneration"] == 2
    assert only_status(waiting)["resources"] == small
    assert only_status(waiting)["allocatedResources"] == small["requests"]

    pods.resize(small["requests"]["cpu"], name="small")
    pods.await_resized("small")
    pods.resize(wanted, name="small")
    pods.await_condition("PodResizePending", "small")
    pods.delete(PODS, "large")
    pods.await_resized("small")
    requests = only_status(pods.now("small"))["resources"]["requests"]
    assert Quantity.read(requests["cpu"]) == Quantity.read(wanted)


def test_a_deferred_pod_keeps_its_room_from_others(pods: NodePods, node: Json) -> None:
    """The scheduler counts what a pod asks for, though it does not have it yet."""
    milli = Quantity.read(node["status"]["allocatable"]["cpu"]).milli
    home = {"kubernetes.io/hostname": node["metadata"]["labels"]["kubernetes.io/hostname"]}
    for name in ("large", "small"):
        share = container(resources=resources({"cpu": f"{int(milli * 0.4)}m"}))
        pods.run(share, name=name, nodeSelector=home)
    pods.resize(f"{int(milli * 0.7)}m", name="small")
    pods.eventually(lambda: pods.events("ResizeDeferred", "small"))
    little = container(resources=resources({"cpu": f"{int(milli * 0.05)}m"}))
    pods.start(little, name="third", nodeSelector=home)

    assert pods.eventually(lambda: pods.events("FailedScheduling", "third"))
    assert not pods.now("third")["spec"].get("nodeName")
    pods.delete(PODS, "large")
    pods.eventually(lambda: is_ready(pods.now("third")))


def test_memory_that_is_in_use_is_not_taken_away(pods: NodePods) -> None:
    """A limit below what is used is set aside, but not applied; what was asked before still can."""
    load = {LOAD: "memory: constant 80Mi, noise: 0"}
    pods.run(container(resources=ASKED), annotations=load)
    pods.resize("60Mi", MEMORY_LIMIT)
    found = pods.await_condition("PodResizeInProgress")
    status = only_status(pods.now())

    assert (found["status"], found["reason"]) == ("True", "Error")
    lower = "memory limit (62914560) below current usage"
    assert found["message"].startswith(
        f"cannot decrease memory limits: [attempting to set pod {lower} ("
    )
    assert f'attempting to set container "main" {lower} (' in found["message"]
    assert found["observedGeneration"] == 2
    assert status["resources"]["limits"]["memory"] == "100Mi"
    assert pods.events("ResizeError")
    pods.resize("100Mi", MEMORY_LIMIT)
    pods.await_resized()
    assert only_status(pods.now())["restartCount"] == 0


def test_a_runtime_that_refuses(pods: NodePods) -> None:
    """Its words are told, and what was asked before is back at once."""
    odd = {"sandbox.plumbline/resize": "refuse not today"}
    pods.run(container(resources=ASKED), annotations=odd)
    pods.resize("30m")
    found = pods.await_condition("PodResizeInProgress")
    status = only_status(pods.now())

    assert found["reason"] == "Error"
    assert "not today" in found["message"]
    assert status["allocatedResources"]["cpu"] == "30m"
    assert status["resources"]["requests"]["cpu"] == "20m"
    pods.resize("20m")
    pods.await_resized()


@pytest.mark.skipif(
    bool(KUBECONFIG), reason="only a CPU manager with static policy, on real cores, says so"
)
def test_a_resize_that_can_never_be(pods: NodePods, node: Json) -> None:
    """Where cores belong to pods for good, a Guaranteed one is Infeasible to resize."""
    name = node["metadata"]["name"]
    labels = {"sandbox.plumbline/cpu-manager": "static"}
    pods.cluster.patch(Ref(NODES, "", name), {"metadata": {"labels": labels}}, kind=PatchKind.MERGE)
    exact = container(resources=resources(limits={"cpu": "1", "memory": "100Mi"}))
    pods.run(exact, nodeName=name)
    wanted = {"cpu": "2", "memory": "100Mi"}
    both = {"requests": wanted, "limits": wanted}
    pods.resize(both, "/spec/containers/0/resources")
    found = pods.await_condition("PodResizePending")
    assert (found["status"], found["reason"]) == ("True", "Infeasible")
    why = 'Resize is infeasible for Guaranteed Pods alongside CPU Manager policy "static"'
    assert found["message"] == why
    assert only_status(pods.now())["resources"]["limits"]["cpu"] == "1"
    assert pods.events("ResizeInfeasible")
