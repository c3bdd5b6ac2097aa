"""Pods that run on a node, and what their status says.

The image of such a pod is never pulled, so these cases are for kubelets over a runtime in memory:
the one of the sandbox, or a real kubelet. What its programs use, both read from the annotation.
"""

from __future__ import annotations

from app.ports import EVENTS, PODS, Json
from tests.contract.building import add, pod, resources
from tests.contract.space import Space

SCHEDULER = "default-scheduler"
ASKED = resources({"cpu": "20m", "memory": "20Mi"}, {"cpu": "1", "memory": "100Mi"})
CPU = "/spec/containers/0/resources/requests/cpu"
MEMORY_LIMIT = "/spec/containers/0/resources/limits/memory"
LOAD = "sandbox.plumbline/load"


class NodePods(Space):
    """The pods of a namespace that get a node."""

    def start(self, *containers: Json, name: str = "pod", **spec: object) -> Json:
        """Create a pod; its annotations may stand beside its spec."""
        annotations = spec.pop("annotations", {})
        body = pod(name, *containers, schedulerName=SCHEDULER, **spec)
        body["metadata"]["annotations"] = annotations
        return self.create(PODS, body)

    def run(self, *containers: Json, name: str = "pod", **spec: object) -> Json:
        """Create a pod and wait until it is Ready."""
        self.start(*containers, name=name, **spec)
        self.eventually(lambda: is_ready(self.now(name)))
        return self.now(name)

    def now(self, name: str = "pod") -> Json:
        """A pod as it is."""
        return self.get(PODS, name)

    def resize(self, amount: object, path: str = CPU, *, name: str = "pod") -> Json:
        """Ask for another cpu request, or another amount of what a path names."""
        return self.patch(PODS, name, [add(path, amount)], "resize")

    def await_resized(self, name: str = "pod") -> Json:
        """Wait until what runs is what is asked for."""
        self.eventually(lambda: is_resized(self.now(name)))
        return self.now(name)

    def await_condition(self, kind: str, name: str = "pod") -> Json:
        """Wait until a pod has a condition that says why."""

        def told() -> Json | None:
            found = conditions(self.now(name)).get(kind, {})
            return found if "reason" in found else None

        return self.eventually(told)

    def events(self, reason: str, name: str = "pod") -> list[Json]:
        """What is told of a pod for a reason."""
        fields = f"involvedObject.name={name},reason={reason}"
        return list(self.items(EVENTS, fields=fields))


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


def is_resized(item: Json) -> bool:
    """Whether what runs is what is asked for, and nothing is still to be done."""
    asked = item["spec"]["containers"][0]["resources"]
    has = only_status(item).get("resources")
    seen = item["status"].get("observedGeneration", 0) >= item["metadata"]["generation"]
    return has == asked and seen and not is_resizing(item)


def is_resizing(item: Json) -> bool:
    """Whether the pod tells of a resize."""
    return bool(conditions(item).keys() & {"PodResizePending", "PodResizeInProgress"})
