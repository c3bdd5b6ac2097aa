"""What a command found, and how it is printed: a table, JSON, YAML, CSV, or names alone.

Strategy: programs get exact values, one object a line (JSON) or a document (YAML); CSV has a
column for each path that any object has, so all three say the same. Only people get colours.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from textwrap import wrap
from typing import Final, NamedTuple, TypeVar

import orjson
import yaml

from app.model.fields import Json

_GAP: Final = "  "
_LEFT_OUT: Final = "…"
_PROMPT: Final = "$ "  # before a command
_INDENT: Final = 4  # of sentences that stand below their row
_LEAST_SENTENCE: Final = 30  # columns; with less it stands below
_LEAST_WRAPPED: Final = 10
_ARROW: Final = re.compile(r" (->|→) ")
_HELD: Final = "\N{NO-BREAK SPACE}"
_WIDEST: Final = 10_000  # of a line of YAML, which is not folded
_MOST_ALIKE: Final = 3  # names of which the same is told, before it is told once

T = TypeVar("T", bound=Hashable)


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
    below: Sequence[Line] = ()  # lines that sum it up
    ends_in_sentences: bool = False  # in the last column; terminals wrap them
    is_folded: bool = False  # columns for which there is no room stand below the others; else cut


@dataclass(frozen=True, slots=True)
class Forms:
    """The same lines in several forms; the first one that fits is shown, else the last one."""

    forms: Sequence[Sequence[Line]]

    def fitting(self, width: int | None) -> Sequence[Line]:
        """Return the form for a width, None for any."""
        for form in self.forms:
            if width is None or all(len(_text(each)) <= width for each in form):
                return form
        return self.forms[-1]


@dataclass(frozen=True, slots=True)
class Text:
    """Lines."""

    lines: Sequence[Line | Forms]


@dataclass(frozen=True, slots=True)
class Report:
    """What was found, once for people and once for programs."""

    body: Table | Text
    items: Sequence[Json]
    names: Sequence[str]
    notes: Sequence[str] = ()  # sentences beside it, for standard error
    problems: Sequence[str] = ()  # sentences that stand first, for standard error as well
    wide: Table | Text | None = None  # with more columns, or whole
    is_bad: bool = False  # something serious was found
    is_partial: bool = False  # a file could not be read


def folded(names: Sequence[tuple[str, T]]) -> Iterator[tuple[str, T]]:
    """Yield names with what is told of them; of many with the same the first, and their number."""
    counts, seen = Counter(told for _, told in names), set[T]()
    for name, told in names:
        if counts[told] <= _MOST_ALIKE:
            yield name, told
        elif told not in seen:
            seen.add(told)
            yield f"{name} and {counts[told] - 1} more", told


def line(text: str, tone: Tone = Tone.PLAIN) -> Line:
    """Return a line of one tone."""
    return (Piece(text, tone),)


# --- how it is printed


class Output(StrEnum):
    """How a report is shown."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    CSV = "csv"
    NAME = "name"


def shown(
    report: Report, output: Output, *, is_coloured: bool = False, width: int | None = None
) -> Iterator[str]:
    """Yield the lines of a report; unless it is wide they keep to a width.

    Lines of a table are cut, sentences wrapped, and commands left whole, to be copied.
    """
    match output:
        case Output.TABLE | Output.WIDE:
            body = (output is Output.WIDE and report.wide) or report.body
            width = width if output is Output.TABLE else None
            for line in table_lines(body, width) if isinstance(body, Table) else _all(body, width):
                for part in _fitted(line, width, is_cut=isinstance(body, Table)):
                    yield _line(part, is_coloured=is_coloured)
        case Output.JSON:
            yield from (orjson.dumps(item).decode() for item in report.items)
        case Output.YAML:
            yield from _yaml(report.items)
        case Output.CSV:
            yield from _csv(report.items)
        case Output.NAME:
            yield from dict.fromkeys(report.names)


def _all(text: Text, width: int | None) -> Iterator[Line]:
    for each in text.lines:
        if isinstance(each, Forms):
            yield from each.fitting(width)
        else:
            yield each


def _text(line: Line) -> str:
    return "".join(piece.text for piece in line).rstrip()


def table_lines(table: Table, width: int | None = None) -> Iterator[Line]:
    """Yield the rows, each piece as wide as its column; an empty table has no head either.

    Sentences in the last column are wrapped to a width, or stand below their rows if little is left
    of it. In a folded table whole columns stand below.
    """
    if not table.rows:
        return
    head = tuple(Piece(column, Tone.STRONG) for column in table.columns)
    rows = [head, *table.rows]
    widths = [max(len(piece.text) for piece in column) for column in zip(*rows, strict=True)]
    if width is None:
        yield from (_padded(row, widths) for row in rows)
    else:
        yield from _within(table, rows, widths, width)
    for below in table.below:
        text = "".join(piece.text for piece in below)
        is_whole = width is None or len(text) <= width
        yield from [below] if is_whole else (line(part) for part in wrapped(text, width or 0))


def _within(
    table: Table, rows: Sequence[Line], widths: Sequence[int], width: int
) -> Iterator[Line]:
    """Yield rows, the head first, as a terminal of a width shows them."""
    end = len(widths) - table.ends_in_sentences
    parts = _parts(widths[:end], width) if table.is_folded else [slice(0, end)]
    indent = sum(widths[:end]) + len(_GAP) * end
    is_below = len(parts) > 1 or width - indent < _LEAST_SENTENCE
    indent = _INDENT if is_below else indent
    for number, row in enumerate(rows):
        first, *below = (_padded(row[part], widths[part]) for part in parts)
        for text, tone in row[end:] if number or not is_below else ():
            sentences = [line(one, tone) for one in wrapped(text, width - indent)]
            first = first if is_below else (*first, *sentences.pop(0))
            below += sentences
        yield first
        for one in below:
            if any(piece.text.strip() for piece in one):
                yield (Piece(" " * indent), *one)


def _parts(widths: Sequence[int], width: int) -> list[slice]:
    """Return the columns that have room beside each other; all parts but the first are indented."""
    parts, begin, used = list[slice](), 0, 0
    for at, column in enumerate(widths):
        used += len(_GAP) * (at > begin) + column
        if at > begin and used > width:
            parts.append(slice(begin, at))
            begin, used = at, _INDENT + column
    return [*parts, slice(begin, len(widths))]


def wrapped(text: str, width: int) -> list[str]:
    """Return a text on as many lines as it needs; names and changes (100m -> 2) are kept whole."""
    held = _ARROW.sub(lambda found: found[0].replace(" ", _HELD), text)
    parts = wrap(held, max(width, _LEAST_WRAPPED), break_on_hyphens=False)
    return [part.replace(_HELD, " ") for part in parts] or [""]


def _padded(row: Line, widths: Sequence[int]) -> Line:
    return tuple(
        Piece(piece.text.ljust(width) + _GAP, piece.tone)
        for piece, width in zip(row, widths, strict=True)
    )


def _fitted(line: Line, width: int | None, *, is_cut: bool) -> Iterator[Line]:
    """Yield a line as it fits into a width, None for any."""
    text = _text(line)
    if width is None or len(text) <= width or text.lstrip().startswith(_PROMPT):
        yield line
    elif is_cut:
        yield _cut(line, width)
    else:
        yield from _wrapped_line(line, text, width)


def _wrapped_line(line: Line, text: str, width: int) -> Iterator[Line]:
    """Yield a line that is too long as several; the others stand a little to the right."""
    lead = len(text) - len(text.lstrip())
    first, *others = wrapped(text.lstrip(), width - lead)
    yield _between(line, 0, lead + len(first))
    end = lead + len(first)
    for part in wrapped(text[end:].lstrip(), width - lead - _INDENT) if others else ():
        start = text.index(part, end)
        end = start + len(part)
        yield (Piece(" " * (lead + _INDENT)), *_between(line, start, end))


def _between(line: Line, start: int, end: int) -> Line:
    """Return the part of a line from one character to another one."""
    found, at = list[Piece](), 0
    for text, tone in line:
        found.append(Piece(text[max(start - at, 0) : max(end - at, 0)], tone))
        at += len(text)
    return tuple(piece for piece in found if piece.text)


def _cut(line: Line, width: int) -> Line:
    """Return as much of a line as fits, with a mark where something is left out."""
    if len(_text(line)) <= width:
        return line
    kept: list[Piece] = []
    room = width - len(_LEFT_OUT)
    for piece in line:
        kept.append(Piece(piece.text[:room], piece.tone))
        room -= len(kept[-1].text)
    return (*kept, Piece(_LEFT_OUT))


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
