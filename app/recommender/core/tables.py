"""Tables of arrays: the history of each container of each VPA, and what is known of each VPA.

Strategy: one row per (VPA, container) in every array, histograms included. A row belongs to a line
of the table of VPAs, or to none while its VPA is away and may come back. Rows and lines are taken,
released and taken again.
"""

from __future__ import annotations

from dataclasses import dataclass
from inspect import getmembers
from typing import Any, Final, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from app.recommender.core.histograms import (
    CPU_GRID,
    MEMORY_GRID,
    Amounts,
    Bank,
    Bits,
    Counts,
    Flags,
    Floats,
    Ints,
    Rows,
    Spans,
    Thousandths,
    Times,
    Weights,
)
from app.recommender.core.moments import UNSET, span
from app.recommender.core.rules import (
    NO_MOST,
    NO_RULES,
    RESOURCES,
    AggregationRules,
    ContainerRules,
    aggregation_of,
)

N = TypeVar("N", bound=np.generic)

_FEWEST: Final = 16

NOWHERE: Final = -1  # no VPA
CPU_WEIGHT: Final = 0.1  # of a sample
PEAK_WEIGHT: Final = 1.0

TARGET, LOWER, UPPER, UNCAPPED = range(4)  # the columns of amounts of one resource
MEMORY_OFFSET: Final = 3  # from target, lower and upper of cpu to those of memory


@dataclass(frozen=True, slots=True)
class _Column:
    kind: type[np.generic]
    fill: float
    width: tuple[int, ...]  # of a line; () for a single number

    def of(self, lines: int) -> NDArray[Any]:
        """Return lines as they are before they are used; zeros cost no memory until then."""
        found = np.zeros((lines, *self.width), dtype=self.kind)
        if self.fill:
            found[:] = self.fill
        return found


def column(kind: type[N], fill: float = 0, *width: int) -> NDArray[N]:
    """Declare a column of a table, and what an unused line holds."""
    return cast("NDArray[N]", _Column(kind, fill, width))


class ColumnTable:
    """A table; its class declares the columns, its objects have an array for each."""

    def __init__(self) -> None:
        self.capacity = 0
        self.used = 0  # lines that were ever taken
        self._free: list[int] = []
        declared = getmembers(type(self), lambda one: isinstance(one, _Column))
        self._columns: dict[str, _Column] = dict(declared)
        for name, one in self._columns.items():
            setattr(self, name, one.of(0))

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
        for name, one in self._columns.items():
            getattr(self, name)[line] = one.fill
        self._free.append(line)

    def grow(self, capacity: int) -> None:
        """Make room."""
        for name, one in self._columns.items():
            fresh = one.of(capacity)
            fresh[: self.capacity] = getattr(self, name)
            setattr(self, name, fresh)
        self.capacity = capacity

    def __len__(self) -> int:
        """How many lines are in use."""
        return self.used - len(self._free)


def file_cpu(
    bank: Bank, rows: Rows, millicores: Amounts, times: Times, weight: float = 1.0
) -> Weights:
    """Add CPU samples, each of which weighs as much as so many; return what they weigh now."""
    return bank.add(rows, CPU_GRID.bucket(millicores), times, CPU_WEIGHT * weight)


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

    first: Times = column(np.int64, UNSET)  # of the CPU samples
    last: Times = column(np.int64, UNSET)
    counts: Counts = column(np.int64)  # CPU samples
    last_any: Times = column(np.int64, UNSET)  # the youngest sample of any kind
    created: Times = column(np.int64, UNSET)
    last_live: Times = column(np.int64, UNSET)  # when its container was last seen alive
    live: Ints = column(np.int32)  # containers alive now
    vpa: Ints = column(np.int32, NOWHERE)  # line in the table of VPAs
    is_off: Flags = column(np.bool_)
    is_left_alone: Flags = column(np.bool_)  # was or is a native sidecar, and those are left alone
    sizes: Flags = column(np.bool_, False, 2)  # cpu, memory
    whole_cores: Flags = column(np.bool_)
    interval_ns: Spans = column(np.int64, 1)
    expiry_ns: Spans = column(np.int64)
    bump_up_ratio: Floats = column(np.float64)
    min_bump_up_bytes: Floats = column(np.float64)
    least: Thousandths = column(np.int64, 0, 2)  # of cpu, of memory
    most: Thousandths = column(np.int64, NO_MOST, 2)
    is_crossed: Flags = column(np.bool_, False, 2)  # the least is above the most
    unsaved_cpu: Weights = column(np.float64)  # came or went since the checkpoint was written
    unsaved_memory: Weights = column(np.float64)
    is_dirty: Flags = column(np.bool_)  # differs from its checkpoint
    written: Times = column(np.int64, UNSET)  # when the checkpoint was written
    # When its VPA's status was last compared with what stands: what the estimate showed, as bits,
    # and its amounts before caps: target, lower and upper of cpu, then of memory.
    estimated_shows: Bits = column(np.int8)
    estimated: Amounts = column(np.int64, 0, 6)

    def __init__(self, rules: AggregationRules) -> None:
        super().__init__()
        self.usual_expiry_ns = aggregation_of(None, rules).expiry_ns
        self.cpu = Bank(span(rules.cpu_half_life))
        self.memory = Bank(span(rules.memory_half_life))
        self.names: list[str] = []  # container names
        self.rules: list[ContainerRules] = []

    def grow(self, capacity: int) -> None:
        """Make room in the arrays and the histograms."""
        more = capacity - self.capacity
        super().grow(capacity)
        self.cpu.grow(capacity)
        self.memory.grow(capacity)
        self.names += [""] * more
        self.rules += [NO_RULES] * more

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
        self.names[row], self.rules[row] = "", NO_RULES
        self.release(row)

    def follow(self, row: int, vpa: int, rules: ContainerRules) -> None:
        """Give a row to a VPA with what its policy says."""
        self.vpa[row] = vpa
        if self.rules[row] == rules:
            return
        self.rules[row] = rules
        self.is_off[row] = rules.is_off
        self.sizes[row] = [resource in rules.controlled for resource in RESOURCES]
        self.whole_cores[row] = rules.whole_cores
        self.interval_ns[row] = rules.aggregation.interval_ns
        self.expiry_ns[row] = rules.aggregation.expiry_ns
        self.bump_up_ratio[row] = rules.aggregation.bump_up_ratio
        self.min_bump_up_bytes[row] = rules.aggregation.min_bump_up_bytes
        caps = rules.cpu, rules.memory
        self.least[row] = [cap.least_milli for cap in caps]
        self.most[row] = [cap.most_milli for cap in caps]
        self.is_crossed[row] = [cap.is_crossed for cap in caps]

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
        weights = file_cpu(self.cpu, rows, millicores, times, weight)
        np.add.at(self.unsaved_cpu, rows, weights)
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
        np.add.at(self.unsaved_memory, rows, weights)
        np.maximum.at(self.last_any, rows, times)
        self.is_dirty[rows[weights > 0.0]] = True


class VpaTable(ColumnTable):
    """One line per VPA."""

    published_ns: Times = column(np.int64, UNSET)  # when its status was last worth a write
    is_dirty: Flags = column(np.bool_)  # something beside its history has changed
    is_urgent: Flags = column(np.bool_)  # a kill was counted since the last estimate
    waits: Flags = column(np.bool_)  # what moved slightly is written when the VPA's turn comes
    pods: Ints = column(np.int32)  # that it matches
    mode: Ints = column(np.int32)  # what its spec says, as an index of `modes`

    def __init__(self) -> None:
        super().__init__()
        self.modes = [""]

    def set_mode(self, line: int, mode: str) -> None:
        """Note the update mode of a VPA, empty if its spec says none."""
        if mode not in self.modes:
            self.modes.append(mode)
        self.mode[line] = self.modes.index(mode)
