"""Small questions to objects of the API, which are plain JSON here, and their conditions.

Strategy: an object in the store is never changed in place. To change one, take a
copy, and a copy is made by writing and reading it, which also proves that it is JSON.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import orjson

from app.model.errors import BadObject
from app.model.fields import time_at
from app.model.selectors import NOTHING, Selector
from app.model.times import rfc3339
from app.ports import Json, Resource

JsonValue = Any  # whatever JSON can say


class Key(NamedTuple):
    """What identifies an object inside its collection."""

    namespace: str
    name: str


def collection_of(resource: Resource) -> str:
    """Return a resource as errors tell it, `deployments.apps`."""
    return dotted(resource.plural, resource.group)


def dotted(word: str, group: str) -> str:
    """Return a word of a group of the API."""
    return f"{word}.{group}" if group else word


def copied(item: Json) -> Json:
    """Return a copy that shares nothing with the original."""
    found: Json = orjson.loads(orjson.dumps(item))
    return found


def key_of(item: Json) -> Key:
    """Return the key of an object."""
    metadata = item["metadata"]
    return Key(metadata.get("namespace", ""), metadata["name"])


def uid_of(item: Json) -> str:
    """Return the uid of an object."""
    return str(item["metadata"]["uid"])


def labels_of(item: Json) -> Mapping[str, str]:
    """Return the labels of an object."""
    return item["metadata"].get("labels") or {}


def is_deleted(item: Json) -> bool:
    """Whether deletion was asked for."""
    return bool(item["metadata"].get("deletionTimestamp"))


def seconds_since(condition: Json | None, now: datetime) -> float:
    """Return how long ago a condition turned over; 0 if that is not known."""
    moment = time_at(condition or {}, "lastTransitionTime", "")
    return (now - moment).total_seconds() if moment else 0.0


def member(item: JsonValue, path: str) -> JsonValue:
    """Return what is at a path such as `spec.replicas`, None if it is not there."""
    for part in path.split("."):
        if not isinstance(item, dict):
            return None
        item = item.get(part)
    return item


def set_member(item: Json, path: str, value: object) -> None:
    """Put something at a path such as `spec.replicas`."""
    *parents, last = path.split(".")
    for part in parents:
        item = item.setdefault(part, {})
    item[last] = value


def selector_of(item: Json) -> Selector:
    """Return the label selector of an object; one that cannot be read selects nothing."""
    selector = member(item, "spec.selector")
    try:
        if item["kind"] == "ReplicationController":
            return Selector.of_labels(dict(sorted((selector or {}).items())))
        return Selector.read(selector, "spec.selector")
    except (BadObject, TypeError):
        return NOTHING


def controller_of(item: Json) -> Json | None:
    """Return the reference to the owner that controls an object."""
    references = item["metadata"].get("ownerReferences") or ()
    return next((found for found in references if found.get("controller")), None)


def owner_reference(resource: Resource, owner: Json) -> Json:
    """Return a reference that makes an owner the controller."""
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def containers_of(spec: Json) -> Iterator[tuple[str, Json]]:
    """Yield the containers of a pod spec with their paths, init containers last."""
    for key in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(key) or ()):
            yield f"{key}[{index}]", container


def is_active(pod: Json) -> bool:
    """Whether a pod has not ended and is not about to."""
    return not is_deleted(pod) and not has_ended(pod)


def has_ended(pod: Json) -> bool:
    """Whether all containers of a pod have ended for good."""
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


class ObjectCondition(NamedTuple):
    """What is to be said of an object."""

    type: str
    status: str
    reason: str = ""
    message: str = ""


def condition_of(item: Json, kind: str) -> Json | None:
    """Return a condition of an object's status."""
    conditions: Sequence[Json] = (item.get("status") or {}).get("conditions") or ()
    return next((found for found in conditions if found.get("type") == kind), None)


def is_ready(pod: Json) -> bool:
    """Whether a pod is Ready."""
    condition = condition_of(pod, "Ready")
    return condition is not None and condition.get("status") == "True"


def set_condition(item: Json, condition: ObjectCondition, now: datetime, **more: object) -> None:
    """Put a condition into the status of an object; its time changes only if it turns over."""
    conditions = item.setdefault("status", {}).setdefault("conditions", [])
    old = condition_of(item, condition.type)
    since = rfc3339(now)
    if old is not None and old.get("status") == condition.status:
        since = old.get("lastTransitionTime") or since
    new: Json = {"type": condition.type, "status": condition.status, "lastTransitionTime": since}
    new |= {key: text for key, text in condition._asdict().items() if text and key not in new}
    new |= more
    if old is None:
        conditions.append(new)
    else:
        conditions[conditions.index(old)] = new
