"""Watches: the changes after a version, as they come.

Strategy: a watch holds nothing but the version up to which it has told everything, and reads on
in the store's history from there. It sleeps on the clock of the sandbox, whose time also ends it.
A watch that waits has been asked for more by its reader, so the reader is done with all before;
that is how a test can know that everybody has seen everything.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from threading import Condition

from app.model.errors import Unavailable
from app.ports import Change, Json, Resource, WatchEvent
from app.sandbox.clock import SteppedClock
from app.sandbox.objects import copied
from app.sandbox.selecting import Matches
from app.sandbox.store import Store, Transition

BOOKMARK_SECONDS = 60.0
LAST_BOOKMARK_SECONDS = 2.0  # before the end of the watch


class Watches:
    """All watches that are open."""

    def __init__(self, store: Store, clock: SteppedClock) -> None:
        self._store = store
        self._clock = clock
        self._changed = Condition()
        self._open: dict[_Watch, None] = {}
        self._is_closed = False

    def open(
        self,
        resource: Resource,
        collection: str,
        namespace: str,
        matches: Matches,
        version: int,
        seconds: float,
    ) -> Iterator[WatchEvent]:
        """Yield what happens after a version, 0 for all that is there and what happens then."""
        watch = _Watch(self, resource, collection, namespace, matches)
        with self._changed:
            if self._is_closed:
                raise Unavailable(f"watch of {collection}: the connection is closed on our side")
            self._open[watch] = None
        try:
            yield from watch.run(self._store, self._clock, version, seconds)
        finally:
            with self._changed:
                del self._open[watch]
                self._changed.notify_all()

    def drop(self) -> None:
        """Break all open watches, as a connection that is cut does."""
        with self._changed:
            for watch in self._open:
                watch.is_cut = True
        self._clock.nudge()

    def close(self) -> None:
        """Break all open watches and refuse new ones."""
        with self._changed:
            self._is_closed = True
        self.drop()

    def settle(self, patience_seconds: float, least: int = 0) -> bool:
        """Wait until so many watches are open and their readers have seen everything.

        Gives up, and returns false, after so many seconds of real time.
        """
        with self._changed:
            return self._changed.wait_for(lambda: self._are_idle(least), patience_seconds)

    def mark(self, watch: _Watch, idle_until: float) -> None:
        """Note until when a watch waits if nothing happens; 0 if it does not wait."""
        with self._changed:
            watch.idle_until = idle_until
            if idle_until:
                self._changed.notify_all()

    def _are_idle(self, least: int) -> bool:
        now, newest = self._clock.monotonic(), self._store.newest
        return len(self._open) >= least and all(
            watch.idle_until > now and watch.version >= newest(watch.collection)
            for watch in self._open
        )


class _Watch:
    """One open watch."""

    def __init__(
        self,
        watches: Watches,
        resource: Resource,
        collection: str,
        namespace: str,
        matches: Matches,
    ) -> None:
        self._watches = watches
        self._resource = resource
        self._namespace = namespace
        self._matches = matches
        self.collection = collection
        self.version = 0
        self.idle_until = 0.0
        self.is_cut = False

    def run(
        self, store: Store, clock: SteppedClock, version: int, seconds: float
    ) -> Iterator[WatchEvent]:
        until = clock.monotonic() + seconds
        bookmark_due = _next_bookmark(clock.monotonic(), until)
        if version:
            self.version = version
        else:
            yield from self._present(store)
        while True:
            yield from self._news(store)
            now = clock.monotonic()
            if now >= until:
                return
            if now >= bookmark_due:
                yield self._bookmark()
                bookmark_due = _next_bookmark(now, until)
            else:
                self._sleep(store, clock, min(bookmark_due, until))

    def _sleep(self, store: Store, clock: SteppedClock, until: float) -> None:
        def is_over() -> bool:
            return self.is_cut or store.newest(self.collection) > self.version

        self._watches.mark(self, until)
        clock.wait_until(until, is_over)
        self._watches.mark(self, 0)
        if self.is_cut:
            raise Unavailable(f"watch of {self.collection}: no connection: it was cut")

    def _present(self, store: Store) -> Iterator[WatchEvent]:
        with store.lock:
            self.version = store.version
            found = store.items(self.collection, self._namespace)
        for item in found:
            if self._matches(item):
                yield WatchEvent(Change.ADDED, copied(item))

    def _news(self, store: Store) -> Iterator[WatchEvent]:
        with store.lock:
            changes = store.since(self.collection, self.version)
            version = max(self.version, store.version)
        for change in changes:
            event = self._event(change)
            self.version = change.version
            if event is not None:
                yield event
        self.version = version

    def _event(self, change: Transition) -> WatchEvent | None:
        """Return what a change means for this watch: what no longer matches is gone for it."""
        if self._namespace not in ("", change.key.namespace):
            return None
        before = change.before is not None and self._matches(change.before)
        after = change.after is not None and self._matches(change.after)
        if after and change.after is not None:
            kind = Change.MODIFIED if before else Change.ADDED
            return WatchEvent(kind, copied(change.after))
        if before and change.before is not None:
            return WatchEvent(Change.DELETED, _at_version(change.before, change.version))
        return None

    def _bookmark(self) -> WatchEvent:
        item: Json = {
            "kind": self._resource.kind,
            "apiVersion": self._resource.api_version,
            "metadata": {"resourceVersion": str(self.version), "creationTimestamp": None},
        }
        return WatchEvent(Change.BOOKMARK, item)


def _next_bookmark(now: float, until: float) -> float:
    """Return when to send the next bookmark: every minute, and a last one before the end."""
    due = min(now + BOOKMARK_SECONDS, until - LAST_BOOKMARK_SECONDS)
    return due if due > now else math.inf


def _at_version(item: Json, version: int) -> Json:
    found = copied(item)
    found["metadata"]["resourceVersion"] = str(version)
    return found
