"""What an API server asks in an AdmissionReview, and the users that call it.

Strategy: a review is plain JSON. Reading it never fails on what this
service does not need; what it needs and does not find is `BadObject` with the path.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from app.model.errors import BadObject
from app.model.fields import Object, flag_at, object_at, optional_object, text_at


class GroupVersionWord(NamedTuple):
    """A group, a version, and a kind or resource."""

    group: str
    version: str
    word: str


class AdmissionRequest(NamedTuple):
    """`request` of an AdmissionReview; the objects are kept as they came."""

    uid: str
    kind: GroupVersionWord
    resource: GroupVersionWord
    subresource: str
    operation: str
    namespace: str
    name: str
    dry_run: bool
    new: object
    old: object


def read_review(review: object) -> AdmissionRequest:
    """Read an AdmissionReview."""
    if not isinstance(review, dict):
        raise BadObject("", "the body is no AdmissionReview object")
    request = optional_object(review, "request", "")
    if request is None:
        raise BadObject("request", "is missing")
    kind = "requestKind" if request.get("requestKind") is not None else "kind"
    return AdmissionRequest(
        uid=text_at(request, "uid", "request"),
        kind=_words(object_at(request, kind, "request"), "kind", f"request.{kind}"),
        resource=_words(object_at(request, "resource", "request"), "resource", "request.resource"),
        subresource=text_at(request, "subResource", "request"),
        operation=text_at(request, "operation", "request"),
        namespace=text_at(request, "namespace", "request") or _own(request, "namespace"),
        name=text_at(request, "name", "request") or _own(request, "name"),
        dry_run=flag_at(request, "dryRun", "request"),
        new=request.get("object"),
        old=request.get("oldObject"),
    )


def uid_of(review: object) -> str:
    """Return the uid of what may be no review, under which API servers expect the answer."""
    request = review.get("request") if isinstance(review, dict) else None
    uid = request.get("uid") if isinstance(request, dict) else None
    return uid if isinstance(uid, str) else ""


def _own(request: Object, key: str) -> str:
    """Return what an object says of itself, for reviews by hand that do not say it again."""
    item = request.get("object")
    metadata = item.get("metadata") if isinstance(item, dict) else None
    value = metadata.get(key) if isinstance(metadata, dict) else None
    return value if isinstance(value, str) else ""


def _words(json: Object, word: str, path: str) -> GroupVersionWord:
    return GroupVersionWord(
        text_at(json, "group", path), text_at(json, "version", path), text_at(json, word, path)
    )


@dataclass(frozen=True, slots=True)
class Identity:
    """A user as an API server knows it."""

    username: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, Sequence[str]] = field(default_factory=dict)
