"""Tables of arrays: the history of each container of each VPA, and what is known of each VPA.

Strategy: one line per (VPA, container) in every array, histograms included. A row belongs to a
line of the table of VPAs, or to none while its VPA is away and may come back. Lines are taken,
released and taken again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from app.recommender.core.histograms import (
    CPU_GRID,
    MEMORY_GRID,
    Amounts,
    Bank,
    Rows,
    Times,
    Weights,
)
from app.recommender.core.moments import UNSET, span
from app.recommender.core.rules import (
    CPU,
    MEMORY,
    NO_MOST,
    NO_RULES,
    AggregationRules,
    ContainerRules,
    aggregation_of,
)

Lines = NDArray[np.intp]
Fill = tuple[type[np.generic], int | float | bool]

_FEWEST: Final = 16

Numbers = NDArray[np.int32]
Flags = NDArray[np.bool_]

NOWHERE: Final = -1  # no VPA
CPU_WEIGHT: Final = 0.1  # of a sample
PEAK_WEIGHT: Final = 1.0
_AMOUNTS: Final = 6  # target, lower, upper of cpu, then of memory


class ColumnTable:
    """A table; `FILLS` names its columns, their types and what an unused line holds."""

    FILLS: ClassVar[Mapping[str, Fill]]

    def __init__(self) -> None:
        self.capacity = 0
        self.used = 0  # lines that were ever taken
        self._free: list[int] = []
        for name, (kind, _) in self.FILLS.items():
            setattr(self, name, np.zeros(0, dtype=kind))

    def take(self) -> int:
        """Return an unused line, as good as new."""
        if self._free:
            return self._free.pop()
        if self.used == self.capacity:
            self.grow(max(2 * self.capacity, _FEWEST))
        self.used += 1
        return self.used - 1

    def release(self, line: int) -> None:
        """Give a line back."""
        for name, (_, fill) in self.FILLS.items():
            getattr(self, name)[line] = fill
        self._free.append(line)

    def grow(self, capacity: int) -> None:
        """Make room; fresh lines stay untouched, so they cost no memory until they are used."""
        for name, (kind, fill) in self.FILLS.items():
            grown = np.zeros(capacity, dtype=kind)
            grown[: self.capacity] = getattr(self, name)
            if fill:
                grown[self.capacity :] = fill
            setattr(self, name, grown)
        self.capacity = capacity

    def __len__(self) -> int:
        """How many lines are in use."""
        return self.used - len(self._free)


@dataclass(frozen=True, slots=True)
class Peaks:
    """What one observation of each of several streams does to their rows."""

    replaced: Flags  # the old peak must be taken back
    old: Amounts  # bytes
    new: Flags  # the observed amount is the new peak
    ends: Times  # the end of the interval, of old and new


def file_peaks(bank: Bank, rows: Rows, peaks: Peaks, amounts: Amounts) -> Weights:
    """Take back and add what an observation of streams, each feeding a row, asks for.

    Returns how much weight each observation moved; a peak that stays in its bucket moves none.
    """
    gone, new = peaks.replaced, peaks.new
    before, after = MEMORY_GRID.bucket(peaks.old), MEMORY_GRID.bucket(amounts)
    moved = np.zeros(len(rows))
    bank.subtract(rows[gone], before[gone], peaks.ends[gone], PEAK_WEIGHT)
    moved[new] = bank.add(rows[new], after[new], peaks.ends[new], PEAK_WEIGHT)
    moved[gone & (before == after)] = 0.0
    return moved


class RowTable(ColumnTable):
    """All rows."""

    FILLS: ClassVar[Mapping[str, Fill]] = {
        "first": (np.int64, UNSET),
        "last": (np.int64, UNSET),
        "counts": (np.int64, 0),
        "last_any": (np.int64, UNSET),
        "created": (np.int64, UNSET),
        "last_live": (np.int64, UNSET),
        "live": (np.int32, 0),
        "vpa": (np.int32, NOWHERE),
        "is_off": (np.bool_, False),
        "sizes_cpu": (np.bool_, False),
        "sizes_memory": (np.bool_, False),
        "whole_cores": (np.bool_, False),
        "interval_ns": (np.int64, 1),
        "expiry_ns": (np.int64, 0),
        "bump_up_ratio": (np.float64, 0.0),
        "min_bump_up_bytes": (np.float64, 0.0),
        "cpu_least": (np.int64, 0),
        "cpu_most": (np.int64, NO_MOST),
        "cpu_crossed": (np.bool_, False),
        "memory_least": (np.int64, 0),
        "memory_most": (np.int64, NO_MOST),
        "memory_crossed": (np.bool_, False),
        "moved_cpu": (np.float64, 0.0),
        "moved_memory": (np.float64, 0.0),
        "is_dirty": (np.bool_, False),
        "written": (np.int64, UNSET),
        "told": (np.int8, 0),
    }

    first: Times  # of the CPU samples
    last: Times
    counts: Amounts  # CPU samples
    last_any: Times  # the youngest sample of any kind
    created: Times
    last_live: Times  # when a container of this name was last seen alive
    live: Numbers  # containers alive now
    vpa: Numbers  # line in the table of VPAs, or NOWHERE
    is_off: Flags
    sizes_cpu: Flags
    sizes_memory: Flags
    whole_cores: Flags
    interval_ns: Amounts
    expiry_ns: Amounts
    bump_up_ratio: Weights
    min_bump_up_bytes: Weights
    cpu_least: Amounts
    cpu_most: Amounts
    cpu_crossed: Flags
    memory_least: Amounts
    memory_most: Amounts
    memory_crossed: Flags
    moved_cpu: Weights  # weight that came or went since the checkpoint was written
    moved_memory: Weights
    is_dirty: Flags  # differs from its checkpoint
    written: Times  # when the checkpoint was written
    told: NDArray[np.int8]  # which resources were in the last publication, as bits
    published: Amounts  # what they were, before caps; six columns

    def __init__(self, rules: AggregationRules) -> None:
        super().__init__()
        self.usual_expiry_ns = aggregation_of(None, rules).expiry_ns
        self.cpu = Bank(span(rules.cpu_half_life))
        self.memory = Bank(span(rules.memory_half_life))
        self.published = np.zeros((0, _AMOUNTS), dtype=np.int64)
        self.names: list[str] = []  # container names
        self.rules: list[ContainerRules] = []

    def grow(self, capacity: int) -> None:
        """Make room in the arrays and the histograms."""
        had = self.capacity
        super().grow(capacity)
        self.cpu.grow(capacity)
        self.memory.grow(capacity)
        published = np.zeros((capacity, _AMOUNTS), dtype=np.int64)
        published[:had] = self.published
        self.published = published
        self.names += [""] * (capacity - had)
        self.rules += [NO_RULES] * (capacity - had)

    def start(self, container: str, now_ns: int) -> int:
        """Begin a row."""
        row = self.take()
        self.names[row] = container
        self.created[row] = now_ns
        return row

    def drop(self, row: int) -> None:
        """Forget a row."""
        at = np.array([row])
        self.cpu.clear(at)
        self.memory.clear(at)
        self.published[row] = 0
        self.names[row], self.rules[row] = "", NO_RULES
        self.release(row)

    def follow(self, row: int, vpa: int, rules: ContainerRules) -> None:
        """Give a row to a VPA with what its policy says."""
        self.vpa[row] = vpa
        if self.rules[row] == rules:
            return
        self.rules[row] = rules
        self.is_off[row] = rules.is_off
        self.sizes_cpu[row] = CPU in rules.controlled
        self.sizes_memory[row] = MEMORY in rules.controlled
        self.whole_cores[row] = rules.whole_cores
        self.interval_ns[row] = rules.aggregation.interval_ns
        self.expiry_ns[row] = rules.aggregation.expiry_ns
        self.bump_up_ratio[row] = rules.aggregation.bump_up_ratio
        self.min_bump_up_bytes[row] = rules.aggregation.min_bump_up_bytes
        self.cpu_least[row] = rules.cpu.least_milli
        self.cpu_most[row] = rules.cpu.most_milli
        self.cpu_crossed[row] = rules.cpu.is_crossed
        self.memory_least[row] = rules.memory.least_milli
        self.memory_most[row] = rules.memory.most_milli
        self.memory_crossed[row] = rules.memory.is_crossed

    def youth(self, rows: Rows) -> Times:
        """Return when rows last had a sample or a living container, or else began."""
        youngest = np.maximum(self.last_any[rows], self.last_live[rows])
        return np.where(youngest == UNSET, self.created[rows], youngest)

    def expired(self, rows: Rows, now_ns: int) -> Flags:
        """Tell which rows nothing has been heard of for their whole time of expiry."""
        return np.asarray(now_ns - self.youth(rows) >= self.expiry_ns[rows])

    def learn_cpu(
        self, rows: Rows, millicores: Amounts, times: Times, weight: float = 1.0, count: int = 1
    ) -> None:
        """Add CPU samples, each of which weighs and counts as much as so many."""
        weights = self.cpu.add(rows, CPU_GRID.bucket(millicores), times, CPU_WEIGHT * weight)
        np.add.at(self.moved_cpu, rows, weights)
        np.maximum.at(self.last, rows, times)
        fresh = self.first[rows] == UNSET
        self.first[rows[fresh]] = times[fresh]
        np.minimum.at(self.first, rows, times)
        np.add.at(self.counts, rows, count)
        np.maximum.at(self.last_any, rows, times)
        self.is_dirty[rows] = True

    def learn_peaks(self, rows: Rows, peaks: Peaks, amounts: Amounts, times: Times) -> None:
        """File memory peaks of streams; rows whose peaks stay in their buckets do not move."""
        weights = file_peaks(self.memory, rows, peaks, amounts)
        np.add.at(self.moved_memory, rows, weights)
        np.maximum.at(self.last_any, rows, times)
        self.is_dirty[rows[weights > 0.0]] = True


class VpaTable(ColumnTable):
    """One line per VPA."""

    FILLS: ClassVar[Mapping[str, Fill]] = {
        "published": (np.int64, UNSET),
        "is_dirty": (np.bool_, False),
        "is_urgent": (np.bool_, False),
        "waits": (np.bool_, False),
        "pods": (np.int32, 0),
        "mode": (np.int32, 0),
    }

    published: Times  # when its status was last worth a write
    is_dirty: NDArray[np.bool_]  # something beside its history has changed
    is_urgent: NDArray[np.bool_]  # a kill was counted since the last estimate
    waits: NDArray[np.bool_]  # what moved slightly is written when the VPA's turn comes
    pods: NDArray[np.int32]  # that it matches
    mode: NDArray[np.int32]  # what its spec says, as an index of `modes`

    def __init__(self) -> None:
        super().__init__()
        self.modes = [""]

    def set_mode(self, line: int, mode: str) -> None:
        """Note the update mode of a VPA, empty if its spec says none."""
        if mode not in self.modes:
            self.modes.append(mode)
        self.mode[line] = self.modes.index(mode)
