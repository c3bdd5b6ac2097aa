"""Objects, their versions, what happens to them, and what is read: lists and followers.

Strategy: one counter gives every change of any object its version, as etcd's revision does. An
object that is in the store is never changed in place, so it may be shared with all that only
reads. What was is not kept: those who need to know it listen.

What is left of a list waits for its next page, so that all pages together show one moment; of the
lists that are not read to their end only the latest wait. A follower is called in the thread that
moves the clock, a moment after something happened, with all of it in order; so a cluster and all
who follow it can be stepped together, and come to the same end each time.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from itertools import count
from threading import RLock
from typing import Final

from app.model.errors import BadObject
from app.model.selectors import Selector
from app.ports import Delta, Json, ListPage, Sink
from app.sandbox.objects import Key, copied, key_of, labels_of, member, uid_of
from app.sandbox.refusals import bad_request, expired
from app.sandbox.stepped_clock import SteppedClock

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


UNFINISHED_LISTS: Final = 100  # that wait for their next page

Matches = Callable[[Json], bool]
Asked = tuple[str, str, str, str]  # collection, namespace, label selector, field selector

ALWAYS: Final = ("metadata.name", "metadata.namespace")
SELECTABLE: Final = {
    "pods": (
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "status.phase",
        "status.nominatedNodeName",
    ),
    "events": (
        "involvedObject.kind",
        "involvedObject.namespace",
        "involvedObject.name",
        "involvedObject.uid",
        "involvedObject.apiVersion",
        "involvedObject.fieldPath",
        "reason",
        "reportingComponent",
        "source",
        "type",
    ),
    "nodes": ("spec.unschedulable",),
    "secrets": ("type",),
    "namespaces": ("status.phase",),
}

_TERM: Final = re.compile(r"([^=!,]+)(==|!=|=)((?:[^\\,=]|\\.)*)")
_ESCAPED: Final = re.compile(r"\\(.)")

LAG_SECONDS: Final = 0.02  # until something that happened is told to followers


class Pages:
    """Lists page by page: what is left is kept under what was asked for and the token."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._left: dict[tuple[Asked, str], tuple[str, list[Json]]] = {}  # version and objects
        self._numbers = count(1)

    def page(self, asked: Asked, limit: int, token: str) -> ListPage:
        """Return the first page of what is asked for, or the next one of the same list."""
        collection, namespace, labels, fields = asked
        matches = selection(collection, labels, fields)
        with self._store.lock:
            if token:
                version, items = self._left_of(asked, token)
            else:
                version = str(self._store.version)
                items = [item for item in self._store.items(collection, namespace) if matches(item)]
            following = ""
            if limit and len(items) > limit:
                following = str(next(self._numbers))
                self._left[asked, following] = (version, items[limit:])
                if len(self._left) > UNFINISHED_LISTS:
                    del self._left[next(iter(self._left))]
        return ListPage([copied(item) for item in items[: limit or None]], version, following)

    def _left_of(self, asked: Asked, token: str) -> tuple[str, list[Json]]:
        found = self._left.get((asked, token))
        if found is not None:
            return found
        if not token.isdecimal():
            raise bad_request("continue key is not valid")
        raise expired(
            "The provided continue parameter is too old to display a consistent list result. "
            "You must start a new list without the continue parameter."
        )


def selection(collection: str, label_selector: str, field_selector: str) -> Matches:
    """Return whether an object is selected.

    Raises:
        Invalid: a selector cannot be read, or asks for a field that cannot be selected by.
    """
    try:
        labels = Selector.parse(label_selector)
    except BadObject as error:
        raise bad_request(f"unable to parse requirement: {error.message}") from None
    terms = _field_terms(field_selector, (*ALWAYS, *SELECTABLE.get(collection, ())))
    if labels.is_everything and not terms:
        return lambda _item: True

    def matches(item: Json) -> bool:
        return labels.matches(labels_of(item)) and all(
            (_field_text(item, path) == value) is is_wanted for path, is_wanted, value in terms
        )

    return matches


def _field_terms(text: str, selectable: Collection[str]) -> list[tuple[str, bool, str]]:
    """Read `a=b,c!=d`; what is left out of a term is a part of it."""
    terms = []
    for part in filter(None, re.split(r"(?<!\\),", text)):
        found = _TERM.fullmatch(part)
        if found is None:
            raise bad_request(f"invalid selector: {text!r}; can't understand {part!r}")
        path, sign, value = found.groups()
        if path not in selectable:
            raise bad_request(f"field label not supported: {path}")
        terms.append((path, sign != "!=", _ESCAPED.sub(r"\1", value)))
    return terms


def _field_text(item: Json, path: str) -> str:
    found = member(item, path)
    if path == "spec.unschedulable":
        return "true" if found else "false"
    if path == "source":  # of an Event
        found = member(item, "source.component") or member(item, "reportingComponent")
    return str(found or "")


class Follower:
    """Tells a sink which objects are there, and then every change, until it is stopped."""

    def __init__(
        self,
        store: Store,
        clock: SteppedClock,
        collection: str,
        namespace: str,  # all if empty
        matches: Matches,
        sink: Sink,
    ) -> None:
        self._store = store
        self._clock = clock
        self._collection = collection
        self._namespace = namespace
        self._matches = matches
        self._sink = sink
        self._news: list[Delta] = []
        self._is_on = False

    def start(self) -> None:
        """Tell what is there now, and go on from there."""
        with self._store.lock:
            items = self._store.items(self._collection, self._namespace)
            self._store.listen(self._note)
            self._is_on = True
        self._sink([Delta(*key_of(item), item) for item in items if self._matches(item)], True)

    def stop(self) -> None:
        """Tell no more."""
        self._is_on = False
        self._store.ignore(self._note)

    def refused_seconds(self, _now: datetime, /) -> float:
        """Return that everything may be read."""
        return 0.0

    def _note(self, collection: str, change: StoredChange) -> None:
        if not self._is_on or collection != self._collection:
            return
        if self._namespace not in ("", change.key.namespace):
            return
        before, after = (
            item if item is not None and self._matches(item) else None
            for item in (change.before, change.after)
        )
        if before is None and after is None:
            return
        if not self._news:
            self._clock.call_later(LAG_SECONDS, self._tell)
        self._news.append(Delta(*change.key, after))  # what no longer matches is gone

    def _tell(self) -> None:
        with self._store.lock:
            news, self._news = self._news, []
        if self._is_on:
            self._sink(news, True)
