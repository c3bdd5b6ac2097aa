"""Watches of the cluster in memory, which itself only tells followers."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

from app.model.errors import Unavailable
from app.ports import EventType, Json, Resource, WatchEvent
from app.sandbox.objects import copied
from app.sandbox.reads import Matches, selection
from app.sandbox.refusals import expired
from app.sandbox.sandbox import Sandbox
from app.sandbox.store import FIRST_VERSION, StoredChange

BOOKMARK_SECONDS = 60.0
LAST_BOOKMARK_SECONDS = 2.0  # before the end of the watch
STEP_SECONDS = 0.1


@dataclass(frozen=True)
class _Asked:
    """The objects that are watched."""

    collection: str
    namespace: str
    matches: Matches

    def meaning(self, change: StoredChange) -> EventType | None:
        """Return what a change means: what no longer matches is deleted."""
        if self.namespace not in ("", change.key.namespace):
            return None
        was = change.before is not None and self.matches(change.before)
        if change.after is not None and self.matches(change.after):
            return EventType.MODIFIED if was else EventType.ADDED
        return EventType.DELETED if was else None


class WatchableCluster:
    """A sandbox's cluster with watches; each moves the sandbox's time while it waits."""

    def __init__(self, sandbox: Sandbox) -> None:
        cluster = sandbox.cluster
        self.list, self.get, self.create = cluster.list, cluster.get, cluster.create
        self.replace, self.patch, self.delete = cluster.replace, cluster.patch, cluster.delete
        self.evict, self.request = cluster.evict, cluster.request
        self._store = sandbox.store
        self._changes: list[tuple[str, StoredChange]] = []
        self._store.listen(lambda collection, change: self._changes.append((collection, change)))
        self._clock = sandbox.clock

    def watch(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        resource_version: str,
        label_selector: str = "",
        field_selector: str = "",
        timeout_seconds: int = 300,
    ) -> Iterator[WatchEvent]:
        """Yield changes after a version, with bookmarks, until time is over."""
        collection = f"{resource.plural}.{resource.group}" if resource.group else resource.plural
        matches = selection(collection, label_selector, field_selector)
        asked = _Asked(collection, namespace, matches)
        if resource_version and not resource_version.isdecimal():
            raise Unavailable(f'resourceVersion: Invalid value: "{resource_version}"', status=500)
        return self._events(resource, asked, int(resource_version or 0), timeout_seconds)

    def _events(
        self, resource: Resource, asked: _Asked, version: int, seconds: float
    ) -> Iterator[WatchEvent]:
        until = self._clock.monotonic() + seconds
        bookmark_due = _next_bookmark(self._clock.monotonic(), until)
        if 0 < version < FIRST_VERSION:
            raise expired(f"too old resource version: {version} ({FIRST_VERSION})")
        if not version:
            version = self._store.version
            for item in filter(asked.matches, self._store.items(asked.collection, asked.namespace)):
                yield WatchEvent(EventType.ADDED, copied(item))
        while True:
            for collection, change in self._changes[self._told_before(version) :]:
                version = change.version
                if collection != asked.collection:
                    continue
                if meaning := asked.meaning(change):
                    yield WatchEvent(meaning, _seen(change, meaning))
            now = self._clock.monotonic()
            if now >= until:
                return
            if now >= bookmark_due:
                version = self._store.version
                yield WatchEvent(EventType.BOOKMARK, _bookmark(resource, version))
                bookmark_due = _next_bookmark(now, until)
            else:
                self._clock.advance(min(bookmark_due, until, now + STEP_SECONDS) - now)

    def _told_before(self, version: int) -> int:
        """Return how many changes there were up to a version."""
        return bisect_right(self._changes, version, key=lambda noted: noted[1].version)


def _next_bookmark(now: float, until: float) -> float:
    """Return when to send the next bookmark: every minute, and a last one before the end."""
    due = min(now + BOOKMARK_SECONDS, until - LAST_BOOKMARK_SECONDS)
    return due if due > now else math.inf


def _bookmark(resource: Resource, version: int) -> Json:
    return {
        "kind": resource.kind,
        "apiVersion": resource.api_version,
        "metadata": {"resourceVersion": str(version), "creationTimestamp": None},
    }


def _seen(change: StoredChange, meaning: EventType) -> Json:
    item = change.before if meaning is EventType.DELETED else change.after
    assert item is not None
    found = copied(item)
    found["metadata"]["resourceVersion"] = str(change.version)
    return found
