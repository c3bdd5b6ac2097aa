"""Writes one checkpoint, unless the stored object of that name belongs to another container."""

from __future__ import annotations

from app.model.errors import Conflict, Invalid, NotFound
from app.model.fields import object_at
from app.ports import CHECKPOINTS, Cluster, Json, PatchKind, Ref
from app.recommender.core.checkpoints import Checkpoint, own_annotations, patch_of, to_json


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
