"""The VPA that a review wants to write, and the stored one that it replaces.

Strategy: a selector with errors does not make its object unreadable: its errors are kept and the
rest is read without the selector, so that the author sees all errors at once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from app.admission.core.field_errors import PREFIXES, ErrorKind, FieldError, invalid, unreadable
from app.model.errors import BadObject, BadQuantity
from app.model.fields import Json, Object, as_object, object_at
from app.model.review import AdmissionRequest
from app.model.role_leases import ROLE_LEASE_ANNOTATION
from app.model.selectors import syntax_problems
from app.model.vpa import Vpa, read_vpa

_WITHOUT_OBJECT: Final = ("DELETE", "CONNECT")
_COMPARED: Final = ".oomBumpUpRatio"  # upstream's suite compares its refusal word for word
SELECTOR_PATH: Final = "spec.selector"
ROLE_LEASE_PATH: Final = f"metadata.annotations[{ROLE_LEASE_ANNOTATION}]"


@dataclass(frozen=True, slots=True)
class VpaVersion:
    """A VPA before or after the write under review."""

    vpa: Vpa  # without its selector if that has errors
    selector_errors: tuple[FieldError, ...] = ()


@dataclass(frozen=True, slots=True)
class VpaReview:
    """Both versions of a VPA under review."""

    new: VpaVersion | None
    old: VpaVersion | None  # None for a new object
    unreadable: tuple[FieldError, ...]  # why a version could not be read
    is_tolerable: bool  # only metadata changes, so all errors are stored already


def is_exempt(request: AdmissionRequest) -> bool:
    """Whether a request writes no spec, or that of a terminating object."""
    return (
        request.operation in _WITHOUT_OBJECT
        or bool(request.subresource)
        or (_is_terminating(request.new) and _keeps_all_but_metadata(request))
    )


def read_vpa_review(request: AdmissionRequest) -> VpaReview:
    """Read both versions of a VPA; a version that cannot be read becomes an error."""
    new = _read(request.new, request)
    stored = None if request.operation == "CREATE" else request.old
    old = None if stored is None else _read(stored, request)
    versions = (("", new), ("oldObject: ", old))
    was_readable = not isinstance(old, BadObject)
    is_readable = not isinstance(new, BadObject)
    return VpaReview(
        new=new if isinstance(new, VpaVersion) else None,
        old=old if isinstance(old, VpaVersion) else None,
        unreadable=tuple(
            _unreadable(which, one) for which, one in versions if isinstance(one, BadObject)
        ),
        is_tolerable=_keeps_all_but_metadata(request) and (is_readable or not was_readable),
    )


def _read(item: object, request: AdmissionRequest) -> VpaVersion | BadObject:
    try:
        return _version(item, request)
    except BadObject as error:
        return error


def _version(item: object, request: AdmissionRequest) -> VpaVersion:
    if item is None:
        raise BadObject("", "the review carries no object")
    document = as_object(item, "")
    spec = object_at(document, "spec", "")
    selector = spec.get("selector")
    errors = () if selector is None else _selector_errors(selector)
    if errors:
        document = {**document, "spec": {**spec, "selector": None}}
    vpa = read_vpa(document)
    # An object may lack the name and namespace that its request has.
    vpa = replace(vpa, namespace=request.namespace or vpa.namespace, name=request.name or vpa.name)
    return VpaVersion(vpa, errors)


def _selector_errors(selector: object) -> tuple[FieldError, ...]:
    errors = []
    for path, body in syntax_problems(selector, SELECTOR_PATH):
        kind = next((kind for kind, word in PREFIXES.items() if body.startswith(word)), None)
        detail = body if kind is None else body.removeprefix(PREFIXES[kind]).removeprefix(": ")
        errors.append(FieldError(path, kind or ErrorKind.INVALID, None, detail))
    return tuple(errors)


def _unreadable(which: str, error: BadObject) -> FieldError:
    """Return the error; that of the compared field has its path as the field of the cause only."""
    message, path = f"{which}{error.message}", error.path
    if path and not (isinstance(error, BadQuantity) and path.endswith(_COMPARED)):
        return invalid(path, None, message)
    return unreadable(message, path or ".")


def _is_terminating(item: object) -> bool:
    metadata = item.get("metadata") if isinstance(item, dict) else None
    return isinstance(metadata, dict) and bool(metadata.get("deletionTimestamp"))


def _keeps_all_but_metadata(request: AdmissionRequest) -> bool:
    new, old = request.new, request.old
    if request.operation == "CREATE" or not isinstance(new, dict) or not isinstance(old, dict):
        return False
    try:
        return _without_metadata(new) == _without_metadata(old) and _is_same_lease(new, old)
    except RecursionError:  # nested too deeply to compare, which no honest object is
        return False


def _is_same_lease(new: Object, old: Object) -> bool:
    """Whether the annotation is the same that decides about pods as a spec does."""
    return _annotation(new) == _annotation(old)


def _annotation(item: Object) -> object:
    found: object = item
    for key in ("metadata", "annotations", ROLE_LEASE_ANNOTATION):
        found = found.get(key) if isinstance(found, dict) else None
    return found


def _without_metadata(item: Object) -> Json:
    return {key: value for key, value in item.items() if key != "metadata"}
