"""Rows whose VPA went away or points elsewhere: kept for its return."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.core.recommendation.moments import LATEST
from app.core.recommendation.observations import VpaKey
from app.core.recommendation.rows import NOWHERE, RowTable

Target = tuple[str, str] | None  # kind and name


@dataclass(frozen=True, slots=True)
class _Parked:
    rows: dict[str, int]
    until_ns: int


class Parking:
    """Rows by VPA and target."""

    def __init__(self, rows: RowTable) -> None:
        self._rows = rows
        self._parked: dict[tuple[VpaKey, Target], _Parked] = {}

    def park(
        self, vpa: VpaKey, target: Target, rows: dict[str, int], *, until_ns: int = LATEST
    ) -> None:
        """Put the rows of a VPA aside; none of them is published any more."""
        for row in rows.values():
            self._rows.vpa[row] = NOWHERE
        self._parked[vpa, target] = _Parked(rows, until_ns)

    def fetch(self, vpa: VpaKey, target: Target) -> dict[str, int] | None:
        """Return the rows a VPA once had for a target, None if there are none."""
        found = self._parked.pop((vpa, target), None)
        return None if found is None else found.rows

    def over(self, now_ns: int) -> list[int]:
        """Take out the rows nobody came back for, and those whose history has expired."""
        gone: list[int] = []
        for key, parked in list(self._parked.items()):
            for container, row in list(parked.rows.items()):
                if now_ns >= parked.until_ns or self._rows.expired(np.array([row]), now_ns)[0]:
                    gone.append(row)
                    del parked.rows[container]
            if not parked.rows:
                del self._parked[key]
        return gone
