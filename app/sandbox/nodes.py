"""Nodes: made of a few words, which pods they suit, and how much of each is taken up.

Strategy: what is taken up is kept up to date by every change of a pod, so that asking costs
nothing. A pod counts with the larger of what its spec asks for and what the node has set aside:
a pod that waits for a resize keeps the room for it from others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from app.model.quantity import ZERO, Quantity
from app.model.selectors import Selector
from app.ports import Json
from app.sandbox.objects import has_ended, labels_of, member, uid_of
from app.sandbox.resources import SIZED, Amounts, amounts, quantities, total
from app.sandbox.store import Store, StoredChange

_TERMS = "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"


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

    def __add__(self, other: Room) -> Room:
        return Room(self.cpu + other.cpu, self.memory + other.memory)

    def __sub__(self, other: Room) -> Room:
        return Room(self.cpu - other.cpu, self.memory - other.memory)

    @staticmethod
    def of(found: Amounts) -> Room:
        """Return the cpu and memory of some amounts."""
        return Room(*(found.get(name, ZERO).nano for name in SIZED))


class Rooms:
    """The pods on each node and what they take up."""

    def __init__(self, store: Store) -> None:
        self._pods: dict[str, dict[str, Room]] = {}
        self._totals: dict[str, Room] = {}
        store.listen(self._note)

    def used(self, node: str) -> Room:
        """Return what the pods of a node take up together."""
        return self._totals.get(node, Room())

    def count(self, node: str) -> int:
        """Return how many pods are on a node."""
        return len(self._pods.get(node, ()))

    def _note(self, collection: str, change: StoredChange) -> None:
        if collection != "pods":
            return
        if change.before is not None:
            self._forget(change.before)
        if change.after is not None:
            self._keep(change.after)

    def _forget(self, pod: Json) -> None:
        node = pod["spec"].get("nodeName")
        room = self._pods.get(node, {}).pop(uid_of(pod), None) if node else None
        if room is not None:
            self._totals[node] -= room

    def _keep(self, pod: Json) -> None:
        node = pod["spec"].get("nodeName")
        if not node or has_ended(pod):
            return
        room = Room.of(wanted_by(pod))
        self._pods.setdefault(node, {})[uid_of(pod)] = room
        self._totals[node] = self._totals.get(node, Room()) + room


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
