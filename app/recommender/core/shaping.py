"""From estimates to recommendations: rounding, whole cores, caps, quantities.

Strategy: arrays over all rows, in thousandths (millicores, thousandths of a byte), the finest
unit that any step produces. Beside every amount stands what bound it, so that a cap is published
exactly as its author wrote it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import numpy as np

from app.model.quantity import Quantity, QuantityFormat
from app.model.vpa import ContainerRecommendation
from app.recommender.core.estimation import (
    SHOWS_CPU,
    SHOWS_ENTRY,
    SHOWS_MEMORY,
    Estimation,
)
from app.recommender.core.histograms import Amounts, Bits, Flags, Thousandths
from app.recommender.core.rules import CPU, MEMORY, Cap, FormatRules
from app.recommender.core.tables import UNCAPPED, RowTable

_CORE: Final = 1000
_BYTE: Final = 1000
_FORMATS: Final = {CPU: QuantityFormat.DECIMAL_SI, MEMORY: QuantityFormat.BINARY_SI}
_BINARY: Final = (("Ti", 2**40), ("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10))


class Bound(IntEnum):
    """What holds an amount."""

    NOTHING = 0
    LEAST = 1
    MOST = 2


@dataclass(frozen=True, slots=True)
class Caps:
    """The caps of one resource, one entry per row."""

    least: Thousandths
    most: Thousandths
    crossed: Flags  # the least is above the most

    @staticmethod
    def of(caps: Sequence[Cap]) -> Caps:
        """Lay caps out in arrays."""
        return Caps(
            np.array([cap.least_milli for cap in caps], dtype=np.int64),
            np.array([cap.most_milli for cap in caps], dtype=np.int64),
            np.array([cap.is_crossed for cap in caps], dtype=np.bool_),
        )


@dataclass(frozen=True, slots=True)
class Shaped:
    """One resource of each row; columns are target, lower, upper, uncapped."""

    amounts: Thousandths
    bounds: Bits  # a `Bound` for each amount


def shape(
    resource: str, estimated: Amounts, rules: FormatRules, whole_cores: Flags, caps: Caps
) -> Shaped:
    """Round amounts up to a step, some to whole cores or to readable decimals, and cap them."""
    amounts = np.concatenate([estimated, estimated[:, :1]], axis=1)
    if resource == MEMORY:
        amounts = _round_up(amounts, rules.round_memory_bytes)
        return _cap(_humanized(amounts) if rules.humanize_memory else amounts * _BYTE, caps)
    amounts = _round_up(amounts, rules.round_cpu_millicores)
    if whole_cores.any():
        amounts = np.where(whole_cores[:, None], _round_up(amounts, _CORE), amounts)
    return _cap(amounts, caps)


def quantity(resource: str, thousandths: int, bound: int, cap: Cap) -> Quantity:
    """Return an amount for publishing, and a cap as it was written."""
    held = None
    if bound:
        held = cap.least if bound == Bound.LEAST else cap.most
    return held or Quantity.of_milli(thousandths, _FORMATS[resource])


def humanized(count: int) -> str:
    """Write bytes with two decimals and the largest binary suffix."""
    for suffix, size in _BINARY:
        if count >= size:
            return f"{count / size:.2f}{suffix}"
    return str(count)


def _round_up(amounts: Amounts, step: int) -> Amounts:
    return amounts if step <= 1 else -(-amounts // step) * step


def _humanized(amounts: Amounts) -> Thousandths:
    texts = [humanized(count) for count in amounts.ravel().tolist()]
    milli = [Quantity.parse(text).milli for text in texts]
    return np.array(milli, dtype=np.int64).reshape(amounts.shape)


def _cap(amounts: Thousandths, caps: Caps) -> Shaped:
    """Raise to the least, then lower to the most, all but the last column."""
    raised = amounts < caps.least[:, None]
    lowered = np.where(raised, caps.crossed[:, None], amounts > caps.most[:, None])
    bounds = np.where(lowered, Bound.MOST, np.where(raised, Bound.LEAST, Bound.NOTHING))
    capped = np.where(raised, caps.least[:, None], amounts)
    capped = np.where(lowered, caps.most[:, None], capped)
    capped[:, UNCAPPED] = amounts[:, UNCAPPED]
    bounds[:, UNCAPPED] = Bound.NOTHING
    return Shaped(capped, bounds.astype(np.int8))


def shape_rows(
    table: RowTable, estimation: Estimation, wanted: Flags, rules: FormatRules
) -> dict[int, list[ContainerRecommendation]]:
    """Round and cap the wanted rows of an estimation; return those of each VPA, by container."""
    rows = estimation.rows[wanted]
    cpu, memory = (
        shape(
            resource,
            found.amounts[wanted],
            rules,
            table.whole_cores[rows],
            Caps(table.least[rows, at], table.most[rows, at], table.is_crossed[rows, at]),
        )
        for at, (resource, found) in enumerate(((CPU, estimation.cpu), (MEMORY, estimation.memory)))
    )
    shows = estimation.shows[wanted].tolist()
    found: dict[int, list[ContainerRecommendation]] = {}
    every = _recommendations(table, rows.tolist(), shows, cpu, memory)
    for vpa, bits, recommendation in zip(table.vpa[rows].tolist(), shows, every, strict=True):
        of_vpa = found.setdefault(vpa, [])
        if bits & SHOWS_ENTRY:
            of_vpa.append(recommendation)
    for of_vpa in found.values():
        of_vpa.sort(key=lambda one: one.container)
    return found


def _recommendations(
    table: RowTable, rows: list[int], shows: list[int], cpu: Shaped, memory: Shaped
) -> Iterator[ContainerRecommendation]:
    """Yield what each row would show."""
    columns = (cpu.amounts, cpu.bounds, memory.amounts, memory.bounds)
    for row, bits, cpus, cpu_bounds, memories, memory_bounds in zip(
        rows, shows, *(column.tolist() for column in columns), strict=True
    ):
        rules = table.rules[row]
        lists: list[dict[str, Quantity]] = [{}, {}, {}, {}]  # target, lower, upper, uncapped
        if bits & SHOWS_CPU:
            for of, amount, bound in zip(lists, cpus, cpu_bounds, strict=True):
                of[CPU] = quantity(CPU, amount, bound, rules.cpu)
        if bits & SHOWS_MEMORY:
            for of, amount, bound in zip(lists, memories, memory_bounds, strict=True):
                of[MEMORY] = quantity(MEMORY, amount, bound, rules.memory)
        yield ContainerRecommendation(table.names[row], *lists)
