"""The checkpoints of a cluster: lists them, finds orphans, and writes them.

Strategy: orphans are found only with complete lists, of checkpoints first and then of VPAs. What
is no readable checkpoint stays: whether it is an orphan is not known.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from itertools import chain
from typing import Protocol

from app.model.errors import BadObject, Conflict, Invalid, NotFound
from app.model.fields import Object, object_at, text_at
from app.ports import CHECKPOINTS, VPAS, Cluster, Json, PatchKind, Ref, Resource
from app.recommender.core.checkpoints import (
    Checkpoint,
    CheckpointName,
    orphans,
    own_annotations,
    patch_of,
    to_json,
)
from app.recommender.paging import leavable, listed


class CheckpointSource(Protocol):
    """Where checkpoints are read, as long as that may go on."""

    def items(
        self, namespaces: Collection[str] | None, may_continue: Callable[[], bool]
    ) -> Iterable[Object]:
        """Return all checkpoints, or those of some namespaces.

        Raises:
            ClusterError: not all of them could be read.
        """
        ...

    def orphans(
        self, kept_namespaces: Collection[str], may_continue: Callable[[], bool]
    ) -> list[CheckpointName]:
        """Return the checkpoints whose VPA does not exist, but those in some namespaces.

        Raises:
            ClusterError: checkpoints or VPAs could not be read.
            BadObject: a VPA has no name.
        """
        ...


class ClusterCheckpoints:
    """Checkpoints of a cluster, or of one of its namespaces."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self._cluster = cluster
        self._namespace = namespace

    def items(
        self, namespaces: Collection[str] | None, may_continue: Callable[[], bool]
    ) -> Iterable[Object]:
        """Yield checkpoints as they are read."""
        places = [self._namespace] if namespaces is None else sorted(namespaces)
        return chain.from_iterable(
            self._items(CHECKPOINTS, place, may_continue) for place in places
        )

    def orphans(
        self, kept_namespaces: Collection[str], may_continue: Callable[[], bool]
    ) -> list[CheckpointName]:
        """Return the checkpoints whose VPA does not exist, but those in some namespaces."""
        # In this order: the VPA of a checkpoint that is there already is in the second list.
        names = list(checkpoint_names(self._items(CHECKPOINTS, self._namespace, may_continue)))
        vpas = {name_of(item) for item in self._items(VPAS, self._namespace, may_continue)}
        return orphans(names, vpas, kept_namespaces=kept_namespaces)

    def _items(
        self, resource: Resource, namespace: str, may_continue: Callable[[], bool]
    ) -> Iterator[Json]:
        pages = listed(self._cluster, resource, namespace, may_continue)
        for page in leavable(resource.plural, pages, may_continue):
            yield from page


def put_checkpoint(cluster: Cluster, one: Checkpoint) -> None:
    """Bring a checkpoint up to date, or create it.

    Raises:
        ClusterError: it was not written.
    """
    item, ref = to_json(one), Ref(CHECKPOINTS, one.namespace, one.name)
    body = patch_of(item)
    try:
        cluster.patch(ref, body)
    except NotFound:
        cluster.create(Ref(CHECKPOINTS, one.namespace), item)
    except Invalid:
        if not _annotated(cluster, one, item):
            raise
        cluster.patch(ref, body)


def _annotated(cluster: Cluster, one: Checkpoint, item: Json) -> bool:
    """Annotate a checkpoint that has no annotations at all, and return whether it was one.

    Raises:
        Conflict: it belongs to another container.
    """
    field = f"metadata.name={one.name}"
    for stored in cluster.list(CHECKPOINTS, one.namespace, field_selector=field).items:
        metadata = object_at(stored, "metadata", "")
        if stored.get("spec") != item["spec"]:
            whose = f"container {one.container} of VPA {one.vpa}"
            name = f"checkpoint {one.namespace}/{one.name}"
            raise Conflict(f"{name} cannot be written for {whose}: it belongs to another one")
        if not metadata.get("annotations"):
            ours = {"uid": metadata.get("uid"), "annotations": own_annotations(item)}
            ref = Ref(CHECKPOINTS, one.namespace, one.name)
            cluster.patch(ref, {"metadata": ours}, kind=PatchKind.MERGE)
            return True
    return False


def checkpoint_names(items: Iterable[Object]) -> Iterator[CheckpointName]:
    """Yield which checkpoints they are, whatever else is in them; none without a VPA."""
    for item in items:
        with suppress(BadObject):
            if vpa := text_at(object_at(item, "spec", ""), "vpaObjectName", "spec"):
                uid = text_at(object_at(item, "metadata", ""), "uid", "metadata")
                yield CheckpointName(*name_of(item), vpa, uid)


def name_of(item: Object) -> tuple[str, str]:
    """Return the namespace and the name of an object.

    Raises:
        BadObject: one of them is no text.
    """
    metadata = object_at(item, "metadata", "")
    return text_at(metadata, "namespace", "metadata"), text_at(metadata, "name", "metadata")
