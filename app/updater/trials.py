"""Create a pod on trial, as its owner would create the next one; nothing is stored.

Strategy: whatever goes wrong tells nothing about the webhook, so it is logged and there is no
answer.
"""

from __future__ import annotations

import logging
from typing import Final

from app.model.errors import BadObject, ClusterError
from app.model.fields import Object, object_at
from app.model.kinds import ObjectKey
from app.model.pods import Pod, read_pod
from app.ports import PODS, WORKLOADS, Cluster, Json, Ref

log = logging.getLogger("updater.trials")

_BUILT_IN: Final = {resource.kind: resource for resource in WORKLOADS}


class Trials:
    """Creates pods on trial; the right to create pods is needed."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def created(self, owner: ObjectKey, pod: Pod) -> Pod | None:
        """Return what a new pod of the owner of `pod` looks like, None if that cannot be told."""
        resource = _BUILT_IN.get(owner.kind) if owner.is_built_in else None
        if resource is None:
            return None
        try:
            found = self._cluster.get(Ref(resource, pod.namespace, owner.name))
            body = new_pod(found, resource.api_version, owner)
            return read_pod(self._cluster.create(Ref(PODS, pod.namespace), body, dry_run=True))
        except (ClusterError, BadObject) as error:
            extra = {"owner": str(owner), "namespace": pod.namespace, "error": str(error)}
            log.warning("no pod created on trial", extra=extra)
            return None


def new_pod(found: Object, api_version: str, owner: ObjectKey) -> Json:
    """Return a pod as a controller makes it from its template."""
    template = object_at(object_at(found, "spec", ""), "template", "spec")
    wanted = object_at(template, "metadata", "spec.template")
    reference = {
        "apiVersion": api_version,
        "kind": owner.kind,
        "name": owner.name,
        "uid": object_at(found, "metadata", "").get("uid"),
        "controller": True,
        "blockOwnerDeletion": True,
    }
    metadata = {key: wanted[key] for key in ("labels", "annotations") if key in wanted}
    return {
        "apiVersion": PODS.api_version,
        "kind": PODS.kind,
        "metadata": {
            **metadata,
            "generateName": f"{owner.name}-",
            "ownerReferences": [reference],
        },
        "spec": object_at(template, "spec", "spec.template"),
    }
