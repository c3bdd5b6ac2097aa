"""Reads which checkpoints are stored, and which of them are orphans.

Strategy: orphans are found only with complete lists, of checkpoints first and then of VPAs. What
is no readable checkpoint stays: it cannot be told that it is an orphan.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from typing import Protocol

from app.model.errors import BadObject
from app.model.fields import Object, object_at, text_at
from app.ports import CHECKPOINTS, VPAS, Cluster, Json, Resource
from app.recommender.core.checkpoints import Checkpoint
from app.recommender.core.history import orphans
from app.recommender.paging import leavable, listed

CheckpointName = tuple[str, str, str]  # namespace, name, and uid if it is known


class CheckpointReader(Protocol):
    """Where checkpoints are read."""

    def items(self) -> Iterator[Object]:
        """Yield all checkpoints.

        Raises:
            ClusterError: not all of them could be read.
        """
        ...

    def orphans(self, kept_namespaces: Collection[str]) -> list[CheckpointName]:
        """Return the checkpoints whose VPA does not exist, but those in some namespaces.

        Raises:
            ClusterError: checkpoints or VPAs could not be read.
            BadObject: a VPA has no name.
        """
        ...


class ClusterCheckpoints:
    """Checkpoints of a cluster, or of one of its namespaces."""

    def __init__(self, cluster: Cluster, namespace: str, may_read: Callable[[], bool]) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self._may_read = may_read

    def items(self) -> Iterator[Object]:
        """Yield all checkpoints.

        Raises:
            ClusterError: not all of them could be read.
        """
        return self._items(CHECKPOINTS)

    def orphans(self, kept_namespaces: Collection[str]) -> list[CheckpointName]:
        """Return the checkpoints whose VPA does not exist, but those in some namespaces.

        Raises:
            ClusterError: checkpoints or VPAs could not be read.
            BadObject: a VPA has no name.
        """
        # In this order: the VPA of a checkpoint that is there already is in the second list.
        owned = list(identities(self._items(CHECKPOINTS)))
        vpas = {name_of(item) for item in self._items(VPAS)}
        uids = {(one.namespace, one.name): uid for one, uid in owned}
        found = orphans((one for one, _ in owned), vpas, kept_namespaces=kept_namespaces)
        return [(one.namespace, one.name, uids[one.namespace, one.name]) for one in found]

    def _items(self, resource: Resource) -> Iterator[Json]:
        pages = listed(self._cluster, resource, self._namespace, self._may_read)
        for page in leavable(pages, self._may_read):
            yield from page


def identities(items: Iterable[Object]) -> Iterator[tuple[Checkpoint, str]]:
    """Yield to which VPA each checkpoint belongs, whatever else is in it, and its uid."""
    for item in items:
        with suppress(BadObject):
            if vpa := text_at(object_at(item, "spec", ""), "vpaObjectName", "spec"):
                uid = text_at(object_at(item, "metadata", ""), "uid", "metadata")
                yield Checkpoint(*name_of(item), vpa, ""), uid


def name_of(item: Object) -> tuple[str, str]:
    """Return the namespace and the name of an object.

    Raises:
        BadObject: one of them is no text.
    """
    metadata = object_at(item, "metadata", "")
    return text_at(metadata, "namespace", "metadata"), text_at(metadata, "name", "metadata")
