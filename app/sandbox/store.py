"""Objects, their versions and what happened to them.

Strategy: one counter gives every change of any object its version, as etcd's revision does. An
object that is in the store is never changed in place, so it may be shared with all that only
reads. Each collection keeps its latest changes, with the object before and after: a list
that goes on at an older version reads them backwards. What was dropped from them is
gone, which keeps memory bounded however long the sandbox runs.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from operator import attrgetter
from threading import RLock

from app.ports import Json
from app.sandbox.objects import Key, key_of, uid_of
from app.sandbox.refusals import expired

FIRST_VERSION = 1000  # so that small versions are too old, as in a cluster that lived
HISTORY = 1000  # changes that each collection keeps at least

_BY_VERSION = attrgetter("version")


class Stale(Exception):
    """The object is no longer the one that was read."""


@dataclass(frozen=True, slots=True)
class StoredChange:
    """One change of one object: None before it came, None after it went."""

    version: int
    key: Key
    before: Json | None
    after: Json | None


Listener = Callable[[str, StoredChange], None]


@dataclass(slots=True)
class _Collection:
    """All objects of one resource."""

    oldest: int  # changes up to this version are no longer known
    items: dict[Key, Json] = field(default_factory=dict)
    order: list[Key] = field(default_factory=list)
    changes: list[StoredChange] = field(default_factory=list)

    def keys(self, namespace: str) -> list[Key]:
        if not namespace:
            return list(self.order)
        begin = bisect_left(self.order, Key(namespace, ""))
        return self.order[begin : bisect_left(self.order, Key(f"{namespace}\0", ""))]

    def note(self, change: StoredChange, history: int) -> None:
        self.changes.append(change)
        if len(self.changes) >= 2 * history:
            self.oldest = self.changes[-history - 1].version
            del self.changes[:-history]


class Store:
    """The objects of a cluster; safe to use from many threads.

    A collection is named as in errors, `pods` or `deployments.apps`.
    """

    def __init__(self, *, history: int = HISTORY) -> None:
        self.lock = RLock()
        self._history = history
        self._version = FIRST_VERSION
        self._collections: dict[str, _Collection] = {}
        self._owned: dict[str, dict[tuple[str, Key], None]] = {}
        self._uids: set[str] = set()
        self._listeners: list[Listener] = []

    @property
    def version(self) -> int:
        """The version of the latest change."""
        return self._version

    def listen(self, listener: Listener) -> None:
        """Report each change, in order, while the store is locked: it may only take note."""
        self._listeners.append(listener)

    def read(self, collection: str, key: Key) -> Json | None:
        """Return an object, shared, None if it is not there."""
        with self.lock:
            return self._collection(collection).items.get(key)

    def items(self, collection: str, namespace: str = "") -> list[Json]:
        """Return all objects, shared, in the order of their keys."""
        with self.lock:
            found = self._collection(collection)
            return [found.items[key] for key in found.keys(namespace)]

    def items_at(self, collection: str, namespace: str, version: int) -> list[Json]:
        """Return all objects as they were at a version.

        Raises:
            Gone: the version is too old.
        """
        with self.lock:
            found = self._collection(collection)
            past = dict(found.items)
            for change in reversed(self.since(collection, version)):
                if change.before is None:
                    past.pop(change.key, None)
                else:
                    past[change.key] = change.before
            keys = sorted(key for key in past if namespace in ("", key.namespace))
            return [past[key] for key in keys]

    def since(self, collection: str, version: int) -> list[StoredChange]:
        """Return the changes after a version.

        Raises:
            Gone: not all of them are known any more.
        """
        with self.lock:
            found = self._collection(collection)
            if version < found.oldest:
                raise expired(f"too old resource version: {version} ({found.oldest})")
            return found.changes[bisect_right(found.changes, version, key=_BY_VERSION) :]

    def exists(self, uid: str) -> bool:
        """Whether there is an object of a uid; asks for no lock."""
        return uid in self._uids

    def ownerless(self, collection: str, namespace: str) -> list[Json]:
        """Return the objects of a collection that name no owner, in the order of their keys."""
        with self.lock:
            owned = self._owned.get(_ownerless_uid(collection, namespace), {})
            return [self._collections[collection].items[key] for _, key in sorted(owned)]

    def owned_by(self, uid: str) -> list[tuple[str, Json]]:
        """Return the objects that name an owner, with their collections."""
        with self.lock:
            return [
                (collection, self._collections[collection].items[key])
                for collection, key in self._owned.get(uid, ())
            ]

    def insert(self, collection: str, item: Json) -> Json:
        """Take in a new object, which is the store's from now on.

        Raises:
            Stale: there is one of this name.
        """
        with self.lock:
            found = self._collection(collection)
            key = key_of(item)
            if key in found.items:
                raise Stale
            self._commit(collection, key, None, item)
            insort(found.order, key)
            return item

    def replace(self, collection: str, old: Json, new: Json) -> Json:
        """Put another object, which is the store's from now on, in the place of the one read.

        Raises:
            Stale: there is none any more, or a newer one.
        """
        with self.lock:
            key = self._current(collection, old)
            self._commit(collection, key, old, new)
            return new

    def remove(self, collection: str, old: Json) -> None:
        """Take an object out.

        Raises:
            Stale: there is none any more, or a newer one.
        """
        with self.lock:
            key = self._current(collection, old)
            found = self._collection(collection)
            self._commit(collection, key, old, None)
            del found.order[bisect_left(found.order, key)]

    def _collection(self, name: str) -> _Collection:
        found = self._collections.get(name)
        if found is None:
            with self.lock:
                fresh = _Collection(FIRST_VERSION)
                found = self._collections.setdefault(name, fresh)
        return found

    def _current(self, collection: str, old: Json) -> Key:
        key = key_of(old)
        if self._collection(collection).items.get(key) is not old:
            raise Stale
        return key

    def _commit(self, collection: str, key: Key, before: Json | None, after: Json | None) -> None:
        found = self._collection(collection)
        self._version += 1
        if after is None:
            del found.items[key]
        else:
            after["metadata"]["resourceVersion"] = str(self._version)
            found.items[key] = after
        if after is None and before is not None:
            self._uids.discard(uid_of(before))
        elif before is None and after is not None:
            self._uids.add(uid_of(after))
        ownerless = _ownerless_uid(collection, key.namespace)
        self._index(collection, key, _owners(before, ownerless), _owners(after, ownerless))
        change = StoredChange(self._version, key, before, after)
        found.note(change, self._history)
        for listener in self._listeners:
            listener(collection, change)

    def _index(self, collection: str, key: Key, old: set[str], new: set[str]) -> None:
        for uid in old - new:
            self._owned[uid].pop((collection, key), None)
            if not self._owned[uid]:
                del self._owned[uid]
        for uid in sorted(new - old):
            self._owned.setdefault(uid, {})[collection, key] = None


def _ownerless_uid(collection: str, namespace: str) -> str:
    """The uid under which objects without owner are found."""
    return f"{collection}/{namespace}"


def _owners(item: Json | None, ownerless: str) -> set[str]:
    if item is None:
        return set()
    references: Iterable[Json] = item["metadata"].get("ownerReferences") or ()
    return {str(reference.get("uid", "")) for reference in references} or {ownerless}
