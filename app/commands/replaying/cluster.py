"""What an API server would hold: objects as they were applied, and what the recommender wrote.

Strategy: a status belongs to the recommender. Whoever applies a VPA without one leaves the
status that stands alone, as with a status subresource; one that is told counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final, TypeVar

from app.commands.replaying.changes import RecordedChange, RecordedKind
from app.model.fields import Object
from app.model.kinds import ObjectKey
from app.model.pods import Pod
from app.model.snapshot import NamespaceView
from app.model.vpa import Vpa
from app.model.workloads import Absent, Lookup, LookupResult, Workload
from app.ports import Owners
from app.recommender.core.checkpoints import Checkpoint
from app.recommender.core.targets import VpaKey

K = TypeVar("K")
V = TypeVar("V")

Key = tuple[str, str]  # namespace and name
_Event = tuple[datetime | None, Object]  # since when it is there, None for before all time

_EVENTS_LIVE: Final = timedelta(hours=1)


class Cluster:
    """Objects by what they are; `owners` makes look-ups out of custom objects."""

    def __init__(self, owners: Callable[[Iterable[Object]], Owners]) -> None:
        self.vpas: dict[VpaKey, Vpa] = {}
        self.pods: dict[Key, Pod] = {}
        self.checkpoints: dict[Key, Checkpoint] = {}
        self.written: set[Key] = set()  # checkpoints that a recommender wrote
        self._workloads: dict[str, dict[ObjectKey, Workload]] = {}
        self._views: dict[str, NamespaceView] = {}
        self._events: dict[tuple[str | int, ...], _Event] = {}
        self._customs: dict[tuple[str, str, str], Object] = {}  # by kind, namespace, name
        self._make_owners = owners
        self._owners: Owners | None = None
        self._lives = 0  # of pods that do not tell who they are

    def take(self, change: RecordedChange, now: datetime | None) -> bool:
        """Make a change, before all time if it is not said when; tell whether the object is new."""
        key = (change.namespace, change.key)
        match change.subject:
            case RecordedKind.VPA:
                return self._take_vpa(key, change.value)
            case RecordedKind.POD:
                return self._take_pod(key, change.value)
            case RecordedKind.WORKLOAD:
                return _put(self._workloads_of(change.namespace), change.key, change.value)
            case RecordedKind.CHECKPOINT:
                self.written.discard(key)
                return _put(self.checkpoints, key, change.value)
            case RecordedKind.EVENT:
                return self._take_event(key, change.value, now)
            case RecordedKind.CUSTOM:
                self._owners = None
                kind, name = change.key
                return _put(self._customs, (kind, change.namespace, name), change.value)

    def view(self, namespace: str) -> NamespaceView:
        """Return the controllers of a namespace; it changes with them."""
        view = self._views.get(namespace)
        if view is None:
            view = NamespaceView(workloads=self._workloads_of(namespace))
            self._views[namespace] = view
        return view

    def find(self, lookup: Lookup) -> LookupResult:
        """Return a controller that no view holds."""
        if lookup.key.is_built_in:
            return Absent()
        if self._owners is None:
            self._owners = self._make_owners(self._customs.values())
        return self._owners.find(lookup, 0.0)

    def events(self, now: datetime) -> list[Object]:
        """Return the events that an API server would still have."""
        return [
            item
            for came, item in self._events.values()
            if came is None or now - came < _EVENTS_LIVE
        ]

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

    def _workloads_of(self, namespace: str) -> dict[ObjectKey, Workload]:
        return self._workloads.setdefault(namespace, {})

    def _take_vpa(self, key: Key, vpa: Vpa | None) -> bool:
        before = self.vpas.get(key)
        if vpa is not None and before is not None and not _tells_status(vpa):
            vpa = replace(
                vpa,
                recommendation=before.recommendation,
                conditions=before.conditions,
                observed_generation=before.observed_generation,
            )
        if vpa is not None and before is not None:
            vpa = replace(vpa, created=before.created)
        return _put(self.vpas, key, vpa)

    def _take_pod(self, key: Key, pod: Pod | None) -> bool:
        """Take a pod; one that comes again without a uid is another one all the same."""
        if pod is not None and not pod.uid:
            before = self.pods.get(key)
            self._lives += before is None
            pod = replace(pod, uid=before.uid if before is not None else f"life-{self._lives}")
        return _put(self.pods, key, pod)

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
