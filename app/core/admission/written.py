"""The VPA that somebody writes, and the stored one that it replaces, as read from a review.

Strategy: a selector with flaws is told apart from an object that cannot be read: the flaws are
kept and the rest is read without the selector, so that every problem can be told at once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from app.core.admission.problems import PREFIXES, ErrorKind, Problem, unreadable
from app.model.errors import BadObject, BadQuantity
from app.model.fields import Json, Object, as_object, object_at
from app.model.review import Request
from app.model.selectors import syntax_problems
from app.model.vpa import Vpa, read_vpa

_WITHOUT_OBJECT: Final = ("DELETE", "CONNECT")
SELECTOR_PATH: Final = "spec.selector"


@dataclass(frozen=True, slots=True)
class Version:
    """A VPA as it was or shall be."""

    vpa: Vpa  # without its selector if that has flaws
    selector_flaws: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class Written:
    """What a review brings."""

    new: Version | None
    old: Version | None  # None for a new object
    unreadable: tuple[Problem, ...]  # why a version could not be read
    is_tolerable: bool  # only metadata changes, and whatever is wrong with the rest was so before


def is_exempt(request: Request) -> bool:
    """Whether a request cannot write a spec, or writes one that nobody will use any more."""
    return (
        request.operation in _WITHOUT_OBJECT
        or bool(request.subresource)
        or (_is_terminating(request.new) and _keeps_all_but_metadata(request))
    )


def read_written(request: Request) -> Written:
    """Read both versions of a VPA; what cannot be read is a problem."""
    new = _read(request.new, request)
    stored = None if request.operation == "CREATE" else request.old
    old = None if stored is None else _read(stored, request)
    broken = []
    if isinstance(new, BadObject):
        broken.append(unreadable(_message(new)))
    if isinstance(old, BadObject):
        broken.append(unreadable(f"oldObject: {_message(old)}"))
    was_readable = not isinstance(old, BadObject)
    is_readable = not isinstance(new, BadObject)
    return Written(
        new=new if isinstance(new, Version) else None,
        old=old if isinstance(old, Version) else None,
        unreadable=tuple(broken),
        is_tolerable=_keeps_all_but_metadata(request) and (is_readable or not was_readable),
    )


def _read(item: object, request: Request) -> Version | BadObject:
    try:
        return _version(item, request)
    except BadObject as error:
        return error


def _version(item: object, request: Request) -> Version:
    if item is None:
        raise BadObject("", "the review carries no object")
    found = as_object(item, "")
    spec = object_at(found, "spec", "")
    selector = spec.get("selector")
    flaws = () if selector is None else _selector_flaws(selector)
    if flaws:
        found = {**found, "spec": {**spec, "selector": None}}
    vpa = read_vpa(found)
    # Names may be missing in an object but stand in the request that is about it.
    vpa = replace(vpa, namespace=request.namespace or vpa.namespace, name=request.name or vpa.name)
    return Version(vpa, flaws)


def _selector_flaws(selector: object) -> tuple[Problem, ...]:
    found = []
    for path, body in syntax_problems(selector, SELECTOR_PATH):
        kind = next((kind for kind, word in PREFIXES.items() if body.startswith(word)), None)
        detail = body if kind is None else body.removeprefix(PREFIXES[kind]).removeprefix(": ")
        found.append(Problem(path, kind or ErrorKind.INVALID, None, detail))
    return tuple(found)


def _message(error: BadObject) -> str:
    """Tell of a quantity what API servers tell, word for word; clients compare it."""
    return error.message if isinstance(error, BadQuantity) else str(error)


def _is_terminating(item: object) -> bool:
    metadata = item.get("metadata") if isinstance(item, dict) else None
    return isinstance(metadata, dict) and bool(metadata.get("deletionTimestamp"))


def _keeps_all_but_metadata(request: Request) -> bool:
    new, old = request.new, request.old
    if request.operation == "CREATE" or not isinstance(new, dict) or not isinstance(old, dict):
        return False
    try:
        return _without_metadata(new) == _without_metadata(old)
    except RecursionError:  # nested too deeply to compare, which no honest object is
        return False


def _without_metadata(item: Object) -> Json:
    return {key: value for key, value in item.items() if key != "metadata"}
