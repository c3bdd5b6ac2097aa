"""Nodes, how much of each is taken up, and which pod gets which: where the most room is left.

Strategy: what is taken up is kept up to date by every change of a pod, so that asking costs
nothing. A pod counts with the larger of what its spec asks for and what the node has set aside:
a pod that waits for a resize keeps the room for it from others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from app.model.quantity import ZERO, Quantity
from app.model.selectors import Selector
from app.ports import PODS, Json
from app.sandbox.objects import (
    Key,
    ObjectCondition,
    has_ended,
    is_deleted,
    key_of,
    labels_of,
    member,
    set_condition,
)
from app.sandbox.pod_control import PodControl
from app.sandbox.resources import SIZED, Amounts, amounts, quantities, total
from app.sandbox.stepped_clock import Worklist
from app.sandbox.store import Store, StoredChange

_TERMS = "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"

NAME = "default-scheduler"

_SCHEDULED = ObjectCondition("PodScheduled", "True")


@dataclass(frozen=True, slots=True)
class NodeSize:
    """A node and what it can give to pods."""

    name: str
    cpu: str = "8"
    memory: str = "32Gi"
    pods: int = 110
    labels: Mapping[str, str] = field(default_factory=dict)

    def item(self) -> Json:
        """Return the node as an object."""
        room = {"cpu": self.cpu, "memory": self.memory, "pods": str(self.pods)}
        labels = {
            "kubernetes.io/hostname": self.name,
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": "amd64",
            **self.labels,
        }
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
        return {
            "metadata": {"name": self.name, "labels": labels},
            "spec": {},
            "status": {
                "capacity": room,
                "allocatable": dict(room),
                "conditions": [ready],
                "addresses": [{"type": "Hostname", "address": self.name}],
                "nodeInfo": {"kubeletVersion": "v1.36.3"},
            },
        }


USUAL_NODES = (NodeSize("node-1"), NodeSize("node-2"))


def suits(spec: Json, node: Json) -> bool:
    """Whether a pod of this spec may run on a node."""
    if not Selector.of_labels(spec.get("nodeSelector") or {}).matches(labels_of(node)):
        return False
    bound = _pinned_to(spec)
    return not bound or bound == node["metadata"]["name"]


def pinned(template: Json, node: str) -> Json:
    """Return a template whose pods go to one node, as those of DaemonSets do."""
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    required = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    return {**template, "spec": {**template["spec"], "affinity": affinity}}


def node_bound_to(pod: Json) -> str:
    """Return the node that a pod is on or can alone be on."""
    return str(pod["spec"].get("nodeName") or _pinned_to(pod["spec"]))


def _pinned_to(spec: Json) -> str:
    for term in member(spec, _TERMS) or ():
        for wanted in term.get("matchFields") or ():
            if wanted.get("key") == "metadata.name" and wanted.get("values"):
                return str(wanted["values"][0])
    return ""


@dataclass(frozen=True, slots=True)
class Room:
    """Cpu and memory in nano units."""

    cpu: int = 0
    memory: int = 0

    def __sub__(self, other: Room) -> Room:
        return Room(self.cpu - other.cpu, self.memory - other.memory)

    @staticmethod
    def of(found: Amounts) -> Room:
        """Return the cpu and memory of some amounts."""
        return Room(*(found.get(name, ZERO).nano for name in SIZED))


class Rooms:
    """How many pods each node has, and what they take up."""

    def __init__(self, store: Store) -> None:
        self._counts: Counter[str] = Counter()
        self._used: dict[str, Room] = {}
        store.listen(self._note)

    def used(self, node: str) -> Room:
        """Return what the pods of a node take up together."""
        return self._used.get(node, Room())

    def count(self, node: str) -> int:
        """Return how many pods are on a node."""
        return self._counts[node]

    def _note(self, collection: str, change: StoredChange) -> None:
        if collection == "pods":
            self._add(change.before, -1)
            self._add(change.after, 1)

    def _add(self, pod: Json | None, sign: int) -> None:
        room = _taken_by(pod)
        if pod is None or room is None:
            return
        node = pod["spec"]["nodeName"]
        used = self.used(node)
        self._counts[node] += sign
        self._used[node] = Room(used.cpu + sign * room.cpu, used.memory + sign * room.memory)


def _taken_by(pod: Json | None) -> Room | None:
    """Return what a pod takes up of its node, None if it takes no place there."""
    if pod is None or not pod["spec"].get("nodeName") or has_ended(pod):
        return None
    return Room.of(wanted_by(pod))


def wanted_by(pod: Json) -> Amounts:
    """Return what a pod takes up: the larger of what it asks for and what it was given."""
    statuses = (
        *(member(pod, "status.containerStatuses") or ()),
        *(member(pod, "status.initContainerStatuses") or ()),
    )
    given = {status["name"]: quantities(status.get("allocatedResources")) for status in statuses}

    def larger(container: Json) -> dict[str, Quantity]:
        asked = amounts(container, "requests")
        for name, amount in given.get(container["name"], {}).items():
            asked[name] = max(asked.get(name, ZERO), amount)
        return asked

    return total(pod["spec"], larger)


class Scheduler:
    """Binds pods to nodes, the most important first, then the oldest."""

    def __init__(self, control: PodControl) -> None:
        self._control = control
        self._rooms = Rooms(control.store)
        self._waiting: dict[Key, None] = {}
        self._todo: Worklist[str] = Worklist(control.clock, self._look)
        control.store.listen(self._note)

    def _note(self, collection: str, change: StoredChange) -> None:
        if collection == "pods":
            pod = change.after
            if pod is not None and _is_waiting(pod):
                if change.before is None or change.before["spec"] != pod["spec"]:
                    self._waiting[change.key] = None
                    self._todo.note("pods")
            elif change.key in self._waiting:
                del self._waiting[change.key]
            elif self._waiting and _taken_by(change.before) != _taken_by(change.after):
                self._todo.note("pods")
        elif collection == "nodes":
            self._todo.note("pods")

    def _look(self, _all: str) -> None:
        pods = [self._control.store.read("pods", key) for key in list(self._waiting)]
        waiting = [pod for pod in pods if pod is not None and _is_waiting(pod)]
        if not waiting:
            return
        nodes = self._control.store.items("nodes")
        for pod in sorted(waiting, key=_order):
            self._place(pod, nodes)

    def _place(self, pod: Json, nodes: list[Json]) -> None:
        wanted = Room.of(wanted_by(pod))
        best: tuple[float, str] | None = None
        reasons: Counter[str] = Counter()
        for node in nodes:
            flaw, score = self._judge(pod, wanted, node)
            if flaw:
                reasons[flaw] += 1
            elif best is None or score > best[0]:
                best = score, str(node["metadata"]["name"])
        if best is None:
            self._refuse(pod, reasons, len(nodes))
        else:
            self._bind(pod, best[1])

    def _judge(self, pod: Json, wanted: Room, node: Json) -> tuple[str, float]:
        """Return what speaks against a node, or how much of it would be left."""
        if member(node, "spec.unschedulable"):
            return "node(s) were unschedulable", 0
        if not suits(pod["spec"], node):
            return "node(s) didn't match Pod's node affinity/selector", 0
        name = node["metadata"]["name"]
        allocatable = quantities(member(node, "status.allocatable"))
        if "pods" in allocatable and self._rooms.count(name) >= allocatable["pods"].units:
            return "Too many pods", 0
        room = Room.of(allocatable)
        left = room - self._rooms.used(name) - wanted
        if left.cpu < 0 and wanted.cpu:
            return "Insufficient cpu", 0
        if left.memory < 0 and wanted.memory:
            return "Insufficient memory", 0
        return "", left.cpu / max(room.cpu, 1) + left.memory / max(room.memory, 1)

    def _bind(self, pod: Json, node: str) -> None:
        now = self._control.clock.now()

        def bind(item: Json) -> None:
            item["spec"]["nodeName"] = node
            set_condition(item, _SCHEDULED, now)

        if self._control.change(PODS, pod, bind, "binding") is None:
            return
        namespace, name = key_of(pod)
        message = f"Successfully assigned {namespace}/{name} to {node}"
        self._control.recorder.tell(NAME, PODS, pod, "Scheduled", message)

    def _refuse(self, pod: Json, reasons: Counter[str], nodes: int) -> None:
        told = ", ".join(f"{count} {reason}" for reason, count in sorted(reasons.items()))
        message = f"0/{nodes} nodes are available: {told or 'no nodes'}."
        unschedulable = ObjectCondition("PodScheduled", "False", "Unschedulable", message)
        now = self._control.clock.now()

        def refuse(item: Json) -> None:
            if not item["spec"].get("nodeName"):
                set_condition(item, unschedulable, now)

        before = pod["metadata"]["resourceVersion"]
        after = self._control.change(PODS, pod, refuse, "status")
        if after is not None and after["metadata"]["resourceVersion"] != before:
            tell = self._control.recorder.tell
            tell(NAME, PODS, pod, "FailedScheduling", message, warning=True)


def _is_waiting(pod: Json) -> bool:
    spec = pod["spec"]
    return (
        not spec.get("nodeName")
        and spec.get("schedulerName") == NAME
        and not is_deleted(pod)
        and not has_ended(pod)
    )


def _order(pod: Json) -> tuple[int, str, str]:
    metadata = pod["metadata"]
    return -int(pod["spec"].get("priority") or 0), metadata["creationTimestamp"], metadata["name"]
