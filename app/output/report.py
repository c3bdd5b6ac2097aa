"""What a command found: for people a table or a text, for programs objects and names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

Json = dict[str, Any]


class Tone(StrEnum):
    """How a piece of text is meant."""

    PLAIN = "plain"
    STRONG = "strong"
    FAINT = "faint"
    GOOD = "good"
    CAREFUL = "careful"
    BAD = "bad"


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
