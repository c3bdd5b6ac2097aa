"""Where a process works: its time, its way to the cluster, and how its tasks run.

Strategy: a process is put together in the same way on a real cluster and on one in memory. What
differs is behind `Runtime`: `LiveRuntime` is the real one, with the machine's clock and threads.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Protocol, Unpack

from app.flags.shared import ClusterAccess
from app.kube.client import connect
from app.kube.reflector import Reflector
from app.kube.watch_cache import Transition, WatchCache, WatchedResource, WatchState
from app.model.snapshot import Snapshot
from app.ports import Clock, Cluster, Resource, Sink
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


def watch_ages(mirror: Mirrored, clock: Clock) -> Mapping[str, float]:
    """Return for each watched resource how long nothing was heard, in seconds."""
    return {found.resource.plural: found.stale_seconds for found in mirror.standings(clock.now())}


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
    ) -> Running:
        """Tell a sink every change of the objects of which some fields have certain values."""
        ...

    def loop(self, name: str, tick: Tick, **rules: Unpack[LoopRules]) -> Loop:
        """Return a task that is to be done again and again."""
        ...


class LiveRuntime:
    """The real world."""

    def __init__(self) -> None:
        self.clock = SystemClock()

    def connect(self, reach: ClusterAccess, /) -> Connection:
        """Connect to the API server."""
        return connect(reach.kubeconfig, reach.context, reach.queries_per_second, reach.burst)

    def mirror(self, cluster: Cluster, sources: Iterable[WatchedResource], /) -> Mirrored:
        """Watch."""
        return WatchCache(cluster, self.clock, sources, jitter=random.random)

    def follow(
        self, cluster: Cluster, resource: Resource, namespace: str, fields: str, sink: Sink, /
    ) -> Running:
        """Watch one resource."""
        return Reflector(
            cluster, resource, namespace, fields, self.clock, sink, jitter=random.random
        )

    def loop(self, name: str, tick: Tick, **rules: Unpack[LoopRules]) -> Loop:
        """Return a task with a thread of its own."""
        return Loop(name, tick, self.clock, **rules)
