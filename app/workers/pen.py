"""Writes what the recommender has to say: statuses, checkpoints, and deletions of checkpoints.

Strategy: several writes side by side, none begun after its deadline or without the right to
write. What failed is returned, told once in the log, and comes again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from app.core.recommendation.checkpoints import Checkpoint, patch_of, to_json
from app.core.recommendation.publications import Publication
from app.core.recommendation.status import status_patch
from app.model.errors import ClusterError, NotFound
from app.ports import CHECKPOINTS, VPAS, Clock, Cluster

log = logging.getLogger(__name__)

T = TypeVar("T")


class Pen:
    """Writes with some threads."""

    def __init__(
        self, cluster: Cluster, clock: Clock, threads: int, *, parity: bool = False
    ) -> None:
        self._cluster = cluster
        self._clock = clock
        self._threads = threads
        self._parity = parity

    def publish(
        self, publications: Sequence[Publication], seconds: float, may: Callable[[], bool]
    ) -> list[Publication]:
        """Write statuses; return those that were not written."""
        return self._each(publications, self._status, seconds, may)

    def store(
        self, checkpoints: Sequence[Checkpoint], seconds: float, may: Callable[[], bool]
    ) -> list[Checkpoint]:
        """Write checkpoints; return those that were not written."""
        return self._each(checkpoints, self._checkpoint, seconds, may)

    def drop(
        self, names: Iterable[tuple[str, str, str]], seconds: float, may: Callable[[], bool]
    ) -> list[tuple[str, str, str]]:
        """Delete checkpoints by namespace, name and uid; return those that were not deleted."""
        return self._each(list(names), self._delete, seconds, may)

    def _each(
        self,
        tasks: Sequence[T],
        write: Callable[[T], None],
        seconds: float,
        may: Callable[[], bool],
    ) -> list[T]:
        if not tasks:
            return []
        until = self._clock.monotonic() + seconds

        def attempt(task: T) -> str:
            if not may():
                return "no longer the leader"
            if self._clock.monotonic() >= until:
                return "the time for it was over"
            try:
                write(task)
            except ClusterError as error:
                return str(error) or type(error).__name__
            return ""

        with ThreadPoolExecutor(min(self._threads, len(tasks)), "pen") as pool:
            errors = list(pool.map(attempt, tasks))
        failed = [task for task, error in zip(tasks, errors, strict=True) if error]
        if failed:
            extra = {"failed": len(failed), "error": next(filter(None, errors))}
            log.warning("not everything was written", extra=extra)
        return failed

    def _status(self, one: Publication) -> None:
        body = status_patch(one.status)
        self._cluster.patch(VPAS, one.namespace, one.name, body, subresource="status")

    def _checkpoint(self, one: Checkpoint) -> None:
        item = to_json(one)
        body = patch_of(item, parity=self._parity)
        try:
            self._cluster.patch(CHECKPOINTS, one.namespace, one.name, body)
        except NotFound:
            self._cluster.create(CHECKPOINTS, one.namespace, item)

    def _delete(self, one: tuple[str, str, str]) -> None:
        namespace, name, uid = one
        try:
            self._cluster.delete(CHECKPOINTS, namespace, name, uid=uid)
        except NotFound:
            log.debug("checkpoint was gone", extra={"namespace": namespace, "checkpoint": name})
