"""Rows whose VPA went away or points elsewhere: kept for its return."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.recommender.core.moments import LATEST, UNSET
from app.recommender.core.observations import ObservedVpa, VpaKey
from app.recommender.core.rows import NOWHERE, RowTable

Target = tuple[str, str] | None  # kind and name


def target_of(observed: ObservedVpa) -> Target:
    """Return kind and name of the target; a new version of its API is no new target."""
    target = observed.vpa.target
    return (target.kind, target.name) if target is not None else None


@dataclass(frozen=True, slots=True)
class _Parked:
    rows: dict[str, int]
    until_ns: int
    is_former: bool  # of a VPA for all pods of its target, which was deleted


class Parking:
    """Rows by VPA and target."""

    def __init__(self, rows: RowTable) -> None:
        self._rows = rows
        self._parked: dict[tuple[VpaKey, Target], _Parked] = {}

    def park(
        self,
        vpa: VpaKey,
        target: Target,
        rows: dict[str, int],
        *,
        until_ns: int = LATEST,
        is_former: bool = False,
    ) -> None:
        """Put the rows of a VPA aside; none of them is published any more."""
        for row in rows.values():
            self._rows.vpa[row] = NOWHERE
        self._parked[vpa, target] = _Parked(rows, until_ns, is_former)

    def fetch(self, vpa: VpaKey, target: Target) -> dict[str, int] | None:
        """Return the rows a VPA once had for a target, None if there are none.

        Their checkpoints may have been deleted or overwritten since, so they shall be written.
        """
        found = self._parked.pop((vpa, target), None)
        if found is None:
            return None
        for row in found.rows.values():
            self._rows.is_dirty[row], self._rows.written[row] = True, UNSET
        return found.rows

    def former(self, namespace: str, target: Target) -> dict[str, int]:
        """Return the rows of deleted VPAs for all pods of a target; they stay parked."""
        return {
            container: row
            for (vpa, parked_target), parked in self._parked.items()
            if parked.is_former and vpa[0] == namespace and parked_target == target
            for container, row in parked.rows.items()
        }

    def over(self, now_ns: int) -> list[tuple[VpaKey, int]]:
        """Take out the rows nobody came back for, and those whose history has expired."""
        gone: list[tuple[VpaKey, int]] = []
        for key, parked in list(self._parked.items()):
            for container, row in list(parked.rows.items()):
                if now_ns >= parked.until_ns or self._rows.expired(np.array([row]), now_ns)[0]:
                    gone.append((key[0], row))
                    del parked.rows[container]
            if not parked.rows:
                del self._parked[key]
        return gone
