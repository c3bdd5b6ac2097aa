"""What stays published although it cannot be computed again yet.

Strategy: "nothing was learned" is not "nothing is needed". Until the history of a VPA has been
read its recommendation stays whole; after that, a resource of which no sample was ever counted
here keeps what stands; and a VPA for which there is no container at all keeps everything until
its history would have expired. Until it is known what was used before, or a day is over, amounts
only grow.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from app.core.recommendation.moments import DAY, nanoseconds
from app.core.recommendation.policy import CPU
from app.core.recommendation.rows import RowTable
from app.core.recommendation.status import VpaStatus
from app.core.recommendation.tracked import TrackedVpa
from app.model.quantity import Quantities
from app.model.vpa import ContainerRecommendation, Recommendation


def carried(
    tracked: TrackedVpa,
    rows: RowTable,
    computed: list[ContainerRecommendation],
    stands: VpaStatus,
    now: datetime,
) -> Recommendation:
    """Return what was computed, completed by what stands."""
    published = stands.recommendation or ()
    if not published:
        return tuple(computed)
    if tracked.awaits_history or _is_fresh(tracked, rows, now):
        return published
    entries = {entry.container: entry for entry in computed}
    for old in published:
        row = tracked.rows.get(old.container)
        missing = [] if row is None else _never_sampled(rows, row)
        if any(resource in old.target for resource in missing):
            base = entries.get(old.container) or ContainerRecommendation(
                old.container, {}, {}, {}, {}
            )
            entries[old.container] = _completed(base, old, missing)
    if tracked.awaits_past and nanoseconds(now) - tracked.entered_ns < DAY:
        entries |= _not_less(tracked, entries, published)
    return tuple(entries[name] for name in sorted(entries))


def _is_fresh(tracked: TrackedVpa, rows: RowTable, now: datetime) -> bool:
    """Whether no container of a VPA was ever known here, and that is no wonder yet."""
    return not tracked.had_rows and nanoseconds(now) - tracked.entered_ns < rows.usual_expiry_ns


def _never_sampled(rows: RowTable, row: int) -> list[str]:
    """Return the resources that should be published and of which nothing is known."""
    rules = rows.rules[row]
    if rules.is_off:
        return []
    return [
        resource
        for resource in rules.controlled
        if not (rows.cpu if resource == CPU else rows.memory).totals[row]
    ]


def _not_less(
    tracked: TrackedVpa, entries: Mapping[str, ContainerRecommendation], published: Recommendation
) -> dict[str, ContainerRecommendation]:
    """Return what stands of containers not seen yet, and what stands higher than what is new."""
    found: dict[str, ContainerRecommendation] = {}
    for old in published:
        new, policy = entries.get(old.container), tracked.vpa.policy(old.container)
        if new is not None:
            higher = [
                name for name, amount in new.target.items() if old.target.get(name, amount) > amount
            ]
            found[old.container] = _completed(new, old, higher)
        elif old.container not in tracked.rows and not (policy is not None and policy.is_off):
            found[old.container] = old
    return found


def _completed(
    entry: ContainerRecommendation, old: ContainerRecommendation, kept: list[str]
) -> ContainerRecommendation:
    """Return an entry with some resources as they stand."""

    def both(new: Quantities, before: Quantities) -> Quantities:
        stays = {name: before[name] for name in kept if name in before}
        return stays | {name: amount for name, amount in new.items() if name not in kept}

    return replace(
        entry,
        target=both(entry.target, old.target),
        lower_bound=both(entry.lower_bound, old.lower_bound),
        upper_bound=both(entry.upper_bound, old.upper_bound),
        uncapped_target=both(entry.uncapped_target, old.uncapped_target),
    )
