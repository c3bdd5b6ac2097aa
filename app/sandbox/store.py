"""Objects, their versions and what happens to them.

Strategy: one counter gives every change of any object its version, as etcd's revision does. An
object that is in the store is never changed in place, so it may be shared with all that only
reads. What was is not kept: those who need to know it listen.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from threading import RLock

from app.ports import Json
from app.sandbox.objects import Key, key_of, uid_of

FIRST_VERSION = 1000  # so that small versions are too old, as in a cluster that lived


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


class Store:
    """The objects of a cluster; safe to use from many threads.

    A collection is named as in errors, `pods` or `deployments.apps`.
    """

    def __init__(self) -> None:
        self.lock = RLock()
        self.version = FIRST_VERSION  # of the latest change
        self._collections: defaultdict[str, dict[Key, Json]] = defaultdict(dict)
        self._owned: dict[str, dict[tuple[str, Key], None]] = {}
        self._uids: set[str] = set()
        self._listeners: list[Listener] = []

    def listen(self, listener: Listener) -> None:
        """Report each change, in order, while the store is locked: it may only take note."""
        self._listeners.append(listener)

    def ignore(self, listener: Listener) -> None:
        """Report nothing more to a listener; nothing of it is kept."""
        with self.lock:
            self._listeners = [found for found in self._listeners if found != listener]

    def read(self, collection: str, key: Key) -> Json | None:
        """Return an object, shared, None if it is not there."""
        with self.lock:
            return self._collections[collection].get(key)

    def items(self, collection: str, namespace: str = "") -> list[Json]:
        """Return all objects, shared, in the order of their keys."""
        with self.lock:
            found = self._collections[collection]
            return [found[key] for key in sorted(found) if namespace in ("", key.namespace)]

    def exists(self, uid: str) -> bool:
        """Whether there is an object of a uid; asks for no lock."""
        return uid in self._uids

    def ownerless(self, collection: str, namespace: str) -> list[Json]:
        """Return the objects of a collection that name no owner, in the order of their keys."""
        with self.lock:
            owned = self._owned.get(_ownerless_uid(collection, namespace), {})
            return [self._collections[collection][key] for _, key in sorted(owned)]

    def owned_by(self, uid: str) -> list[tuple[str, Json]]:
        """Return the objects that name an owner, with their collections."""
        with self.lock:
            return [
                (collection, self._collections[collection][key])
                for collection, key in self._owned.get(uid, ())
            ]

    def insert(self, collection: str, item: Json) -> Json:
        """Take in a new object, which is the store's from now on.

        Raises:
            Stale: there is one of this name.
        """
        with self.lock:
            self._commit(collection, key_of(item), None, item)
            return item

    def replace(self, collection: str, old: Json, new: Json) -> Json:
        """Put another object, which is the store's from now on, in the place of the one read.

        Raises:
            Stale: there is none any more, or a newer one.
        """
        with self.lock:
            self._commit(collection, key_of(old), old, new)
            return new

    def remove(self, collection: str, old: Json) -> None:
        """Take an object out.

        Raises:
            Stale: there is none any more, or a newer one.
        """
        with self.lock:
            self._commit(collection, key_of(old), old, None)

    def _commit(self, collection: str, key: Key, before: Json | None, after: Json | None) -> None:
        found = self._collections[collection]
        if found.get(key) is not before:
            raise Stale
        self.version += 1
        if after is not None:
            after["metadata"]["resourceVersion"] = str(self.version)
            found[key] = after
            self._uids.add(uid_of(after))
        elif before is not None:
            del found[key]
            self._uids.discard(uid_of(before))
        ownerless = _ownerless_uid(collection, key.namespace)
        self._index(collection, key, _owners(before, ownerless), _owners(after, ownerless))
        change = StoredChange(self.version, key, before, after)
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
