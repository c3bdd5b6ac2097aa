"""Keeps one resource in step with the API server.

Strategy: `ListWatch` decides, this asks, waits and hands on. One thread calls `run`; the others
read how it stands. Whatever goes wrong is only ever a reason to ask again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from datetime import datetime
from threading import Event

from app.kube.list_watch import ListPage, ListWatch
from app.model.errors import ClusterError, Unavailable
from app.ports import Clock, Cluster, Delta, Resource, Sink

log = logging.getLogger("kube.watch")

PAGE_SIZE = 500
WATCH_SECONDS = (240, 360)  # spread, so that not all watches are opened anew at once
PAUSE_SLICE_SECONDS = 0.5  # a stop is noticed after no more than this


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
        self._cluster = cluster
        self._namespace = namespace
        self._field_selector = field_selector
        self._clock = clock
        self._sink = sink
        self._jitter = jitter
        self._state = ListWatch(jitter)
        self._stopping = Event()
        self._started_at = clock.now()

    @property
    def synced(self) -> bool:
        """Whether a whole list was taken in and nothing was lost since."""
        return self._state.synced

    @property
    def missing(self) -> bool:
        """Whether the server does not serve this resource."""
        return self._state.missing

    @property
    def problem(self) -> str:
        """Why the last step failed, empty if it did not."""
        return self._state.problem

    @property
    def last_event_at(self) -> datetime | None:
        """When the server last told something, if only that it takes a watch."""
        return self._state.last_event_at

    @property
    def resource_version(self) -> str:
        """The version up to which everything is known."""
        return self._state.resource_version

    @property
    def lists(self) -> int:
        """How many lists were read; more than one tells of trouble."""
        return self._state.lists

    def stale_seconds(self, now: datetime) -> float:
        """How long ago the server last told something, or since when it was asked in vain."""
        return max((now - (self.last_event_at or self._started_at)).total_seconds(), 0.0)

    def run(self) -> None:
        """Keep in step until stopped."""
        while not self._stopping.is_set():
            self.step()

    def stop(self) -> None:
        """End `run` as soon as the server says something or its connection is closed."""
        self._stopping.set()

    def step(self) -> None:
        """Read one page, or watch until the watch ends."""
        step = self._state.next_step()
        self._wait(step.pause_seconds)
        if self._stopping.is_set():
            return
        opened_at = self._clock.monotonic()
        try:
            if isinstance(step, ListPage):
                self._list(step.continue_token)
            else:
                self._watch(step.resource_version)
                self._state.ended(self._clock.monotonic() - opened_at)
        except ClusterError as error:
            self._failed(error, self._clock.monotonic() - opened_at)
        except Exception as error:
            log.exception("unexpected error", extra={"resource": self.resource.plural})
            self._state.failed(Unavailable(f"unexpected: {error!r}"), self._clock.now())

    def _list(self, token: str) -> None:
        page = self._cluster.list(
            self.resource,
            self._namespace,
            field_selector=self._field_selector,
            limit=PAGE_SIZE,
            continue_token=token,
        )
        changes = self._state.listed(page, self._clock.now())
        self._hand_on(changes, whole=not self._state.listing)

    def _watch(self, resource_version: str) -> None:
        least, most = WATCH_SECONDS
        events = self._cluster.watch(
            self.resource,
            self._namespace,
            resource_version=resource_version,
            field_selector=self._field_selector,
            timeout_seconds=int(least + (most - least) * self._jitter()),
        )
        self._state.opened(self._clock.now())
        for event in events:
            changes = self._state.saw(event, self._clock.now())
            if changes and not self._hand_on(changes, whole=True):
                return
            if self._stopping.is_set():
                return

    def _hand_on(self, changes: Sequence[Delta], *, whole: bool) -> bool:
        try:
            self._sink(changes, whole)
        except Exception:
            log.exception("changes not taken in", extra={"resource": self.resource.plural})
            self._state.lost(changes)
            return False
        return True

    def _failed(self, error: ClusterError, lived_seconds: float) -> None:
        if self._stopping.is_set():
            return
        was_missing = self.missing
        changes = self._state.failed(error, self._clock.now(), lived_seconds)
        if self.missing:
            self._hand_on(changes, whole=True)
        if not was_missing:  # else it is known, and asked for every few seconds
            extra = {"resource": self.resource.plural, "error": str(error)}
            log.warning("resource not read, will ask again", extra=extra)

    def _wait(self, seconds: float) -> None:
        until = self._clock.monotonic() + seconds
        while (left := until - self._clock.monotonic()) > 0 and not self._stopping.is_set():
            self._clock.wait(min(left, PAUSE_SLICE_SECONDS))
