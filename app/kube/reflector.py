"""Keeps one resource in step with the API server.

Strategy: `ListWatch` decides, without thread, clock or connection: answers go in, changes come
out, and its attributes say how to go on. `Reflector` asks, waits and hands on; one thread calls
`run`, the others read how it stands. Whatever goes wrong is only ever a reason to ask again.

A watch resumes where the last one broke; a list is only read again when the server no longer
keeps that version (410) or keeps refusing the watch. A list is compared with what is known, so
that a deletion that was missed is reported as one.

    listing --last page--> watching --ended, broken--> watching
       ^--410, 404, lost, watch refused again and again---'

client-go's reflectors behave alike; here nothing but object versions is remembered.
A reflector logs only defects; `WatchReport` logs how all of them stand.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from sys import intern
from threading import Event, Thread
from typing import Any

from app.kube.listing import PAGE_SIZE, check_progress
from app.model.errors import ClusterError, Gone, Invalid, NotFound, NotSent, Refused, Unavailable
from app.ports import Clock, Cluster, Delta, EventType, Json, ListPage, Resource, Sink, WatchEvent

FIRST_PAUSE_SECONDS = 0.2  # most watches that break can be resumed at once
PAUSE_SECONDS = 0.5  # doubled with every failure in a row
LONGEST_PAUSE_SECONDS = 10.0
AWAY_PAUSE_SECONDS = 1.0  # while there is no server to be spared, so that its return is noticed
LONGEST_ASKED_PAUSE_SECONDS = 300.0  # of Retry-After
MISSING_PAUSE_SECONDS = 20.0  # until a resource that is not served is asked for again
MISSES_TO_BELIEVE = 5  # a server that has just started may not know its custom resources yet
FAILURES_TO_LIST = 5  # watches in a row that came to nothing
_FORBIDDEN = 403
SHORT_WATCH_SECONDS = 1.0  # a watch that ends sooner without any event came to nothing

Key = tuple[str, str]

log = logging.getLogger("kube.watch")

BURST_SECONDS = 0.02  # in which events that were collected are taken in
WATCH_SECONDS = (240, 360)  # spread, so that not all watches are opened again at once
PAUSE_SLICE_SECONDS = 0.5  # a stop is noticed after no more than this


class ListWatch:
    """The versions of all objects of a resource; `jitter` returns numbers from 0 to 1."""

    def __init__(self, resource: Resource, jitter: Callable[[], float]) -> None:
        self._resource = resource
        self._jitter = jitter
        self._known: dict[Key, str] = {}
        self._seen: set[Key] = set()
        self._failures = 0
        self._misses = 0
        self.listing = True  # to read a page of the list, not to watch
        self.continue_token = ""  # of the page to read, empty for the first one
        self.pause_seconds = 0.0  # before that
        self.synced = False  # a whole list was taken in, and since then nothing was missed
        self.missing = False  # the server does not serve the resource
        self.problem = ""  # why the last step failed, empty if it did not
        self.failed_steps = 0  # steps that failed
        self.last_problem = self.failure = ""  # why the last one of them did, and of what kind
        self.pages = 0  # that were read of the list
        self._listing_since: datetime | None = None
        self.refused_since: datetime | None = None  # since all answers say that we have no right
        # When there was an event, a bookmark, a whole list, a new watch, or no such resource.
        self.last_event_at: datetime | None = None
        self.resource_version = ""  # up to which everything is known
        self.lists = 0  # begun; more than one tells of trouble

    def listed(self, page: ListPage, now: datetime) -> list[Delta]:
        """Take in a page; return what it changes, with the last one also what went.

        Raises:
            Unavailable: the list does not end.
        """
        self._check_list(page, now)
        changes = []
        for item in page.items:
            metadata = metadata_of(item)
            key = _key(metadata)
            self._seen.add(key)
            version = _version(metadata)
            if not version or self._known.get(key) != version:
                self._known[key] = version
                changes.append(Delta(*key, item))
        self.pause_seconds = 0.0
        self._misses = 0
        self._answered()
        self.lists += not self.continue_token
        self.pages += 1
        self.continue_token = page.continue_token
        if self.continue_token:
            return changes
        gone = [key for key in self._known if key not in self._seen]
        for key in gone:
            del self._known[key]
        self._begin_list()
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
        self._answered()

    def saw(self, event: WatchEvent, now: datetime) -> list[Delta]:
        """Take in a line of the watch; return what it changes."""
        self._failures = 0
        self._answered()
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
        """The watch ended by itself after so many seconds."""
        if lived_seconds < SHORT_WATCH_SECONDS and self._failures:
            self._stumbled()
        else:
            # One short watch proves nothing; a second one without an event between does.
            self._failures = int(lived_seconds < SHORT_WATCH_SECONDS)
            self.pause_seconds = 0.0
            self._answered()

    def failed(self, error: ClusterError, now: datetime, lived_seconds: float = 0.0) -> list[Delta]:
        """The step failed, a watch after so many seconds; return what that changes."""
        if lived_seconds >= SHORT_WATCH_SECONDS:
            self._failures = 0
        if isinstance(error, NotSent):
            self.pause_seconds = AWAY_PAUSE_SECONDS * (0.5 + 0.5 * self._jitter())
        else:
            self._stumbled()
        self.problem = self.last_problem = str(error)
        self.failure = f"{type(error).__name__} {error.status}"
        self.failed_steps += 1
        is_refused = isinstance(error, Refused) and error.status == _FORBIDDEN
        self.refused_since = (self.refused_since or now) if is_refused else None
        asked = min(error.retry_after_seconds or 0.0, LONGEST_ASKED_PAUSE_SECONDS)
        self.pause_seconds = max(self.pause_seconds, asked * (1 + 0.1 * self._jitter()))
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

    def _answered(self) -> None:
        self.problem = ""
        self.refused_since = None

    def _stumbled(self) -> None:
        self._failures += 1
        self.pause_seconds = self._back_off()
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
        self._begin_list()

    def _begin_list(self) -> None:
        self.continue_token = ""
        self._seen = set()
        self.pages = 0
        self._listing_since = None

    def _check_list(self, page: ListPage, now: datetime) -> None:
        """Give up a list that goes on for too long, and begin another one."""
        self._listing_since = self._listing_since or now
        seconds = (now - self._listing_since).total_seconds()
        try:
            check_progress(self._resource, self.continue_token, page, seconds)
        except Unavailable:
            self._list_again()
            raise

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
        self.pause_seconds = max(self.pause_seconds, pause)
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


class Reflector:
    """Tells a sink every change of a resource, without gap, until it is stopped."""

    def __init__(
        self,
        cluster: Cluster,
        resource: Resource,
        namespace: str,
        field_selector: str,
        clock: Clock,
        sink: Sink,
        *,
        jitter: Callable[[], float],
    ) -> None:
        self.resource = resource
        self.gather_seconds = 0.0  # for which events of a busy watch are collected
        self._cluster = cluster
        self._namespace = namespace
        self._field_selector = field_selector
        self._clock = clock
        self._sink = sink
        self._jitter = jitter
        self.state = ListWatch(resource, jitter)
        self._stopping = Event()
        self._started_at = clock.now()

    def stale_seconds(self, now: datetime) -> float:
        """How long ago the server last told something, or since when it was asked in vain."""
        return max((now - (self.state.last_event_at or self._started_at)).total_seconds(), 0.0)

    def refused_seconds(self, now: datetime) -> float:
        """For how long every answer was that we have no right, zero if the last one was not."""
        since = self.state.refused_since
        return max((now - since).total_seconds(), 0.0) if since else 0.0

    @property
    def is_stopped(self) -> bool:
        """Whether it was told to end."""
        return self._stopping.is_set()

    def start(self) -> None:
        """Keep in step until stopped, in a thread of its own."""
        Thread(target=self.run, name=self.resource.plural, daemon=True).start()

    def run(self) -> None:
        """Keep in step until stopped."""
        while not self._stopping.is_set():
            self.step()

    def stop(self) -> None:
        """End `run` as soon as the server says something or its connection is closed."""
        self._stopping.set()

    def step(self) -> None:
        """Read one page, or watch until the watch ends."""
        self._wait(self.state.pause_seconds)
        if self._stopping.is_set():
            return
        opened_at = self._clock.monotonic()
        try:
            if self.state.listing:
                self._list()
            else:
                self._watch()
                self.state.ended(self._clock.monotonic() - opened_at)
        except ClusterError as error:
            self._failed(error, self._clock.monotonic() - opened_at)
        except Exception as error:
            problem = f"unexpected: {error!r}"
            if problem != self.state.last_problem:
                log.exception("unexpected error", extra={"resource": self.resource.plural})
            self.state.failed(Unavailable(problem), self._clock.now())

    def _list(self) -> None:
        page = self._cluster.list(
            self.resource,
            self._namespace,
            field_selector=self._field_selector,
            limit=PAGE_SIZE,
            continue_token=self.state.continue_token,
        )
        changes = self.state.listed(page, self._clock.now())
        self._hand_on(changes, whole=not self.state.listing)

    def _watch(self) -> None:
        least, most = WATCH_SECONDS
        events = self._cluster.watch(
            self.resource,
            self._namespace,
            resource_version=self.state.resource_version,
            field_selector=self._field_selector,
            timeout_seconds=int(least + (most - least) * self._jitter()),
        )
        self.state.opened(self._clock.now())
        gathered_at = self._clock.monotonic()
        for event in events:
            changes = self.state.saw(event, self._clock.now())
            if changes and not self._hand_on(changes, whole=True):
                return
            if self._stopping.is_set():
                return
            if self.gather_seconds and self._clock.monotonic() - gathered_at > BURST_SECONDS:
                self._wait(self.gather_seconds)  # what comes meanwhile is read at once
                gathered_at = self._clock.monotonic()

    def _hand_on(self, changes: Sequence[Delta], *, whole: bool) -> bool:
        try:
            self._sink(changes, whole)
        except Exception:
            log.exception("changes not processed", extra={"resource": self.resource.plural})
            self.state.lost(changes)
            return False
        return True

    def _failed(self, error: ClusterError, lived_seconds: float) -> None:
        if self._stopping.is_set():
            return
        changes = self.state.failed(error, self._clock.now(), lived_seconds)
        if self.state.missing:
            self._hand_on(changes, whole=True)

    def _wait(self, seconds: float) -> None:
        until = self._clock.monotonic() + seconds
        while (left := until - self._clock.monotonic()) > 0 and not self._stopping.is_set():
            self._clock.wait(min(left, PAUSE_SLICE_SECONDS))
