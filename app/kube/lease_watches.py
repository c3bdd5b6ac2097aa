"""Watches the Leases that VPAs name, and puts what counts of them into the snapshot.

Strategy: holders renew their Leases all the time, and a renewal changes nothing. So Leases are
folded here, apart from other objects, and the snapshot is told only what a Lease stands for when
that changes: by an event at once, by time within a second. Each Lease has a watch of its own,
because a namespace may have many that are none of our business; where very many of one namespace
are named, all of it is watched. Without the right one watch goes on asking, and the others wait.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from threading import Lock
from typing import Final

from app.kube.watch_cache import REFUSED_SECONDS, Value
from app.kube.watched_resources import WatchedResource
from app.model.pod_roles import NO_ROLES
from app.model.role_leases import (
    LeaseHistory,
    LeaseStanding,
    LeaseState,
    first_standing,
    next_change,
    observed,
    read_lease,
    standing,
)
from app.model.snapshot import Collection, Snapshot
from app.ports import LEASES, Clock, Delta, Following, Json, Sink

MOST_WATCHES: Final = 50  # in a namespace; for more Leases all of it is watched
_LOOK: Final = timedelta(seconds=1)
_LEAST_SECONDS: Final = 0.05
_NO_RIGHT: Final = LeaseStanding(
    LeaseState.FORBIDDEN, problem="the right to list and watch leases is missing"
)
_OFF: Final = LeaseStanding(LeaseState.FORBIDDEN, problem="--role-leases is off")
_SOURCE: Final = WatchedResource(LEASES, Collection.LEASES, first_standing, is_optional=True)


@dataclass(slots=True)
class _Watched:
    """The Leases of one namespace that are named."""

    namespace: str
    is_on: bool
    names: frozenset[str] = frozenset()
    watches: dict[str, Following] = field(default_factory=dict)  # by Lease; "" watches all
    histories: dict[str, LeaseHistory] = field(default_factory=dict)
    told: dict[str, LeaseStanding] = field(default_factory=dict)
    refused: frozenset[str] = frozenset()  # watches for which we have no right

    def rename(self, names: frozenset[str]) -> list[Value]:
        """Take over which Leases are named; return what is to be told of the others."""
        gone = self.told.keys() - names
        self.names = names
        for kept in (self.histories, self.told):
            for name in kept.keys() - names:
                del kept[name]
        return [Value(self.namespace, name, None) for name in gone]

    def take(self, name: str, item: Json | None, now: datetime) -> None:
        """Take in what was read of a Lease."""
        record = None if item is None else read_lease(item)
        self.histories[name] = observed(self.histories.get(name), record, now)

    def news(self, names: Iterable[str], now: datetime) -> list[Value]:
        """Return what is to be told of some Leases: what they stand for, if that has changed."""
        values = []
        for name in names:
            found = self._standing(name, now)
            if found is not None and found != self.told.get(name):
                self.told[name] = found
                values.append(Value(self.namespace, name, found))
        return values

    def _standing(self, name: str, now: datetime) -> LeaseStanding | None:
        if not self.is_on:
            return _OFF
        if not self.refused.isdisjoint((name, "")):
            return _NO_RIGHT
        history = self.histories.get(name)
        return None if history is None else standing(history, now)


class LeaseWatches:
    """Follows what the snapshot's VPAs name; `tick` is for a loop, events come from any thread."""

    def __init__(
        self,
        follow: Callable[[str, str, Sink], Following] | None,  # by namespace and fields; None: off
        snapshot: Callable[[], Snapshot],
        put: Callable[[WatchedResource, Sequence[Value]], None],
        clock: Clock,
    ) -> None:
        self._follow, self._snapshot, self._put, self._clock = follow, snapshot, put, clock
        self._watched: dict[str, _Watched] = {}
        self._lock = Lock()
        self._was_read = False
        self._began = clock.now() - timedelta(seconds=clock.monotonic())

    def tick(self, now: datetime) -> float:
        """Watch what is named by now, and tell what time has changed; return when to look again."""
        self._follow_named()
        moment = self._now()
        values, due = list[Value](), moment + _LOOK
        with self._lock:
            for found in self._watched.values():
                found.refused = frozenset(
                    name
                    for name, watch in found.watches.items()
                    if watch.refused_seconds(now) > REFUSED_SECONDS
                )
                values += found.news(found.names, moment)
                for history in found.histories.values():
                    due = min(due, next_change(history, moment) or due)
            self._tell(values)
        return max((due - moment).total_seconds(), _LEAST_SECONDS)

    def is_read(self) -> bool:
        """Whether it was known once what all Leases stand for that are named, or why it is not.

        Ask once the VPAs are read. Later ones are waited for by no more than their own pods.
        """
        if not self._was_read:
            wanted = dict(_named(self._snapshot()))
            with self._lock:
                self._was_read = all(
                    namespace in self._watched and names <= self._watched[namespace].told.keys()
                    for namespace, names in wanted.items()
                )
        return self._was_read

    def close(self) -> None:
        """Watch no more."""
        with self._lock:
            ended = [found.watches for found in self._watched.values()]
            for found in self._watched.values():
                found.watches = {}
            self._watched = {}
        for watch in (one for watches in ended for one in watches.values()):
            watch.stop()

    def _now(self) -> datetime:
        """Return the time by a clock that is never set."""
        return self._began + timedelta(seconds=self._clock.monotonic())

    def _follow_named(self) -> None:
        """Begin and end watches, so that what is named is watched and nothing else."""
        wanted = dict(_named(self._snapshot()))
        begin, end, values = list[Following](), list[Following](), list[Value]()
        with self._lock:
            for namespace in self._watched.keys() | wanted.keys():
                names = wanted.get(namespace, frozenset())
                found = self._watched.setdefault(
                    namespace, _Watched(namespace, self._follow is not None)
                )
                if found.names == names:
                    continue
                values += found.rename(names)
                needed = names if len(names) <= MOST_WATCHES else {""}
                end += [found.watches.pop(one) for one in found.watches.keys() - needed]
                begin += self._added(found, needed - found.watches.keys())
                if not names:
                    del self._watched[namespace]
            self._tell(values)
        for watch in end:
            watch.stop()
        for watch in begin:
            watch.start()

    def _added(self, found: _Watched, names: Iterable[str]) -> Iterator[Following]:
        if self._follow is None:
            return
        for name in sorted(names):
            fields = f"metadata.name={name}" if name else ""
            watch = self._follow(found.namespace, fields, self._sink(found, name))
            found.watches[name] = watch
            yield watch

    def _sink(self, found: _Watched, watch: str) -> Sink:
        """Return what takes in the events of one watch; the first whole list tells what is not."""

        def take(changes: Sequence[Delta], whole: bool) -> None:
            moment = self._now()
            with self._lock:
                if watch not in found.watches:
                    return  # it has ended
                found.refused -= {watch}
                changed = {name: item for _, name, item in changes if name in found.names}
                if whole and len(found.histories) < len(found.names):
                    names = {watch} if watch else found.names
                    changed = dict.fromkeys(names - found.histories.keys()) | changed
                for name, item in changed.items():
                    found.take(name, item, moment)
                self._tell(found.news(changed, moment))

        return take

    def _tell(self, values: Sequence[Value]) -> None:
        """Put values into the snapshot; with the lock, so that they come in the right order."""
        if values:
            self._put(_SOURCE, values)


def _named(snapshot: Snapshot) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield the Leases that VPAs name, by namespace."""
    for namespace, view in snapshot.namespaces.items():
        if view.roles is not NO_ROLES:
            asked = view.roles.by_target.values()
            if names := frozenset(one.lease for found in asked for one in found):
                yield namespace, names
