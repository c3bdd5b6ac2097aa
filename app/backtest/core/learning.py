"""What the recommender knows under each setting, in its own tables and histograms.

Strategy: a table for each setting. What does not depend on the setting (how many samples there
were, and when) is one array in all of them, and settings of one CPU half-life have one CPU
histogram. Memory histograms differ, because other limits kill at other times. CPU of an hour is
learned at once: a batch is added in the order of time, so it leaves the weights that one sample
after the other would leave.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from app.backtest.core.blocks import Block
from app.backtest.core.recorded_fleet import Fleet
from app.backtest.core.settings import Given, Setting
from app.recommender.core.estimation import (
    SHOWS_CPU,
    SHOWS_MEMORY,
    Estimates,
    Estimation,
    estimate_rows,
    rows_in_use,
)
from app.recommender.core.histograms import (
    LONGEST,
    Amounts,
    Bank,
    Buckets,
    Flags,
    Indexes,
    Rows,
    Thousandths,
    Times,
    Weights,
)
from app.recommender.core.moments import UNSET
from app.recommender.core.oom import is_repeated, memory_after_kill, needed_memory
from app.recommender.core.rules import CPU, MEMORY, FormatRules, container_rules
from app.recommender.core.samples import Windows
from app.recommender.core.shaping import Caps, Shaped, shape
from app.recommender.core.tables import (
    MEMORY_OFFSET,
    NOWHERE,
    TARGET,
    RowTable,
    file_cpu,
)

# Columns that say the same under every setting.
_SHARED: Final = ("first", "last", "counts", "last_any", "created", "last_live", "live", "vpa")


@dataclass(frozen=True, slots=True, eq=False)
class Recommended:
    """What a setting recommends for some lines."""

    lines: Rows
    shows: Flags  # a column for cpu, one for memory
    amounts: Thousandths  # of each resource target, lower, upper, uncapped


class RememberingBank(Bank):
    """Histograms that answer again, without work, for rows in which nothing was changed since.

    Nothing but samples changes them here, and they are always asked for the same percentiles.
    """

    def grow(self, rows: int) -> None:
        """Make room for so many rows."""
        super().grow(rows)
        self._is_changed: Flags = np.ones(rows, dtype=np.bool_)
        self._found: Buckets = np.zeros((rows, 3), dtype=np.intp)

    def clear(self, rows: Rows) -> None:
        """Forget everything in some rows."""
        super().clear(rows)
        self._is_changed[rows] = True

    def add(self, rows: Rows, buckets: Buckets, times: Times, weight: float) -> Weights:
        """Add samples."""
        self._is_changed[rows] = True
        return super().add(rows, buckets, times, weight)

    def subtract(self, rows: Rows, buckets: Buckets, times: Times, weight: float) -> None:
        """Take samples away."""
        self._is_changed[rows] = True
        super().subtract(rows, buckets, times, weight)

    def percentiles(self, rows: Rows, fractions: tuple[float, ...]) -> Buckets:
        """Return the bucket of each fraction for each row."""
        changed = rows[self._is_changed[rows]]
        self._found[changed] = super().percentiles(changed, fractions)
        self._is_changed[changed] = False
        return self._found[rows]


class Learning:
    """The tables of all settings."""

    def __init__(self, fleet: Fleet, settings: Sequence[Setting], given: Given) -> None:
        self._fleet = fleet
        self._settings = settings
        self._tables = [_table(fleet, setting, given) for setting in settings]
        self._lead = self._tables[0]
        self._banks: dict[int, Bank] = {}  # of cpu, by half-life
        for table in self._tables:
            for name in _SHARED:
                setattr(table, name, getattr(self._lead, name))
            table.cpu = self._banks.setdefault(table.cpu.half_life_ns, table.cpu)
        self._windows = [Windows() for _ in settings]
        for windows in self._windows:
            windows.grow(len(fleet.rows))
        self._made = np.zeros((len(settings), len(fleet.rows)), dtype=np.int64)
        self._targets: list[dict[int, int]] = [{} for _ in settings]  # by line, still as they were

    # --- pods

    def see(self, is_there: Flags, time_ns: int) -> None:
        """Take which containers there are."""
        table, lines = self._lead, self._fleet.lines
        live = np.bincount(lines[is_there], minlength=len(table.live)).astype(np.int32)
        new = np.flatnonzero((live > 0) & (table.vpa == NOWHERE))
        table.vpa[new] = self._fleet.line_workloads[new]
        table.created[new] = time_ns
        table.last_live[live < table.live] = time_ns
        table.live[:] = live
        if len(new):  # they share what a pod gets at least
            for targets in self._targets:
                targets.clear()

    def tidy(self, time_ns: int) -> None:
        """Forget lines of which nothing has been heard for as long as history lives."""
        lead = self._lead
        lines = np.flatnonzero((lead.vpa != NOWHERE) & (lead.live == 0))
        gone = lines[lead.expired(lines, time_ns)]
        for table in self._tables:
            table.cpu.clear(gone)
            table.memory.clear(gone)
        lead.vpa[gone] = NOWHERE
        lead.counts[gone] = 0
        for column in (lead.first, lead.last, lead.last_any, lead.last_live):
            column[gone] = UNSET

    # --- samples

    def learn_cpu(self, block: Block) -> None:
        """Take the CPU samples of an hour."""
        steps, rows = np.nonzero(block.cpu >= 0)
        lines, times, amounts = self._fleet.lines[rows], block.times[steps], block.cpu[steps, rows]
        for bank in self._banks.values():
            for part in _parts(bank, lines, times):
                if bank is self._lead.cpu:
                    self._lead.learn_cpu(lines[part], amounts[part], times[part])
                else:
                    file_cpu(bank, lines[part], amounts[part], times[part])

    def learn_memory(self, amounts: Amounts, time_ns: int) -> None:
        """Take the memory samples of a step."""
        known = amounts >= 0
        lines = self._fleet.lines
        np.maximum.at(self._lead.last_any, lines[known], time_ns)
        for setting, windows in enumerate(self._windows):
            # The others are no more than what their interval has seen.
            counts = known & ((amounts > windows.usage) | (time_ns >= windows.ends))
            rows = np.flatnonzero(counts)
            if len(rows):
                self._file(setting, rows, amounts[rows], time_ns, is_oom=False)

    def _file(
        self, setting: int, rows: Indexes, amounts: Amounts, time_ns: int, *, is_oom: bool
    ) -> None:
        table, windows, lines = (
            self._tables[setting],
            self._windows[setting],
            self._fleet.lines[rows],
        )
        times, intervals_ns = np.full(len(rows), time_ns), table.interval_ns[lines]
        peaks = windows.observe(rows, times, amounts, intervals_ns, is_oom=is_oom)
        table.learn_peaks(lines, peaks, amounts, times)
        if targets := self._targets[setting]:
            for line in lines.tolist():
                targets.pop(line, None)

    # --- kills

    def learn_kill(self, setting: int, row: int, requested: int, time_ns: int) -> bool:
        """Take a kill of a container and what it requested; tell whether it asks for more."""
        windows, table = self._windows[setting], self._tables[setting]
        line = int(self._fleet.lines[row])
        killed = int(windows.oom[row]) if time_ns < windows.ends[row] else 0
        needed = memory_after_kill(
            requested,
            int(windows.usage[row]),
            killed,
            ratio=float(table.bump_up_ratio[line]),
            bump_bytes=float(table.min_bump_up_bytes[line]),
        )
        target = self.target(setting, row, time_ns) if needed <= self._made[setting, row] else 0
        return self._ask(setting, row, needed, time_ns, target)

    def amend(self, setting: int, row: int, requested: int, time_ns: int, target: int) -> bool:
        """Judge a kill again by usage of its time that was read after it.

        `target` is what was recommended after the kill, and before that usage.
        """
        windows, table = self._windows[setting], self._tables[setting]
        line = int(self._fleet.lines[row])
        needed = needed_memory(
            requested,
            int(windows.usage[row]),
            ratio=float(table.bump_up_ratio[line]),
            bump_bytes=float(table.min_bump_up_bytes[line]),
        )
        is_more = needed > int(windows.oom[row])
        return is_more and self._ask(setting, row, needed, time_ns, target)

    def _ask(self, setting: int, row: int, needed: int, time_ns: int, target: int) -> bool:
        if is_repeated(needed, int(self._made[setting, row]), target):
            return False
        self._made[setting, row] = needed
        self._file(setting, np.array([row]), np.array([needed]), time_ns, is_oom=True)
        return True

    def target(self, setting: int, row: int, time_ns: int) -> int:
        """Return the bytes that are recommended for a container before caps."""
        line, targets = int(self._fleet.lines[row]), self._targets[setting]
        if line not in targets:
            lines = self._in_use(int(self._fleet.line_workloads[line]))
            found = self._estimate(setting, lines, time_ns).amounts[:, MEMORY_OFFSET + TARGET]
            targets.update(zip(lines.tolist(), found.tolist(), strict=True))
        return targets[line]

    def raise_least(self, setting: int, line: int, memory_bytes: int) -> None:
        """Recommend at least so many bytes for a line from now on."""
        table = self._tables[setting]
        least = max(int(table.least[line, 1]), memory_bytes * 1000)
        table.least[line, 1] = least
        table.is_crossed[line, 1] = least > table.most[line, 1]

    # --- recommendations

    def recommend(self, setting: int, time_ns: int, workload: int | None = None) -> Recommended:
        """Return what a setting recommends now, for all or for one workload."""
        lines = rows_in_use(self._lead) if workload is None else self._in_use(workload)
        found, table = self._estimate(setting, lines, time_ns), self._tables[setting]
        rules = self._settings[setting].rules.format
        shaped = [
            _shaped(table, lines, rules, at, resource, each).amounts
            for at, (resource, each) in enumerate(((CPU, found.cpu), (MEMORY, found.memory)))
        ]
        shows = np.stack([found.shows & SHOWS_CPU, found.shows & SHOWS_MEMORY], axis=1) > 0
        return Recommended(lines, shows, np.stack(shaped, axis=1))

    def _estimate(self, setting: int, lines: Rows, time_ns: int) -> Estimation:
        rules = self._settings[setting].rules
        return estimate_rows(self._tables[setting], lines, time_ns, rules)

    def _in_use(self, workload: int) -> Rows:
        lines: Rows = self._fleet.lines_of(workload)
        return lines[np.flatnonzero(self._lead.vpa[lines] != NOWHERE)]


def _table(fleet: Fleet, setting: Setting, given: Given) -> RowTable:
    table = RowTable(setting.rules.aggregation)
    table.memory = RememberingBank(table.memory.half_life_ns)
    table.grow(len(fleet.containers))
    vpas = [given.vpa(one) for one in fleet.workloads]
    for name, workload in zip(fleet.containers, fleet.line_workloads.tolist(), strict=True):
        line = table.start(name, UNSET)
        table.follow(line, NOWHERE, container_rules(vpas[workload], name, setting.rules))
    return table


def _parts(bank: Bank, lines: Rows, times: Times) -> Iterator[slice]:
    """Yield what can be added at once: all, unless some reference has to move meanwhile."""
    if not len(times):
        return
    references = bank.references[lines]
    known = np.where(references == UNSET, times[0] - bank.half_life_ns, references)
    if int(times[-1] - known.min()) <= LONGEST * bank.half_life_ns:
        yield slice(len(times))
        return
    bounds = [0, *(np.flatnonzero(np.diff(times)) + 1).tolist(), len(times)]
    yield from (slice(*part) for part in pairwise(bounds))


def _shaped(
    table: RowTable, lines: Rows, rules: FormatRules, at: int, resource: str, found: Estimates
) -> Shaped:
    caps = Caps(table.least[lines, at], table.most[lines, at], table.is_crossed[lines, at])
    return shape(resource, found.amounts, rules, table.whole_cores[lines], caps)
