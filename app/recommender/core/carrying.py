"""What stays published although it cannot be computed again yet.

Strategy: "nothing was learned" is not "nothing is needed". Until the history of a VPA has been
read its recommendation stays whole; after that, a resource of which no sample was ever counted
here keeps what stands; and a VPA for which there is no container at all keeps everything until
its history would have expired. Where something stood already and what it rested on is not known,
for it is still to be told or could not be read, amounts are not lowered for a day.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Final

from app.model.quantity import Quantities, Quantity
from app.model.vpa import ContainerRecommendation, Recommendation
from app.recommender.core.moments import DAY, MINUTE, UNSET, nanoseconds
from app.recommender.core.policy import CPU, MEMORY, Cap, ContainerRules
from app.recommender.core.rows import RowTable
from app.recommender.core.status import VpaStatus
from app.recommender.core.tracked import TrackedVpa

_NO_CAP: Final = Cap()
_LIVE_NS: Final = 10 * MINUTE  # as old as the first usage may be that is told of


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
    if nanoseconds(now) - tracked.entered_ns < DAY:
        entries |= _not_less(tracked, rows, entries)
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
    tracked: TrackedVpa, rows: RowTable, entries: Mapping[str, ContainerRecommendation]
) -> dict[str, ContainerRecommendation]:
    """Return what was inherited of containers not seen yet, and of others what is more."""
    found: dict[str, ContainerRecommendation] = {}
    for old in tracked.inherited:
        row, policy = tracked.rows.get(old.container), tracked.vpa.policy(old.container)
        if row is None:
            if not (policy is not None and policy.is_off):
                found[old.container] = old
            continue
        new, first_ns = entries.get(old.container), int(rows.first[row])
        is_known = UNSET < first_ns < tracked.entered_ns - _LIVE_NS
        if new is not None and not is_known:
            kept = _capped(old, rows.rules[row])
            higher = [
                name
                for name, amount in new.target.items()
                if kept.target.get(name, amount) > amount
            ]
            found[old.container] = _completed(new, kept, higher)
    return found


def _capped(old: ContainerRecommendation, rules: ContainerRules) -> ContainerRecommendation:
    """Return an entry within what the policy allows now."""
    caps = {CPU: rules.cpu, MEMORY: rules.memory}

    def held(amounts: Quantities) -> Quantities:
        return {name: _within(amount, caps.get(name, _NO_CAP)) for name, amount in amounts.items()}

    return replace(
        old,
        target=held(old.target),
        lower_bound=held(old.lower_bound),
        upper_bound=held(old.upper_bound),
    )


def _within(amount: Quantity, cap: Cap) -> Quantity:
    raised = amount if cap.least is None else max(amount, cap.least)
    return raised if cap.most is None else min(raised, cap.most)


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
