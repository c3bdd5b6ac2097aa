"""What was measured, in a form that can be compared, kept and shown."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import linear_regression, median
from typing import Any, Final

SIDES: Final = ("upstream", "ours")
HEAD: Final = "| What | Upstream | Ours | Ratio | Wanted | Holds |"
_LINE: Final = "|---|--:|--:|--:|---|---|"


@dataclass(frozen=True, slots=True)
class Wanted:
    """A limit of the ratio of ours to upstream's, or of ours alone."""

    relation: str  # <= or >=
    limit: float
    of: str = "ratio"  # or ours

    def holds(self, value: float) -> bool:
        """Tell whether a value is within the limit."""
        return value <= self.limit if self.relation == "<=" else value >= self.limit

    def __str__(self) -> str:
        sign = {"<=": "≤", ">=": "≥"}[self.relation]
        return f"{sign} {self.limit:g}" + ("" if self.of == "ratio" else f" {self.of}")


@dataclass(frozen=True, slots=True)
class Row:
    """One thing, measured some times on each side; a side may be missing."""

    what: str
    unit: str
    upstream: tuple[float, ...] = ()
    ours: tuple[float, ...] = ()
    wanted: Wanted | None = None

    @property
    def ratio(self) -> float | None:
        """Median of ours to median of upstream's."""
        if not self.upstream or not self.ours or not median(self.upstream):
            return None
        return median(self.ours) / median(self.upstream)

    @property
    def holds(self) -> bool | None:
        """Whether what is wanted is so; None where nothing is wanted or known."""
        if self.wanted is None or not self.ours:
            return None
        value = self.ratio if self.wanted.of == "ratio" else median(self.ours)
        return None if value is None else self.wanted.holds(value)


@dataclass(frozen=True, slots=True)
class Result:
    """What a bench found, and under which circumstances."""

    name: str
    title: str
    date: str
    machine: str
    versions: dict[str, str]
    is_quick: bool
    rows: tuple[Row, ...]
    commands: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(slots=True)
class Found:
    """Values as they come in, by side and key."""

    values: dict[tuple[str, str], list[float]] = field(default_factory=dict)

    def add(self, side: str, key: str, value: float) -> None:
        """Take one more."""
        self.values.setdefault((side, key), []).append(value)

    def row(self, key: str, what: str, unit: str, wanted: Wanted | None = None) -> Row:
        """Return what was found of one thing, under the name that people read."""
        upstream, ours = (tuple(self.values.get((side, key), ())) for side in SIDES)
        return Row(what, unit, upstream, ours, wanted)


def exponent(sizes: Sequence[float], costs: Sequence[float]) -> float:
    """Return by which power of the size a cost grows: the slope of a line through logarithms."""
    return linear_regression(list(map(math.log, sizes)), list(map(math.log, costs))).slope


def table(rows: Sequence[Row]) -> str:
    """Return rows as a table of Markdown."""
    return "\n".join([HEAD, _LINE, *map(_line, rows)])


def _line(row: Row) -> str:
    holds = {True: "yes", False: "**no**", None: ""}[row.holds]
    ratio = "" if row.ratio is None else number(row.ratio)
    cells = [
        f"{row.what}, {row.unit}" if row.unit else row.what,
        _spread(row.upstream),
        _spread(row.ours),
        ratio,
        str(row.wanted or ""),
        holds,
    ]
    return "| " + " | ".join(cells) + " |"


def _spread(values: Sequence[float]) -> str:
    if not values:
        return ""
    if len(values) == 1:
        return number(values[0])
    return f"{number(median(values))} ({number(min(values))}–{number(max(values))})"


def number(value: float) -> str:
    """Write a number with three digits that count."""
    if not value:
        return "0"
    decimals = max(2 - math.floor(math.log10(abs(value))), 0)
    return f"{value:,.{decimals}f}"


def to_json(result: Result) -> dict[str, Any]:
    """Return a result as it is kept."""
    rows = [
        {
            "what": row.what,
            "unit": row.unit,
            "upstream": row.upstream,
            "ours": row.ours,
            "ratio": row.ratio,
            "wanted": row.wanted
            and {
                "relation": row.wanted.relation,
                "limit": row.wanted.limit,
                "of": row.wanted.of,
            },
            "holds": row.holds,
        }
        for row in result.rows
    ]
    return {
        "name": result.name,
        "title": result.title,
        "date": result.date,
        "machine": result.machine,
        "versions": result.versions,
        "quick": result.is_quick,
        "rows": rows,
        "commands": result.commands,
        "notes": result.notes,
    }


def from_json(item: dict[str, Any]) -> Result:
    """Return a result that was kept."""
    rows = (
        Row(
            row["what"],
            row["unit"],
            tuple(row["upstream"]),
            tuple(row["ours"]),
            Wanted(**row["wanted"]) if row["wanted"] else None,
        )
        for row in item["rows"]
    )
    return Result(
        name=item["name"],
        title=item["title"],
        date=item["date"],
        machine=item["machine"],
        versions=item["versions"],
        is_quick=item["quick"],
        rows=tuple(rows),
        commands=tuple(item["commands"]),
        notes=tuple(item["notes"]),
    )
