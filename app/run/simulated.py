"""The runtime on a cluster in memory whose time is stepped: everything happens in one thread.

Strategy: tasks are entries in the agenda of the cluster's clock, and watch caches follow the
sandbox instead of reading watches. So a day passes as fast as it can be worked out, and equal
beginnings come to equal ends. What talks over sockets keeps its own threads, as outside.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Unpack

from app.flags.shared import ClusterAccess
from app.kube.watch_cache import (
    Lingering,
    Listener,
    Reader,
    SnapshotFold,
    Value,
    WatchState,
)
from app.kube.watched_resources import WatchedResource
from app.model.snapshot import Snapshot
from app.ports import Cluster, Delta, Following, Resource, Sink
from app.runtime.live import Connection, Mirrored
from app.runtime.loop import Loop, LoopRules, Tick
from app.sandbox.sandbox import Sandbox
from app.sandbox.stepped_clock import SteppedClock

log = logging.getLogger("run")


class SimulatedRuntime:
    """The runtime of processes that work on a sandbox; `cluster` is how they reach it."""

    def __init__(self, sandbox: Sandbox, cluster: Cluster | None = None) -> None:
        self.clock = sandbox.clock
        self._sandbox = sandbox
        self._cluster = cluster or sandbox.cluster

    def connect(self, _reach: ClusterAccess, /) -> Connection:
        """Return the cluster."""
        return SharedCluster(self._cluster)

    def mirror(self, _cluster: Cluster, sources: Iterable[WatchedResource], /) -> Mirrored:
        """Return a snapshot that is told what happens."""
        return SteppedWatchCache(self._sandbox, sources)

    def follow(
        self, _cluster: Cluster, resource: Resource, namespace: str, fields: str, sink: Sink, /
    ) -> Following:
        """Tell a sink what happens."""
        return self._sandbox.follow(resource, namespace, fields, sink)

    def loop(self, name: str, tick: Tick, **rules: Unpack[LoopRules]) -> Loop:
        """Return a task of the clock's agenda."""
        return SteppedLoop(name, tick, self.clock, **rules)


class SharedCluster:
    """A cluster in memory as processes hold it: calls take no time, and closing ends nothing."""

    def __init__(self, cluster: Cluster) -> None:
        self.list, self.watch, self.get = cluster.list, cluster.watch, cluster.get
        self.create, self.replace, self.patch = cluster.create, cluster.replace, cluster.patch
        self.delete, self.evict, self.request = cluster.delete, cluster.evict, cluster.request

    def within(self, _seconds: float, /) -> Connection:
        """Return the same."""
        return self

    def until(self, _moment: float, /) -> Connection:
        """Return the same: a call begins at once."""
        return self

    def server_now(self) -> None:
        """Return nothing: the cluster has the clock that all have."""

    def close(self) -> None:
        """Do nothing: others use the cluster too."""


class SteppedLoop(Loop):
    """A loop that is called when it is due, by the thread that moves the clock."""

    _clock: SteppedClock

    def start(self) -> None:
        """Begin, as soon as the clock moves."""
        self._clock.call_later(0, self._turn)

    def stop(self, timeout_seconds: float = 5.0) -> None:
        """End at once, and do what is to be done at the end."""
        del timeout_seconds  # nothing is under way while the clock stands
        if not self._over.is_set():
            self._over.set()
            self._guarded(self._at_end)

    def _turn(self) -> None:
        if not self._over.is_set():
            self._clock.call_later(self._once(), self._turn)


class SteppedWatchCache:
    """The newest snapshot of some resources, told by the sandbox."""

    def __init__(self, sandbox: Sandbox, sources: Iterable[WatchedResource]) -> None:
        self._sources = tuple(sources)
        self._fold = SnapshotFold()
        self._clock = sandbox.clock
        self._lingering = Lingering(sandbox.clock)
        self._is_on = False
        self._followers = [
            sandbox.follow(one.resource, one.namespace, one.field_selector, self._sink(one))
            for one in self._sources
        ]

    @property
    def snapshot(self) -> Snapshot:
        """The newest state."""
        return self._fold.snapshot

    @property
    def is_read(self) -> bool:
        """Whether it was started: all is read at once."""
        return self._is_on

    def listen(self, listener: Listener, /) -> None:
        """Have changes told, in order."""
        self._fold.listen(listener)

    def put(self, source: WatchedResource, values: Sequence[Value], /) -> None:
        """Take in what something else reads."""
        self._fold.tell(self._fold.take([(source, values)]))

    def start(self) -> None:
        """Read all, and go on from there."""
        for follower in self._followers:
            follower.start()
        self._is_on = True

    def stop(self) -> None:
        """Read no more."""
        for follower in self._followers:
            follower.stop()

    def join(self, _seconds: float, /) -> bool:
        """There is nothing to wait for."""
        return True

    def standings(self, _now: datetime, /) -> Sequence[WatchState]:
        """All is known as long as it runs."""
        return [
            WatchState(
                resource=one.resource,
                synced=self._is_on,
                missing=False,
                stale_seconds=0.0,
                problem="",
                is_optional=one.is_optional,
                is_awaited=one.is_awaited,
            )
            for one in self._sources
        ]

    def _drop(self) -> None:
        """Take out what was held on to for long enough."""
        self._fold.tell(self._fold.take(self._lingering.due()))

    def _sink(self, source: WatchedResource) -> Sink:
        reader = Reader(source)

        def take(changes: Sequence[Delta], _whole: bool) -> None:
            self._fold.tell(
                self._fold.take([self._lingering.passed(source, reader.values(changes))])
            )
            if source.linger_seconds and any(change.object is None for change in changes):
                self._clock.call_later(source.linger_seconds, self._drop)

        return take
