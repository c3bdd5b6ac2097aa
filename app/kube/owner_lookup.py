"""Finds owners that no snapshot holds: custom kinds by their scale, others by themselves.

Strategy: all who ask for the same owner share one look-up, and each waits no longer than it may.
The look-up goes on without them, so its answer is there for the next pod. Owners in use are read
again before their time is over, if `refresh` is called again and again.

An owner that exists is kept long, and a different time for each, so that they are not all read
again at once. One that does not exist is asked for again soon, and less often the longer it stays
away. Where a new look-up fails, an owner found within the last hour is still believed.

Namespaces take turns: whatever one of them asks for, look-ups of another wait for few of its own.
What waits and what is kept is limited, and the namespace with the most gives way.
"""

from __future__ import annotations

import logging
import zlib
from collections import Counter, deque
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
from app.ports import WORKLOADS, Clock, Cluster, LimitReached, LookupLimit, Ref, Resource

SCALED_SECONDS = 600.0  # times 1 to 2, by the key
BUILT_IN_SECONDS = 2.0  # the watch will bring it any moment
ABSENT_SECONDS = 30.0  # twice as long each time it is asked for again
LONGEST_ABSENT_SECONDS = 300.0
FAILED_SECONDS = 3.0
EARLY_SECONDS = 30.0  # before its life ends, an owner in use is read again
IDLE_SECONDS = 3600.0  # an owner that is not asked for is forgotten, and an old one is not believed

log = logging.getLogger("kube.owners")

THREADS = 8
_MOST_THREADS_OF_ONE = 6  # namespace
MOST_FLIGHTS = 1000  # look-ups under way or waiting; more would only be late
_FEW_FLIGHTS = 8  # which each namespace may have, however many others have
MOST_ENTRIES = 20_000
REFRESH_SECONDS = 5.0

_LONGEST = 317  # characters of an API version; names and kinds are shorter

_BUILT_IN: dict[str, Resource] = {resource.kind: resource for resource in WORKLOADS}


@dataclass(slots=True)
class _Entry:
    found: LookupResult
    life_seconds: float
    expires_at: float
    found_at: float
    read_at: float

    def is_over(self, now: float) -> bool:
        """Whether it can be forgotten; absence is remembered a while, to see that it repeats."""
        rest = 2 * self.life_seconds if isinstance(self.found, Absent) else 0.0
        return now >= self.expires_at + rest


class OwnerCache:
    """Owners by what was looked for; `now` is the time of a monotonic clock."""

    def __init__(self, most_entries: int = MOST_ENTRIES) -> None:
        self._most_entries = most_entries
        self._by_namespace: dict[str, dict[Lookup, _Entry]] = {}  # the oldest first
        self._count = 0
        self.displaced = 0  # entries that had to make room

    def __len__(self) -> int:
        return self._count

    def fresh(self, lookup: Lookup, now: float) -> LookupResult | None:
        """Return what is known, None if it is time to look."""
        entry = self._entry(lookup)
        if entry is None:
            return None
        entry.read_at = now
        return entry.found if now < entry.expires_at else None

    def believed(self, lookup: Lookup, now: float) -> Workload | None:
        """Return an owner that was there within the last hour, if there is no answer."""
        entry = self._entry(lookup)
        if entry is None or now - entry.found_at >= IDLE_SECONDS:
            return None
        return entry.found if isinstance(entry.found, Workload) else None

    def keep(self, lookup: Lookup, found: LookupResult, now: float) -> LookupResult:
        """Remember what was found; return what to answer."""
        entry = self._entry(lookup)
        seconds = life_seconds(lookup, found)
        if isinstance(found, Failed) and entry and (known := self.believed(lookup, now)):
            entry.expires_at = now + seconds
            return known
        if isinstance(found, Absent) and entry and entry.found == found:
            seconds = min(2 * entry.life_seconds, LONGEST_ABSENT_SECONDS)
        read_at = entry.read_at if entry else now
        self._remove(lookup)
        kept = self._by_namespace.setdefault(lookup.namespace, {})
        kept[lookup] = _Entry(found, seconds, now + seconds, now, read_at)
        self._count += 1
        if self._count > self._most_entries:
            self._make_room()
        return found

    def due(self, now: float) -> list[Lookup]:
        """Forget what is not asked for; return the owners to read again before they expire."""
        due = []
        for kept in list(self._by_namespace.values()):
            for lookup, entry in list(kept.items()):
                is_owner = isinstance(entry.found, Workload) and not lookup.key.is_built_in
                is_idle = now - entry.read_at >= IDLE_SECONDS
                if is_idle or (not is_owner and entry.is_over(now)):
                    self._remove(lookup)
                elif is_owner and now >= entry.expires_at - EARLY_SECONDS:
                    due.append(lookup)
        return due

    def _entry(self, lookup: Lookup) -> _Entry | None:
        return self._by_namespace.get(lookup.namespace, {}).get(lookup)

    def _remove(self, lookup: Lookup) -> None:
        kept = self._by_namespace.get(lookup.namespace, {})
        if kept.pop(lookup, None) is not None:
            self._count -= 1
        if not kept:
            self._by_namespace.pop(lookup.namespace, None)

    def _make_room(self) -> None:
        """Forget the oldest answer of the namespace that has the most."""
        most = max(self._by_namespace.values(), key=len)
        self._remove(next(iter(most)))
        self.displaced += 1


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


class LookupTurns:
    """Look-ups that wait or are under way, each namespace in its turn."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._few = min(_FEW_FLIGHTS, most)
        self._waiting: dict[str, deque[Lookup]] = {}  # by namespace, whose turn it is first
        self._under_way: Counter[str] = Counter()
        self._count = 0

    def add(self, lookup: Lookup) -> bool:
        """Let a look-up wait for its turn, unless its namespace has enough that do."""
        waiting = self._waiting.get(lookup.namespace, ())
        count = len(waiting) + self._under_way[lookup.namespace]
        is_full = self._count >= self._most or 2 * count >= self._most
        if is_full and count >= self._few:
            return False
        self._waiting.setdefault(lookup.namespace, deque()).append(lookup)
        self._count += 1
        return True

    def take(self) -> Lookup | None:
        """Return the look-up whose turn it is; it is under way until it is `done`."""
        may_look = (one for one in self._waiting if self._under_way[one] < _MOST_THREADS_OF_ONE)
        namespace = next(may_look, None)
        if namespace is None:
            return None
        waiting = self._waiting.pop(namespace)
        lookup = waiting.popleft()
        if waiting:
            self._waiting[namespace] = waiting  # after all others
        self._under_way[namespace] += 1
        return lookup

    def done(self, lookup: Lookup) -> None:
        """Note that a look-up has ended."""
        self._count -= 1
        self._under_way[lookup.namespace] -= 1
        if not self._under_way[lookup.namespace]:
            del self._under_way[lookup.namespace]


class LiveOwners:
    """Looks owners up in the API server; `cluster` should give up calls after a few seconds."""

    def __init__(
        self,
        cluster: Cluster,
        clock: Clock,
        reached: LimitReached,
        *,
        most_flights: int = MOST_FLIGHTS,
    ) -> None:
        self._cluster = cluster
        self._clock = clock
        self._reached = reached
        self._discovery = Discovery(cluster, clock, reached)
        self._cache = OwnerCache()
        self._turns = LookupTurns(most_flights)
        self._flights: dict[Lookup, Future[LookupResult]] = {}
        self._lock = Lock()  # of cache, turns and flights
        self._pool = ThreadPoolExecutor(THREADS, "owners")
        self._is_closed = False

    def find(self, lookup: Lookup, deadline_seconds: float, /) -> LookupResult:
        """Return what is known or can be found before the deadline; never raises."""
        if max(map(len, (lookup.name, lookup.kind, lookup.api_version))) > _LONGEST:
            return Absent()  # no object can be called so
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
        with self._lock:
            self._is_closed = True
            self._pool.shutdown(wait=False, cancel_futures=True)
            for flight in self._flights.values():
                flight.cancel()  # unless it is under way

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
        if flight is not None or self._is_closed:
            return flight
        if not self._turns.add(lookup):
            self._reached(LookupLimit.OWNER_LOOKUPS, namespace=lookup.namespace)
            return None
        flight = self._flights[lookup] = Future()
        self._pool.submit(self._look_in_turn)
        return flight

    def _look_in_turn(self) -> None:
        """Look owners up for as long as any may be; those that wait may be of another namespace."""
        while (begun := self._begun()) is not None:
            lookup, flight = begun
            found = self._looked_up(lookup)
            with self._lock:
                self._turns.done(lookup)
                self._flights.pop(lookup, None)
                displaced = self._cache.displaced
                answer = self._cache.keep(lookup, found, self._clock.monotonic())
                if self._cache.displaced > displaced:
                    self._reached(LookupLimit.OWNERS_KEPT, namespace=lookup.namespace)
            flight.set_result(answer)

    def _begun(self) -> tuple[Lookup, Future[LookupResult]] | None:
        with self._lock:
            lookup = None if self._is_closed else self._turns.take()
            if lookup is None:
                return None
            flight = self._flights[lookup]
            flight.set_running_or_notify_cancel()
            return lookup, flight

    def _looked_up(self, lookup: Lookup) -> LookupResult:
        try:
            return self._fetch(lookup)
        except (ClusterError, BadObject) as error:
            return Failed(str(error))
        except Exception as error:
            log.exception("unexpected error while an owner was looked up")
            return Failed(repr(error))

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
