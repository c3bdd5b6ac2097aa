"""Where usage is read: what a source looks like, and `metrics.k8s.io`, the usual one.

Strategy: whatever a source reads, it yields items as `metrics.k8s.io` lists them, page by page,
so from there on all sources are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

from app.model.fields import Object
from app.model.snapshot import Snapshot
from app.ports import POD_METRICS, Cluster
from app.recommender.core.skipped import SkippedObjects
from app.recommender.core.targets import ObservedVpa
from app.recommender.listing import listed


class UsageSource(Protocol):
    """Where usage is read."""

    def pages(
        self,
        vpas: Iterable[ObservedVpa],
        snapshot: Snapshot,
        may_ask: Callable[[], bool],
        skipped: SkippedObjects,
    ) -> Iterator[Sequence[Object]]:
        """Yield items as `metrics.k8s.io` lists them, at least for the pods of these VPAs.

        Raises:
            ClusterError: not everything could be read; what could has been yielded.
        """
        ...


class PodMetrics:
    """Usage of all pods, from `metrics.k8s.io`."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self._cluster = cluster
        self._namespace = namespace

    def pages(
        self,
        vpas: Iterable[ObservedVpa],
        snapshot: Snapshot,
        may_ask: Callable[[], bool],
        skipped: SkippedObjects,
    ) -> Iterator[Sequence[Object]]:
        """Yield the items of each page.

        Raises:
            ClusterError: not everything could be read; what could has been yielded.
        """
        del vpas, snapshot, skipped
        return listed(self._cluster, POD_METRICS, self._namespace, may_ask)
