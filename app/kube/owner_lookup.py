"""Finds owners that no snapshot holds: custom kinds by their scale, others by themselves.

Strategy: all who ask for the same owner share one look-up, and each waits no longer than it may.
The look-up goes on without them, so its answer is there for the next pod. Owners in use are read
again before their time is over, if `refresh` is called again and again.

An owner that exists is kept long, and a different time for each, so that they are not all read
again at once; one that does not is asked for again soon. Where a new look-up fails, an owner found
within the last hour is still believed.
"""

from __future__ import annotations

import logging
import zlib
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from threading import Lock

from app.kube.discovery import Discovery
from app.model.errors import BadObject, ClusterError, Invalid, NotFound
from app.model.workloads import (
    Absent,
    Failed,
    Lookup,
    LookupResult,
    Workload,
    read_workload,
    scaled_workload,
)
from app.ports import WORKLOADS, Clock, Cluster, Ref, Resource

SCALED_SECONDS = 600.0  # times 1 to 2, by the key
BUILT_IN_SECONDS = 2.0  # the watch will bring it any moment
ABSENT_SECONDS = 30.0
FAILED_SECONDS = 3.0
EARLY_SECONDS = 30.0  # before its life ends, an owner in use is read again
IDLE_SECONDS = 3600.0  # an owner that is not asked for is forgotten, and an old one is not believed

log = logging.getLogger("kube.owners")

THREADS = 8
MOST_FLIGHTS = 1000  # look-ups under way or waiting; more would only be late
REFRESH_SECONDS = 5.0

_BUILT_IN: dict[str, Resource] = {resource.kind: resource for resource in WORKLOADS}


@dataclass(slots=True)
class _Entry:
    found: LookupResult
    expires_at: float
    found_at: float
    read_at: float


class OwnerCache:
    """Owners by what was looked for; `now` is the time of a monotonic clock."""

    def __init__(self) -> None:
        self._entries: dict[Lookup, _Entry] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def fresh(self, lookup: Lookup, now: float) -> LookupResult | None:
        """Return what is known, None if it is time to look."""
        entry = self._entries.get(lookup)
        if entry is None:
            return None
        entry.read_at = now
        return entry.found if now < entry.expires_at else None

    def believed(self, lookup: Lookup, now: float) -> Workload | None:
        """Return an owner that was there within the last hour, for want of an answer."""
        entry = self._entries.get(lookup)
        if entry is None or now - entry.found_at >= IDLE_SECONDS:
            return None
        return entry.found if isinstance(entry.found, Workload) else None

    def keep(self, lookup: Lookup, found: LookupResult, now: float) -> LookupResult:
        """Remember what was found; return what to answer."""
        entry = self._entries.get(lookup)
        expires_at = now + life_seconds(lookup, found)
        if isinstance(found, Failed) and entry and (known := self.believed(lookup, now)):
            entry.expires_at = expires_at
            return known
        read_at = entry.read_at if entry else now
        self._entries[lookup] = _Entry(found, expires_at, now, read_at)
        return found

    def due(self, now: float) -> list[Lookup]:
        """Forget what is not asked for; return the owners to read again before they expire."""
        due = []
        for lookup, entry in list(self._entries.items()):
            is_owner = isinstance(entry.found, Workload) and not lookup.key.is_built_in
            is_idle = now - entry.read_at >= IDLE_SECONDS
            if is_idle or (not is_owner and now >= entry.expires_at):
                del self._entries[lookup]
            elif is_owner and now >= entry.expires_at - EARLY_SECONDS:
                due.append(lookup)
        return due


def life_seconds(lookup: Lookup, found: LookupResult) -> float:
    """Return for how long an answer may be used."""
    match found:
        case Absent():
            return ABSENT_SECONDS
        case Failed():
            return FAILED_SECONDS
        case Workload() if lookup.key.is_built_in:
            return BUILT_IN_SECONDS
    place = f"{lookup.namespace}/{lookup.key}"
    return SCALED_SECONDS * (1 + zlib.crc32(place.encode()) / 2**32)


class LiveOwners:
    """Looks owners up in the API server; `cluster` should give up calls after a few seconds."""

    def __init__(self, cluster: Cluster, clock: Clock, *, most_flights: int = MOST_FLIGHTS) -> None:
        self._cluster = cluster
        self._most_flights = most_flights
        self._clock = clock
        self._discovery = Discovery(cluster, clock)
        self._cache = OwnerCache()
        self._flights: dict[Lookup, Future[LookupResult]] = {}
        self._lock = Lock()  # of cache and flights
        self._pool = ThreadPoolExecutor(THREADS, "owners")
        self._is_closed = False

    def find(self, lookup: Lookup, deadline_seconds: float, /) -> LookupResult:
        """Return what is known or can be found before the deadline; never raises."""
        with self._lock:
            known = self._cache.fresh(lookup, self._clock.monotonic())
            if known is not None:
                return known
            flight = self._fly(lookup)
        if flight is None:
            return self._instead(lookup, "too many look-ups are under way")
        try:
            return flight.result(max(deadline_seconds, 0.0))
        except TimeoutError:
            return self._instead(lookup, f"no answer within {deadline_seconds:g} s")
        except CancelledError:
            return self._instead(lookup, "shutting down")

    def close(self) -> None:
        """End all threads; look-ups that have not begun are given up."""
        self._is_closed = True
        self._pool.shutdown(wait=False, cancel_futures=True)

    def refresh(self, _now: datetime) -> float:
        """Have read again what will be needed and is about to expire; a tick of a loop."""
        self._discovery.refresh()
        with self._lock:
            for lookup in self._cache.due(self._clock.monotonic()):
                self._fly(lookup)
        return REFRESH_SECONDS

    def _instead(self, lookup: Lookup, why: str) -> LookupResult:
        with self._lock:
            return self._cache.believed(lookup, self._clock.monotonic()) or Failed(why)

    def _fly(self, lookup: Lookup) -> Future[LookupResult] | None:
        """Return the look-up under way, or a new one; None if there are too many."""
        flight = self._flights.get(lookup)
        if flight is not None or self._is_closed or len(self._flights) >= self._most_flights:
            return flight
        flight = self._flights[lookup] = self._pool.submit(self._look, lookup)
        return flight

    def _look(self, lookup: Lookup) -> LookupResult:
        try:
            found = self._fetch(lookup)
        except (ClusterError, BadObject) as error:
            found = Failed(str(error))
        except Exception as error:
            log.exception("unexpected error while an owner was looked up")
            found = Failed(repr(error))
        with self._lock:
            self._flights.pop(lookup, None)
            return self._cache.keep(lookup, found, self._clock.monotonic())

    def _fetch(self, lookup: Lookup) -> LookupResult:
        if lookup.key.is_built_in:
            return self._fetch_built_in(lookup)
        for resource in self._discovery.scalable(lookup.api_version, lookup.kind):
            try:
                scale = self._cluster.get(Ref(resource, lookup.namespace, lookup.name, "scale"))
            except (NotFound, Invalid):
                continue
            return scaled_workload(lookup.namespace, lookup.api_version, lookup.kind, scale)
        return Absent()

    def _fetch_built_in(self, lookup: Lookup) -> LookupResult:
        resource = _BUILT_IN[lookup.kind]
        try:
            item = self._cluster.get(Ref(resource, lookup.namespace, lookup.name))
        except (NotFound, Invalid):
            return Absent()
        return read_workload(
            item, kind=resource.kind, api_version=resource.api_version, with_template=False
        )
