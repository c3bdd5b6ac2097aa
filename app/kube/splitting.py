"""Cuts large texts into values, so that no more than one is in memory: JSON lists, YAML, lines.

Strategy: a JSON list that is read as a whole takes many times its size, one whose items are read
one after the other next to nothing. Brackets tell where items begin and end; what stands around
them is read as JSON, and if that is no list, the text is left to be read as a whole.

YAML is read the way it is meant for Kubernetes, as another spelling of JSON. Documents are cut at
their `---` lines, so a broken one spoils no other. Each is built from the parser's events, which
costs half of what PyYAML's own way costs and bounds what a few lines can do: nesting has a limit,
and what aliases repeat is copied and counted. All keys are text, and so are times and whatever
else JSON has no word for.

Lines may come packed by gzip, which is seen by the first bytes, whatever the file's name.
"""

from __future__ import annotations

import gzip
import os
import re
import sys
import zlib
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import lru_cache
from io import BufferedReader
from pathlib import Path
from typing import Any, Final, cast

import orjson
import yaml
from yaml.reader import ReaderError

from app.model.errors import BadObject, BadSetting

_ITEMS: Final = re.compile(rb'"items"\s*+:\s*+\[')
_LONGEST_HEAD: Final = 65_536  # what may stand before the items
# The next bracket that stands in no string; possessive, so that it never goes back.
_BRACKET: Final = re.compile(rb'(?:[^"{}\[\]]++|"(?:[^"\\]++|\\.)*+")*+([{}\[\]])', re.DOTALL)
_OPENING: Final = (b"{", b"[")
_BLANK: Final = b" \t\r\n,"

_DOCUMENT: Final = re.compile(rb"^(?=---(?:[ \t\r\n]|\Z))", re.MULTILINE)
_CONTENT: Final = re.compile(rb"^[ \t\r]*[^\s#%]", re.MULTILINE)  # no comment, no directive
_MOST_DEPTH: Final = 200
_MOST_REPEATED: Final = 1_000_000  # values that the aliases of a document may add
_TOO_DEEP: Final = "nested too deeply"
_LONGEST_NUMBER: Final = 40  # characters; what is longer stays text

_WORDS: Final[Mapping[str, object]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON"), True),
    **dict.fromkeys(("false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF"), False),
}
_NUMBER: Final = re.compile(
    r"(?P<sign>[-+]?)(?:"
    r"(?P<float>[0-9][0-9_]*\.[0-9_]*(?:[eE][-+][0-9]+)?|\.[0-9][0-9_]*(?:[eE][-+][0-9]+)?)"
    r"|0b(?P<binary>[01_]+)|0x(?P<hex>[0-9a-fA-F_]+)|0(?P<octal>[0-7_]+)"
    r"|(?P<decimal>0|[1-9][0-9_]*))",
    re.ASCII,
)
_BASES: Final = {"binary": 2, "hex": 16, "octal": 8, "decimal": 10}
_MERGE: Final = "<<"
_TAGS: Final = "tag:yaml.org,2002:"

STDIN: Final = "-"
GZIP: Final = b"\x1f\x8b"
_STRIDE: Final = 4096  # lines between two reports


@dataclass(frozen=True, slots=True)
class JsonList:
    """A list in a text."""

    envelope: dict[str, Any]  # the list without its items
    text: bytes
    ends: array[int]  # by turns where an item begins and where it ends

    def pieces(self) -> Iterator[tuple[int, bytes]]:
        """Yield where an item begins, and its text; several that are no objects come as one."""
        for begin, end in zip(self.ends[::2], self.ends[1::2], strict=True):
            yield begin, self.text[begin:end].strip(_BLANK)


def find_list(text: bytes) -> JsonList | None:
    """Return the list that a text is, None if it is none."""
    head = _ITEMS.search(text, 0, _LONGEST_HEAD)
    if head is None:
        return None
    ends, end = _ends(text, head.end())
    try:
        envelope = orjson.loads(text[: head.end()] + text[end:])
    except orjson.JSONDecodeError:
        return None
    is_list = isinstance(envelope, dict) and envelope.get("items") == []
    return JsonList(envelope, text, ends) if is_list else None


def _ends(text: bytes, start: int) -> tuple[array[int], int]:
    """Return where items begin and end, and where the list does."""
    ends = array("q")
    depth, done = 0, start
    for bracket in _BRACKET.finditer(text, start):
        at = bracket.start(1)
        if bracket[1] in _OPENING:
            if depth == 0:
                _note_others(text, done, at, ends)
                ends.append(at)
            depth += 1
        elif depth == 0:
            _note_others(text, done, at, ends)
            return ends, at
        else:
            depth -= 1
            if depth == 0:
                done = at + 1
                ends.append(done)
    return ends, len(text)


def _note_others(text: bytes, start: int, end: int, ends: array[int]) -> None:
    """Note what stands between two objects beside commas, so that nothing is passed over."""
    if text[start:end].strip(_BLANK):
        ends.extend((start, end))


def yaml_documents(body: bytes) -> Iterator[tuple[int, object]]:
    """Yield each document with the line it begins on; a broken one as `BadObject`."""
    line = 1
    for piece in _DOCUMENT.split(body):
        if _CONTENT.search(piece):
            for found in _documents(piece, line):
                yield line, found
        line += piece.count(b"\n")


def _documents(piece: bytes, line: int) -> Iterator[object]:
    """Yield the document of a piece, if it holds one."""
    try:
        yield from _built(yaml.CSafeLoader(piece))
    except (yaml.YAMLError, ValueError) as error:
        yield BadObject("", f"invalid YAML: {_problem(error, line)}")


def _built(parser: yaml.CSafeLoader) -> Iterator[object]:
    while not isinstance(event := parser.get_event(), yaml.StreamEndEvent):
        if isinstance(event, yaml.DocumentStartEvent):
            found = _Document(parser).value(parser.get_event(), 0)
            if found is not None:
                yield found


def _problem(error: Exception, line: int) -> str:
    """Return what is wrong and, counted from the beginning of the file, where."""
    if isinstance(error, ReaderError) and "UTF-8" in error.reason:
        return "not UTF-8 text"
    if not isinstance(error, yaml.MarkedYAMLError | _Wrong) or error.problem_mark is None:
        return " ".join(str(error).split())
    mark = error.problem_mark
    return f"{error.problem} (line {mark.line + line}, column {mark.column + 1})"


class _Wrong(ValueError):
    """A document that is YAML but cannot be told in JSON."""

    def __init__(self, problem: str, event: yaml.Event | None) -> None:
        super().__init__(problem)
        self.problem = problem
        self.problem_mark = None if event is None else event.start_mark


class _Document:
    """Builds one document from events."""

    def __init__(self, parser: yaml.CSafeLoader) -> None:
        self._next = parser.get_event
        self._anchors: dict[str, object] = {}
        self._left = _MOST_REPEATED

    def value(self, event: yaml.Event | None, depth: int) -> object:
        """Return the value that begins with an event."""
        if isinstance(event, yaml.ScalarEvent):
            found = _scalar(event)
        elif isinstance(event, yaml.AliasEvent):
            return self._repeated(event, depth)
        elif depth > _MOST_DEPTH:
            raise _Wrong(_TOO_DEEP, event)
        elif isinstance(event, yaml.MappingStartEvent):
            found = self._mapping(depth)
        else:
            found = self._sequence(depth)
        if isinstance(event, yaml.NodeEvent) and event.anchor is not None:
            self._anchors[event.anchor] = found
        return found

    def _sequence(self, depth: int) -> list[object]:
        found = []
        while not isinstance(event := self._next(), yaml.SequenceEndEvent):
            found.append(self.value(event, depth + 1))
        return found

    def _mapping(self, depth: int) -> dict[str, object]:
        found: dict[str, object] = {}
        merged: list[dict[str, object]] = []
        while not isinstance(event := self._next(), yaml.MappingEndEvent):
            key = self.value(event, depth + 1)
            value = self.value(self._next(), depth + 1)
            if key == _MERGE and isinstance(event, yaml.ScalarEvent) and not event.style:
                merged += _mappings(value, event)
            else:
                found[key if isinstance(key, str) else _key(key, event)] = value
        for values in merged:
            for name, value in values.items():
                found.setdefault(name, value)
        return found

    def _repeated(self, event: yaml.AliasEvent, depth: int) -> object:
        if event.anchor not in self._anchors:
            raise _Wrong(f'nothing above is called "{event.anchor}"', event)
        return self._copied(self._anchors[event.anchor], event, depth)

    def _copied(self, value: object, event: yaml.AliasEvent, depth: int) -> object:
        self._left -= 1
        if self._left < 0:
            raise _Wrong("the aliases repeat too much", event)
        if depth > _MOST_DEPTH:
            raise _Wrong(_TOO_DEEP, event)
        if isinstance(value, dict):
            return {key: self._copied(item, event, depth + 1) for key, item in value.items()}
        if isinstance(value, list):
            return [self._copied(item, event, depth + 1) for item in value]
        return value


def _mappings(value: object, event: yaml.Event) -> list[dict[str, object]]:
    """Return what `<<` brings in, of several the strongest first."""
    found = [entry for entry in _listed(value) if isinstance(entry, dict)]
    if len(found) != len(_listed(value)):
        raise _Wrong("<< takes objects alone", event)
    return found


def _listed(value: object) -> list[object]:
    return value if isinstance(value, list) else [value]


def _key(key: object, event: yaml.Event | None) -> str:
    """Return a key that is no text as Kubernetes spells it."""
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, int | float):
        return str(key)
    raise _Wrong("a key must be a text", event)


def _scalar(event: yaml.ScalarEvent) -> object:
    text, tag = event.value, event.tag
    if tag is None or tag == "!":
        return text if event.style or tag else _plain(text)
    match tag.removeprefix(_TAGS):
        case "str" | "timestamp" | "binary":
            return text
        case "int" | "float" | "bool" | "null":
            return _plain(text)
        case _:
            raise _Wrong(f"the tag {tag} is not known", event)


def _plain(text: str) -> object:
    """Return what a text without quotes stands for."""
    return text if len(text) > _LONGEST_NUMBER else _word_or_number(text)


@lru_cache(10_000)
def _word_or_number(text: str) -> object:
    if text in _WORDS:
        return _WORDS[text]
    found = _NUMBER.fullmatch(text)
    if found is None or found.lastgroup is None:
        return text
    digits = f"{found['sign']}{found[found.lastgroup]}".replace("_", "")
    try:
        return float(digits) if found.lastgroup == "float" else int(digits, _BASES[found.lastgroup])
    except ValueError:  # nothing but underscores
        return text


def lines(path: str, report: Callable[[float], None]) -> Iterator[bytes]:
    """Yield the lines of a file, of standard input for `-`; report which share of it is read.

    Raises:
        BadSetting: there is no such file, or it may not be read.
        BadObject: it is damaged from here on.
    """
    if path == STDIN and sys.stdin is None:
        raise BadSetting("standard input is closed")
    with ExitStack() as stack:
        try:
            file = sys.stdin.buffer if path == STDIN else stack.enter_context(Path(path).open("rb"))
            packed = cast("BufferedReader", file)
            is_packed = packed.peek(2).startswith(GZIP)
        except OSError as error:
            raise BadSetting(f"{path}: {error.strerror or error}") from None
        try:
            found = gzip.GzipFile(fileobj=packed) if is_packed else packed
            yield from _reported(found, packed, report)
        except (OSError, EOFError, zlib.error) as error:
            raise BadObject("", f"damaged: {error}") from None


def _reported(
    found: Iterable[bytes], packed: BufferedReader, report: Callable[[float], None]
) -> Iterator[bytes]:
    size = os.fstat(packed.fileno()).st_size  # 0 for a pipe
    for number, line in enumerate(found):
        yield line
        if size and not number % _STRIDE:
            report(packed.tell() / size)
