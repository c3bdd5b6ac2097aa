"""What happens to the objects of a collection: read as a watch, or told to a listener.

Strategy: a watch holds nothing but the version up to which it has told everything, and reads on
in the store's history from there. It sleeps on the clock of the sandbox, whose time also ends it,
and so blocks its reader. A follower is called instead, in the thread that moves the clock, a
moment after something happened, with all of it in order; so a cluster and all who follow it can
be stepped together, and come to the same end each time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from app.model.errors import Unavailable
from app.ports import Delta, EventType, Json, Resource, Sink, WatchEvent
from app.sandbox.clock import SteppedClock
from app.sandbox.lists import Matches
from app.sandbox.objects import copied, key_of
from app.sandbox.store import Store, StoredChange

BOOKMARK_SECONDS: Final = 60.0
LAST_BOOKMARK_SECONDS: Final = 2.0  # before the end of the watch
LAG_SECONDS: Final = 0.02  # until something that happened is told to followers


@dataclass(frozen=True, slots=True)
class ObjectSelection:
    """The objects of one collection that are asked for."""

    collection: str
    namespace: str  # all if empty
    matches: Matches

    def present(self, store: Store) -> list[Json]:
        """Return the objects that are there now."""
        return [item for item in store.items(self.collection, self.namespace) if self.matches(item)]

    def meaning(self, change: StoredChange) -> EventType | None:
        """Return what a change means: what no longer matches is deleted."""
        if self.namespace not in ("", change.key.namespace):
            return None
        was = change.before is not None and self.matches(change.before)
        if change.after is not None and self.matches(change.after):
            return EventType.MODIFIED if was else EventType.ADDED
        return EventType.DELETED if was else None


class OpenWatch:
    """Yields changes; `is_cut` tells that the connection is gone."""

    def __init__(
        self,
        store: Store,
        clock: SteppedClock,
        resource: Resource,
        selection: ObjectSelection,
        is_cut: Callable[[], bool],
    ) -> None:
        self._store = store
        self._clock = clock
        self._resource = resource
        self._selection = selection
        self._is_cut = is_cut
        self._version = 0

    def events(self, version: int, seconds: float) -> Iterator[WatchEvent]:
        """Yield what happens after a version, 0 for all that is there and what happens then."""
        until = self._clock.monotonic() + seconds
        bookmark_due = _next_bookmark(self._clock.monotonic(), until)
        if version:
            self._version = version
        else:
            yield from self._present()
        while True:
            yield from self._news()
            now = self._clock.monotonic()
            if now >= until:
                return
            if now >= bookmark_due:
                yield self._bookmark()
                bookmark_due = _next_bookmark(now, until)
            else:
                self._sleep(min(bookmark_due, until))

    def _sleep(self, until: float) -> None:
        collection = self._selection.collection

        def is_over() -> bool:
            return self._is_cut() or self._store.newest(collection) > self._version

        self._clock.wait_until(until, is_over)
        if self._is_cut():
            raise Unavailable(f"watch of {collection}: no connection: it was cut")

    def _present(self) -> Iterator[WatchEvent]:
        with self._store.lock:
            self._version = self._store.version
            found = self._selection.present(self._store)
        for item in found:
            yield WatchEvent(EventType.ADDED, copied(item))

    def _news(self) -> Iterator[WatchEvent]:
        with self._store.lock:
            changes = self._store.since(self._selection.collection, self._version)
            version = max(self._version, self._store.version)
        for change in changes:
            self._version = change.version
            if meaning := self._selection.meaning(change):
                yield WatchEvent(meaning, _seen(change, meaning))
        self._version = version

    def _bookmark(self) -> WatchEvent:
        item: Json = {
            "kind": self._resource.kind,
            "apiVersion": self._resource.api_version,
            "metadata": {"resourceVersion": str(self._version), "creationTimestamp": None},
        }
        return WatchEvent(EventType.BOOKMARK, item)


def _next_bookmark(now: float, until: float) -> float:
    """Return when to send the next bookmark: every minute, and a last one before the end."""
    due = min(now + BOOKMARK_SECONDS, until - LAST_BOOKMARK_SECONDS)
    return due if due > now else math.inf


def _seen(change: StoredChange, meaning: EventType) -> Json:
    item = change.before if meaning is EventType.DELETED else change.after
    assert item is not None
    found = copied(item)
    found["metadata"]["resourceVersion"] = str(change.version)
    return found


class Follower:
    """Tells a sink what is there, and then every change, until it is stopped."""

    def __init__(
        self, store: Store, clock: SteppedClock, selection: ObjectSelection, sink: Sink
    ) -> None:
        self._store = store
        self._clock = clock
        self._selection = selection
        self._sink = sink
        self._news: list[Delta] = []
        self._is_on = False

    def start(self) -> None:
        """Tell what is there now, and go on from there."""
        with self._store.lock:
            found = self._selection.present(self._store)
            self._store.listen(self._note)
            self._is_on = True
        self._sink([Delta(*key_of(item), item) for item in found], True)

    def stop(self) -> None:
        """Tell no more."""
        self._is_on = False

    def _note(self, collection: str, change: StoredChange) -> None:
        if not self._is_on or collection != self._selection.collection:
            return
        meaning = self._selection.meaning(change)
        if meaning is None:
            return
        if not self._news:
            self._clock.call_later(LAG_SECONDS, self._tell)
        after = None if meaning is EventType.DELETED else change.after
        self._news.append(Delta(*change.key, after))

    def _tell(self) -> None:
        with self._store.lock:
            news, self._news = self._news, []
        if self._is_on:
            self._sink(news, True)
