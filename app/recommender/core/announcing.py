"""Which statuses are worth a write, and what they say.

Strategy: arrays tell which VPAs may have something to say; only for those a status is made and
compared with the one that stands. A target that changed is told at once. Bounds wait until they
have moved far enough or the VPA's turn comes: every VPA has its own phase in the refresh cycle,
so turns are spread evenly. What could not be learned yet never wipes out what stands published.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Final

import numpy as np
from numpy.typing import NDArray

from app.model.vpa import ContainerRecommendation
from app.recommender.core.appraisal import Appraisal, Flags, appraise, rows_in_use
from app.recommender.core.bank import Rows
from app.recommender.core.carrying import carried
from app.recommender.core.derivations import Derivation, Derivations
from app.recommender.core.entries import entries_of
from app.recommender.core.estimators import LOWER, TARGET, UPPER
from app.recommender.core.moments import nanoseconds, span
from app.recommender.core.observations import VpaKey
from app.recommender.core.overlaps import Overlaps
from app.recommender.core.publications import Publication, problem_of, publication
from app.recommender.core.quality import Quality
from app.recommender.core.roster import Roster
from app.recommender.core.rules import RecommenderRules
from app.recommender.core.status import (
    Difference,
    Standing,
    VpaStatus,
    conditions_for,
    difference,
    status_of,
)
from app.recommender.core.tracked import TrackedVpa

Levels = NDArray[np.int8]

_TARGETS: Final = (TARGET, TARGET + 3)  # columns of cpu, then of memory
_BOUNDS: Final = (LOWER, UPPER, LOWER + 3, UPPER + 3)
_GOLDEN: Final = 0.6180339887498949  # multiples of it spread evenly


class Announcer:
    """Compares what is known with what stands published."""

    def __init__(self, roster: Roster, quality: Quality, rules: RecommenderRules) -> None:
        self.overlaps = Overlaps(roster)
        self.derivations: dict[VpaKey, Derivation] = {}  # of what stands published
        self._quality = quality
        self._roster = roster
        self._rules = rules
        self._refresh_ns = span(rules.publish.refresh)

    def announce(self, now: datetime, only: Collection[int] | None = None) -> list[Publication]:
        """Return the statuses worth a write, of all VPAs or of some lines only."""
        now_ns, roster = nanoseconds(now), self._roster
        self.overlaps.look()
        rows = rows_in_use(roster.rows) if only is None else _rows_of(roster, only)
        appraisal = appraise(roster.rows, rows, now_ns, self._rules)
        if only is None:
            self._quality.move(appraisal.rows, appraisal.amounts)
            for key in self.derivations.keys() - roster.vpas.keys():
                del self.derivations[key]
        levels = self._levels(appraisal)
        turns = self._turns(now_ns)
        due = (levels >= Difference.BOUNDS) | ((levels > Difference.NONE) & turns)
        due |= roster.table.is_dirty | roster.table.is_urgent
        wanted = due[roster.rows.vpa[appraisal.rows]]
        entries = self._entries(appraisal, wanted)
        derivations = Derivations(roster.rows, appraisal, wanted, now)
        lines = np.flatnonzero(due).tolist() if only is None else list(only)
        found = list[Publication | None]()
        for tracked in [roster.by_line[line] for line in lines if line in roster.by_line]:
            with roster.mishaps.guard("VPA", *tracked.key):
                shown = entries.get(tracked.line, [])
                found.append(self._publication(tracked, shown, turns, derivations))
        roster.table.is_dirty[lines] = False
        roster.table.is_urgent[lines] = False
        return [one for one in found if one is not None]

    def _levels(self, appraisal: Appraisal) -> Levels:
        """Return for each VPA how much its numbers have moved since they were last compared."""
        rows, amounts = self._roster.rows, appraisal.amounts
        before = rows.published[appraisal.rows]
        moved = np.abs(amounts - before)
        far = moved[:, _BOUNDS] > self._rules.publish.bound_tolerance * before[:, _BOUNDS]
        level = np.where(moved.any(axis=1), Difference.SLIGHT, Difference.NONE)
        level = np.where(far.any(axis=1), Difference.BOUNDS, level)
        other = moved[:, _TARGETS].any(axis=1) | (rows.told[appraisal.rows] != appraisal.shows)
        level = np.where(other, Difference.TARGET, level).astype(np.int8)
        levels = np.zeros(self._roster.table.capacity, dtype=np.int8)
        np.maximum.at(levels, rows.vpa[appraisal.rows], level)
        return levels

    def _turns(self, now_ns: int) -> Flags:
        """Tell for which VPAs a new turn of the refresh cycle began since they were published."""
        table = self._roster.table
        if not self._refresh_ns:
            return np.ones(table.capacity, dtype=np.bool_)
        phases = (np.arange(table.capacity) * _GOLDEN % 1.0 * self._refresh_ns).astype(np.int64)
        past = np.maximum(table.published, 0)
        before, after = (past + phases) // self._refresh_ns, (now_ns + phases) // self._refresh_ns
        return np.asarray(after != before)  # earlier: a clock was put right

    def _entries(
        self, appraisal: Appraisal, wanted: Flags
    ) -> Mapping[int, list[ContainerRecommendation]]:
        rows = self._roster.rows
        chosen = appraisal.rows[wanted]
        rows.published[chosen] = appraisal.amounts[wanted]
        rows.told[chosen] = appraisal.shows[wanted]
        return entries_of(rows, appraisal, wanted, self._rules.format).by_vpa()

    def _publication(
        self,
        tracked: TrackedVpa,
        entries: list[ContainerRecommendation],
        turns: Flags,
        derivations: Derivations,
    ) -> Publication | None:
        table, line, now = self._roster.table, tracked.line, derivations.at
        stands = tracked.sent if tracked.sent_for is tracked.observed else None
        stands = stands or status_of(tracked.vpa)
        new = self._status(tracked, entries, stands, now)
        found = difference(new, stands, self._rules.publish.bound_tolerance)
        waits = found is Difference.SLIGHT and not turns[line]
        if not waits or tracked.key not in self.derivations:
            self.derivations[tracked.key] = derivations.of(line)
        if waits or found is Difference.NONE:
            return None
        killed = bool(table.is_urgent[line])
        told = publication(tracked.observed, new, stands, found, killed=killed)
        tracked.sent, tracked.sent_for = new, tracked.observed
        table.published[line] = nanoseconds(now)
        return told

    def _status(
        self,
        tracked: TrackedVpa,
        entries: list[ContainerRecommendation],
        stands: VpaStatus,
        now: datetime,
    ) -> VpaStatus:
        recommendation = carried(tracked, self._roster.rows, entries, stands, now)
        standing = Standing(
            is_provided=bool(recommendation),
            matches_pods=bool(tracked.pods),
            problem=problem_of(tracked.observed),
            stronger=self.overlaps.stronger(tracked.line),
        )
        conditions = conditions_for(stands.conditions, standing, now)
        return VpaStatus(recommendation, conditions, tracked.vpa.generation or None)


def _rows_of(roster: Roster, lines: Collection[int]) -> Rows:
    rows = [row for line in lines for row in roster.by_line[line].rows.values()]
    return np.array(rows, dtype=np.intp)
