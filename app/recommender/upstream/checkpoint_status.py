"""Writes a checkpoint by its name alone, whosever it is, as upstream does."""

from __future__ import annotations

from app.model.errors import NotFound
from app.ports import CHECKPOINTS, Cluster, Ref
from app.recommender.core.checkpoints import Checkpoint, to_json


def put_status(cluster: Cluster, one: Checkpoint) -> None:
    """Replace the status of a checkpoint, or create it.

    Raises:
        ClusterError: it was not written.
    """
    item = to_json(one)
    body = [{"op": "replace", "path": "/status", "value": item["status"]}]
    try:
        cluster.patch(Ref(CHECKPOINTS, one.namespace, one.name), body)
    except NotFound:
        cluster.create(Ref(CHECKPOINTS, one.namespace), item)
