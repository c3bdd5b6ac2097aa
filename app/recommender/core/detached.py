"""Rows whose VPA went away or points elsewhere, kept for its return.

Until then they are neither published nor stored; they are dropped when they expire.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.recommender.core.moments import LATEST, UNSET
from app.recommender.core.tables import NOWHERE, RowTable
from app.recommender.core.targets import ObservedVpa, VpaKey

Target = tuple[str, str] | None  # kind and name


def target_of(observed: ObservedVpa) -> Target:
    """Return kind and name of the target; a new version of its API is no new target."""
    target = observed.vpa.target
    return (target.kind, target.name) if target is not None else None


@dataclass(frozen=True, slots=True)
class _Detached:
    rows: dict[str, int]
    until_ns: int


class DetachedRows:
    """Rows by VPA and target."""

    def __init__(self, rows: RowTable) -> None:
        self._rows = rows
        self._by_target: dict[tuple[VpaKey, Target], _Detached] = {}

    def detach(
        self,
        vpa: VpaKey,
        target: Target,
        rows: dict[str, int],
        *,
        until_ns: int = LATEST,
    ) -> None:
        """Put the rows of a VPA aside; none of them is published any more."""
        for row in rows.values():
            self._rows.vpa[row] = NOWHERE
        self._by_target[vpa, target] = _Detached(rows, until_ns)

    def take_back(self, vpa: VpaKey, target: Target) -> dict[str, int] | None:
        """Return the rows a VPA once had for a target, None if there are none.

        Their checkpoints may have been deleted or overwritten since, so they shall be written.
        """
        found = self._by_target.pop((vpa, target), None)
        if found is None:
            return None
        for row in found.rows.values():
            self._rows.is_dirty[row], self._rows.written[row] = True, UNSET
        return found.rows

    def take_expired(self, now_ns: int) -> list[tuple[VpaKey, int]]:
        """Take out the rows that waited too long, and those whose history has expired."""
        gone: list[tuple[VpaKey, int]] = []
        for key, one in list(self._by_target.items()):
            for container, row in list(one.rows.items()):
                if now_ns >= one.until_ns or self._rows.expired(np.array([row]), now_ns)[0]:
                    gone.append((key[0], row))
                    del one.rows[container]
            if not one.rows:
                del self._by_target[key]
        return gone
