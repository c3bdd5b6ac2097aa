"""Finds owners that no snapshot holds: custom kinds by their scale, others by themselves.

Strategy: all who ask for the same owner share one look-up, and each waits no longer than it may.
The look-up goes on without them, so its answer is there for the next pod. Owners in use are read
again before their time is over, by a thread of their own.
"""

from __future__ import annotations

import logging
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from threading import Event, Lock, Thread

from app.kube.discovery import Discovery
from app.kube.owner_cache import OwnerCache
from app.model.errors import BadObject, ClusterError, Invalid, NotFound
from app.model.workloads import Absent, Failed, Lookup, LookupResult, read_workload, scaled_workload
from app.ports import WORKLOADS, Clock, Cluster, Ref, Resource

log = logging.getLogger("kube.owners")

THREADS = 8
MOST_FLIGHTS = 1000  # look-ups under way or waiting; more would only be late
REFRESH_SECONDS = 5.0

_BUILT_IN: dict[str, Resource] = {resource.kind: resource for resource in WORKLOADS}


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
        self._closing = Event()

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

    def start(self) -> None:
        """Begin to read owners again before their time is over."""
        Thread(target=self._run, name="owners-refresh", daemon=True).start()

    def close(self) -> None:
        """End all threads; look-ups that have not begun are given up."""
        self._closing.set()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def refresh(self) -> None:
        """Have read again what will be needed and is about to expire."""
        self._discovery.refresh()
        with self._lock:
            for lookup in self._cache.due(self._clock.monotonic()):
                self._fly(lookup)

    def _run(self) -> None:
        while not self._closing.is_set():
            self._clock.wait(REFRESH_SECONDS)
            try:
                self.refresh()
            except Exception:
                log.exception("owners not read again")

    def _instead(self, lookup: Lookup, why: str) -> LookupResult:
        with self._lock:
            return self._cache.believed(lookup, self._clock.monotonic()) or Failed(why)

    def _fly(self, lookup: Lookup) -> Future[LookupResult] | None:
        """Return the look-up under way, or a new one; None if there are too many."""
        flight = self._flights.get(lookup)
        if flight is not None or self._closing.is_set() or len(self._flights) >= self._most_flights:
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
