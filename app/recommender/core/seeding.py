"""A first guess for a VPA with a selector: a little of what was known of all pods of its target.

Strategy: when one VPA for all pods gives way to several with selectors, each of them may begin
with the history of the old one, made so light that a few hours of its own usage outweigh it,
and so short that its bounds stay wide.
"""

from __future__ import annotations

from typing import Final

from app.recommender.core.moments import MINUTE, UNSET, span
from app.recommender.core.parking import target_of
from app.recommender.core.roster import Roster
from app.recommender.core.tracked import TrackedVpa

_SHARE: Final = 0.01  # of the weights
_CONFIDENCE: Final = 0.1  # at most


def seed(tracked: TrackedVpa, roster: Roster, now_ns: int) -> None:
    """Give a VPA with a selector, where it knows nothing itself, what a former one knew."""
    if not roster.rules.extras.seed_selectors or tracked.vpa.selector is None:
        return
    former = roster.parking.former(tracked.key[0], target_of(tracked.observed))
    for container, source in former.items():
        row = roster.row_of(tracked, container, now_ns)
        if not (roster.rows.cpu.totals[row] or roster.rows.memory.totals[row]):
            _copy(roster, source, row)


def _copy(roster: Roster, source: int, row: int) -> None:
    table, asked = roster.rows, roster.rules.estimator
    for bank in (table.cpu, table.memory):
        bank.put(
            row,
            bank.weights[source] * _SHARE,
            float(bank.totals[source]) * _SHARE,
            int(bank.references[source]),
        )
    if table.first[source] != UNSET:
        intervals = (asked.cpu.confidence_interval, asked.memory.confidence_interval)
        longest_ns = int(_CONFIDENCE * span(min(intervals)))
        table.last[row] = table.last[source]
        table.first[row] = max(int(table.first[source]), int(table.last[source]) - longest_ns)
        table.counts[row] = min(int(table.counts[source]), longest_ns // MINUTE)
    table.last_any[row] = table.last_any[source]
    table.is_dirty[row] = True
