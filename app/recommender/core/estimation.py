"""From histograms to amounts: percentile, margin, confidence, floor, for all rows at once.

Strategy: every step is an array over all rows, and every step is kept, because it is also shown
when a recommendation is explained. Amounts are whole millicores or bytes after each step, cut off
towards zero. A row takes part unless its policy says Off or its container has been gone for long
while others of the VPA live; those that take part share what a pod gets at least. A resource of
which nothing is known is not shown.

Of what is published only those numbers are kept from which all others follow by the very functions
that made the publication: where the percentiles fell, confidence, floors, the policy. That is one
small array a VPA, never changed once it is made, so an explanation still adds up when newer samples
have come.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from app.recommender.core.histograms import (
    CPU_GRID,
    EMPTY,
    MEMORY_GRID,
    Amounts,
    Bank,
    Bits,
    Buckets,
    Counts,
    Flags,
    Floats,
    Grid,
    Ints,
    Rows,
    Times,
)
from app.recommender.core.moments import MINUTE, UNSET, span
from app.recommender.core.rules import (
    CPU,
    MEMORY,
    ContainerRules,
    EstimatorRules,
    RecommenderRules,
    ResourceRules,
)
from app.recommender.core.tables import LOWER, NOWHERE, TARGET, UPPER, RowTable

MOST: Final = 10**14  # millicores or bytes; nothing larger is ever recommended

_LOWER_MULTIPLIER: Final = 0.001
_UPPER_MULTIPLIER: Final = 1.0

SHOWS_ENTRY: Final = 1  # bits of what a row shows
SHOWS_CPU: Final = 2
SHOWS_MEMORY: Final = 4

Basis = NDArray[np.void]

_OF_RESOURCE: Final = np.dtype([
    ("buckets", np.int16, 3),  # target, lower, upper
    ("bases", np.int64, 3),
    ("floor", np.int64),
    ("confidence", np.float64),
    ("weight", np.float64),
    ("reference", np.int64),
])  # fmt: skip
BASIS: Final = np.dtype([
    (CPU, _OF_RESOURCE),
    (MEMORY, _OF_RESOURCE),
    ("first", np.int64),
    ("last", np.int64),
    ("samples", np.int64),
    ("living", np.int32),
    ("shows", np.int8),
])  # fmt: skip


@dataclass(frozen=True, slots=True)
class Estimates:
    """How the amounts of each row came about; columns are target, lower, upper."""

    buckets: Buckets  # where the percentile fell, EMPTY without samples
    bases: Amounts
    confidences: Floats  # one per row
    with_margin: Amounts
    multipliers: Floats  # 1 for the target
    floors: Amounts  # one per row
    amounts: Amounts


def confidence(first: Times, last: Times, counts: Counts, interval: timedelta) -> Floats:
    """Return how many intervals of history there are, by age and by number of samples."""
    interval_ns = span(interval)
    known = (first != UNSET) & (last != UNSET)
    age_ns = np.where(known, last, 0) - np.where(known, first, 0)
    age = age_ns.astype(np.float64) / float(interval_ns)
    amount = counts.astype(np.float64) / (interval_ns / MINUTE)
    return np.minimum(age, amount)


def floors(pod_minimum: int, containers: Counts) -> Amounts:
    """Return each container's share of what a pod gets at least."""
    share = 1.0 / np.maximum(containers, 1)
    return whole(float(pod_minimum) * share)


def pod_minimum(rules: EstimatorRules) -> tuple[int, int]:
    """Return millicores and bytes that every pod gets at least."""
    cpu = int(rules.min_cpu_millicores * 0.001 * 1000.0)
    return cpu, int(rules.min_memory_mib * 1024.0 * 1024.0)


def whole(amounts: Floats) -> Amounts:
    """Cut amounts off to whole ones between zero and the most; what is undefined is zero."""
    known = np.nan_to_num(amounts, nan=0.0, posinf=float(MOST), neginf=0.0)
    return np.clip(known, 0.0, float(MOST)).astype(np.int64)


def multipliers(confidences: Floats) -> Floats:
    """Return the factors of target, lower and upper: bounds close in as confidence grows."""
    factors = np.ones((len(confidences), 3))
    with np.errstate(divide="ignore"):
        lower = 1.0 + _LOWER_MULTIPLIER / confidences
        factors[:, UPPER] = 1.0 + _UPPER_MULTIPLIER / confidences
        factors[:, LOWER] = 1.0 / (lower * lower)
    return factors


def estimate(
    buckets: Buckets, bases: Amounts, confidences: Floats, floor: Amounts, margin_fraction: float
) -> Estimates:
    """Take percentiles to amounts; all three columns end at or above the floor."""
    with_margin = bases + whole(bases.astype(np.float64) * margin_fraction)
    factors = multipliers(confidences)
    with np.errstate(invalid="ignore"):
        scaled = whole(with_margin.astype(np.float64) * factors)
    scaled[:, TARGET] = with_margin[:, TARGET]
    return Estimates(
        buckets=buckets,
        bases=bases,
        confidences=confidences,
        with_margin=with_margin,
        multipliers=factors,
        floors=floor,
        amounts=np.maximum(scaled, floor[:, None]),
    )


@dataclass(frozen=True, slots=True)
class Estimation:
    """The numbers of some rows; every array has one line for each."""

    rows: Rows
    shows: Bits
    cpu: Estimates
    memory: Estimates

    @property
    def amounts(self) -> Amounts:
        """Target, lower and upper of cpu, then of memory; zero where they are not shown."""
        both = np.concatenate([self.cpu.amounts, self.memory.amounts], axis=1)
        shown = np.stack([self.shows & SHOWS_CPU, self.shows & SHOWS_MEMORY], axis=1) > 0
        return np.where(np.repeat(shown, 3, axis=1), both, 0)


def rows_in_use(rows: RowTable) -> Rows:
    """Return all rows that belong to a VPA."""
    return np.flatnonzero(rows.vpa != NOWHERE)


def estimate_rows(table: RowTable, rows: Rows, now_ns: int, rules: RecommenderRules) -> Estimation:
    """Estimate rows; `rows` must contain all rows of each VPA."""
    taking_part = _taking_part(table, rows, now_ns, rules)
    containers = _per_vpa(table.vpa[rows], taking_part)
    first, last, counts = table.first[rows], table.last[rows], table.counts[rows]
    asked = rules.estimator

    def estimate_resource(bank: Bank, grid: Grid, rules: ResourceRules, minimum: int) -> Estimates:
        buckets = bank.percentiles(rows, rules.fractions)
        bases = np.where(buckets == EMPTY, 0, grid.ends[buckets])
        confidences = confidence(first, last, counts, rules.confidence_interval)
        floor = floors(minimum, containers)
        return estimate(buckets, bases, confidences, floor, asked.margin_fraction)

    cpu_minimum, memory_minimum = pod_minimum(asked)
    cpu = estimate_resource(table.cpu, CPU_GRID, asked.cpu, cpu_minimum)
    memory = estimate_resource(table.memory, MEMORY_GRID, asked.memory, memory_minimum)
    shows = _shown(table, rows, taking_part, omits=asked.omit_unsampled)
    return Estimation(rows, shows, cpu, memory)


def _taking_part(table: RowTable, rows: Rows, now_ns: int, rules: RecommenderRules) -> Flags:
    stale_after = rules.estimator.stale_after
    alive = table.live[rows] > 0
    gone = table.is_left_alone[rows] & ~alive
    if stale_after is not None:
        gone |= ~alive & (now_ns - table.youth(rows) >= span(stale_after))
    others_live = _per_vpa(table.vpa[rows], alive) > 0
    return ~table.is_off[rows] & ~(gone & others_live)


def _per_vpa(vpas: Ints, counted: Flags) -> Counts:
    """Return for each row how many rows of its VPA are counted."""
    counts: Counts = np.bincount(vpas[counted], minlength=int(vpas.max(initial=0)) + 1)
    return counts[vpas]


def _shown(table: RowTable, rows: Rows, taking_part: Flags, *, omits: bool) -> Bits:
    cpu, memory = table.cpu.totals[rows] > 0.0, table.memory.totals[rows] > 0.0
    if not omits:
        cpu = memory = np.ones(len(rows), dtype=np.bool_)
    entry = taking_part & (cpu | memory)
    sizes_cpu, sizes_memory = table.sizes[rows].T
    shows = entry * SHOWS_ENTRY
    shows = shows + (entry & cpu & sizes_cpu) * SHOWS_CPU
    shows = shows + (entry & memory & sizes_memory) * SHOWS_MEMORY
    return np.asarray(shows, dtype=np.int8)


@dataclass(frozen=True, slots=True, eq=False)
class VpaDerivation:
    """How the recommendation of one VPA came about; all columns have one line per container."""

    at: datetime
    containers: tuple[str, ...]
    rules: tuple[ContainerRules, ...]
    basis: Basis


class Derivations:
    """Takes the derivations of VPAs out of an estimation."""

    def __init__(
        self, table: RowTable, estimation: Estimation, wanted: Flags, at: datetime
    ) -> None:
        positions = np.flatnonzero(wanted)
        vpas = table.vpa[estimation.rows[positions]]
        order = np.argsort(vpas, kind="stable")
        positions, vpas = positions[order], vpas[order]
        self.at = at
        self._table = table
        self._rows = estimation.rows[positions]
        self._basis = _basis(table, estimation, positions)
        found, starts = np.unique(vpas, return_index=True)
        bounds = pairwise([*starts.tolist(), len(vpas)])
        self._places = dict(zip(found.tolist(), bounds, strict=True))

    def of(self, vpa: int) -> VpaDerivation:
        """Return the derivation of the VPA on a line; one without rows has no containers."""
        start, end = self._places.get(vpa, (0, 0))
        rows = self._rows[start:end].tolist()
        basis = self._basis[start:end].copy()  # a view would keep those of all others alive
        basis.setflags(write=False)
        names, rules = self._table.names, self._table.rules
        return VpaDerivation(
            self.at, tuple(names[row] for row in rows), tuple(rules[row] for row in rows), basis
        )


def _basis(table: RowTable, estimation: Estimation, positions: Rows) -> Basis:
    rows = estimation.rows[positions]
    basis = np.empty(len(positions), dtype=BASIS)

    for resource, bank, found in (
        (CPU, table.cpu, estimation.cpu),
        (MEMORY, table.memory, estimation.memory),
    ):
        of = basis[resource]
        of["buckets"], of["bases"] = found.buckets[positions], found.bases[positions]
        of["floor"], of["confidence"] = found.floors[positions], found.confidences[positions]
        of["weight"], of["reference"] = bank.totals[rows], bank.references[rows]
    basis["first"], basis["last"] = table.first[rows], table.last[rows]
    basis["samples"], basis["living"] = table.counts[rows], table.live[rows]
    basis["shows"] = estimation.shows[positions]
    return basis
