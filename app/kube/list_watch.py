"""What is known of one resource, and what to ask the API server next.

Strategy: no thread, no clock, no connection. Answers go in, changes come out, and `next_step`
says how to go on. A watch resumes where the last one broke; a list is only read again when the
server no longer keeps that version (410) or keeps refusing the watch. A list is compared with
what is known, so that a deletion nobody saw is told as one.

    listing --last page--> watching --ended, broken--> watching
       ^--410, 404, lost, watch refused again and again---'

Upstream's informers behave alike; here nothing but object versions is remembered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from sys import intern
from typing import Any

from app.model.errors import ClusterError, Gone, Invalid, NotFound
from app.ports import Delta, EventType, Json, Page, WatchEvent

FIRST_PAUSE_SECONDS = 0.2  # most watches that break can be resumed at once
PAUSE_SECONDS = 0.5  # doubled with every failure in a row
LONGEST_PAUSE_SECONDS = 10.0
LONGEST_ASKED_PAUSE_SECONDS = 300.0  # of Retry-After
MISSING_PAUSE_SECONDS = 20.0  # until a resource that is not served is asked for again
MISSES_TO_BELIEVE = 5  # a server that has just started may not know its custom resources yet
FAILURES_TO_LIST = 5  # watches in a row that came to nothing
SHORT_WATCH_SECONDS = 1.0  # a watch that ends sooner without any event came to nothing

Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class ListPage:
    """Read a page of the list, the first one if there is no token."""

    pause_seconds: float
    continue_token: str


@dataclass(frozen=True, slots=True)
class Watch:
    """Watch from a version on."""

    pause_seconds: float
    resource_version: str


class ListWatch:
    """The versions of all objects of a resource; `jitter` returns numbers from 0 to 1."""

    def __init__(self, jitter: Callable[[], float]) -> None:
        self._jitter = jitter
        self._known: dict[Key, str] = {}
        self._seen: set[Key] = set()
        self._token = ""
        self._pause_seconds = 0.0
        self._failures = 0
        self._misses = 0
        self.listing = True
        self.synced = False  # a whole list was taken in, and since then nothing was missed
        self.missing = False  # the server does not serve the resource
        self.problem = ""  # why the last step failed, empty if it did not
        # When there was an event, a bookmark, a whole list, a new watch, or no such resource.
        self.last_event_at: datetime | None = None
        self.resource_version = ""
        self.lists = 0  # begun

    def __len__(self) -> int:
        return len(self._known)

    def next_step(self) -> ListPage | Watch:
        """Return what to ask next."""
        if self.listing:
            return ListPage(self._pause_seconds, self._token)
        return Watch(self._pause_seconds, self.resource_version)

    def listed(self, page: Page, now: datetime) -> list[Delta]:
        """Take in a page; return what it changes, with the last one also what went."""
        changes = []
        for item in page.items:
            metadata = metadata_of(item)
            key = _key(metadata)
            self._seen.add(key)
            version = _version(metadata)
            if not version or self._known.get(key) != version:
                self._known[key] = version
                changes.append(Delta(*key, item))
        self._pause_seconds = 0.0
        self._misses = 0
        self.problem = ""
        self.lists += not self._token
        self._token = page.continue_token
        if self._token:
            return changes
        gone = [key for key in self._known if key not in self._seen]
        for key in gone:
            del self._known[key]
        self._seen = set()
        self.listing = False
        self.synced = True
        self.missing = False
        self.last_event_at = now
        # Lists ask for the newest state, so this never goes back unless the cluster did.
        self.resource_version = page.resource_version
        return changes + [Delta(*key, None) for key in gone]

    def opened(self, now: datetime) -> None:
        """The server agreed to a watch: up to now nothing was missed."""
        self.last_event_at = now
        self.problem = ""

    def saw(self, event: WatchEvent, now: datetime) -> list[Delta]:
        """Take in a line of the watch; return what it changes."""
        self._failures = 0
        self.problem = ""
        self.last_event_at = now
        metadata = metadata_of(event.object)
        version = _version(metadata)
        if _is_newer(version, self.resource_version):
            self.resource_version = version
        if event.change is EventType.BOOKMARK:
            return []
        key = _key(metadata)
        known = self._known.get(key)
        if event.change is EventType.DELETED:
            if self._known.pop(key, None) is None:
                return []
            return [Delta(*key, None)]
        if known and not _is_newer(version, known):
            return []
        self._known[key] = version
        return [Delta(*key, event.object)]

    def ended(self, lived_seconds: float) -> None:
        """The watch ended in good manners after so many seconds."""
        if lived_seconds < SHORT_WATCH_SECONDS and self._failures:
            self._stumbled()
        else:
            # One short watch proves nothing; a second one without an event between does.
            self._failures = int(lived_seconds < SHORT_WATCH_SECONDS)
            self._pause_seconds = 0.0
            self.problem = ""

    def failed(self, error: ClusterError, now: datetime, lived_seconds: float = 0.0) -> list[Delta]:
        """The step failed, a watch after so many seconds; return what that changes."""
        if lived_seconds >= SHORT_WATCH_SECONDS:
            self._failures = 0
        self._stumbled()
        self.problem = str(error)
        asked = min(error.retry_after_seconds or 0.0, LONGEST_ASKED_PAUSE_SECONDS)
        self._pause_seconds = max(self._pause_seconds, asked * (1 + 0.1 * self._jitter()))
        if isinstance(error, NotFound):
            return self._not_served(now)
        if isinstance(error, Gone | Invalid):
            self._list_again()
        return []

    def lost(self, changes: Iterable[Delta]) -> None:
        """These changes could not be used: they will be told again after the next list."""
        self._stumbled()
        self._known.update(((change.namespace, change.name), "") for change in changes)
        self.synced = False
        self._list_again()

    def _stumbled(self) -> None:
        self._failures += 1
        self._pause_seconds = self._back_off()
        if not self.listing and self._failures >= FAILURES_TO_LIST:
            self._list_again()

    def _back_off(self) -> float:
        if self._failures <= 1:
            return FIRST_PAUSE_SECONDS * self._jitter()
        doublings = min(self._failures - 2, 10)
        longest: float = min(PAUSE_SECONDS * 2**doublings, LONGEST_PAUSE_SECONDS)
        return longest * (0.5 + 0.5 * self._jitter())

    def _list_again(self) -> None:
        self.listing = True
        self._token = ""
        self._seen = set()

    def _not_served(self, now: datetime) -> list[Delta]:
        self._list_again()
        self._misses += 1
        if self._known and self._misses < MISSES_TO_BELIEVE:
            return []
        gone = [Delta(*key, None) for key in self._known]
        self._known = {}
        self.synced = False
        self.missing = True
        self.last_event_at = now  # it is an answer, and leaves nothing to be stale
        pause = MISSING_PAUSE_SECONDS * (0.75 + 0.5 * self._jitter())
        self._pause_seconds = max(self._pause_seconds, pause)
        return gone


def metadata_of(item: Json) -> dict[str, Any]:
    """Return the metadata of an object, empty if it has none."""
    found = item.get("metadata")
    return found if isinstance(found, dict) else {}


def _key(metadata: dict[str, Any]) -> Key:
    namespace = intern(str(metadata.get("namespace") or ""))  # few, and each in many objects
    return (namespace, str(metadata.get("name") or ""))


def _version(metadata: dict[str, Any]) -> str:
    return str(metadata.get("resourceVersion") or "")


def _is_newer(version: str, known: str) -> bool:
    """Compare versions; those that are no numbers cannot be ordered and count as newer."""
    if version.isdecimal() and known.isdecimal():
        return int(version) > int(known)
    return bool(version)
