"""Recommendations as a table for people: a line for each container, and what all of it saves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from typing import Final

from app.commands.recommendations_flags import SortKey
from app.commands.workload_names import short_name
from app.diagnosis.core.comparisons import RequestComparison
from app.model.quantity import CPU, MEMORY, Quantity
from app.model.text import amount, percent, span
from app.output import Line, Piece, Table, Tone

_NOTHING: Final = Piece("-", Tone.FAINT)
_RESOURCES: Final = (CPU, MEMORY)
_NO_VPA: Final = "no VPA"
_CERTAIN: Final = 1.0  # days of history; with less a target may still move
_NARROW: Final = ("VPA", "PODS", "CONTAINER", "CPU", "MEMORY", "SAVES", "MODE")
_WIDE: Final = ("WORKLOAD", "CPU BOUNDS", "MEMORY BOUNDS", "CONFIDENCE", "AGE")
_NEVER: Final = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class ContainerRow:
    """The comparisons of one container, or the one that says why there is none."""

    comparisons: tuple[RequestComparison, ...]

    @property
    def first(self) -> RequestComparison:
        """What all of them say alike."""
        return self.comparisons[0]

    def of(self, resource: str) -> RequestComparison | None:
        """The comparison of a resource."""
        return next((one for one in self.comparisons if one.resource == resource), None)

    @property
    def note(self) -> str:
        """Why nothing is recommended, or what is not changed."""
        held = (one for one in self.comparisons if one.held_by)
        told = (f"{one.resource} held: {one.held_by} scales by it" for one in held)
        return self.first.problem or "; ".join(told)

    def saved_nano(self, resource: str) -> int:
        """What would be saved of a resource; below zero the pods are short."""
        one = self.of(resource)
        return one.gap.amount.nano if one is not None and one.gap is not None else 0


_Key = Callable[[ContainerRow], tuple[object, ...]]
_KEYS: Final[dict[SortKey, _Key]] = {
    SortKey.NAME: lambda row: (row.first.namespace, row.first.vpa, row.first.container),
    SortKey.PODS: lambda row: (-row.first.pods,),
    SortKey.CPU: lambda row: (-row.saved_nano(CPU),),
    SortKey.MEMORY: lambda row: (-row.saved_nano(MEMORY),),
    SortKey.AGE: lambda row: (row.first.as_of or _NEVER,),
}


def container_rows(
    found: Sequence[RequestComparison], by: SortKey, *, is_reversed: bool
) -> list[ContainerRow]:
    """Return comparisons by container, sorted; equal ones stay in the order of their names."""
    groups = groupby(found, key=lambda one: (one.namespace, one.vpa, one.container))
    rows = sorted((ContainerRow(tuple(group)) for _, group in groups), key=_KEYS[SortKey.NAME])
    return sorted(rows, key=_KEYS[by], reverse=is_reversed)


def containers_table(
    rows: Sequence[ContainerRow], now: datetime, *, has_namespaces: bool, is_wide: bool
) -> Table:
    """Return rows for people."""
    has_notes = any(row.note for row in rows)
    columns = (
        *(("NAMESPACE",) if has_namespaces else ()),
        *_NARROW,
        *(_WIDE if is_wide else ()),
        *(("NOTE",) if has_notes else ()),
    )
    cells = [
        (
            *((Piece(row.first.namespace),) if has_namespaces else ()),
            *_narrow(row),
            *(_wide(row, now) if is_wide else ()),
            *((Piece(row.note, Tone.CAREFUL),) if has_notes else ()),
        )
        for row in rows
    ]
    if any(one.gap is not None for row in rows for one in row.comparisons):
        total = _total(rows)
        head = total[:1] if not has_namespaces else (total[0], Piece(""))
        line = (*head, *total[1:])
        cells.append((*line, *(Piece("") for _ in range(len(columns) - len(line)))))
    return Table(columns, cells, ends_in_sentences=has_notes, is_folded=True)


def _narrow(row: ContainerRow) -> Iterator[Piece]:
    first = row.first
    yield Piece(_title(first))
    yield Piece(str(first.pods))
    yield Piece(first.container) if first.container else _NOTHING
    yield from (_change(row.of(resource)) for resource in _RESOURCES)
    yield _saves(row)
    yield Piece(first.mode) if first.has_vpa else Piece(_NO_VPA, Tone.CAREFUL)


def _title(one: RequestComparison) -> str:
    """Return the VPA, or the workload that has none."""
    if one.has_vpa or one.target_key is None:
        return one.vpa
    return short_name(one.target_key)


def _change(one: RequestComparison | None) -> Piece:
    """Return what is requested now, and the target."""
    if one is None or one.target is None:
        return _NOTHING
    target = amount(one.resource, one.target)
    has = _range(one.resource, one.lowest, one.highest)
    if one.highest is None and one.gap is None:
        return Piece(f"? -> {target}")  # no pod and no template says it
    if has == target:
        return Piece(target)
    tone = Tone.GOOD
    if one.is_outside:
        tone = Tone.BAD if one.is_short else Tone.CAREFUL
    elif one.is_short:
        tone = Tone.CAREFUL
    return Piece(f"{has} -> {target}", tone)


def _range(resource: str, low: Quantity | None, high: Quantity | None) -> str:
    least = "none" if low is None else amount(resource, low)
    most = "none" if high is None else amount(resource, high)
    return most if least == most else f"{least}..{most}"


def _saves(row: ContainerRow) -> Piece:
    told = [_saved(row.of(resource)) for resource in _RESOURCES]
    if all(one == _NOTHING.text for one in told):
        return _NOTHING
    tone = Tone.CAREFUL if any(one.startswith("-") and one[1:] for one in told) else Tone.GOOD
    return Piece(", ".join(told), tone)


def _saved(one: RequestComparison | None) -> str:
    if one is None or one.gap is None:
        return _NOTHING.text
    return amount(one.resource, one.gap.amount)


def _wide(row: ContainerRow, now: datetime) -> Iterator[Piece]:
    first = row.first
    kind, _, name = first.workload.partition("/")
    yield Piece(f"{kind.lower()}/{name}") if name else _NOTHING
    for resource in _RESOURCES:
        one = row.of(resource)
        yield _NOTHING if one is None else _bounds(one)
    yield _confidence(first.confidence)
    yield Piece(span(now - first.as_of)) if first.as_of else _NOTHING


def _bounds(one: RequestComparison) -> Piece:
    low, high = (
        "" if bound is None else amount(one.resource, bound) for bound in (one.lower, one.upper)
    )
    return Piece(f"{low}..{high}") if low or high else _NOTHING


def _confidence(days: float | None) -> Piece:
    if days is None:
        return _NOTHING
    return Piece(percent(min(days, _CERTAIN)), Tone.PLAIN if days >= _CERTAIN else Tone.CAREFUL)


def _total(rows: Sequence[ContainerRow]) -> Line:
    """Return the sums over all pods that run."""
    pods = {(row.first.namespace, row.first.vpa): row.first.pods for row in rows}
    sums = [_summed(rows, resource) for resource in _RESOURCES]
    saved = ", ".join(saved for _, saved in sums)
    texts = ("TOTAL", str(sum(pods.values())), "", *(told for told, _ in sums), saved)
    return tuple(Piece(text, Tone.STRONG) for text in texts)


def _summed(rows: Sequence[ContainerRow], resource: str) -> tuple[str, str]:
    """Return how a sum changes, and what that saves."""
    gaps = [
        one.gap for row in rows if (one := row.of(resource)) is not None and one.gap is not None
    ]
    if not gaps:
        return _NOTHING.text, _NOTHING.text
    form = gaps[0].amount.format
    has = Quantity(sum(gap.requested.nano for gap in gaps), form)
    saved = Quantity(sum(gap.amount.nano for gap in gaps), form)
    gets = Quantity(has.nano - saved.nano, form)
    told = amount(resource, has), amount(resource, gets)
    return (" -> ".join(told) if told[0] != told[1] else told[0]), amount(resource, saved)
