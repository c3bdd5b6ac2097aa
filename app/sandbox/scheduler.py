"""Gives pods a node: the one that suits and has the most room left."""

from __future__ import annotations

from collections import Counter

from app.model.errors import NotFound
from app.ports import PODS, Json
from app.sandbox.clock import Worklist
from app.sandbox.controllers.pod_control import PodControl
from app.sandbox.nodes import Room, Rooms, suits, wanted_by
from app.sandbox.objects import (
    Key,
    ObjectCondition,
    has_ended,
    is_deleted,
    key_of,
    member,
    set_condition,
    uid_of,
)
from app.sandbox.resources import quantities
from app.sandbox.store import StoredChange

NAME = "default-scheduler"

_SCHEDULED = ObjectCondition("PodScheduled", "True")


class Scheduler:
    """Binds pods to nodes, the most important first, then the oldest."""

    def __init__(self, control: PodControl, rooms: Rooms) -> None:
        self._control = control
        self._rooms = rooms
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
            elif self._waiting.pop(change.key, 0) == 0 or _has_shrunk(change):
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
        uid, now = uid_of(pod), self._control.clock.now()

        def bound(item: Json) -> Json:
            if uid_of(item) == uid:
                item["spec"]["nodeName"] = node
                set_condition(item, _SCHEDULED, now)
            return item

        try:
            kind = self._control.catalogue.find(PODS)
            self._control.writes.change(kind, key_of(pod), bound, subresource="binding")
        except NotFound:
            return
        namespace, name = key_of(pod)
        message = f"Successfully assigned {namespace}/{name} to {node}"
        self._control.recorder.tell(NAME, PODS, pod, "Scheduled", message)

    def _refuse(self, pod: Json, reasons: Counter[str], nodes: int) -> None:
        told = ", ".join(f"{count} {reason}" for reason, count in sorted(reasons.items()))
        message = f"0/{nodes} nodes are available: {told or 'no nodes'}."
        uid, now = uid_of(pod), self._control.clock.now()

        def refused(item: Json) -> Json:
            if uid_of(item) == uid and not item["spec"].get("nodeName"):
                unschedulable = ObjectCondition("PodScheduled", "False", "Unschedulable", message)
                set_condition(item, unschedulable, now)
            return item

        before = pod["metadata"]["resourceVersion"]
        self._control.change(PODS, key_of(pod), refused, "status")
        after = self._control.store.read("pods", key_of(pod))
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


def _has_shrunk(change: StoredChange) -> bool:
    """Whether a pod left room on its node."""
    before, after = change.before, change.after
    if before is None or not before["spec"].get("nodeName"):
        return False
    if after is None or has_ended(after):
        return not has_ended(before)
    old, new = Room.of(wanted_by(before)), Room.of(wanted_by(after))
    return new.cpu < old.cpu or new.memory < old.memory


def _order(pod: Json) -> tuple[int, str, str]:
    metadata = pod["metadata"]
    return -int(pod["spec"].get("priority") or 0), metadata["creationTimestamp"], metadata["name"]
