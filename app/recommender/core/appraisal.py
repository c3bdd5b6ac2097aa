"""What every row would be given now: which take part, how much they get, what they show.

Strategy: arrays from end to end. A row takes part unless its policy says Off or its container
has been gone for long while others of the VPA live; those that take part share what a pod gets
at least. A resource of which nothing is known is not shown.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from app.recommender.core.bank import Bank, Rows
from app.recommender.core.estimators import (
    Estimates,
    Factors,
    confidence,
    estimate,
    floors,
    percentile_bases,
    pod_minimum,
)
from app.recommender.core.grid import CPU_GRID, MEMORY_GRID, Amounts, Grid
from app.recommender.core.moments import span
from app.recommender.core.rows import NOWHERE, RowTable
from app.recommender.core.rules import RecommenderRules, ResourceRules

Flags = NDArray[np.bool_]

SHOWS_ENTRY: Final = 1  # bits of what a row shows
SHOWS_CPU: Final = 2
SHOWS_MEMORY: Final = 4


@dataclass(frozen=True, slots=True)
class Appraisal:
    """The numbers of some rows; every array has one line for each."""

    rows: Rows
    shows: NDArray[np.int8]
    cpu: Estimates
    memory: Estimates
    cpu_confidence: Factors
    memory_confidence: Factors

    @property
    def amounts(self) -> Amounts:
        """Target, lower and upper of cpu, then of memory; zero where they are not shown."""
        both = np.concatenate([self.cpu.amounts, self.memory.amounts], axis=1)
        shown = np.stack([self.shows & SHOWS_CPU, self.shows & SHOWS_MEMORY], axis=1) > 0
        return np.where(np.repeat(shown, 3, axis=1), both, 0)


def rows_in_use(rows: RowTable) -> Rows:
    """Return all rows that belong to a VPA."""
    return np.flatnonzero(rows.vpa != NOWHERE)


def appraise(table: RowTable, rows: Rows, now_ns: int, rules: RecommenderRules) -> Appraisal:
    """Appraise some rows, among them all rows of every VPA concerned."""
    taking_part = _taking_part(table, rows, now_ns, rules)
    containers = _per_vpa(table.vpa[rows], taking_part)
    first, last, counts = table.first[rows], table.last[rows], table.counts[rows]
    asked, interpolates = rules.estimator, rules.extras.interpolate

    def one(bank: Bank, grid: Grid, of: ResourceRules, minimum: int) -> tuple[Estimates, Factors]:
        buckets, bases = percentile_bases(bank, rows, grid, of.fractions, interpolate=interpolates)
        confidences = confidence(first, last, counts, of.confidence_interval)
        floor = floors(minimum, containers)
        return estimate(buckets, bases, confidences, floor, asked.margin_fraction), confidences

    cpu_minimum, memory_minimum = pod_minimum(asked)
    cpu, cpu_confidence = one(table.cpu, CPU_GRID, asked.cpu, cpu_minimum)
    memory, memory_confidence = one(table.memory, MEMORY_GRID, asked.memory, memory_minimum)
    shows = _shown(table, rows, taking_part, omits=asked.omit_unsampled)
    return Appraisal(rows, shows, cpu, memory, cpu_confidence, memory_confidence)


def _taking_part(table: RowTable, rows: Rows, now_ns: int, rules: RecommenderRules) -> Flags:
    stale_after = rules.estimator.stale_after
    if stale_after is None:
        return ~table.is_off[rows]
    alive = table.live[rows] > 0
    gone = ~alive & (now_ns - table.youth(rows) >= span(stale_after))
    others_live = _per_vpa(table.vpa[rows], alive) > 0
    return ~table.is_off[rows] & ~(gone & others_live)


def _per_vpa(vpas: NDArray[np.int32], counted: Flags) -> Amounts:
    """Return for each row how many rows of its VPA are counted."""
    counts: Amounts = np.bincount(vpas[counted], minlength=int(vpas.max(initial=0)) + 1)
    return counts[vpas]


def _shown(table: RowTable, rows: Rows, taking_part: Flags, *, omits: bool) -> NDArray[np.int8]:
    cpu, memory = table.cpu.totals[rows] > 0.0, table.memory.totals[rows] > 0.0
    if not omits:
        cpu = memory = np.ones(len(rows), dtype=np.bool_)
    entry = taking_part & (cpu | memory)
    shows = entry * SHOWS_ENTRY
    shows = shows + (entry & cpu & table.sizes_cpu[rows]) * SHOWS_CPU
    shows = shows + (entry & memory & table.sizes_memory[rows]) * SHOWS_MEMORY
    return shows.astype(np.int8)
