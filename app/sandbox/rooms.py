"""How much of each node its pods take up.

Strategy: kept up to date by every change of a pod, so that asking costs nothing. A pod counts
with the larger of what its spec asks for and what the node has set aside: whoever waits for a
resize keeps the room for it from others.
"""

from __future__ import annotations

from dataclasses import dataclass

from app.model.quantity import ZERO, Quantity
from app.ports import Json
from app.sandbox.objects import has_ended, member, uid_of
from app.sandbox.resources import SIZED, Amounts, amounts, quantities, total
from app.sandbox.store import Store, Transition


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

    def _note(self, collection: str, change: Transition) -> None:
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
