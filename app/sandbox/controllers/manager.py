"""All controllers at work: who looks at what when something changed, and what goes with it."""

from __future__ import annotations

from collections.abc import Iterator

from app.ports import NAMESPACES, PODS, REPLICA_SETS, REPLICATION_CONTROLLERS, Json
from app.sandbox.controllers.deployments import Deployments, Replicas
from app.sandbox.controllers.hpas import HorizontalPodAutoscalers
from app.sandbox.controllers.jobs import CronJobs, Jobs
from app.sandbox.controllers.sets import DaemonSets, StatefulSets
from app.sandbox.metrics import PodMetrics
from app.sandbox.objects import (
    Key,
    collection_of,
    controller_of,
    has_ended,
    is_active,
    is_deleted,
    key_of,
    labels_of,
    uid_of,
)
from app.sandbox.pod_control import Controller, PodControl, without_owner
from app.sandbox.served_kinds import DEFINITIONS, custom_kinds
from app.sandbox.stepped_clock import Worklist
from app.sandbox.store import StoredChange

_OWNED = ("pods", "replicasets.apps", "jobs.batch")


class ControllerManager:
    """Sends each controller where something changed."""

    def __init__(self, control: PodControl) -> None:
        self._control = control
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
            self._add(controller)
        control.store.listen(self._note)

    def scale_by(self, metrics: PodMetrics) -> None:
        """Scale workloads horizontally by what their pods use."""
        self._add(HorizontalPodAutoscalers(self._control, metrics))

    def _add(self, controller: Controller) -> None:
        resource = controller.resource
        worklist = Worklist(self._control.clock, controller.look, controller.first_look_seconds)
        self._by_collection[collection_of(resource)] = worklist
        self._by_kind[resource.api_version, resource.kind] = worklist

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


ENDED_PODS_KEPT = 200  # in the whole cluster; of more, the oldest go


class Garbage:
    """Collects what goes because something else went: what it owned or contained; old pods."""

    def __init__(self, control: PodControl) -> None:
        self._control = control
        self._store = control.store
        clock = control.clock
        self._owners = Worklist(clock, self._collect)
        self._namespaces = Worklist(clock, self._empty)
        self._unserved = Worklist(clock, self._clear)
        self._ended = Worklist(clock, self._thin_out)
        control.store.listen(self._note)

    def _note(self, collection: str, change: StoredChange) -> None:
        before, after = change.before, change.after
        if after is None and before is not None:
            self._owners.note(uid_of(before))
            if self._ending(change.key.namespace):
                self._namespaces.note(change.key.namespace)
            for kind in custom_kinds(before) if collection == DEFINITIONS else ():
                self._unserved.note(kind.collection)
        elif after is not None:
            for uid in _owner_uids(after):
                if not self._store.exists(uid):
                    self._owners.note(uid)
            if collection == "namespaces" and is_deleted(after):
                self._namespaces.note(change.key.name)
            if collection == "pods" and has_ended(after):
                self._ended.note("pods")

    def _ending(self, namespace: str) -> Json | None:
        """Return a namespace that is to go."""
        found = self._store.read("namespaces", Key("", namespace))
        return found if found is not None and is_deleted(found) else None

    def _collect(self, uid: str) -> None:
        """Delete what a gone owner owned, unless it is to stay or has another owner."""
        if self._store.exists(uid):
            return
        stays = uid in self._control.writes.orphaned
        for _, item in self._store.owned_by(uid):
            kind = self._control.catalogue.by_kind(item["apiVersion"], item["kind"])
            others = [other for other in _owner_uids(item) if other != uid]
            if kind is None or is_deleted(item):
                continue
            if stays or any(self._store.exists(other) for other in others):
                self._control.change(kind.resource, item, without_owner(uid))
            else:
                self._control.delete(kind.resource, item)
        self._control.writes.orphaned.discard(uid)

    def _empty(self, namespace: str) -> None:
        """Delete all in a namespace that is to go; when nothing is left, let it go."""
        ending = self._ending(namespace)
        if ending is None:
            return
        is_empty = True
        for kind in self._control.catalogue:
            for item in self._store.items(kind.collection, namespace):
                is_empty = False
                if not is_deleted(item):
                    self._control.delete(kind.resource, item)
        if is_empty:
            self._control.change(
                NAMESPACES, ending, lambda found: found["spec"].update(finalizers=[]), "finalize"
            )

    def _clear(self, collection: str) -> None:
        """Remove the objects of a kind whose definition is gone, whatever their finalizers."""
        with self._store.lock:
            for item in self._store.items(collection):
                self._store.remove(collection, item)

    def _thin_out(self, _collection: str) -> None:
        """Delete the oldest pods that have ended, if they are too many."""
        ended = [pod for pod in self._store.items("pods") if has_ended(pod)]
        ended.sort(key=lambda pod: str(pod["metadata"]["creationTimestamp"]))
        for pod in ended[:-ENDED_PODS_KEPT]:
            self._control.delete(PODS, pod)


def _owner_uids(item: Json) -> Iterator[str]:
    for owner in item["metadata"].get("ownerReferences") or ():
        yield str(owner.get("uid", ""))
