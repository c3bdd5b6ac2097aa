"""What a process knows of the cluster: live, or as it was recorded in files."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from itertools import chain
from math import inf
from pathlib import Path

from app.admission.flags import Decisions
from app.admission.reviews import ReviewRules, Sources
from app.flags.shared import Horizontal, Scope
from app.kube.files import RecordedCluster, documents, given_objects
from app.kube.listing import pages
from app.kube.watch_cache import WatchAge
from app.kube.watched_resources import (
    WatchedResource,
    watched_scalers,
    watched_vpas,
    watched_workloads,
)
from app.model.errors import BadObject, BadSetting, ClusterError
from app.model.fields import Object
from app.model.gates import ServerVersion, read_version
from app.model.limits import read_limit_range
from app.model.snapshot import Collection
from app.model.vpa import Vpa, read_vpa, without_status
from app.ports import LIMIT_RANGES, VPAS, Cluster, LimitReached
from app.runtime.access import Guard, guard_of
from app.runtime.garbage import without_collection
from app.runtime.live import Connection, Runtime, WatchedCluster

log = logging.getLogger("admission.objects")

_MOST_STALE_SECONDS = 300.0
_LOOKUP_SECONDS = 3.0
_VERSION_SECONDS = 600.0
_PAGE = 100  # VPAs of a list, each of which may have a MB


def recorded_sources(recorded: RecordedCluster) -> Sources:
    """Return the cluster that files describe, which nothing changes."""
    return Sources(lambda: recorded.snapshot, recorded, recorded, is_live=False)


def check_files(paths: Sequence[Path]) -> None:
    """See whether every process can read these files and folders.

    Raises:
        BadSetting: one of them is not there, cannot be read, or can be read only once.
    """
    for path in paths:
        if not path.exists():
            raise BadSetting(f"{path}: No such file or directory")
        if not os.access(path, os.R_OK):
            raise BadSetting(f"{path}: Permission denied")
        if not path.is_dir() and not path.is_file():
            raise BadSetting(f"{path}: several processes have to read it, so it must be a file")
    for _ in given_objects(paths, []):  # which raises
        pass


class RecordedKnowledge:
    """A cluster in files: known from the start, and always the same."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._problem = ""
        try:
            with without_collection():
                recorded = RecordedCluster(
                    chain.from_iterable(documents(str(path)) for path in paths)
                )
        except BadSetting as error:
            log.exception("objects not read")
            self._problem, recorded = str(error), RecordedCluster(())
        for problem in recorded.problems:
            extra = {"place": problem.place, "problem": problem.message}
            log.warning("object not used as it is", extra=extra)
        self.sources = recorded_sources(recorded)

    def guard(self, _host: str) -> Guard:
        """Return that all may ask: no API server knows who they are."""
        return Guard()

    def problem(self) -> str:
        """Say why the objects could not be read; what does not change stays as it is."""
        return self._problem

    def watch_ages(self) -> Mapping[str, WatchAge]:
        """Nothing is watched."""
        return {}

    def close(self) -> None:
        """Nothing is open."""


class LiveKnowledge(WatchedCluster):
    """A cluster behind an API server, mirrored."""

    def __init__(
        self,
        connect: Callable[[], Connection],
        scope: Scope,
        runtime: Runtime,
        reached: LimitReached,
        horizontal: Horizontal = Horizontal.HOLD,
        *,
        role_leases: bool = False,
    ) -> None:
        # Reviews wait for look-ups: these queue neither behind whole lists nor behind each
        # other's kind, and give up soon.
        self._connections = [connect() for _ in range(5)]
        for_watches, for_leases, for_owners, for_siblings, for_access = self._connections
        at = scope.namespace
        watched = [
            watched_vpas(at, log, partial(read_vpa, with_bounds=False)),
            WatchedResource(LIMIT_RANGES, Collection.LIMIT_RANGES, read_limit_range, namespace=at),
            *watched_workloads(at, with_template=False),
        ]
        if horizontal is Horizontal.HOLD:
            watched += watched_scalers(at)
        owners = for_owners.within(_LOOKUP_SECONDS)
        super().__init__(
            runtime, for_watches, for_leases, owners, watched, reached, role_leases=role_leases
        )
        self._reached = reached
        self._server: ServerVersion | None = None
        self._asked_at = -inf  # for the server's version
        self.sources = Sources(
            self.snapshot,
            self.owners,
            ListedSiblings(for_siblings.within(_LOOKUP_SECONDS)),
            is_read=self._is_read,
            server_version=lambda: self._server,
        )
        self._access = for_access.within(_LOOKUP_SECONDS)
        self._was_read = False
        self.start()

    def refresh(self, now: datetime) -> float:
        """Have read again what was looked up, and now and then the version of the API server."""
        if self._clock.monotonic() - self._asked_at >= _VERSION_SECONDS:
            self._asked_at = self._clock.monotonic()
            with suppress(ClusterError):  # then the version that was known stands
                found = self._access.request("GET", "/version").get("gitVersion")
                self._server = read_version(str(found))
        return super().refresh(now)

    def close(self) -> None:
        """Watch no more, and look nothing up."""
        self.stop()
        for connection in self._connections:
            connection.close()
        self._mirror.join(_LOOKUP_SECONDS)

    def _is_read(self) -> bool:
        """Whether everything was read; from then on the snapshot is whole, though it may be old."""
        self._was_read = self._was_read or self._mirror.is_read
        return self._was_read

    def guard(self, host: str) -> Guard:
        """Return who may ask at an address what would become of a review."""
        return guard_of(host, None, self._access, self._clock, self._reached)

    def problem(self) -> str:
        """Say which resource is not known, or not fresh."""
        for standing in self.standings():
            if standing.unread:
                return standing.unread
            if standing.stale_seconds > _MOST_STALE_SECONDS and not standing.is_done_without:
                return f"nothing was heard of {standing.resource.plural} for too long"
        return ""


class ListedSiblings:
    """The VPAs of a namespace as the API server has them."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def of(self, namespace: str) -> tuple[Vpa, ...] | None:
        """Return the VPAs of a namespace; None if they cannot be read."""
        try:
            found = pages(self._cluster, VPAS, namespace, limit=_PAGE)
            return tuple(vpa for page in found for vpa in _siblings(page.items))
        except ClusterError as error:
            log.warning("siblings not read", extra={"namespace": namespace, "error": str(error)})
            return None

    def named(self, namespace: str, name: str) -> Vpa | None:
        """Return one VPA by listing it, for lists are our right; a bad one takes no pods."""
        page = self._cluster.list(VPAS, namespace, field_selector=f"metadata.name={name}")
        return next(_siblings(page.items), None)


def _siblings(items: Iterable[Object]) -> Iterator[Vpa]:
    """Yield VPAs by their specs; one that cannot be read takes no pods."""
    for item in items:
        with suppress(BadObject):
            yield read_vpa(without_status(item))


def review_rules(decisions: Decisions) -> ReviewRules:
    """Return the rules of reviews."""
    return ReviewRules(
        decisions.gates,
        decisions.max_cpu_boost,
        decisions.native_sidecars,
        disjointness=decisions.disjointness,
    )
