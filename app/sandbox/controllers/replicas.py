"""ReplicaSets and ReplicationControllers: as many pods as asked for, whichever they are."""

from __future__ import annotations

from app.model.selectors import Selector
from app.ports import REPLICATION_CONTROLLERS, Json, Resource
from app.sandbox.conditions import is_ready
from app.sandbox.controllers.hands import Hands, available_in_seconds, soonest
from app.sandbox.objects import Key, is_active, is_deleted, labels_of, member, selector_of


class Replicas:
    """The controller of one of the two kinds."""

    def __init__(self, hands: Hands, resource: Resource) -> None:
        self._hands = hands
        self.resource = resource
        self._collection = hands.catalogue.find(resource).collection

    def look(self, key: Key) -> float | None:
        """Create or delete pods; return after how many seconds to look again."""
        owner = self._hands.store.read(self._collection, key)
        if owner is None or is_deleted(owner):
            return None
        pods = [
            pod
            for pod in self._hands.pods_of(self.resource, owner, self._selector(owner))
            if is_active(pod)
        ]
        wanted = int(owner["spec"].get("replicas") or 0)
        try:
            for _ in range(wanted - len(pods)):
                self._hands.create_pod(self.resource, owner, owner["spec"]["template"])
            for pod in sorted(pods, key=_worth)[: max(len(pods) - wanted, 0)]:
                self._hands.delete_pod(self.resource, owner, pod)
        finally:
            wait = self._tell_status(owner)
        return wait

    def _selector(self, owner: Json) -> Selector:
        if self.resource == REPLICATION_CONTROLLERS:
            return Selector.of_labels(owner["spec"].get("selector") or {})
        return selector_of(owner)

    def _tell_status(self, owner: Json) -> float | None:
        spec, now = owner["spec"], self._hands.clock.now()
        pods = [
            pod
            for collection, pod in self._hands.store.owned_by(owner["metadata"]["uid"])
            if collection == "pods" and is_active(pod)
        ]
        labels = (member(spec, "template.metadata.labels") or {}).items()
        waits = [available_in_seconds(pod, spec.get("minReadySeconds") or 0, now) for pod in pods]
        status = {
            "replicas": len(pods),
            "fullyLabeledReplicas": sum(1 for pod in pods if labels <= labels_of(pod).items()),
            "readyReplicas": sum(1 for pod in pods if is_ready(pod)),
            "availableReplicas": sum(1 for wait in waits if wait == 0),
            "observedGeneration": owner["metadata"]["generation"],
        }
        self._hands.set_status(self.resource, owner, status)
        return soonest(waits)


def _worth(pod: Json) -> tuple[bool, bool, bool, str, str]:
    """Order pods by what would be lost: those without a node first, then the younger ones."""
    metadata = pod["metadata"]
    age = "".join(chr(0x10FFFF - ord(letter)) for letter in metadata["creationTimestamp"])
    return (
        bool(pod["spec"].get("nodeName")),
        member(pod, "status.phase") == "Running",
        is_ready(pod),
        age,
        metadata["name"],
    )
