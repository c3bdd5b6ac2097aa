"""Objects and reviews from files, folders and pipes, and the cluster that was recorded in them.

Strategy: a file says by its looks what it is: one JSON value, JSON lines, JSON values one after
the other, or YAML documents; any of them may be packed by gzip. JSON is tried first because it is
fast. Lists are opened, each object keeps where it stands, and whatever cannot be read is
reported beside what can.

Of two objects with the same name the last one counts, as if it had been applied later. What a
snapshot has no place for is kept for look-ups: custom objects, and the definitions that say how
they are scaled.
"""

from __future__ import annotations

import gzip
import re
import sys
import zlib
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, Final

import orjson

from app.kube.failures import not_json
from app.kube.splitting import GZIP, STDIN, JsonList, find_list, yaml_documents
from app.model.errors import BadObject, BadSetting
from app.model.fields import Object, object_at, text_at
from app.model.kinds import ObjectKey, group_of, owner_key
from app.model.snapshot import (
    Collection,
    Replacement,
    Snapshot,
    object_identity,
    replacement,
    without_broken_status,
)
from app.model.vpa import Vpa
from app.model.workloads import (
    Absent,
    CustomKind,
    Failed,
    Lookup,
    LookupResult,
    ScalePaths,
    read_custom_kind,
    scale_custom,
)

_LINES: Final = (".jsonl", ".ndjson")
_SUFFIXES: Final = (".yaml", ".yml", ".json", *_LINES)
_PACKED: Final = ".gz"
_MOST_BYTES: Final = 2**31  # unpacked
_LARGE_BYTES: Final = 2**20  # of a list that is not read as a whole

_JSON: Final = re.compile(rb"\s*(?:\{\s*[\"}]|\[\s*[\[{\"])")
_JSON_LINE: Final = re.compile(rb"^\{.*\}[ \t\r]*$", re.MULTILINE)
_YAML_LINE: Final = re.compile(rb"^---", re.MULTILINE)
# No string of JSON can hold the end of a line, so this is always between two values.
_NEXT_JSON: Final = re.compile(rb"(?<=[}\]])[ \t\r]*\n\s*(?=[{\[])")


@dataclass(frozen=True, slots=True)
class Document:
    """One object and where it stands."""

    place: str  # file and line, for messages
    item: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Unreadable:
    """What could not be read, or not whole, and why."""

    place: str
    message: str

    def __str__(self) -> str:
        return f"{self.place}: {self.message}"


Found = Iterator[Document | Unreadable]


def documents(path: str) -> Found:
    """Yield all objects of a file, or of the files in a folder; lists are opened.

    Raises:
        BadSetting: there is no such file, or it may not be read.
    """
    try:
        if path != STDIN and Path(path).is_dir():
            yield from _of_folder(Path(path))
        else:
            yield from _of_file(path)
    except OSError as error:
        raise BadSetting(f"{path}: {error.strerror or error}") from None


def _kindless(found: Document) -> str:
    return "" if found.item.get("kind") else "an object without kind"


def given_objects(
    paths: Iterable[Path],
    unreadable: list[Unreadable],
    problem: Callable[[Document], str] = _kindless,
) -> Iterator[Document]:
    """Yield the objects of files and folders that a command line names.

    In a folder what cannot be read, or has a problem, is put into the list, and the rest is read.

    Raises:
        BadSetting: it is in a file that is named.
    """
    for path in paths:
        is_folder = str(path) != STDIN and path.is_dir()
        for found in documents(str(path)):
            why = found.message if isinstance(found, Unreadable) else problem(found)
            if isinstance(found, Document) and not why:
                yield found
            elif is_folder:
                unreadable.append(Unreadable(found.place, why))
            else:
                raise BadSetting(f"{found.place}: {why}")


def _of_folder(folder: Path) -> Found:
    for path in sorted(folder.rglob("*")):
        is_hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        if is_hidden or not path.name.removesuffix(_PACKED).endswith(_SUFFIXES):
            continue
        try:
            if path.is_file():
                yield from _of_file(str(path))
        except OSError as error:
            yield Unreadable(str(path), error.strerror or str(error))


def _of_file(path: str) -> Found:
    packed = _stdin() if path == STDIN else Path(path).read_bytes()
    shown = "stdin" if path == STDIN else path
    try:
        body = _utf8(_unpacked(packed))
    except BadObject as error:
        yield Unreadable(shown, str(error))
        return
    is_misnamed = path.endswith(_PACKED) and not packed.startswith(GZIP)
    del packed
    large = find_list(body) if len(body) > _LARGE_BYTES else None
    if large is not None and _said(large.envelope) is not None:
        yield from _of_list(large, f"{shown}:1")
        return
    is_lines = path.removesuffix(_PACKED).endswith(_LINES)
    for line, value in _values(body, is_lines=is_lines):
        for found in _opened(value, f"{shown}:{line}"):
            if is_misnamed and isinstance(found, Unreadable):
                yield Unreadable(found.place, f"not gzip: {found.message}")
            else:
                yield found


def _of_list(found: JsonList, place: str) -> Found:
    said = _said(found.envelope) or {}
    for index, (begin, piece) in enumerate(found.pieces()):
        value = _json(piece)
        if isinstance(value, BadObject):  # seldom, so that only now lines are counted
            value = _json(piece, found.text.count(b"\n", 0, begin) + 1)
        yield from _opened(
            said | value if isinstance(value, dict) else value, f"{place}.items[{index}]"
        )


def _stdin() -> bytes:
    if sys.stdin is None:
        raise BadSetting("standard input is closed")
    return sys.stdin.buffer.read()


def _unpacked(body: bytes) -> bytes:
    if not body.startswith(GZIP):
        return body
    try:
        found = gzip.GzipFile(fileobj=BytesIO(body)).read(_MOST_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise BadObject("", f"damaged gzip: {error}") from None
    if len(found) > _MOST_BYTES:
        raise BadObject("", f"larger than {_MOST_BYTES >> 30} GiB when unpacked")
    return found


def _utf8(body: bytes) -> bytes:
    """Return the bytes without a mark of their order; some shells write UTF-16 with one."""
    if not body.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
        return body.removeprefix(BOM_UTF8)
    try:
        return body.decode("utf-16").encode()
    except UnicodeError as error:
        raise BadObject("", f"no UTF-16: {error}") from None


def _values(body: bytes, *, is_lines: bool) -> Iterator[tuple[int, object]]:
    """Yield each value with its line; one that cannot be read as `BadObject`."""
    if not is_lines:
        try:
            yield 1, orjson.loads(body)
        except orjson.JSONDecodeError:
            pass
        else:
            return
    if is_lines or _is_json_lines(body):
        found: Iterable[bytes] = (piece.removesuffix(b"\n") for piece in BytesIO(body))
    elif _JSON.match(body) and not _YAML_LINE.search(body):
        found = _NEXT_JSON.split(body)
    else:
        yield from yaml_documents(body)
        return
    line = 1
    for piece in found:
        if piece and not piece.isspace():
            yield line, _json(piece, line)
        line += piece.count(b"\n") + 1


def _is_json_lines(body: bytes) -> bool:
    """Whether an object stands on a line of its own, which YAML without `---` cannot hold."""
    found = _JSON_LINE.search(body)
    if found is None or _YAML_LINE.search(body):
        return False
    return not isinstance(_json(found[0], 1), BadObject)


def _json(piece: bytes, line: int = 1) -> object:
    try:
        return orjson.loads(piece)
    except orjson.JSONDecodeError as error:
        at = f"line {line + error.lineno - 1}, column {error.colno}"
        return BadObject("", f"invalid JSON: {not_json(error)} ({at})")


def _opened(value: object, place: str) -> Found:
    """Yield the object that a value is, or those of the list that it is.

    A list is emptied on the way, so that what has been used makes room for what is kept of it.
    """
    waiting = [(value, place)]
    del value
    while waiting:
        item, at = waiting.pop()
        if isinstance(item, dict):
            entries = _entries(item)
            if entries is None:
                yield Document(at, item)
            else:
                waiting += _backwards(entries, f"{at}.items")
        elif isinstance(item, list) and item:
            waiting += _backwards(item, at)
        elif isinstance(item, BadObject):
            yield Unreadable(at, str(item))
        else:
            yield Unreadable(at, "not a Kubernetes object")


def _backwards(items: list[Any], at: str) -> list[tuple[Any, str]]:
    found = [(entry, f"{at}[{index}]") for index, entry in enumerate(items)][::-1]
    items.clear()
    return found


def _entries(item: dict[str, Any]) -> list[Any] | None:
    """Return what a List holds, None for an object that is no list."""
    said = _said(item)
    if said is None:
        return None
    items: list[Any] = item["items"]
    for index, entry in enumerate(items if said else ()):
        if isinstance(entry, dict):
            items[index] = said | entry
    return items


def _said(item: dict[str, Any]) -> dict[str, Any] | None:
    """Return what a list says of its items, None for an object that is no list."""
    kind, items = item.get("kind"), item.get("items")
    if not isinstance(kind, str) or not kind.endswith("List") or not isinstance(items, list):
        return None
    if kind == "List":
        return {}
    # Items of a typed list do not repeat what the list says.
    return {"apiVersion": item.get("apiVersion"), "kind": kind.removesuffix("List")}


class RecordedCluster:
    """What files tell of a cluster; answers owner and sibling look-ups from it."""

    def __init__(self, found: Iterable[Document | Unreadable]) -> None:
        self.problems: list[Unreadable] = []
        self._kinds: dict[tuple[str, str], CustomKind] = {}
        self._customs: dict[tuple[str, ObjectKey], Object] = {}  # namespace as written
        self._vpas: dict[tuple[str, str], str] = {}  # where the first one of a name stands
        changes: list[Replacement] = []
        for document in found:
            if isinstance(document, Unreadable):
                self.problems.append(document)
                continue
            try:
                self._take(document, changes)
            except BadObject as error:
                message = f"{_shown(document.item)}: {error}"
                self.problems.append(Unreadable(document.place, message))
        self.snapshot = Snapshot().changed(changes)

    def find(self, lookup: Lookup, _deadline_seconds: float, /) -> LookupResult:
        """Return what the files tell of an owner; that takes no time."""
        group = group_of(lookup.api_version)
        custom = self._kinds.get((group, lookup.kind))
        if custom is None:
            if lookup.key.is_built_in or not _is_custom(group):
                return Absent()
            return Failed(f"no CustomResourceDefinition of {lookup.kind}.{group} was given")
        item, paths = self._custom(custom, lookup), _paths(custom, lookup.api_version)
        if item is None or paths is None:
            return Absent()
        try:
            return scale_custom(item, lookup.namespace, paths)
        except BadObject as error:
            return Failed(str(error))

    def written(self, lookup: Lookup) -> Object | None:
        """Return a custom object as the files have it."""
        place = lookup.namespace, lookup.key
        unplaced = self._customs.get(("", lookup.key)) if lookup.namespace == "default" else None
        return self._customs.get(place, unplaced)

    def of(self, namespace: str) -> tuple[Vpa, ...]:
        """Return the VPAs of a namespace."""
        return tuple(self.snapshot.of(namespace).vpas.values())

    def named(self, namespace: str, name: str) -> Vpa | None:
        """Return one VPA."""
        return self.snapshot.of(namespace).vpas.get(name)

    def _take(self, document: Document, changes: list[Replacement]) -> None:
        item = document.item
        try:
            change = replacement(item)
        except BadObject as error:
            change = replacement(without_broken_status(item, error))
            message = f"{_shown(item)}: {error}; status left out"
            self.problems.append(Unreadable(document.place, message))
        if change is not None:
            changes.append(change)
            if change.collection is Collection.VPAS:
                before = self._vpas.setdefault(change[1:3], document.place)
                if before != document.place:
                    message = f"{_shown(item)}: {before} has it too; the last one counts"
                    self.problems.append(Unreadable(document.place, message))
            return
        api_version, kind, _, name = object_identity(item)
        if not kind:
            raise BadObject("", "kind is missing")
        if kind == "CustomResourceDefinition":
            custom = read_custom_kind(item)
            self._kinds[custom.group, custom.kind] = custom
        elif "." in group_of(api_version):
            self._customs[_namespace(item), owner_key(api_version, kind, name)] = item

    def _custom(self, kind: CustomKind, lookup: Lookup) -> Object | None:
        namespaces = [lookup.namespace] if kind.is_namespaced else [""]
        if lookup.namespace == "default":
            namespaces.append("")  # where an object lives that does not say
        found = (self._customs.get((namespace, lookup.key)) for namespace in namespaces)
        return next((item for item in found if item is not None), None)


def _paths(custom: CustomKind, api_version: str) -> ScalePaths | None:
    version = api_version.rpartition("/")[2]
    return custom.scales.get(version) or next(filter(None, custom.scales.values()), None)


def _is_custom(group: str) -> bool:
    """Whether kinds of a group come from CustomResourceDefinitions; Kubernetes' own do not."""
    return "." in group and not group.endswith(".k8s.io")


def _namespace(item: Object) -> str:
    return text_at(object_at(item, "metadata", ""), "namespace", "metadata")


def _shown(item: Object) -> str:
    try:
        _, kind, _, name = object_identity(item)
    except BadObject:
        return "an object"
    if not kind:
        return "an object without kind"
    return f"{kind} {'/'.join(filter(None, (_namespace(item), name)))}"
