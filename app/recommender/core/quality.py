"""How usage compares with what was recommended, and how far recommendations go.

Strategy: nothing is counted here; the metrics ask for the comparisons since the last time and bin
them. They come as arrays, one for each update mode, resource and kind of
sample, and are only gathered on demand.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from app.model.update_modes import mode_rules
from app.recommender.core.histograms import Amounts, Floats, Rows
from app.recommender.core.rules import CPU, MEMORY
from app.recommender.core.tables import MEMORY_OFFSET, TARGET, RowTable, VpaTable

_COLUMN: Final = {CPU: TARGET, MEMORY: MEMORY_OFFSET + TARGET}
_PER_UNIT: Final = {CPU: 1000.0, MEMORY: 1.0}


@dataclass(frozen=True, slots=True, eq=False)
class UsageComparison:
    """Samples beside the target that stood before caps when they came; cores or bytes."""

    mode: str
    resource: str
    is_oom: bool
    used: Floats
    recommended: Floats  # 0 where there was none


@dataclass(frozen=True, slots=True, eq=False)
class TargetChange:
    """Targets before caps, of containers of VPAs with so many pods; cores or bytes."""

    mode: str
    resource: str
    pods: int
    before: Floats
    after: Floats


class Quality:
    """Gathers comparisons until they are asked for."""

    def __init__(self, rows: RowTable, vpas: VpaTable, *, gathers: bool) -> None:
        self._rows = rows
        self._vpas = vpas
        self._gathers = gathers
        self._comparisons: list[UsageComparison] = []
        self._changes: list[TargetChange] = []

    def compare(self, resource: str, rows: Rows, used: Amounts, *, is_oom: bool = False) -> None:
        """Note samples that were counted for some rows."""
        if not self._gathers:
            return
        modes = self._vpas.mode[self._rows.vpa[rows]]
        recommended = self._rows.estimated[rows, _COLUMN[resource]]
        unit = _PER_UNIT[resource]
        for number in np.unique(modes).tolist():
            mode, lines = self._vpas.modes[number], modes == number
            if mode_rules(mode).on_creation:
                self._comparisons.append(
                    UsageComparison(
                        mode, resource, is_oom, used[lines] / unit, recommended[lines] / unit
                    )
                )

    def move(self, rows: Rows, amounts: Amounts) -> None:
        """Note what is recommended now for some rows, in the columns of publications."""
        if not self._gathers:
            return
        vpas = self._rows.vpa[rows]
        keys = np.stack([self._vpas.mode[vpas], self._vpas.pods[vpas]], axis=1)
        for resource, column in _COLUMN.items():
            before, after = self._rows.estimated[rows, column], amounts[:, column]
            known, unit = (before > 0) & (after > 0), _PER_UNIT[resource]
            for number, pods in np.unique(keys[known], axis=0).tolist():
                lines = known & (keys == (number, pods)).all(axis=1)
                mode = self._vpas.modes[number]
                change = TargetChange(
                    mode, resource, pods, before[lines] / unit, after[lines] / unit
                )
                self._changes.append(change)

    def take(self) -> tuple[list[UsageComparison], list[TargetChange]]:
        """Return everything since the last time."""
        found = self._comparisons, self._changes
        self._comparisons, self._changes = [], []
        return found
