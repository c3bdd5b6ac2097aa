"""Reads YAML the way it is meant for Kubernetes: as another spelling of JSON.

Strategy: documents are cut at their `---` lines, so a broken one spoils no other. Each is built
from the parser's events, which costs half of what PyYAML's own way costs and bounds what a few
lines can do: nesting has a limit, and what aliases repeat is copied and counted. All keys are
text, and so are times and whatever else JSON has no word for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Final

import yaml

from app.model.errors import BadObject

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
        yield BadObject("", f"no YAML: {_told(error, line)}")


def _built(parser: yaml.CSafeLoader) -> Iterator[object]:
    while not isinstance(event := parser.get_event(), yaml.StreamEndEvent):
        if isinstance(event, yaml.DocumentStartEvent):
            found = _Document(parser).value(parser.get_event(), 0)
            if found is not None:
                yield found


def _told(error: Exception, line: int) -> str:
    """Return what is wrong and, counted from the beginning of the file, where."""
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
