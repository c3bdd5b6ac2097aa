"""The cluster as a snapshot that is always whole.

Strategy: a reflector per resource, each in a thread of its own, reads objects into compact
values. One more thread gathers what they bring, at most every few milliseconds, and swaps in the
next snapshot; only then are listeners told. A list counts from its last page on, so that a
snapshot never shows half a list.

An object that cannot be read is left out, also when it could be read before: to act on what it
no longer says would be worse than not to act. It is logged once a version, and comes back with
the first version that can be read.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from threading import Condition, Thread
from typing import Any, NamedTuple

from app.kube.reflector import Key, Reflector, metadata_of
from app.model.errors import BadObject
from app.model.fields import Object
from app.model.kinds import owner_key
from app.model.snapshot import Collection, Replacement, Snapshot, without_broken_status
from app.model.vpa import Vpa, read_vpa
from app.model.workloads import read_workload
from app.ports import VPAS, WORKLOADS, Clock, Cluster, Delta, Json, Resource

log = logging.getLogger("kube.watch_cache")

SWAP_SECONDS = 0.02  # at least between two swaps


@dataclass(frozen=True, slots=True)
class WatchedResource:
    """A resource to keep, and how its objects become values of the snapshot."""

    resource: Resource
    collection: Collection
    read: Callable[[Json], object | None]  # None: of no interest; raises BadObject
    key: Callable[[str], Hashable] = str  # of the snapshot, made from the name
    namespace: str = ""
    field_selector: str = ""


def watched_vpas(
    namespace: str,
    logger: logging.Logger | None = None,
    read: Callable[[Object], Vpa] = read_vpa,
) -> WatchedResource:
    """Return how VPAs are watched, in one namespace or in all.

    One with a broken status counts without it; a logger given tells of that.
    """
    source = partial(_read_vpa, logger, read)
    return WatchedResource(VPAS, Collection.VPAS, source, namespace=namespace)


def watched_workloads(namespace: str, *, with_template: bool = True) -> Iterator[WatchedResource]:
    """Yield how the built-in controllers are watched, in one namespace or in all."""
    for one in WORKLOADS:
        yield WatchedResource(
            one,
            Collection.WORKLOADS,
            partial(
                read_workload,
                kind=one.kind,
                api_version=one.api_version,
                with_template=with_template,
            ),
            key=partial(owner_key, one.api_version, one.kind),
            namespace=namespace,
        )


def _read_vpa(logger: logging.Logger | None, read: Callable[[Object], Vpa], item: Object) -> Vpa:
    try:
        return read(item)
    except BadObject as error:
        found = read_vpa(without_broken_status(item, error))
        if logger is not None:
            extra = {"vpa": f"{found.namespace}/{found.name}", "problem": str(error)}
            logger.warning("status left out", extra=extra)
        return found


class Transition(NamedTuple):
    """A value before and after; None where there was or is none."""

    resource: Resource
    namespace: str
    name: str
    before: Any
    after: Any


@dataclass(frozen=True, slots=True)
class WatchState:
    """How well one resource is known."""

    resource: Resource
    synced: bool  # a whole list is in the snapshot
    missing: bool  # the server does not serve it
    stale_seconds: float
    problem: str
    refused_seconds: float = 0.0  # for which every answer was that we have no right

    @property
    def is_read(self) -> bool:
        """Whether all that is served of it was read."""
        return self.synced or self.missing

    @property
    def unread(self) -> str:
        """That it is not read yet, and why; empty if it is."""
        why = f": {self.problem}" if self.problem else ""
        return "" if self.is_read else f"{self.resource.plural} are not read yet{why}"


Listener = Callable[[Sequence[Transition]], None]


class Value(NamedTuple):
    """What was read of an object, None if it went or cannot be read."""

    namespace: str
    name: str
    value: Any


class Reader:
    """Reads the objects of a source, and tells of those that cannot be."""

    def __init__(self, source: WatchedResource) -> None:
        self.source = source
        self._left_out: dict[Key, str] = {}  # the version that was told of

    def values(self, changes: Iterable[Delta]) -> list[Value]:
        """Return what changes say."""
        return [Value(*change[:2], self._value(change)) for change in changes]

    def _value(self, change: Delta) -> object | None:
        key, item = change[:2], change.object
        if item is None:
            self._left_out.pop(key, None)
            return None
        try:
            value = self.source.read(item)
        except BadObject as error:
            self._leave_out(key, item, str(error))
        except Exception as error:
            log.exception("unexpected error while an object was read")
            self._leave_out(key, item, repr(error))
        else:
            self._left_out.pop(key, None)
            return value
        return None

    def _leave_out(self, key: Key, item: Json, reason: str) -> None:
        metadata = metadata_of(item)
        version = f"{metadata.get('uid')}/{metadata.get('resourceVersion')}"
        if self._left_out.get(key) == version:
            return
        self._left_out[key] = version
        kind, name = self.source.resource.kind, "/".join(filter(None, key))
        log.warning("object left out", extra={"kind": kind, "object": name, "reason": reason})


class SnapshotFold:
    """Folds what was read into snapshots, and tells listeners what that changed."""

    def __init__(self) -> None:
        self.snapshot = Snapshot()
        self._listeners: list[Listener] = []

    def listen(self, listener: Listener) -> None:
        """Call a function with the changes of each fold, in order; it must be quick."""
        self._listeners.append(listener)

    def take(self, batches: Iterable[tuple[WatchedResource, Iterable[Value]]]) -> list[Transition]:
        """Make the next snapshot; return what it changes, which is still to be told."""
        places: dict[tuple[Collection, str, Hashable], Any] = {}
        transitions = []
        for source, values in batches:
            for namespace, name, value in values:
                place = (source.collection, namespace, source.key(name))
                before = places[place] if place in places else self.snapshot.value(*place)
                if before != value:
                    places[place] = value
                    found = Transition(source.resource, namespace, name, before, value)
                    transitions.append(found)
        if places:
            changes = (Replacement(*place, value) for place, value in places.items())
            self.snapshot = self.snapshot.changed(changes)
        return transitions

    def tell(self, transitions: Sequence[Transition]) -> None:
        """Tell the listeners of changes; one that fails does not stop the others."""
        for listener in self._listeners if transitions else ():
            try:
                listener(transitions)
            except Exception:
                log.exception("a listener failed")


class WatchCache:
    """Holds the newest snapshot of some resources."""

    def __init__(
        self,
        cluster: Cluster,
        clock: Clock,
        sources: Iterable[WatchedResource],
        *,
        jitter: Callable[[], float],
    ) -> None:
        self._stores = [
            _WatchedStore(source, cluster, clock, jitter, self._put) for source in sources
        ]
        self._fold = SnapshotFold()
        self._pending: list[tuple[_WatchedStore, list[Value]]] = []
        self._changed = Condition()
        self._stopping = False
        self._threads: list[Thread] = []

    @property
    def snapshot(self) -> Snapshot:
        """The newest state; what is held keeps its moment."""
        return self._fold.snapshot

    @property
    def is_read(self) -> bool:
        """Whether every resource that is served is in the snapshot as a whole."""
        return all(store.is_synced or store.reflector.state.missing for store in self._stores)

    def listen(self, listener: Listener) -> None:
        """Call a function after each swap with what it changed, in order; it must be quick."""
        self._fold.listen(listener)

    def start(self) -> None:
        """Begin to read."""
        runs: list[tuple[str, Callable[[], None]]] = [("mirror", self._run)]
        runs += [(store.source.resource.plural, store.reflector.run) for store in self._stores]
        self._threads = [Thread(target=run, name=name, daemon=True) for name, run in runs]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End all threads; those that wait for the server end when the cluster is closed."""
        for store in self._stores:
            store.reflector.stop()
        with self._changed:
            self._stopping = True
            self._changed.notify_all()

    def join(self, seconds: float) -> bool:
        """Wait for the threads to end; tell whether all did."""
        until = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(until - time.monotonic(), 0.0))
        return not any(thread.is_alive() for thread in self._threads)

    def standings(self, now: datetime) -> tuple[WatchState, ...]:
        """Tell of each resource how well it is known."""
        return tuple(store.standing(now) for store in self._stores)

    def _put(self, store: _WatchedStore, values: list[Value]) -> None:
        with self._changed:
            self._pending.append((store, values))
            self._changed.notify_all()

    def _run(self) -> None:
        swapped_at = float("-inf")
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._pending or self._stopping)
            left = swapped_at + SWAP_SECONDS - time.monotonic()
            with self._changed:
                self._changed.wait_for(lambda: self._stopping, max(left, 0.0))
                if self._stopping:
                    return
                pending, self._pending = self._pending, []
            self._swap(pending)
            swapped_at = time.monotonic()

    def _swap(self, pending: list[tuple[_WatchedStore, list[Value]]]) -> None:
        transitions = self._fold.take((store.source, values) for store, values in pending)
        for store, _ in pending:
            store.is_in_snapshot = True
        self._fold.tell(transitions)


class _WatchedStore:
    """One resource: its reflector, and what was read of it."""

    def __init__(
        self,
        source: WatchedResource,
        cluster: Cluster,
        clock: Clock,
        jitter: Callable[[], float],
        put: Callable[[_WatchedStore, list[Value]], None],
    ) -> None:
        self.source = source
        self.is_in_snapshot = False
        self.reflector = Reflector(
            cluster,
            source.resource,
            source.namespace,
            source.field_selector,
            clock,
            self._take,
            jitter=jitter,
        )
        self._reader = Reader(source)
        self._put = put
        self._held: list[Value] = []

    @property
    def is_synced(self) -> bool:
        return self.is_in_snapshot and self.reflector.state.synced

    def standing(self, now: datetime) -> WatchState:
        return WatchState(
            resource=self.source.resource,
            synced=self.is_synced,
            missing=self.reflector.state.missing,
            stale_seconds=self.reflector.stale_seconds(now),
            problem=self.reflector.state.problem,
            refused_seconds=self.reflector.refused_seconds(now),
        )

    def _take(self, changes: Sequence[Delta], whole: bool) -> None:
        self._held += self._reader.values(changes)
        if whole:
            held, self._held = self._held, []
            self._put(self, held)
