"""What a process knows of the cluster: live, or as it was recorded in files."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Protocol

from app.adapters.files import Document, Unreadable, documents
from app.adapters.kube import KubeCluster
from app.adapters.mirror import Mirror, Source
from app.adapters.owners import LiveOwners
from app.adapters.recorded import RecordedCluster
from app.model.errors import BadObject, ClusterError
from app.model.fields import Object
from app.model.kinds import ObjectKey, owner_key
from app.model.limits import read_limit_range
from app.model.snapshot import Collection
from app.model.vpa import Vpa, read_vpa, without_status
from app.model.workloads import read_workload
from app.ports import LIMIT_RANGES, VPAS, WORKLOADS, Clock, Cluster, Json, Resource
from app.settings.shared import Scope
from app.web.reviews import Sources
from app.wiring.clock import SystemClock

log = logging.getLogger(__name__)

_MOST_STALE_SECONDS = 300.0
_OWNER_SECONDS = 3.0


class Knowledge(Protocol):
    """Where reviews are answered from."""

    sources: Sources

    def problem(self) -> str:
        """Say why answers would be given without knowledge; empty when all is well."""
        ...

    def watch_ages(self) -> Mapping[str, float]:
        """Return for each watched resource how long nothing was heard, in seconds."""
        ...


def recorded_cluster(found: Iterable[Document | Unreadable]) -> RecordedCluster:
    """Return the cluster that files describe; what cannot be used is logged."""
    recorded = RecordedCluster(found)
    for problem in recorded.problems:
        log.warning("object not used", extra={"place": problem.place, "problem": problem.message})
    return recorded


class RecordedKnowledge:
    """A cluster in files: known from the start, and always the same."""

    def __init__(self, paths: Sequence[Path]) -> None:
        recorded = recorded_cluster(documents([str(path) for path in paths]))
        self.sources = Sources(lambda: recorded.snapshot, recorded, recorded, SystemClock())

    def problem(self) -> str:
        """Nothing can be wrong with what does not change."""
        return ""

    def watch_ages(self) -> Mapping[str, float]:
        """Nothing is watched."""
        return {}


class LiveKnowledge:
    """A cluster behind an API server, mirrored."""

    def __init__(self, connect: Callable[[], KubeCluster], scope: Scope, clock: Clock) -> None:
        self._clock = clock
        cluster = connect()
        sources = [_source(resource, scope.namespace) for resource in (VPAS, LIMIT_RANGES)]
        sources += [_source(resource, scope.namespace) for resource in WORKLOADS]
        self._mirror = Mirror(cluster, clock, sources, jitter=random.random)
        # Reviews wait for these; they do not queue behind lists, and give up soon.
        owners = LiveOwners(connect().within(_OWNER_SECONDS), clock)
        siblings = ListedSiblings(cluster)
        self.sources = Sources(lambda: self._mirror.snapshot, owners, siblings, clock)
        self._mirror.start()
        owners.start()

    def problem(self) -> str:
        """Say which resource is not known, or not fresh."""
        for standing in self._mirror.standings(self._clock.now()):
            if not standing.synced and not standing.missing:
                return f"{standing.resource.plural} are not read yet {standing.problem}".strip()
            if standing.stale_seconds > _MOST_STALE_SECONDS:
                return f"nothing was heard of {standing.resource.plural} for too long"
        return ""

    def watch_ages(self) -> Mapping[str, float]:
        """Return the silence of each watch."""
        standings = self._mirror.standings(self._clock.now())
        return {found.resource.plural: found.stale_seconds for found in standings}


class ListedSiblings:
    """The VPAs of a namespace as the API server has them."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def of(self, namespace: str) -> tuple[Vpa, ...] | None:
        """Return the VPAs of a namespace; None if they cannot be read."""
        found: list[Vpa] = []
        token = ""
        try:
            while True:
                page = self._cluster.list(VPAS, namespace, limit=500, continue_token=token)
                found.extend(vpa for item in page.items if (vpa := _vpa(item)) is not None)
                token = page.continue_token
                if not token:
                    return tuple(found)
        except ClusterError as error:
            log.warning("siblings not read", extra={"namespace": namespace, "error": str(error)})
            return None


def _vpa(item: Object) -> Vpa | None:
    """Read a VPA; one with a broken status still counts without it, a broken one does not."""
    try:
        return read_vpa(item, with_bounds=False)
    except BadObject as error:
        if not error.path.startswith("status"):
            return None
        return read_vpa(without_status(item), with_bounds=False)


def _mirrored_vpa(item: Json) -> Vpa:
    try:
        return read_vpa(item, with_bounds=False)
    except BadObject as error:
        if not error.path.startswith("status"):
            raise
        metadata = item.get("metadata") or {}
        name = f"{metadata.get('namespace')}/{metadata.get('name')}"
        log.warning("status left out", extra={"vpa": name, "problem": str(error)})
        return read_vpa(without_status(item), with_bounds=False)


def _source(resource: Resource, namespace: str) -> Source:
    if resource is VPAS:
        return Source(resource, Collection.VPAS, _mirrored_vpa, namespace=namespace)
    if resource is LIMIT_RANGES:
        return Source(resource, Collection.LIMIT_RANGES, read_limit_range, namespace=namespace)
    return Source(
        resource,
        Collection.WORKLOADS,
        partial(
            read_workload,
            kind=resource.kind,
            api_version=resource.api_version,
            with_template=False,
        ),
        key=partial(_key, resource),
        namespace=namespace,
    )


def _key(resource: Resource, name: str) -> ObjectKey:
    return owner_key(resource.api_version, resource.kind, name)
