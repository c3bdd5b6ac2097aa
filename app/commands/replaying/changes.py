"""Objects that come, change and go, as far as a replay looks at them.

Strategy: an object is read once, when it is met, so that whatever is wrong with it is told with
its place. Kinds that play no part are no changes at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from app.model.errors import BadObject
from app.model.fields import Object, object_at, text_at
from app.model.kinds import group_of
from app.model.snapshot import (
    Collection,
    Replacement,
    object_identity,
    removal,
    replacement,
    without_broken_status,
)
from app.model.vpa import VPA_GROUP
from app.recommender.core import checkpoints
from app.recommender.core.checkpoints import read_checkpoint


class RecordedKind(StrEnum):
    """What changes."""

    VPA = "VPA"
    POD = "pod"
    WORKLOAD = "workload"
    CHECKPOINT = "checkpoint"
    EVENT = "event"  # of an eviction
    CUSTOM = "custom"  # objects that can be scaled, and the definitions of their kinds


@dataclass(frozen=True, slots=True)
class RecordedChange:
    """One object that came, changed, or (value None) went."""

    subject: RecordedKind
    namespace: str
    key: Any  # a name, or what identifies the object beside its namespace
    value: Any


_SUBJECTS: Final = {
    Collection.VPAS: RecordedKind.VPA,
    Collection.PODS: RecordedKind.POD,
    Collection.WORKLOADS: RecordedKind.WORKLOAD,
}
_API_VERSIONS: Final = {  # of objects that do not say
    "Pod": "v1",
    "Event": "v1",
    "ReplicationController": "v1",
    "DaemonSet": "apps/v1",
    "Deployment": "apps/v1",
    "ReplicaSet": "apps/v1",
    "StatefulSet": "apps/v1",
    "Job": "batch/v1",
    "CronJob": "batch/v1",
    "VerticalPodAutoscaler": checkpoints.API_VERSION,
    checkpoints.KIND: checkpoints.API_VERSION,
    "CustomResourceDefinition": "apiextensions.k8s.io/v1",
}


def read_change(item: Object) -> tuple[RecordedChange | None, str]:
    """Read an object, None if it plays no part; and what had to be left out of it.

    Raises:
        BadObject: it cannot be read.
    """
    try:
        return _read(item), ""
    except BadObject as error:
        if item.get("kind") == checkpoints.KIND:
            raise
        return _read(without_broken_status(item, error)), f"{error}; status left out"


def _read(item: Object) -> RecordedChange | None:
    item = _complete(item)
    api_version, kind, namespace, name = object_identity(item)
    if (group_of(api_version), kind) == ("", "Event"):
        return _eviction(item, namespace, name)
    if not name:
        raise BadObject("metadata.name", "is missing")
    if (group_of(api_version), kind) == (VPA_GROUP, checkpoints.KIND):
        return RecordedChange(
            RecordedKind.CHECKPOINT, namespace, name, _checkpoint(item, namespace)
        )
    if (found := replacement(item)) is not None:
        return _change(found)
    return _custom(api_version, kind, namespace, name, item)


def removal_of(item: Object) -> RecordedChange | None:
    """Read which object went: kind, namespace and name, at the top or inside of metadata.

    Raises:
        BadObject: that cannot be told.
    """
    if "metadata" not in item:
        item = {**item, "metadata": {key: item.get(key) for key in ("namespace", "name")}}
    if not item.get("apiVersion") and item.get("kind") not in _API_VERSIONS:
        item = {**item, "apiVersion": "."}  # some custom kind
    item = _complete(item)
    api_version, kind, namespace, name = object_identity(item)
    if not name:
        raise BadObject("name", "is missing")
    if (group_of(api_version), kind) == ("", "Event"):
        return RecordedChange(RecordedKind.EVENT, namespace, name, None)
    if (group_of(api_version), kind) == (VPA_GROUP, checkpoints.KIND):
        return RecordedChange(RecordedKind.CHECKPOINT, namespace, name, None)
    if (found := removal(api_version, kind, namespace, name)) is not None:
        return _change(found)
    return _custom(api_version, kind, namespace, name, None)


def _complete(item: Object) -> Object:
    kind = text_at(item, "kind", "")
    if not kind:
        raise BadObject("kind", "is missing")
    if item.get("apiVersion"):
        return item
    if kind not in _API_VERSIONS:
        raise BadObject("apiVersion", "is missing")
    return {**item, "apiVersion": _API_VERSIONS[kind]}


def _change(found: Replacement) -> RecordedChange | None:
    subject = _SUBJECTS.get(found.collection)
    if subject is None:
        return None
    return RecordedChange(subject, found.namespace, found.key, found.value)


def _checkpoint(item: Object, namespace: str) -> checkpoints.Checkpoint:
    metadata = object_at(item, "metadata", "")
    return read_checkpoint({**item, "metadata": {**metadata, "namespace": namespace}})


def _eviction(item: Object, namespace: str, name: str) -> RecordedChange | None:
    if text_at(item, "reason", "") != "Evicted":
        return None
    involved = {"namespace": namespace, **object_at(item, "involvedObject", "")}
    return RecordedChange(RecordedKind.EVENT, namespace, name, {**item, "involvedObject": involved})


def _custom(
    api_version: str, kind: str, namespace: str, name: str, value: Object | None
) -> RecordedChange | None:
    """Return the change of a custom object; what Kubernetes itself brings is never scaled."""
    if "." not in api_version:
        return None
    return RecordedChange(RecordedKind.CUSTOM, namespace, (kind, name), value)
