"""Where a process works: its time, its way to the cluster, and how its tasks run.

Strategy: a process is put together in the same way on a real cluster and on one in memory. What
differs is behind `Runtime`: `LiveRuntime` is the real one, with the machine's clock and threads.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final, Protocol, Unpack

from app.flags.shared import ClusterAccess
from app.kube.client import connect
from app.kube.lease_watches import LeaseWatches
from app.kube.owner_lookup import REFRESH_SECONDS, LiveOwners
from app.kube.reflector import Reflector
from app.kube.watch_cache import Transition, Value, WatchAge, WatchCache, WatchState
from app.kube.watch_report import WatchReport
from app.kube.watched_resources import WatchedResource
from app.model.snapshot import Snapshot
from app.ports import HPAS, LEASES, Clock, Cluster, Following, LimitReached, Resource, Sink
from app.runtime.clock import SystemClock
from app.runtime.loop import Loop, LoopRules, Tick


class Connection(Cluster, Protocol):
    """A way to the API server with a budget of requests of its own."""

    def within(self, seconds: float, /) -> Connection:
        """Return the same, its calls given up after so many seconds."""
        ...

    def until(self, moment: float, /) -> Connection:
        """Return the same, its calls over at a moment of the monotonic clock, or not begun."""
        ...

    def server_now(self) -> datetime | None:
        """Return the time by the clock of the API server, None if it is not known."""
        ...

    def close(self) -> None:
        """End all watches and close all that is open."""
        ...


class Mirrored(Protocol):
    """A cluster as a snapshot that is always whole."""

    @property
    def snapshot(self) -> Snapshot:
        """The newest state."""
        ...

    @property
    def is_read(self) -> bool:
        """Whether all that is served was read."""
        ...

    def listen(self, listener: Callable[[Sequence[Transition]], None], /) -> None:
        """Have changes told, in order."""
        ...

    def put(self, source: WatchedResource, values: Sequence[Value], /) -> None:
        """Take in what something else reads, None for what went."""
        ...

    def start(self) -> None:
        """Begin to read."""
        ...

    def stop(self) -> None:
        """Read no more."""
        ...

    def join(self, seconds: float, /) -> bool:
        """Wait until all has ended; tell whether it has."""
        ...

    def standings(self, now: datetime, /) -> Sequence[WatchState]:
        """Tell of each resource how well it is known."""
        ...


class Running(Protocol):
    """Something that goes on by itself until it is stopped."""

    def start(self) -> None:
        """Begin."""
        ...

    def stop(self) -> None:
        """End."""
        ...


class Runtime(Protocol):
    """Where a process works."""

    @property
    def clock(self) -> Clock:
        """The time."""
        ...

    def connect(self, reach: ClusterAccess, /) -> Connection:
        """Return a way to the cluster."""
        ...

    def mirror(self, cluster: Cluster, sources: Iterable[WatchedResource], /) -> Mirrored:
        """Return a mirror of some resources."""
        ...

    def follow(
        self, cluster: Cluster, resource: Resource, namespace: str, fields: str, sink: Sink, /
    ) -> Following:
        """Tell a sink every change of the objects of which some fields have certain values."""
        ...

    def loop(self, name: str, tick: Tick, **rules: Unpack[LoopRules]) -> Loop:
        """Return a task that is to be done again and again."""
        ...


GATHER_SECONDS: Final = 0.25  # for events of many Leases, most of which are renewals


class LiveRuntime:
    """The real world."""

    def __init__(self) -> None:
        self.clock = SystemClock()
        self.watch_report = WatchReport(self.clock)

    def connect(self, reach: ClusterAccess, /) -> Connection:
        """Connect to the API server."""
        return connect(reach.kubeconfig, reach.context, reach.queries_per_second, reach.burst)

    def mirror(self, cluster: Cluster, sources: Iterable[WatchedResource], /) -> Mirrored:
        """Watch."""
        return WatchCache(
            cluster, self.clock, sources, jitter=random.random, report=self.watch_report
        )

    def follow(
        self, cluster: Cluster, resource: Resource, namespace: str, fields: str, sink: Sink, /
    ) -> Following:
        """Watch one resource."""
        found = Reflector(
            cluster, resource, namespace, fields, self.clock, sink, jitter=random.random
        )
        is_busy = resource is LEASES and not fields.startswith("metadata.name=")
        found.gather_seconds = GATHER_SECONDS if is_busy else 0.0
        self.watch_report.add([found])
        return found

    def loop(self, name: str, tick: Tick, **rules: Unpack[LoopRules]) -> Loop:
        """Return a task with a thread of its own."""
        return Loop(name, tick, self.clock, **rules)


class WatchedCluster:
    """A cluster as a process knows it: a snapshot, with Leases that VPAs name, and owners."""

    def __init__(
        self,
        runtime: Runtime,
        watched: Cluster,
        named: Cluster,
        asked: Cluster,
        resources: Iterable[WatchedResource],
        reached: LimitReached,
        *,
        role_leases: bool,
    ) -> None:
        """Leases are watched in `named`, if they are at all, and owners looked up in `asked`."""

        def follow(namespace: str, fields: str, sink: Sink) -> Following:
            return runtime.follow(named, LEASES, namespace, fields, sink)

        self._clock = runtime.clock
        self._mirror = runtime.mirror(watched, resources)
        self._leases = LeaseWatches(
            follow if role_leases else None,
            lambda: self._mirror.snapshot,
            self._mirror.put,
            runtime.clock,
        )
        self._naming = runtime.loop("leases", self._leases.tick)
        self.listen = self._mirror.listen
        self.owners = LiveOwners(asked, runtime.clock, reached)
        self._refreshing = runtime.loop(
            "owners-refresh", self.refresh, longest_retry_seconds=REFRESH_SECONDS
        )

    def start(self) -> None:
        """Begin to watch."""
        self._mirror.start()
        self._naming.start()
        self._refreshing.start()

    def stop(self) -> None:
        """Watch no more, and look nothing up."""
        self._naming.stop(0)
        self._leases.close()
        self._mirror.stop()
        self._refreshing.stop(0)  # a call may be under way
        self.owners.close()

    def refresh(self, now: datetime) -> float:
        """Have read again what was looked up; a tick of a loop."""
        return self.owners.refresh(now)

    def snapshot(self) -> Snapshot:
        """Return what is known."""
        return self._mirror.snapshot

    def is_read(self) -> bool:
        """Whether all that is served was read, and the Leases that VPAs name."""
        return self._mirror.is_read and self._leases.is_read()

    def standings(self) -> Sequence[WatchState]:
        """Return of each resource how well it is known."""
        return self._mirror.standings(self._clock.now())

    def watch_ages(self) -> Mapping[str, WatchAge]:
        """Return for each watched resource how long nothing was heard.

        What is optional has an age once it is known to be served. HPAs are served everywhere.
        """
        return {
            found.resource.plural: found.age
            for found in self.standings()
            if not found.is_optional
            or ((found.synced or found.problem) and (not found.missing or found.resource == HPAS))
        }
