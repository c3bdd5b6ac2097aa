"""What a command found, and how it is printed: a table, JSON, YAML, CSV, or names alone.

Strategy: programs get exact values, one object a line (JSON) or a document (YAML); CSV has a
column for each path that any object has, so all three say the same. Only people get colours.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

import orjson
import yaml

from app.model.fields import Json

_GAP: Final = "  "
_WIDEST: Final = 10_000  # of a line of YAML, which is not folded


class Tone(StrEnum):
    """How a piece of text is meant."""

    PLAIN = "plain"
    STRONG = "strong"
    FAINT = "faint"
    GOOD = "good"
    CAREFUL = "careful"
    BAD = "bad"


_CODES: Final = {
    Tone.STRONG: "1",
    Tone.FAINT: "2",
    Tone.GOOD: "32",
    Tone.CAREFUL: "33",
    Tone.BAD: "31",
}


class Piece(NamedTuple):
    """Some text of one tone, such as a cell of a table."""

    text: str
    tone: Tone = Tone.PLAIN


Line = tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under columns; every row has a piece for each column."""

    columns: tuple[str, ...]
    rows: Sequence[Line]


@dataclass(frozen=True, slots=True)
class Text:
    """Lines."""

    lines: Sequence[Line]


@dataclass(frozen=True, slots=True)
class Report:
    """What was found, once for people and once for programs."""

    body: Table | Text
    items: Sequence[Json]
    names: Sequence[str]
    notes: Sequence[str] = ()  # sentences beside it, for standard error
    is_bad: bool = False  # something serious was found


def line(text: str, tone: Tone = Tone.PLAIN) -> Line:
    """Return a line of one tone."""
    return (Piece(text, tone),)


# --- how it is printed


class Output(StrEnum):
    """How a report is shown."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"
    CSV = "csv"
    NAME = "name"


def shown(report: Report, output: Output, *, is_coloured: bool = False) -> Iterator[str]:
    """Yield the lines of a report."""
    match output:
        case Output.TABLE:
            body = report.body
            lines = table_lines(body) if isinstance(body, Table) else body.lines
            yield from (_line(line, is_coloured=is_coloured) for line in lines)
        case Output.JSON:
            yield from (orjson.dumps(item).decode() for item in report.items)
        case Output.YAML:
            yield from _yaml(report.items)
        case Output.CSV:
            yield from _csv(report.items)
        case Output.NAME:
            yield from dict.fromkeys(report.names)


def table_lines(table: Table) -> Iterator[Line]:
    """Yield the rows, each piece as wide as its column; an empty table has no head either."""
    if not table.rows:
        return
    head = tuple(Piece(column, Tone.STRONG) for column in table.columns)
    rows = [head, *table.rows]
    widths = [max(len(piece.text) for piece in column) for column in zip(*rows, strict=True)]
    for row in rows:
        yield tuple(
            Piece(piece.text.ljust(width) + _GAP, piece.tone)
            for piece, width in zip(row, widths, strict=True)
        )


def _line(line: Line, *, is_coloured: bool) -> str:
    *pieces, last = line or (Piece(""),)
    line = (*pieces, Piece(last.text.rstrip(), last.tone))
    if not is_coloured:
        return "".join(piece.text for piece in line).rstrip()
    return "".join(_painted(piece) for piece in line)


def _painted(piece: Piece) -> str:
    code, text = _CODES.get(piece.tone), piece.text.rstrip()
    if code is None or not text:
        return piece.text
    return f"\033[{code}m{text}\033[0m{piece.text[len(text) :]}"


def _yaml(items: Sequence[Json]) -> Iterator[str]:
    for item in items:
        yield "---"
        apart = orjson.loads(orjson.dumps(item))  # what stands in two places is written twice
        text = yaml.safe_dump(apart, sort_keys=False, allow_unicode=True, width=_WIDEST)
        yield from text.rstrip("\n").split("\n")


def _csv(items: Sequence[Json]) -> Iterator[str]:
    rows = [dict(_flat(item)) for item in items]
    columns = list(dict.fromkeys(path for row in rows for path in row))
    if not columns:
        return
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    yield from text.getvalue().rstrip("\n").split("\n")


def _flat(value: object, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield the leaves of a value with their paths."""
    match value:
        case dict():
            for key, each in value.items():
                yield from _flat(each, f"{path}.{key}" if path else key)
        case list() | tuple():
            for index, each in enumerate(value):
                yield from _flat(each, f"{path}[{index}]")
        case None:
            yield path, ""
        case bool():
            yield path, "true" if value else "false"
        case _:
            yield path, str(value)
