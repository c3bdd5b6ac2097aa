"""The table of VPAs on a screen: which columns there is room for, and what stands in them.

Strategy: a column is shown whole or not at all, the more important ones first; wide terminals have
more of them. All amounts of a column have one unit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from app.diagnosis.core.attention import Attention
from app.output import Line, Piece, Tone, line, wrapped
from app.run.view import ResourceAmounts, VpaRow

_NAME: Final = (8, 24)
_STATUS: Final = (24, 36)
_PODS: Final = 4
_MODE: Final = 17
_LEAST_WHY: Final = 30
_MOST_GAPS: Final = 6  # columns that wider gaps need, with one to spare
_OUTSIDE_MARKS, _WITHIN_MARKS = "▲▼", "△▽"  # for what should grow, and what should shrink
_MANY: Final = 100_000  # of a small unit, which the large one writes shorter
_LEVEL_TONES: Final = {
    Attention.BLOCKED: Tone.BAD,
    Attention.WAITING: Tone.CAREFUL,
    Attention.UPDATING: Tone.STRONG,
    Attention.FINE: Tone.GOOD,
    Attention.IDLE: Tone.FAINT,
}


def table_lines(rows: Sequence[VpaRow], width: int, room: int) -> list[Line]:
    """Return the rows that find room, with a head, and how many more there are."""
    columns, gap = _columns(rows, width)
    head = gap.join(_fitted(one.head, one.width) for one in columns)
    lines, left_out = [line(head.rstrip(), Tone.STRONG)], len(rows)
    for row in rows:
        more = _row(row, columns, gap)
        if len(lines) + len(more) > room - (left_out > 1):
            break
        lines += more
        left_out -= 1
    if left_out:
        are_fine = all(row.status.level is Attention.FINE for row in rows[-left_out:])
        lines.append(line(f"and {left_out} more{', all ok' if are_fine else ''}", Tone.FAINT))
    return lines


@dataclass(frozen=True, slots=True)
class _Column:
    """A column: its head, its width, and what stands in it; what is longer is cut, or wrapped."""

    head: str
    width: int
    piece: Callable[[VpaRow], Piece]
    is_wrapped: bool = False


@dataclass(frozen=True, slots=True)
class _Unit:
    """One unit for all amounts of a column."""

    size: float
    word: str
    digits: int

    def text(self, amount: int | None, width: int = 0) -> str:
        shown = "-" if amount is None else f"{amount / self.size:.{self.digits}f}{self.word}"
        return f"{shown:>{width}}"


@dataclass(frozen=True, slots=True)
class _Resource:
    """How the amounts of one resource are written."""

    word: str
    of: Callable[[VpaRow], ResourceAmounts]
    width: int
    small: _Unit
    large: _Unit

    def columns(self, rows: Sequence[VpaRow]) -> tuple[_Column, _Column]:
        """Return the column with what is requested and recommended, and the one with usage."""
        amounts = [amount for row in rows for amount in self._shown(self.of(row))]
        unit = self.small if max(amounts, default=0) < _MANY * self.small.size else self.large
        width = max(self.width, *(len(unit.text(amount)) for amount in amounts), 0)
        of = self.of

        def usage(row: VpaRow) -> Piece:
            return Piece(unit.text(of(row).usage, width), Tone.FAINT)

        def change(row: VpaRow) -> Piece:
            return _change(of(row), lambda amount: unit.text(amount, width))

        return (
            _Column(f"{self.word} → target", 2 * width + 5, change),
            _Column(f"{'used':>{width}}", width, usage),
        )

    @staticmethod
    def _shown(found: ResourceAmounts) -> Iterator[int]:
        return (one for one in (found.request, found.target, found.usage) if one is not None)


_CPU: Final = _Resource("CPU", lambda row: row.cpu, 5, _Unit(1, "m", 0), _Unit(1000, "", 2))
_MEMORY: Final = _Resource(
    "MEMORY", lambda row: row.memory, 6, _Unit(2**20, "Mi", 0), _Unit(2**30, "Gi", 2)
)


def _change(found: ResourceAmounts, text: Callable[[int | None], str]) -> Piece:
    """Return what is requested and, where it differs, what it should be."""
    now, target = text(found.request), text(found.target)
    if found.target is None or now == target:
        return Piece(now)
    if found.request is None:
        return Piece(f"{now} → {target}")
    mark = _OUTSIDE_MARKS if found.is_outside else _WITHIN_MARKS
    tone = Tone.BAD if found.is_outside else Tone.PLAIN
    return Piece(f"{now} → {target} {mark[found.request > found.target]}", tone)


def _row(row: VpaRow, columns: Sequence[_Column], gap: str) -> list[Line]:
    pieces = [one.piece(row) for one in columns]
    last, tone = pieces[-1]
    parts = wrapped(last, columns[-1].width) if columns[-1].is_wrapped else [last]
    shown = [*pieces[:-1], Piece(parts[0], tone)]
    first = tuple(
        Piece(_fitted(piece.text, one.width) + gap, piece.tone)
        for piece, one in zip(shown, columns, strict=True)
    )
    indent = sum(one.width + len(gap) for one in columns[:-1])
    return [first, *(line(" " * indent + part, tone) for part in parts[1:])]


def _columns(rows: Sequence[VpaRow], width: int) -> tuple[list[_Column], str]:
    """Return the columns that a terminal has room for, and what stands between them."""
    is_wide = len({row.namespace for row in rows}) > 1  # so names need their namespace
    least, most = _NAME
    name = min(max(least, *(len(_name(row, is_wide=is_wide)) for row in rows)), most)
    cpu, cpu_used = _CPU.columns(rows)
    memory, memory_used = _MEMORY.columns(rows)
    spare = width - (name + 1 + _STATUS[0] + 1 + cpu.width + 1 + memory.width + 1 + _PODS)
    gap = "  " if spare >= _MOST_GAPS else " "
    status = min(max(spare - _MOST_GAPS, 0) + _STATUS[0], _STATUS[1])
    always = [
        _Column("VPA", name, lambda row: Piece(_name(row, is_wide=is_wide))),
        _Column("STATUS", status, lambda row: _status(row, status)),
    ]
    pods = _Column("PODS", _PODS, lambda row: Piece(f"{row.pods:>{_PODS}}"))
    mode = _Column("MODE", _MODE, lambda row: Piece(row.mode, Tone.FAINT))
    spare = width - sum(one.width + len(gap) for one in always) + len(gap)
    found: list[_Column] = []
    for columns in ((cpu,), (memory,), (pods,), (cpu_used, memory_used), (mode,)):
        needed = sum(one.width + len(gap) for one in columns)
        if spare >= needed:
            found += columns
            spare -= needed
    others = (pods, cpu, cpu_used, memory, memory_used, mode)
    shown = [*always, *(one for one in others if one in found)]
    if spare - len(gap) >= _LEAST_WHY:
        shown.append(_Column("WHY", spare - len(gap), _why, is_wrapped=True))
    return shown, gap


def _name(row: VpaRow, *, is_wide: bool) -> str:
    return f"{row.namespace}/{row.vpa}" if is_wide else row.vpa


def _status(row: VpaRow, width: int) -> Piece:
    status = row.status
    told = status.text + status.more
    return Piece(told if len(told) <= width else status.text, _LEVEL_TONES[status.level])


def _why(row: VpaRow) -> Piece:
    return Piece(row.status.why if row.status.level is not Attention.FINE else "", Tone.FAINT)


def _fitted(text: str, width: int) -> str:
    return text.ljust(width) if len(text) <= width else f"{text[: width - 1]}…"
