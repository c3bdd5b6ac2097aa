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
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from threading import Condition, Thread
from typing import Any, Final, NamedTuple

from app.kube.reflector import Key, Reflector, metadata_of
from app.kube.watch_report import LOOK_SECONDS, WatchReport
from app.kube.watched_resources import WatchedResource
from app.model.errors import BadObject
from app.model.snapshot import Collection, Replacement, Snapshot
from app.ports import Clock, Cluster, Delta, Json, Resource

log = logging.getLogger("kube.watch_cache")

SWAP_SECONDS = 0.02  # at least between two swaps
# How long nothing is read, in words that change seldom: what tells of it compares them.
_LONG: Final = (
    (10, "10 s"), (60, "a minute"), (300, "5 minutes"), (1800, "half an hour"), (7200, "2 hours"),
)  # fmt: skip

REFUSED_SECONDS: Final = 10.0  # then the right is missing, not only its rules not read yet
FAILING_SECONDS: Final = 30.0  # then what is not awaited is done without


class WatchAge(NamedTuple):
    """How long nothing was heard of a resource."""

    seconds: float
    is_unknown: bool | None = None  # whether all goes on without it; None: nothing would


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
    pages: int = 0  # read of a list that goes on
    is_optional: bool = False
    is_awaited: bool = True

    @property
    def is_done_without(self) -> bool:
        """Whether it is not served, or cannot be read, and is not needed."""
        return self.is_optional and (self.missing or self._is_failing)

    @property
    def age(self) -> WatchAge:
        """How long nothing was heard of it, and whether it is done without for that."""
        return WatchAge(self.stale_seconds, None if self.is_awaited else self.is_done_without)

    @property
    def _is_failing(self) -> bool:
        fails_otherwise = bool(self.problem) and self.stale_seconds > FAILING_SECONDS
        is_refused = self.refused_seconds > REFUSED_SECONDS
        return is_refused or (fails_otherwise and not self.is_awaited)

    @property
    def is_read(self) -> bool:
        """Whether all that is served of it was read, or it is done without."""
        return self.synced or self.missing or self.is_done_without

    @property
    def unread(self) -> str:
        """That it is not read yet, for how long, and why; empty if it is."""
        if self.is_read:
            return ""
        times = (text for seconds, text in _LONG if self.stale_seconds >= seconds)
        long = "".join(f", for more than {text}" for text in list(times)[-1:])
        waits = ("its list goes on" if self.pages else "no answer yet") if long else ""
        why = f": {self.problem or waits}" if self.problem or waits else ""
        return f"{self.resource.plural} are not read yet{long}{why}"


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
        log.warning("object skipped", extra={"kind": kind, "object": name, "reason": reason})


Batch = tuple[WatchedResource, Sequence[Value]]


class Lingering:
    """Holds back that objects were deleted, for the time that their resource asks for."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._held: dict[tuple[str, str, str], tuple[float, WatchedResource, Value]] = {}

    def passed(self, source: WatchedResource, values: Sequence[Value]) -> Batch:
        """Return what counts at once; what comes again was never gone."""
        if not source.linger_seconds:
            return source, values
        due = self._clock.monotonic() + source.linger_seconds
        passed = []
        for value in values:
            place = (source.resource.plural, value.namespace, value.name)
            if value.value is None:
                self._held.setdefault(place, (due, source, value))
            else:
                self._held.pop(place, None)
                passed.append(value)
        return source, passed

    def due(self) -> list[Batch]:
        """Return what is gone by now; it is held back no more."""
        now = self._clock.monotonic()
        over = [place for place, (due, _, _) in self._held.items() if due <= now]
        found = [self._held.pop(place) for place in over]
        return [(source, [value]) for _, source, value in found]

    def seconds(self) -> float | None:
        """Return the time until something is due, None if nothing is held back."""
        dues = [due for due, _, _ in self._held.values()]
        return max(min(dues) - self._clock.monotonic(), 0.0) if dues else None


class SnapshotFold:
    """Folds what was read into snapshots, and tells listeners what that changed."""

    def __init__(self) -> None:
        self.snapshot = Snapshot()
        self._listeners: list[Listener] = []

    def listen(self, listener: Listener) -> None:
        """Call a function with the changes of each fold, in order; it must be quick."""
        self._listeners.append(listener)

    def take(self, batches: Iterable[Batch]) -> list[Transition]:
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
        report: WatchReport,
    ) -> None:
        self._stores = [
            _WatchedStore(source, cluster, clock, jitter, self.put) for source in sources
        ]
        self._clock = clock
        self._report = report
        report.add(store.reflector for store in self._stores)
        self._fold = SnapshotFold()
        self._lingering = Lingering(clock)
        self._pending: list[tuple[Batch, _WatchedStore | None]] = []
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
        return all(found.is_read for found in self.standings(self._clock.now()))

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

    def put(
        self, source: WatchedResource, values: Sequence[Value], store: _WatchedStore | None = None
    ) -> None:
        """Take in values, from a store or of objects that something else reads."""
        with self._changed:
            self._pending.append(((source, values), store))
            self._changed.notify_all()

    def _run(self) -> None:
        swapped_at = float("-inf")
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._pending or self._stopping, LOOK_SECONDS)
            self._report.look()
            if not self._pending and not self._stopping and self._lingering.seconds() != 0:
                continue
            left = swapped_at + SWAP_SECONDS - time.monotonic()
            with self._changed:
                self._changed.wait_for(lambda: self._stopping, max(left, 0.0))
                if self._stopping:
                    return
                pending, self._pending = self._pending, []
            self._swap(pending)
            swapped_at = time.monotonic()

    def _swap(self, pending: list[tuple[Batch, _WatchedStore | None]]) -> None:
        batches = [self._lingering.passed(*batch) for batch, _ in pending]
        transitions = self._fold.take(batches + self._lingering.due())
        for _, store in pending:
            if store is not None:
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
        put: Callable[[WatchedResource, list[Value], _WatchedStore], None],
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
            is_optional=self.source.is_optional,
            is_awaited=self.source.is_awaited,
            pages=self.reflector.state.pages,
        )

    def _take(self, changes: Sequence[Delta], whole: bool) -> None:
        self._held += self._reader.values(changes)
        if whole:
            held, self._held = self._held, []
            self._put(self.source, held, self)
