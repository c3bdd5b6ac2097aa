"""Recommendations for publishing, made of the numbers of an appraisal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from app.model.quantity import Quantity
from app.model.vpa import ContainerRecommendation
from app.recommender.core.appraisal import (
    SHOWS_CPU,
    SHOWS_ENTRY,
    SHOWS_MEMORY,
    Appraisal,
    Flags,
)
from app.recommender.core.policy import CPU, MEMORY
from app.recommender.core.rows import RowTable
from app.recommender.core.rules import FormatRules
from app.recommender.core.shaping import (
    Caps,
    Shaped,
    cpu_quantity,
    memory_quantity,
    shape_cpu,
    shape_memory,
)


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
        vpas = self.table.vpa[self.rows].tolist()
        for vpa, shows, entry in zip(vpas, self.shows, self.all(), strict=True):
            entries = found.setdefault(vpa, [])
            if shows & SHOWS_ENTRY:
                entries.append(entry)
        for entries in found.values():
            entries.sort(key=lambda entry: entry.container)
        return found

    def all(self) -> Iterator[ContainerRecommendation]:
        """Return what each line would show."""
        columns = (
            self.cpu.amounts.tolist(),
            self.cpu.bounds.tolist(),
            self.memory.amounts.tolist(),
            self.memory.bounds.tolist(),
        )
        for row, shows, cpu, cpu_bounds, memory, memory_bounds in zip(
            self.rows, self.shows, *columns, strict=True
        ):
            rules = self.table.rules[row]
            lists: list[dict[str, Quantity]] = [{}, {}, {}, {}]  # target, lower, upper, uncapped
            if shows & SHOWS_CPU:
                for of, amount, bound in zip(lists, cpu, cpu_bounds, strict=True):
                    of[CPU] = cpu_quantity(amount, bound, rules.cpu)
            if shows & SHOWS_MEMORY:
                for of, amount, bound in zip(lists, memory, memory_bounds, strict=True):
                    of[MEMORY] = memory_quantity(amount, bound, rules.memory)
            yield ContainerRecommendation(self.table.names[row], *lists)


def entries_of(table: RowTable, appraisal: Appraisal, wanted: Flags, rules: FormatRules) -> Entries:
    """Round and cap the lines of an appraisal that are wanted."""
    rows = appraisal.rows[wanted]
    cpu = shape_cpu(
        appraisal.cpu.amounts[wanted],
        rules.round_cpu_millicores,
        table.whole_cores[rows],
        Caps(table.cpu_least[rows], table.cpu_most[rows], table.cpu_crossed[rows]),
    )
    memory = shape_memory(
        appraisal.memory.amounts[wanted],
        rules.round_memory_bytes,
        Caps(table.memory_least[rows], table.memory_most[rows], table.memory_crossed[rows]),
        humanize=rules.humanize_memory,
    )
    return Entries(table, rows.tolist(), appraisal.shows[wanted].tolist(), cpu, memory)
