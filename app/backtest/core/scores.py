"""What was reserved, used and missing, counted while a walk goes on.

Strategy: sums by day, setting and workload, so that any part of them can be judged later. The first
setting is what was requested in the recording. Steps of which usage is not known count for nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import numpy as np

from app.backtest.core.blocks import Block
from app.backtest.core.recorded_fleet import Fleet, RecordedWorkload
from app.recommender.core.histograms import Counts, Flags, Floats

RECORDED: Final = 0  # the position of what was requested in the recording

GIB: Final = 2.0**30
LOWER_BOUND_SHARE: Final = 0.01  # of a container's steps that may be cut off


class Measure(IntEnum):
    """What is summed up; cpu in core hours, memory in GiB hours."""

    CPU_USED = 0
    CPU_SLACK = 1  # requested and not used
    CPU_UNMET = 2  # used beyond the request
    CPU_OVER = 3  # steps in which that is so
    CPU_STEPS = 4  # of which usage is known
    MEMORY_USED = 5
    MEMORY_SLACK = 6
    MEMORY_UNMET = 7
    MEMORY_OVER = 8
    MEMORY_STEPS = 9
    KILLS = 10
    RESIZES = 11
    EVICTIONS = 12


_OF_MEMORY: Final = Measure.MEMORY_USED - Measure.CPU_USED


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """All sums of a walk."""

    workloads: tuple[RecordedWorkload, ...]
    days: Floats  # [day, setting, workload, measure]
    steps: Counts  # container steps of each workload in which there was a container
    gaps: Counts  # of them, without usage
    cut_off: Counts  # of them, in which a limit may have cut usage off
    is_lower_bound: Flags  # of each workload, whether limits hide what a container wanted
    empty_days: int = 0  # of which no usage is known; they are left out of the days

    def of(self, setting: int, first_day: int = 0) -> Floats:
        """Return the sums of a setting over all workloads, by day."""
        found: Floats = self.days[first_day:, setting].sum(axis=1)
        return found


def together(parts: Sequence[Scores]) -> Scores:
    """Return the scores of a fleet that was walked in parts, of which there is at least one."""
    days = np.concatenate([part.days for part in parts], axis=2)
    steps = days[..., [Measure.CPU_STEPS, Measure.MEMORY_STEPS]].sum(axis=(1, 2, 3))
    steps[0] += 1  # the day in which everything is learned stays
    known = steps > 0
    return Scores(
        tuple(one for part in parts for one in part.workloads),
        days[known],
        np.concatenate([part.steps for part in parts]),
        np.concatenate([part.gaps for part in parts]),
        np.concatenate([part.cut_off for part in parts]),
        np.concatenate([part.is_lower_bound for part in parts]),
        int(np.count_nonzero(~known)),
    )


class Tally:
    """Counts."""

    def __init__(
        self,
        fleet: Fleet,
        settings: int,
        days: int,
        step_hours: float,
        has_requests: Sequence[bool],
    ) -> None:
        """Begin; `has_requests` tells of each resource whether any request was recorded."""
        self._fleet = fleet
        self._hours = step_hours
        self._has_requests = has_requests
        shape = (len(Measure), settings, len(fleet.rows))
        self._sums: Floats = np.zeros(shape)
        self._days: Floats = np.zeros((days, settings, len(fleet.workloads), len(Measure)))
        self._quality: Counts = np.zeros((3, len(fleet.rows)), dtype=np.int64)
        self._was_killed: Flags = np.zeros(len(fleet.rows), dtype=np.bool_)

    def count(self, block: Block, step: int, requests: Floats) -> None:
        """Count a step; requests are cores and GiB by setting and row.

        Where a request is not known yet nothing counts, so that all settings are compared over the
        same time. Where none ever was, only the recording itself is left out.
        """
        used = (block.cpu[step] / 1000.0, block.memory[step] / GIB)
        known = [block.cpu[step] >= 0, block.memory[step] >= 0]
        there = block.is_there[step]
        for at, (amounts, is_known) in enumerate(zip(used, known, strict=True)):
            is_told, has_any = block.knows[step][:, at], self._has_requests[at]
            counts = np.repeat((is_known & (is_told | (not has_any)))[None], len(requests), axis=0)
            counts[RECORDED] &= has_any
            amounts = np.where(counts, amounts, 0.0)
            sums = self._sums[at * _OF_MEMORY : (at + 1) * _OF_MEMORY]
            rest = requests[..., at] * counts - amounts
            sums[Measure.CPU_USED] += amounts
            sums[Measure.CPU_SLACK] += np.maximum(rest, 0.0)
            sums[Measure.CPU_UNMET] -= np.minimum(rest, 0.0)
            sums[Measure.CPU_OVER] += rest < 0
            sums[Measure.CPU_STEPS] += counts
        self._quality[0] += there + block.silence[step]
        self._quality[1] += (there & ~(known[0] | known[1])) + block.silence[step]
        self._quality[2] += there & block.is_cut_off[step]

    def count_kills(self, kills: Counts) -> None:
        """Count kills by setting and row."""
        self._sums[Measure.KILLS] += kills
        self._was_killed |= kills[RECORDED] > 0

    def end_day(self, day: int, resizes: Counts, evictions: Counts) -> None:
        """Sum a day up; resizes and evictions are those of pods, by setting."""
        fleet, found = self._fleet, self._days[day]
        by_workload = np.add.reduceat(self._sums, fleet.row_bounds[:-1], axis=2)
        found += np.moveaxis(by_workload, 0, 2)
        for measure, counts in ((Measure.RESIZES, resizes), (Measure.EVICTIONS, evictions)):
            for setting, of_pods in enumerate(counts, start=RECORDED + 1):
                np.add.at(found[setting, :, measure], fleet.pod_workloads, of_pods)
        self._sums[:] = 0.0

    def scores(self) -> Scores:
        """Return what was counted."""
        days = self._days.copy()
        for unit in (Measure.CPU_USED, Measure.CPU_SLACK, Measure.CPU_UNMET):
            days[..., [unit, unit + _OF_MEMORY]] *= self._hours
        steps, gaps, cut_off = self._quality
        is_bound = self._was_killed | (cut_off > LOWER_BOUND_SHARE * (steps - gaps))
        starts = self._fleet.row_bounds[:-1]
        return Scores(
            self._fleet.workloads,
            days,
            steps=np.add.reduceat(steps, starts),
            gaps=np.add.reduceat(gaps, starts),
            cut_off=np.add.reduceat(cut_off, starts),
            is_lower_bound=np.logical_or.reduceat(is_bound, starts),
        )


def killed(block: Block, step: int, memory_limits: Floats) -> Counts:
    """Return how often a step kills containers, by setting and row; a limit of 0 bytes is none.

    One that was killed in the recording wanted more than its limit, which is all that is known:
    under a limit that is no higher it is killed as often.
    """
    used = np.maximum(block.memory[step], 0).astype(np.float64)
    had, kills = block.limits[step][:, 1], block.kills[step]
    limits, limit = (np.where(each > 0, each, np.inf) for each in (memory_limits, had))
    again = np.where(limits <= limit, kills, 0)
    found: Counts = np.maximum(used > limits, again).astype(np.int64)
    return found
