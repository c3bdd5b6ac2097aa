"""Watches the Leases that VPAs name, and puts what counts of them into the snapshot.

Strategy: holders renew their Leases all the time, and a renewal changes nothing. So Leases are
folded here, apart from other objects, and the snapshot is told only what a Lease stands for when
that changes: by an event at once, by time within a second.

A watch costs a connection and a thread, and to wake that up costs more than what it reads. So a few
Leases have a watch each, the least that can be asked for, but where many are named one watch serves
them all, and what is not named is dropped here. If that is refused, each has its own again: a role
may allow only some Leases or namespaces. A watch that is refused goes on asking.

That a Lease was not renewed is known by a watch that would have told of it. So time counts only up
to when a watch was heard of; where that is too long ago to tell, all is listed again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from threading import Lock
from typing import Final

from app.kube.reflector import Key
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
from app.ports import LEASES, Clock, Delta, Following, Sink

MOST_WATCHES: Final = 50  # for more Leases one watch serves them all
_NODES: Final = "kube-node-lease"  # where each node has one: left out of what is watched for all
_LOOK: Final = timedelta(seconds=1)
_LEAST_SECONDS: Final = 0.05
_SILENCE: Final = timedelta(seconds=5)  # what a watch tells after it may be only a part of the news
_SHARED_GRACE: Final = timedelta(seconds=2)
_AWAITED_SECONDS: Final = 30.0  # for Leases that cannot be read
_NO_RIGHT: Final = LeaseStanding(
    LeaseState.FORBIDDEN, problem="the right to list and watch leases is missing"
)
_OFF: Final = LeaseStanding(LeaseState.FORBIDDEN, problem="--role-leases is off")
_SOURCE: Final = WatchedResource(LEASES, Collection.LEASES, first_standing, is_optional=True)


def _needed(named: frozenset[Key], refused: frozenset[Key]) -> frozenset[Key]:
    """Return what to watch: Leases, or with an empty name those of a namespace, or of all."""
    if len(named) <= MOST_WATCHES:
        return named
    namespaces = {namespace for namespace, _ in named}
    if len(namespaces) == 1:
        shared, alone = (namespaces.pop(), ""), frozenset[Key]()
    else:
        shared, alone = ("", ""), frozenset(key for key in named if key[0] == _NODES)
    return frozenset({shared}) | (named if shared in refused else alone)


def _fields(watched: Key) -> str:
    """Return the selector that a watch asks for."""
    namespace, name = watched
    if name:
        return f"metadata.name={name}"
    return "" if namespace else f"metadata.namespace!={_NODES}"


@dataclass(eq=False, slots=True)
class _Watch:
    """What follows one Lease or many."""

    watched: Key
    unseen: set[Key]  # Leases that its first list has not told of yet
    following: Following = field(init=False)
    told_at: datetime | None = None
    heard_at: datetime | None = None  # up to which it has told everything, once it has listed

    def hear(self, moment: datetime, *, is_list: bool) -> None:
        """Note that it told something; after a silence the rest of the news may follow."""
        if is_list or (self.told_at is not None and moment - self.told_at < _SILENCE):
            self.heard_at = moment
        self.told_at = moment

    @property
    def grace(self) -> timedelta:
        """In which it would hear of some Lease, though this one has nothing to tell."""
        return timedelta() if self.watched[1] else _SHARED_GRACE


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
        self._named = frozenset[Key]()
        self._watches: dict[Key, _Watch] = {}  # by what is watched
        self._refused = frozenset[Key]()  # of that, what we have no right to
        self._told_refused = self._refused
        self._histories: dict[Key, LeaseHistory] = {}
        self._known: dict[Key, datetime] = {}  # up to when
        self._told: dict[Key, LeaseStanding] = {}
        self._lock = Lock()
        self._was_read = False
        self._asked_at: float | None = None  # whether it is read, for the first time
        self._began = clock.now() - timedelta(seconds=clock.monotonic())

    def tick(self, now: datetime) -> float:
        """Watch what is named by now, and tell what time has changed; return when to look again."""
        moment = self._now()
        with self._lock:
            due, late, deaf = self._look(moment)
        self._follow_named(now, deaf)
        with self._lock:
            if self._refused != self._told_refused:
                late, self._told_refused = set(self._named), self._refused
            self._tell(late | (self._named - self._told.keys()))
        return max((due - moment).total_seconds(), _LEAST_SECONDS)

    def _look(self, moment: datetime) -> tuple[datetime, set[Key], set[Key]]:
        """Return when to look again, what time changes, and which watches are too silent for it."""
        due, late, deaf = moment + _LOOK, set[Key](), set[Key]()
        for lease, history in self._histories.items():
            change = next_change(history, self._known.get(lease, history.seen_at))
            if change is None or change > moment:
                due = min(due, change or due)
                continue
            late.add(lease)
            watch = self._watch_of(lease)
            heard = watch.heard_at if watch is not None else None
            if watch is not None and heard is not None and heard < change <= moment - watch.grace:
                deaf.add(watch.watched)
        return due, late, deaf

    def is_read(self) -> bool:
        """Whether it was known once what all Leases stand for that are named, or why it is not.

        Ask once the VPAs are read. Later ones are waited for by no more than their own pods, and so
        are those that cannot be read for a while.
        """
        if not self._was_read:
            named, seconds = frozenset(_named(self._snapshot())), self._clock.monotonic()
            self._asked_at = seconds if self._asked_at is None else self._asked_at
            is_over = seconds - self._asked_at >= _AWAITED_SECONDS
            with self._lock:
                self._was_read = is_over or named <= self._told.keys()
        return self._was_read

    def close(self) -> None:
        """Watch no more."""
        with self._lock:
            ended, self._watches = self._watches, {}
        for watch in ended.values():
            watch.following.stop()

    def _now(self) -> datetime:
        """Return the time by a clock that is never set."""
        return self._began + timedelta(seconds=self._clock.monotonic())

    def _follow_named(self, now: datetime, deaf: Set[Key]) -> None:
        """Begin and end watches, so that what is named is watched and nothing else."""
        named = frozenset(_named(self._snapshot()))
        with self._lock:
            added = self._name(named)
            self._refused |= {
                one
                for one, watch in self._watches.items()
                if watch.following.refused_seconds(now) > REFUSED_SECONDS
            }
            needed = _needed(named, self._refused) if self._follow else frozenset()
            # What is named only now was dropped before, so a watch that goes on has to list again.
            late = {one for one in self._watches if any(_among(added, one))} - self._refused
            late |= deaf
            gone = self._watches.keys() - needed
            end = [self._watches.pop(one) for one in gone | late]
            self._refused -= gone
            begin = [self._added(one) for one in sorted(needed - self._watches.keys())]
        for watch in end:
            watch.following.stop()
        for watch in begin:
            watch.following.start()

    def _watch_of(self, lease: Key) -> _Watch | None:
        ways = (lease, (lease[0], ""), ("", ""))
        return next((found for one in ways if (found := self._watches.get(one))), None)

    def _name(self, named: frozenset[Key]) -> frozenset[Key]:
        """Take over what is named, and forget all else; return what was not named before."""
        added, gone = named - self._named, self._named - named
        self._named = named
        for lease in gone:
            self._histories.pop(lease, None)
            self._known.pop(lease, None)
        if values := [Value(*one, None) for one in gone if self._told.pop(one, None) is not None]:
            self._put(_SOURCE, values)
        return added

    def _added(self, watched: Key) -> _Watch:
        assert self._follow is not None
        watch = self._watches[watched] = _Watch(watched, set(_among(self._named, watched)))
        watch.following = self._follow(watched[0], _fields(watched), partial(self._take, watch))
        return watch

    def _take(self, watch: _Watch, changes: Sequence[Delta], whole: bool) -> None:
        """Take in what a watch tells; the first whole list tells also what there is not."""
        moment = self._now()
        with self._lock:
            if self._watches.get(watch.watched) is not watch:
                return  # it has ended
            self._refused -= {watch.watched}
            if whole:
                watch.hear(moment, is_list=watch.told_at is None or bool(watch.unseen))
            found = {one[:2]: one.object for one in changes if one[:2] in self._named}
            if watch.unseen:
                watch.unseen -= found.keys()
                if whole:
                    found |= dict.fromkeys(watch.unseen & self._named)
                    watch.unseen = set()
            for lease, item in found.items():
                record = None if item is None else read_lease(item)
                self._histories[lease] = observed(self._histories.get(lease), record, moment)
            self._tell(found)

    def _tell(self, leases: Iterable[Key]) -> None:
        """Put into the snapshot what has changed; with the lock, so that all comes in order."""
        values = []
        for lease in leases:
            found = self._standing(lease)
            if found is not None and found != self._told.get(lease):
                self._told[lease] = found
                values.append(Value(*lease, found))
        if values:
            self._put(_SOURCE, values)

    def _standing(self, lease: Key) -> LeaseStanding | None:
        if self._follow is None:
            return _OFF
        if lease in self._refused:
            return _NO_RIGHT
        history = self._histories.get(lease)
        return None if history is None else standing(history, self._known_until(lease, history))

    def _known_until(self, lease: Key, history: LeaseHistory) -> datetime:
        """Return up to when it is known what became of a Lease, by whatever watch."""
        watch = self._watch_of(lease)
        heard = watch.heard_at if watch is not None else None
        known = max(history.seen_at, heard or history.seen_at)
        self._known[lease] = known = max(known, self._known.get(lease, known))
        return known


def _among(leases: Iterable[Key], watched: Key) -> Iterator[Key]:
    """Yield those of some Leases that are watched."""
    namespace, name = watched
    for lease in leases:
        if namespace in ("", lease[0]) and name in ("", lease[1]):
            yield lease


def _named(snapshot: Snapshot) -> Iterator[Key]:
    """Yield the Leases that VPAs name."""
    for namespace, view in snapshot.namespaces.items():
        if view.roles is not NO_ROLES:
            for found in view.roles.by_target.values():
                yield from ((namespace, one.lease) for one in found)
