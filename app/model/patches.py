"""JSON patches (RFC 6902) built and applied, and merge patches (RFC 7386) applied.

Strategy: applying copies only the objects and lists on the way to a change, each once per patch;
everything else is shared between the old document, the new one and the patch, so none of them
may be changed in place. Nothing recurses, however deep a document nests.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NoReturn, TypeVar, cast, overload

from app.model.errors import Invalid

Operation = dict[str, Any]  # in wire order: op, path, value
Path = str | Sequence[str | int]  # a finished pointer, or the segments of one

_Document = TypeVar("_Document")
_Container = dict[str, Any] | list[Any]

_INDEX: Final = re.compile(r"0|[1-9][0-9]{0,9}", re.ASCII)
_BAD_ESCAPE: Final = re.compile(r"~(?![01])")
_LONGEST_SHOWN: Final = 100
_MISSING: Final = object()


def pointer(*segments: str | int) -> str:
    """Return the JSON pointer through these members and positions."""
    return "".join(f"/{str(segment).replace('~', '~0').replace('/', '~1')}" for segment in segments)


def add(path: Path, value: object) -> Operation:
    """Set a member, whether or not it is there, or insert into a list."""
    return {"op": "add", "path": _finished(path), "value": value}


def remove(path: Path) -> Operation:
    """Take out a member or a position, which must be there."""
    return {"op": "remove", "path": _finished(path)}


def test(path: Path, value: object) -> Operation:
    """Let the whole patch fail unless this value is there."""
    return {"op": "test", "path": _finished(path), "value": value}


def apply(document: _Document, operations: Iterable[Mapping[str, Any]]) -> _Document:
    """Return the document changed by all operations; it stays of its kind unless replaced whole.

    Raises:
        Invalid: an operation is malformed (400) or does not fit the document (422).
    """
    draft = _Draft(document)
    for position, operation in enumerate(operations):
        try:
            _carry_out(draft, operation)
        except Invalid as error:
            message = f"operation {position}{_described(operation)}: {error.message}"
            raise Invalid(message, status=error.status, reason=error.reason) from None
    return cast("_Document", draft.root)


@overload
def merge(document: object, patch: Mapping[str, Any]) -> dict[str, Any]: ...
@overload
def merge(document: object, patch: object) -> object: ...
def merge(document: object, patch: object) -> object:
    """Return the document with the members of the patch set, and those that are null removed."""
    if not isinstance(patch, Mapping):
        return patch
    merged: dict[str, Any] = dict(document) if isinstance(document, dict) else {}
    open_ends: list[tuple[dict[str, Any], Mapping[str, Any]]] = [(merged, patch)]
    while open_ends:
        target, changes = open_ends.pop()
        for key, change in changes.items():
            if change is None:
                target.pop(key, None)
            elif isinstance(change, dict):
                old = target.get(key)
                target[key] = dict(old) if isinstance(old, dict) else {}
                open_ends.append((target[key], change))
            else:
                target[key] = change
    return merged


class _Draft:
    """A document while it is changed; the containers it made itself may be changed in place."""

    def __init__(self, root: object) -> None:
        self.root = root
        self._made: dict[int, object] = {}

    def find(self, path: Sequence[str]) -> object:
        here = self.root
        for token in path:
            here = _child(here, token)
        return here

    def put(self, path: Sequence[str], value: object) -> None:
        if not path:
            self.root = value
            return
        parent = self._own_parent(path)
        if isinstance(parent, list):
            end = len(parent)
            parent.insert(end if path[-1] == "-" else _position(path[-1], end + 1), value)
        else:
            parent[path[-1]] = value

    def replace(self, path: Sequence[str], value: object) -> None:
        if not path:
            self.root = value
            return
        parent = self._own_parent(path)
        _child(parent, path[-1])
        _assign(parent, path[-1], value)

    def take(self, path: Sequence[str]) -> object:
        if not path:
            _refuse("the document as a whole cannot be removed")
        parent = self._own_parent(path)
        value = _child(parent, path[-1])
        if isinstance(parent, list):
            del parent[_position(path[-1], len(parent))]
        else:
            del parent[path[-1]]
        return value

    def duplicate(self, source: Sequence[str], path: Sequence[str]) -> None:
        """Put one value in two places; from now on neither is ours to change in place."""
        value = self.find(source)
        self._made.clear()
        self.put(path, value)

    def _own_parent(self, path: Sequence[str]) -> _Container:
        here = self.root = self._own(self.root)
        for token in path[:-1]:
            child = self._own(_child(here, token))
            _assign(here, token, child)
            here = child
        return here

    def _own(self, value: object) -> _Container:
        if not isinstance(value, dict | list):
            _refuse("there is neither an object nor a list on the way to its path")
        if id(value) in self._made:
            return value
        made: _Container = value.copy()
        self._made[id(made)] = made  # kept alive, so that its id stays its own
        return made


def _carry_out(draft: _Draft, operation: Mapping[str, Any]) -> None:
    if not isinstance(operation, Mapping):
        _malformed("it is no object")
    path = _tokens(operation, "path")
    match operation.get("op"):
        case "add":
            draft.put(path, _value(operation))
        case "remove":
            draft.take(path)
        case "replace":
            draft.replace(path, _value(operation))
        case "test":
            if not _are_equal(draft.find(path), _value(operation)):
                _refuse("another value is there")
        case "copy":
            draft.duplicate(_tokens(operation, "from"), path)
        case "move":
            source = _tokens(operation, "from")
            if len(source) < len(path) and path[: len(source)] == source:
                _refuse("a value cannot be moved into itself")
            draft.put(path, draft.take(source))
        case unknown:
            _malformed(f"{_shown(unknown)} is none of add, remove, replace, test, copy, move")


def _described(operation: object) -> str:
    if not isinstance(operation, Mapping):
        return ""
    return f" ({operation.get('op')!s:.20} {operation.get('path')!s:.{_LONGEST_SHOWN}})"


def _shown(value: object) -> str:
    return f"{value!r:.{_LONGEST_SHOWN}}"


def _finished(path: Path) -> str:
    return path if isinstance(path, str) else pointer(*path)


def _tokens(operation: Mapping[str, Any], member: str) -> list[str]:
    text = operation.get(member)
    if not isinstance(text, str):
        _malformed(f"its {member!r} is missing or no string")
    if (text and not text.startswith("/")) or _BAD_ESCAPE.search(text):
        _malformed(f"its {member!r}, {_shown(text)}, is no JSON pointer")
    return [token.replace("~1", "/").replace("~0", "~") for token in text.split("/")[1:]]


def _value(operation: Mapping[str, Any]) -> object:
    value = operation.get("value", _MISSING)
    if value is _MISSING:
        _malformed("its 'value' is missing")
    return value


def _child(container: object, token: str) -> object:
    """Return what is at a token, which must be there."""
    if isinstance(container, list):
        return container[_position(token, len(container))]
    if not isinstance(container, dict) or token not in container:
        _refuse(f"there is no member {_shown(token)}")
    return container[token]


def _assign(container: _Container, token: str, value: object) -> None:
    """Set what is at a token, which is there."""
    if isinstance(container, list):
        container[int(token)] = value
    else:
        container[token] = value


def _position(token: str, end: int) -> int:
    if not _INDEX.fullmatch(token) or int(token) >= end:
        _refuse(f"the list has no position {_shown(token)}")
    return int(token)


def _are_equal(one: object, other: object) -> bool:
    """Whether two JSON values are the same; true is not 1, but 1.0 is."""
    pairs = [(one, other)]
    while pairs:
        a, b = pairs.pop()
        if isinstance(a, dict) and isinstance(b, dict):
            if a.keys() != b.keys():
                return False
            pairs.extend((a[key], b[key]) for key in a)
        elif isinstance(a, list) and isinstance(b, list):
            if len(a) != len(b):
                return False
            pairs.extend(zip(a, b, strict=True))
        elif isinstance(a, bool) is not isinstance(b, bool) or a != b:
            return False
    return True


def _malformed(message: str) -> NoReturn:
    raise Invalid(message, status=400, reason="BadRequest")


def _refuse(message: str) -> NoReturn:
    raise Invalid(message, status=422, reason="Invalid")
