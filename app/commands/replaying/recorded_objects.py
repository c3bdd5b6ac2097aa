"""What an API server would hold: objects as they were applied, and what the recommender wrote.

Strategy: a status belongs to the recommender. A VPA that is applied without one keeps the status
that stands, as with a status subresource; one that is told counts. Namespaces are views that
change in place, but for their workloads: these are replaced, so that a change can be seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final, TypeVar

from app.commands.replaying.changes import RecordedChange, RecordedKind
from app.kube.files import Document, RecordedCluster
from app.model.fields import Object
from app.model.kinds import ObjectKey
from app.model.pods import Pod
from app.model.snapshot import NamespaceView, Snapshot
from app.model.vpa import Vpa
from app.model.workloads import Lookup, LookupResult, Workload
from app.recommender.core.checkpoints import Checkpoint
from app.recommender.core.status import Publication

K = TypeVar("K")
V = TypeVar("V")

Key = tuple[str, str]  # namespace and name
_Event = tuple[datetime | None, Object]  # since when it is there, None for before all time

_EVENTS_LIVE: Final = timedelta(hours=1)


class _Namespace:
    """The objects of one namespace."""

    def __init__(self) -> None:
        self.vpas: dict[str, Vpa] = {}
        self.pods: dict[str, Pod] = {}
        self.workloads: dict[ObjectKey, Workload] = {}

    def view(self) -> NamespaceView:
        """Return a view, which changes with VPAs and pods."""
        return NamespaceView(vpas=self.vpas, pods=self.pods, workloads=self.workloads)


class RecordedObjects:
    """A passive store: nothing in it acts. It is an `app.ports.Owners`."""

    def __init__(self) -> None:
        self.views: dict[str, NamespaceView] = {}
        self._namespaces: dict[str, _Namespace] = {}
        self.checkpoints: dict[Key, Checkpoint] = {}
        self.written: set[Key] = set()  # checkpoints that a recommender wrote
        self.changed: dict[str, None] = {}  # namespaces in which workloads changed
        self._events: dict[tuple[str | int, ...], _Event] = {}
        self._customs: dict[tuple[str, str, str], Object] = {}  # by kind, namespace, name
        self._owners: RecordedCluster | None = None  # of custom objects, until they change
        self._lives = 0  # of pods that do not tell who they are

    def take(self, change: RecordedChange, now: datetime | None) -> bool:
        """Make a change, before all time if it is not said when; tell whether the object is new."""
        namespace, key = change.namespace, (change.namespace, change.key)
        match change.subject:
            case RecordedKind.VPA:
                return self._take_vpa(namespace, change.key, change.value)
            case RecordedKind.POD:
                return self._take_pod(namespace, change.key, change.value)
            case RecordedKind.WORKLOAD:
                return _put(self._replace_workloads(namespace), change.key, change.value)
            case RecordedKind.CHECKPOINT:
                self.written.discard(key)
                return _put(self.checkpoints, key, change.value)
            case RecordedKind.EVENT:
                return self._take_event(key, change.value, now)
            case RecordedKind.CUSTOM:
                self._owners = None
                for other in list(self.views):
                    self._replace_workloads(other)
                kind, name = change.key
                return _put(self._customs, (kind, namespace, name), change.value)

    # --- what a recommender sees

    def snapshot(self, namespace: str = "") -> Snapshot:
        """Return all namespaces, or one."""
        if not namespace:
            return Snapshot(self.views)
        self._namespace(namespace)
        return Snapshot({namespace: self.views[namespace]})

    def vpas(self) -> Iterator[Vpa]:
        """Yield all VPAs."""
        for view in self.views.values():
            yield from view.vpas.values()

    def find(self, lookup: Lookup, deadline_seconds: float, /) -> LookupResult:
        """Return a controller that no view holds."""
        if self._owners is None:
            customs = (Document("", dict(item)) for item in self._customs.values())
            self._owners = RecordedCluster(customs)
        return self._owners.find(lookup, deadline_seconds)

    def take_changed(self) -> list[str]:
        """Return, once, the namespaces in which workloads changed."""
        changed, self.changed = list(self.changed), {}
        return changed

    def events(self, now: datetime) -> Iterator[Object]:
        """Yield the events that an API server would still have."""
        for came, item in self._events.values():
            if came is None or now - came < _EVENTS_LIVE:
                yield item

    # --- what a recommender writes

    def publish(self, one: Publication) -> Vpa:
        """Write a status; return its VPA as it is then."""
        vpas, status = self._namespace(one.namespace).vpas, one.status
        vpas[one.name] = vpa = replace(
            vpas[one.name],
            recommendation=status.recommendation,
            conditions=status.conditions,
            observed_generation=status.observed_generation,
        )
        return vpa

    def store(self, checkpoint: Checkpoint, *, by_name: bool) -> bool:
        """Write a checkpoint; tell whether that was possible.

        An object of that name may be another container's. By name alone it is overwritten, and
        stays whose it was.
        """
        key = (checkpoint.namespace, checkpoint.name)
        before = self.checkpoints.get(key, checkpoint)
        owner = (before.vpa, before.container)
        if owner != (checkpoint.vpa, checkpoint.container):
            if not by_name:
                return False
            checkpoint = replace(checkpoint, vpa=before.vpa, container=before.container)
        self.checkpoints[key] = checkpoint
        self.written.add(key)
        return True

    def drop_checkpoints(self, keys: Iterable[Key]) -> None:
        """Delete checkpoints."""
        for key in keys:
            self.checkpoints.pop(key, None)
            self.written.discard(key)

    # --- inside

    def _namespace(self, namespace: str) -> _Namespace:
        found = self._namespaces.get(namespace)
        if found is None:
            found = self._namespaces[namespace] = _Namespace()
            self.views[namespace] = found.view()
        return found

    def _take_vpa(self, namespace: str, name: str, vpa: Vpa | None) -> bool:
        vpas = self._namespace(namespace).vpas
        before = vpas.get(name)
        if vpa is not None and before is not None and not _tells_status(vpa):
            vpa = replace(
                vpa,
                recommendation=before.recommendation,
                conditions=before.conditions,
                observed_generation=before.observed_generation,
            )
        if vpa is not None and before is not None:
            vpa = replace(vpa, created=before.created)
        return _put(vpas, name, vpa)

    def _take_pod(self, namespace: str, name: str, pod: Pod | None) -> bool:
        """Take a pod; one that comes again without a uid is another one all the same."""
        pods = self._namespace(namespace).pods
        if pod is not None and not pod.uid:
            before = pods.get(name)
            self._lives += before is None
            pod = replace(pod, uid=before.uid if before is not None else f"life-{self._lives}")
        return _put(pods, name, pod)

    def _replace_workloads(self, namespace: str) -> dict[ObjectKey, Workload]:
        found = self._namespace(namespace)
        found.workloads = dict(found.workloads)
        self.views[namespace] = found.view()
        self.changed[namespace] = None
        return found.workloads

    def _take_event(self, key: Key, item: Object | None, now: datetime | None) -> bool:
        """Take an event; one without a name is always a new one."""
        named: tuple[str | int, ...] = key if key[1] else (*key, len(self._events))
        if item is not None and named not in self._events:
            self._events[named] = (now, item)
            return True
        if item is None:
            self._events.pop(named, None)
        return False


def _put(objects: dict[K, V], key: K, value: V | None) -> bool:
    """Bring a change into a collection; tell whether the object is new."""
    if value is None:
        objects.pop(key, None)
        return False
    is_new = key not in objects
    objects[key] = value
    return is_new


def _tells_status(vpa: Vpa) -> bool:
    return vpa.recommendation is not None or bool(vpa.conditions) or bool(vpa.observed_generation)
