"""Recommendations for publishing, made of the numbers of an appraisal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from app.core.recommendation.appraisal import (
    SHOWS_CPU,
    SHOWS_ENTRY,
    SHOWS_MEMORY,
    Appraisal,
    Flags,
)
from app.core.recommendation.policy import CPU, MEMORY, Cap
from app.core.recommendation.rows import RowTable
from app.core.recommendation.rules import FormatRules
from app.core.recommendation.shaping import (
    Shaped,
    cpu_quantity,
    memory_quantity,
    shape_cpu,
    shape_memory,
)
from app.model.quantity import Quantity
from app.model.vpa import ContainerRecommendation


@dataclass(frozen=True, slots=True)
class Entries:
    """The shaped amounts of some rows; every list has one line for each."""

    table: RowTable
    rows: list[int]
    shows: list[int]
    cpu: Shaped
    memory: Shaped

    def by_vpa(self) -> dict[int, list[ContainerRecommendation]]:
        """Return the entries of each VPA, sorted by container."""
        found: dict[int, list[ContainerRecommendation]] = {}
        for line, row in enumerate(self.rows):
            entries = found.setdefault(int(self.table.vpa[row]), [])
            if self.shows[line] & SHOWS_ENTRY:
                entries.append(self.entry(line))
        for entries in found.values():
            entries.sort(key=lambda entry: entry.container)
        return found

    def entry(self, line: int) -> ContainerRecommendation:
        """Return the recommendation of one line."""
        row = self.rows[line]
        rules = self.table.rules[row]
        lists: list[dict[str, Quantity]] = [{}, {}, {}, {}]  # target, lower, upper, uncapped
        if self.shows[line] & SHOWS_CPU:
            _fill(lists, CPU, self.cpu, line, rules.cpu, cpu_quantity)
        if self.shows[line] & SHOWS_MEMORY:
            _fill(lists, MEMORY, self.memory, line, rules.memory, memory_quantity)
        return ContainerRecommendation(self.table.names[row], *lists)


def entries_of(table: RowTable, appraisal: Appraisal, wanted: Flags, rules: FormatRules) -> Entries:
    """Round and cap the lines of an appraisal that are wanted."""
    rows = appraisal.rows[wanted]
    cpu = shape_cpu(
        appraisal.cpu.amounts[wanted],
        rules.round_cpu_millicores,
        table.whole_cores[rows],
        table.cpu_caps(rows),
    )
    memory = shape_memory(
        appraisal.memory.amounts[wanted],
        rules.round_memory_bytes,
        table.memory_caps(rows),
        humanize=rules.humanize_memory,
    )
    return Entries(table, rows.tolist(), appraisal.shows[wanted].tolist(), cpu, memory)


def _fill(
    lists: list[dict[str, Quantity]],
    resource: str,
    shaped: Shaped,
    line: int,
    cap: Cap,
    quantity: Callable[[int, int, Cap], Quantity],
) -> None:
    amounts, bounds = shaped.amounts[line].tolist(), shaped.bounds[line].tolist()
    for amounts_of, amount, bound in zip(lists, amounts, bounds, strict=True):
        amounts_of[resource] = quantity(amount, bound, cap)
