"""A cluster in memory whose calls wait for a rate, as those of a real connection do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from math import inf
from typing import Any

from app.flags.shared import ClusterAccess
from app.kube.connection import Pacer
from app.model.token_bucket import TokenBucket
from app.ports import Cluster
from app.run.simulated import SharedCluster, SimulatedRuntime
from app.runtime.live import Connection
from app.sandbox.sandbox import Sandbox


class PacedCluster(SharedCluster):
    """A way to the cluster on which calls with some verbs wait for their turn."""

    def __init__(
        self, cluster: Cluster, pacer: Pacer, verbs: Sequence[str], not_after: float = inf
    ) -> None:
        super().__init__(cluster)
        self._cluster, self._pacer, self._verbs = cluster, pacer, verbs
        self._not_after = not_after
        for verb in verbs:
            setattr(self, verb, self._paced(getattr(cluster, verb)))

    def until(self, moment: float, /) -> Connection:
        """Return the same with less time."""
        return PacedCluster(self._cluster, self._pacer, self._verbs, moment)

    def _paced(self, call: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(call)
        def paced(*args: object, **kwargs: object) -> object:
            self._pacer.wait(call.__name__, self._not_after)
            return call(*args, **kwargs)

        return paced


class PacedRuntime(SimulatedRuntime):
    """A runtime in which calls with some verbs are as many a second as flags allow.

    Whoever waits for a call moves the time: nothing else goes on meanwhile but what is due.
    """

    def __init__(self, sandbox: Sandbox, cluster: Cluster, *verbs: str) -> None:
        super().__init__(sandbox, cluster)
        self._verbs = verbs

    def connect(self, reach: ClusterAccess, /) -> Connection:
        """Return a way to the cluster with a rate of its own."""
        bucket, clock = TokenBucket.full(reach.queries_per_second, reach.burst), self.clock
        pacer = Pacer(bucket, monotonic=clock.monotonic, sleep=clock.advance)
        return PacedCluster(self._cluster, pacer, self._verbs)
