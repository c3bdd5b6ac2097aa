"""Objects and reviews from files, folders and pipes.

Strategy: JSON is tried first, for it is fast; what is no JSON is read as YAML documents. Lists
are opened, each object keeps where it stands, and whatever cannot be read is reported beside
what can.
"""

from __future__ import annotations

import gzip
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import yaml

from app.model.errors import BadObject, BadSetting

_SUFFIXES = (".yaml", ".yml", ".json", ".jsonl", ".ndjson")
_LINES = (".jsonl", ".ndjson")


@dataclass(frozen=True, slots=True)
class Document:
    """One object and where it stands."""

    place: str  # file and position, for messages
    item: Any


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A place in a file that holds no object."""

    place: str
    message: str


def documents(paths: Sequence[str]) -> Iterator[Document | Unreadable]:
    """Yield all objects of files and folders, in the order of the paths, lists opened."""
    for path in _files(paths):
        for position, found in enumerate(_read(path), start=1):
            place = f"{path}:{position}" if path != "-" else f"stdin:{position}"
            if isinstance(found, BadObject):
                yield Unreadable(place, str(found))
            else:
                yield from _opened(found, place)


def _files(paths: Sequence[str]) -> Iterator[str]:
    for text in paths:
        path = Path(text)
        if text != "-" and not path.exists():
            raise BadSetting(f"{text}: no such file or folder")
        if text == "-" or not path.is_dir():
            yield text
            continue
        yield from (str(found) for found in sorted(path.rglob("*")) if _is_wanted(found))


def _is_wanted(path: Path) -> bool:
    return path.is_file() and path.name.removesuffix(".gz").endswith(_SUFFIXES)


def _read(path: str) -> Iterator[Any]:
    try:
        body = _bytes(path)
    except OSError as error:
        raise BadSetting(f"{path}: {error.strerror or error}") from None
    if not path.removesuffix(".gz").endswith(_LINES):
        try:
            found = orjson.loads(body)
        except orjson.JSONDecodeError:
            pass
        else:
            yield found
            return
    if body.lstrip()[:1] == b"{":
        yield from _json_lines(body)
    else:
        yield from _yaml(body)


def _bytes(path: str) -> bytes:
    if path == "-":
        return sys.stdin.buffer.read()
    body = Path(path).read_bytes()
    return gzip.decompress(body) if body[:2] == b"\x1f\x8b" else body


def _json_lines(body: bytes) -> Iterator[Any]:
    lines = [line for line in body.split(b"\n") if line.strip()]
    try:
        first = orjson.loads(lines[0])
    except orjson.JSONDecodeError as error:
        if body.lstrip()[:2] in (b"{\n", b"{\r") or len(lines) == 1:
            yield BadObject("", f"neither JSON nor JSON lines: {error}")
            return
        first = BadObject("", f"no JSON: {error}")
    yield first
    for line in lines[1:]:
        try:
            yield orjson.loads(line)
        except orjson.JSONDecodeError as error:
            yield BadObject("", f"no JSON: {error}")


class _Loader(yaml.CSafeLoader):
    """Reads YAML as Kubernetes does: times stay text."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in found if tag != "tag:yaml.org,2002:timestamp"]
    for first, found in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}


def _yaml(body: bytes) -> Iterator[Any]:
    try:
        for found in yaml.load_all(body, Loader=_Loader):
            if found is not None:
                yield found
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        yield BadObject("", f"no YAML: {' '.join(str(error).split())}")


def _opened(item: object, place: str) -> Iterator[Document | Unreadable]:
    if not isinstance(item, dict):
        if isinstance(item, list):
            for index, entry in enumerate(item):
                yield from _opened(entry, f"{place}[{index}]")
        else:
            yield Unreadable(place, "holds no object")
        return
    kind, items = item.get("kind"), item.get("items")
    if not isinstance(kind, str) or not kind.endswith("List") or not isinstance(items, list):
        yield Document(place, item)
        return
    for index, entry in enumerate(items):
        if isinstance(entry, dict) and kind != "List":
            # Items of a typed list do not repeat what the list says.
            entry = {"apiVersion": item.get("apiVersion"), "kind": kind[:-4]} | entry
        yield from _opened(entry, f"{place}.items[{index}]")
