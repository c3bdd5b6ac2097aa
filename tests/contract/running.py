"""Pods that run on a node, and what their status says.

The image of such a pod is never pulled, so these cases are for kubelets over a runtime in memory:
the one of the sandbox, or a real kubelet. What its programs use, both read from the annotation.
"""

from __future__ import annotations

from app.ports import EVENTS, PODS, Cluster, Json, Ref
from tests.contract.building import add, pod, resources
from tests.contract.waiting import Eventually

SCHEDULER = "default-scheduler"
ASKED = resources({"cpu": "20m", "memory": "20Mi"}, {"cpu": "1", "memory": "100Mi"})
CPU = "/spec/containers/0/resources/requests/cpu"
MEMORY_LIMIT = "/spec/containers/0/resources/limits/memory"
LOAD = "sandbox.plumbline/load"


def started(cluster: Cluster, namespace: str, name: str, *containers: Json, **spec: object) -> Json:
    """Create a pod that gets a node; its annotations may stand beside its spec."""
    annotations = spec.pop("annotations", {})
    body = pod(name, *containers, schedulerName=SCHEDULER, **spec)
    body["metadata"]["annotations"] = annotations
    return cluster.create(Ref(PODS, namespace), body)


def running(
    cluster: Cluster, namespace: str, eventually: Eventually, *containers: Json, **spec: object
) -> Json:
    """Create a pod and wait until it is Ready."""
    name = str(spec.pop("name", "pod"))
    started(cluster, namespace, name, *containers, **spec)
    eventually(lambda: is_ready(cluster.get(Ref(PODS, namespace, name))))
    return cluster.get(Ref(PODS, namespace, name))


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


def resize(cluster: Cluster, namespace: str, name: str, amount: str, path: str = CPU) -> Json:
    """Ask for another cpu request, or another amount of what a path names."""
    return cluster.patch(Ref(PODS, namespace, name, subresource="resize"), [add(path, amount)])


def is_resized(item: Json) -> bool:
    """Whether what runs is what is asked for, and nothing is still to be done."""
    asked = item["spec"]["containers"][0]["resources"]
    has = only_status(item).get("resources")
    seen = item["status"].get("observedGeneration", 0) >= item["metadata"]["generation"]
    return has == asked and seen and not is_resizing(item)


def is_resizing(item: Json) -> bool:
    """Whether the pod tells of a resize."""
    return bool(conditions(item).keys() & {"PodResizePending", "PodResizeInProgress"})


def events(cluster: Cluster, namespace: str, reason: str, name: str = "pod") -> list[Json]:
    """What is told of a pod for a reason."""
    fields = f"involvedObject.name={name},reason={reason}"
    return list(cluster.list(EVENTS, namespace, field_selector=fields).items)
