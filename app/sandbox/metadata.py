"""The metadata of objects: what the server sets itself, and what it refuses."""

from __future__ import annotations

import re
from collections.abc import Iterator
from random import Random
from typing import Final

from app.model.selectors import key_flaws, value_flaws
from app.ports import Json
from app.sandbox.objects import is_deleted
from app.sandbox.refusals import (
    FieldProblem,
    bad_request,
    forbidden_field,
    immutable,
    other_uid,
    required,
    wrong,
)
from app.sandbox.served_kinds import ServedKind

_SYSTEM: Final = (
    "uid",
    "creationTimestamp",
    "generation",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "resourceVersion",
    "generateName",
    "selfLink",
    "managedFields",
)
_NOT_GENERATED: Final = tuple(name for name in _SYSTEM if name != "generateName")
_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LONGEST_NAME: Final = 253
_LONGEST_BASE: Final = 58  # of a generated name
LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"  # that make no words
SUFFIX_LENGTH: Final = 5
_NO_SUBDOMAIN: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character"
)


def identified(kind: ServedKind, namespace: str, body: Json) -> Json:
    """Check whose object a body is and return it with full apiVersion, kind and metadata."""
    for key, wanted in (("apiVersion", kind.resource.api_version), ("kind", kind.resource.kind)):
        if body.setdefault(key, wanted) != wanted:
            raise bad_request(f"the {key} in the body, {body[key]!r}, is not {wanted!r}")
    metadata = body.setdefault("metadata", {})
    if not isinstance(metadata, dict):
        raise bad_request("metadata is no object")
    for key in ("labels", "annotations"):
        _check_texts(metadata, key)
    if kind.resource.namespaced:
        if metadata.setdefault("namespace", namespace) != namespace:
            raise bad_request(
                "the namespace of the provided object does not match the namespace sent on the "
                "request"
            )
    else:
        metadata.pop("namespace", None)
    return body


def forget_system(metadata: Json) -> None:
    """Take out what only the server may set on a new object."""
    for key in _NOT_GENERATED:
        metadata.pop(key, None)


def restore_system(new: Json, old: Json) -> None:
    """Keep what only the server may set as it was."""
    metadata, before = new["metadata"], old["metadata"]
    for key in _SYSTEM:
        if key in before:
            metadata[key] = before[key]
        else:
            metadata.pop(key, None)


def check_identity(kind: ServedKind, old: Json, new: Json, *, is_patch: bool) -> list[FieldProblem]:
    """Return what is wrong with a changed object's name, uid and version.

    Raises:
        Invalid: it names another object.
        Conflict: it means another object of this name.
    """
    before, metadata = old["metadata"], new["metadata"]
    name = before["name"]
    if metadata.setdefault("name", name) != name:
        raise bad_request(
            f"the name of the object ({metadata['name']}) does not match the name on the URL "
            f"({name})"
        )
    uid = metadata.get("uid") or before["uid"]
    if uid != before["uid"]:
        if is_patch:
            return [immutable("metadata.uid", uid)]
        raise other_uid(kind.collection, name, uid, before["uid"])
    if kind.needs_version and not metadata.get("resourceVersion"):
        return [wrong("metadata.resourceVersion", 0, "must be specified for an update")]
    return []


def metadata_problems(metadata: Json) -> Iterator[FieldProblem]:
    """Yield what is wrong with name, labels and annotations."""
    name = metadata.get("name") or ""
    if not name:
        yield required("metadata.name", "name or generateName is required")
    elif len(name) > _LONGEST_NAME or not _SUBDOMAIN.fullmatch(name):
        yield wrong("metadata.name", name, _NO_SUBDOMAIN)
    for key, value in (metadata.get("labels") or {}).items():
        for flaw in key_flaws(key):
            yield wrong("metadata.labels", key, flaw)
        for flaw in value_flaws(value):
            yield wrong("metadata.labels", value, flaw)
    for key in metadata.get("annotations") or {}:
        for flaw in key_flaws(key.lower()):
            yield wrong("metadata.annotations", key, flaw)


def added_finalizers(old: Json, new: Json) -> Iterator[FieldProblem]:
    """Yield a problem if an object that is being deleted gets more finalizers."""
    before, after = (set(item["metadata"].get("finalizers") or ()) for item in (old, new))
    if is_deleted(old) and after - before:
        detail = "no new finalizers can be added if the object is being deleted"
        yield forbidden_field("metadata.finalizers", f"{detail}, found new finalizers")


def generated_name(base: str, random: Random) -> str:
    """Return a name that begins with a base."""
    numbers = (random.getrandbits(32) for _ in range(SUFFIX_LENGTH))
    letters = (LETTERS[number % len(LETTERS)] for number in numbers)
    return base[:_LONGEST_BASE] + "".join(letters)


def _check_texts(metadata: Json, key: str) -> None:
    found = metadata.get(key)
    if found is None:
        metadata.pop(key, None)
    elif not isinstance(found, dict) or not all(isinstance(text, str) for text in found.values()):
        raise bad_request(f"metadata.{key}: expected a map of strings")
