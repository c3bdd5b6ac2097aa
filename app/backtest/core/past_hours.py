"""What each workload used and requested, hour by hour, under all settings of a walk.

Strategy: amounts are those of all pods together. CPU is the average of an hour, memory its peak; a
request is the one in force when the hour has ended and all was decided.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from app.backtest.core.blocks import steps_a_round
from app.backtest.core.days import WARM_UP_DAYS
from app.backtest.core.recorded_fleet import Fleet, RecordedWorkload
from app.backtest.core.scores import GIB
from app.backtest.core.setting_outcomes import quality
from app.backtest.core.settings import Given, Setting
from app.backtest.core.walk import Walk
from app.backtest.recording import Measured, Recording
from app.recommender.core.histograms import Floats

_UNITS: Final = np.array([1000.0, GIB])  # from cores and GiB to millicores and bytes


@dataclass(frozen=True, slots=True, eq=False)
class PastHours:
    """A workload over a recording; CPU in millicores, then memory in bytes."""

    workload: RecordedWorkload
    used: Floats  # [hour, resource]; NaN is not known
    requested: Floats  # [setting, hour, resource]; first those of the recording
    kills: Floats  # [hour], in the recording
    sums: Floats  # [setting, measure], of the days that are counted
    is_lower_bound: bool  # limits may have cut off what was used


class HourlyWalk:
    """A walk of a fleet that keeps what was requested each hour."""

    def __init__(
        self, recording: Recording, fleet: Fleet, settings: Sequence[Setting], given: Given
    ) -> None:
        self._recording = recording
        self._fleet = fleet
        self._walk = Walk(recording, fleet, settings, given)
        self._requested: list[Floats] = []  # [setting, workload, resource], by hour

    def hours(self) -> Iterator[int]:
        """Walk, and yield each time at which all was decided."""
        bounds = self._fleet.row_bounds[:-1]
        for time_ns in self._walk.hours():
            there = self._walk.in_force * self._walk.is_there[:, None] * _UNITS
            self._requested.append(np.add.reduceat(there, bounds, axis=1))
            yield time_ns

    def found(self) -> Iterator[PastHours]:
        """Yield each workload; all hours are over."""
        scores, recording = self._walk.scores(), self._recording
        requested = np.stack(self._requested, axis=1)  # [setting, hour, workload, resource]
        cpu = self._by_hour(recording.cpu)
        known = np.count_nonzero(~np.isnan(cpu), axis=1)
        means = np.where(known > 0, np.nansum(cpu, axis=1) / np.maximum(known, 1), np.nan)
        memory = np.fmax.reduce(self._by_hour(recording.memory), axis=1)
        kills = np.nansum(self._by_hour(recording.oom_kills), axis=1)
        bounds = quality(scores, 0).lower_bounds
        for at, workload in enumerate(self._fleet.workloads):
            yield PastHours(
                workload=workload,
                used=np.stack([means[:, at] * _UNITS[0], memory[:, at]], axis=-1),
                requested=requested[:, :, at],
                kills=kills[:, at],
                sums=scores.days[WARM_UP_DAYS:, :, at].sum(axis=0),
                is_lower_bound=workload in bounds,
            )

    def _by_hour(self, measure: Measured) -> Floats:
        """Return the sums over the containers of workloads: [hour, step, workload]."""
        length, bounds = steps_a_round(self._recording.step), self._fleet.row_bounds[:-1]
        told = measure[self._fleet.rows].astype(np.float64)
        known = np.add.reduceat(~np.isnan(told), bounds, axis=0, dtype=np.int64)
        sums = np.where(known > 0, np.add.reduceat(np.nan_to_num(told), bounds, axis=0), np.nan)
        hours = len(self._requested)
        whole = np.full((len(bounds), hours * length), np.nan)
        whole[:, : sums.shape[1]] = sums
        return np.moveaxis(whole.reshape(len(bounds), hours, length), 0, -1)
