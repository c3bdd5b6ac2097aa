"""All controllers of pods at work: who looks at what when something changed."""

from __future__ import annotations

from app.ports import REPLICA_SETS, REPLICATION_CONTROLLERS, Json
from app.sandbox.clock import Worklist
from app.sandbox.controllers.deployments import Deployments, Replicas
from app.sandbox.controllers.jobs import CronJobs, Jobs
from app.sandbox.controllers.sets import DaemonSets, StatefulSets
from app.sandbox.objects import Key, collection_of, controller_of, is_active, key_of, labels_of
from app.sandbox.pod_control import Controller, PodControl
from app.sandbox.store import StoredChange

_OWNED = ("pods", "replicasets.apps", "jobs.batch")


class ControllerManager:
    """Sends each controller where something changed."""

    def __init__(self, control: PodControl) -> None:
        self._store = control.store
        controllers: tuple[Controller, ...] = (
            Deployments(control),
            Replicas(control, REPLICA_SETS),
            Replicas(control, REPLICATION_CONTROLLERS),
            StatefulSets(control),
            DaemonSets(control),
            Jobs(control),
            CronJobs(control),
        )
        self._by_collection: dict[str, Worklist[Key]] = {}
        self._by_kind: dict[tuple[str, str], Worklist[Key]] = {}
        for controller in controllers:
            worklist = Worklist(control.clock, controller.look)
            resource = controller.resource
            self._by_collection[collection_of(resource)] = worklist
            self._by_kind[resource.api_version, resource.kind] = worklist
        control.store.listen(self._note)

    def _note(self, collection: str, change: StoredChange) -> None:
        worklist = self._by_collection.get(collection)
        if worklist is not None:
            worklist.note(change.key)
        if collection in _OWNED:
            self._note_owners(change.before)
            self._note_owners(change.after)
        if collection == "pods":
            self._note_stray(change)
        if collection == "nodes" and _labels(change.before) != _labels(change.after):
            for item in self._store.items("daemonsets.apps"):
                self._by_collection["daemonsets.apps"].note(key_of(item))

    def _note_owners(self, item: Json | None) -> None:
        owner = controller_of(item) if item else None
        if item is None or owner is None:
            return
        worklist = self._by_kind.get((owner.get("apiVersion", ""), owner.get("kind", "")))
        if worklist is not None:
            worklist.note(Key(item["metadata"].get("namespace", ""), owner.get("name", "")))

    def _note_stray(self, change: StoredChange) -> None:
        """A pod without a controller may belong to one, if it is new or changed its labels."""
        pod = change.after
        if pod is None or controller_of(pod) is not None or not is_active(pod):
            return
        before = change.before
        if before is not None and labels_of(before) == labels_of(pod):
            return
        for collection, worklist in self._by_collection.items():
            for item in self._store.items(collection, change.key.namespace):
                worklist.note(key_of(item))


def _labels(item: Json | None) -> object:
    return None if item is None else labels_of(item)
