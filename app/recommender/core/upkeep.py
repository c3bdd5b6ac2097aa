"""What is forgotten, and when.

Strategy: history lives as long as its container, and a while longer: whatever had no sample of
any kind for a full expiry period goes, with its checkpoint. Nothing goes while somebody may
still bring its stored history.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import numpy as np

from app.recommender.core.checkpoints import Checkpoint
from app.recommender.core.history import History
from app.recommender.core.killings import Killings
from app.recommender.core.observations import VpaKey
from app.recommender.core.roster import Roster


class Upkeep:
    """Forgets what is over."""

    def __init__(self, roster: Roster, history: History, killings: Killings) -> None:
        self._roster = roster
        self._history = history
        self._killings = killings

    def tidy(self, now_ns: int) -> None:
        """Forget expired rows, intervals that ended, and kills of pods that are gone."""
        self._drop_expired(now_ns)
        self._drop_parked(now_ns)
        self._roster.drop_rows(self._roster.retention.over(now_ns))
        self._roster.streams.tidy(now_ns)
        for row, windows in list(self._roster.waiting.items()):
            open_ones = {pod: one for pod, one in windows.items() if one.end_ns > now_ns}
            if open_ones:
                self._roster.waiting[row] = open_ones
            else:
                del self._roster.waiting[row]
        self._killings.forget_missing()

    def _drop_expired(self, now_ns: int) -> None:
        table = self._roster.rows
        rows = np.flatnonzero((table.vpa >= 0) & (table.live == 0))
        unknown = (table.cpu.totals[rows] == 0.0) & (table.memory.totals[rows] == 0.0)
        for row in rows[unknown | table.expired(rows, now_ns)].tolist():
            tracked = self._roster.by_line[int(table.vpa[row])]
            if tracked.awaits_history:
                continue
            container = table.names[row]
            self._history.abandon(tracked, container)
            del tracked.rows[container]
            self._roster.table.is_dirty[tracked.line] = True
            self._roster.drop_rows([row])

    def _drop_parked(self, now_ns: int) -> None:
        gone = self._roster.parking.over(now_ns)
        for (namespace, vpa), row in gone:
            if (namespace, vpa) not in self._roster.vpas:  # else the name is that of another row
                self._history.names.release(namespace, (vpa, self._roster.rows.names[row]))
        self._roster.drop_rows(row for _, row in gone)


def orphans(
    checkpoints: Iterable[Checkpoint], vpas: Collection[VpaKey], *, kept_namespaces: Collection[str]
) -> list[Checkpoint]:
    """Return the checkpoints whose VPA does not exist, whoever would handle it.

    `vpas` must be a complete list of all VPAs; checkpoints in kept namespaces stay.
    """
    return [
        found
        for found in checkpoints
        if (found.namespace, found.vpa) not in vpas and found.namespace not in kept_namespaces
    ]
