"""Rows whose VPA went away or points elsewhere, until it returns or they expire.

Strategy: VPAs may come and go, and change their targets, without end; so the rows of a namespace
that wait are limited, and the oldest ones make room.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Final

import numpy as np

from app.recommender.core.moments import LATEST, UNSET
from app.recommender.core.rules import RecommenderLimit
from app.recommender.core.tables import NOWHERE, RowTable
from app.recommender.core.targets import ObservedVpa, VpaKey

MOST_DETACHED: Final = 5_000  # rows of a namespace

Target = tuple[str, str] | None  # kind and name
_Key = tuple[VpaKey, Target]


def target_of(observed: ObservedVpa) -> Target:
    """Return kind and name of the target; a new version of its API is no new target."""
    target = observed.vpa.target
    return (target.kind, target.name) if target is not None else None


@dataclass(frozen=True, slots=True)
class _Detached:
    rows: dict[str, int]
    until_ns: int


class DetachedRows:
    """Rows by VPA and target, for each namespace the oldest first."""

    def __init__(self, rows: RowTable, reached: Counter[tuple[RecommenderLimit, str]]) -> None:
        self._rows = rows
        self._reached = reached  # counts, by namespace
        # By namespace, the oldest first.
        self._by_target: defaultdict[str, dict[tuple[VpaKey, Target], _Detached]] = defaultdict(
            dict
        )
        self._counts: Counter[str] = Counter()
        self._displaced: list[tuple[VpaKey, int]] = []

    def detach(
        self, vpa: VpaKey, target: Target, rows: dict[str, int], *, until_ns: int = LATEST
    ) -> None:
        """Put the rows of a VPA aside; none of them is published any more."""
        for row in rows.values():
            self._rows.vpa[row] = NOWHERE
        if not rows:
            return
        of_namespace = self._by_target[vpa[0]]
        of_namespace[vpa, target] = _Detached(rows, until_ns)
        self._counts[vpa[0]] += len(rows)
        while self._counts[vpa[0]] > MOST_DETACHED:
            oldest, one = next(iter(of_namespace.items()))
            self._reached[RecommenderLimit.DETACHED_HISTORIES, vpa[0]] += len(one.rows)
            self._displaced += [(oldest[0], row) for row in one.rows.values()]
            self._remove(oldest)

    def take_back(self, vpa: VpaKey, target: Target) -> dict[str, int] | None:
        """Return the rows a VPA once had for a target, None if there are none.

        Their checkpoints may have been deleted or overwritten since, so they shall be written.
        """
        found = self._by_target.get(vpa[0], {}).get((vpa, target))
        if found is None:
            return None
        self._remove((vpa, target))
        for row in found.rows.values():
            self._rows.is_dirty[row], self._rows.written[row] = True, UNSET
        return found.rows

    def take_expired(self, now_ns: int) -> list[tuple[VpaKey, int]]:
        """Take out the rows that waited too long, and those whose history has expired."""
        gone: list[tuple[VpaKey, int]] = []
        for key in [key for of_one in self._by_target.values() for key in of_one]:
            one = self._by_target[key[0][0]][key]
            for container, row in list(one.rows.items()):
                if now_ns >= one.until_ns or self._rows.expired(np.array([row]), now_ns)[0]:
                    gone.append((key[0], row))
                    del one.rows[container]
                    self._counts[key[0][0]] -= 1
            if not one.rows:
                self._remove(key)
        return gone

    def take_displaced(self) -> list[tuple[VpaKey, int]]:
        """Take out the rows that had to make room."""
        found, self._displaced = self._displaced, []
        return found

    def _remove(self, key: _Key) -> None:
        namespace = key[0][0]
        self._counts[namespace] -= len(self._by_target[namespace].pop(key).rows)
        if not self._by_target[namespace]:
            del self._by_target[namespace], self._counts[namespace]
