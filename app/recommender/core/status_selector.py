"""Which statuses are worth a write, and what they say.

Strategy: arrays tell which VPAs may have something to say; only for those a status is made and
compared with the one that stands. A target that changed is written at once. Bounds wait until they
have moved far enough or the VPA's turn comes: every VPA has its own phase in the refresh cycle,
so turns are spread evenly. Overlapping selectors are refused at admission; pods that slip through
feed all VPAs that claim them, and a condition says which VPA comes first.

"Nothing was learned" is not "nothing is needed". Until the checkpoints of a VPA have been read its
recommendation stays whole; after that, a resource of which no sample was ever counted here keeps
what stands; and a VPA for which there was no container yet keeps everything for as long as history
lives without samples, from when this model first saw it. Where something stood already and what it
rested on is not known, because it is still to come or could not be read, amounts are not lowered
for a day.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Final

import numpy as np

from app.model.quantity import Quantities, Quantity
from app.model.vpa import ContainerRecommendation, Recommendation
from app.recommender.core.estimation import (
    Derivations,
    Estimation,
    VpaDerivation,
    estimate_rows,
    rows_in_use,
)
from app.recommender.core.histograms import Bits, Flags, Rows
from app.recommender.core.intake import Quality
from app.recommender.core.membership import Membership
from app.recommender.core.moments import DAY, GOLDEN, MINUTE, UNSET, nanoseconds, span
from app.recommender.core.rules import CPU, MEMORY, Cap, ContainerRules, RecommenderRules
from app.recommender.core.shaping import shape_rows
from app.recommender.core.status import (
    ConditionInputs,
    Difference,
    Lacking,
    NotProvided,
    Publication,
    VpaStatus,
    conditions_for,
    difference,
    problem_of,
    publication,
    status_of,
)
from app.recommender.core.tables import LOWER, MEMORY_OFFSET, TARGET, UPPER, RowTable
from app.recommender.core.targets import VpaKey
from app.recommender.core.tracked import TrackedVpa
from app.sizing.sizing import holding_metrics

_TARGETS: Final = (TARGET, MEMORY_OFFSET + TARGET)
_BOUNDS: Final = (LOWER, UPPER, MEMORY_OFFSET + LOWER, MEMORY_OFFSET + UPPER)

_NO_CAP: Final = Cap()
_LIVE_NS: Final = 10 * MINUTE  # as old as the first usage may be


class StatusSelector:
    """Compares what is known with what stands published."""

    def __init__(self, members: Membership, quality: Quality, rules: RecommenderRules) -> None:
        self.overlaps = Overlaps(members)
        self.derivations: dict[VpaKey, VpaDerivation] = {}  # of what stands published
        self._quality = quality
        self._members = members
        self._rules = rules
        self._refresh_ns = span(rules.publish.refresh)

    def select(self, now: datetime, only: Collection[int] | None = None) -> list[Publication]:
        """Return the statuses worth a write, of all VPAs or of some lines only."""
        now_ns, members = nanoseconds(now), self._members
        self.overlaps.look()
        rows = rows_in_use(members.rows) if only is None else _rows_of(members, only)
        estimation = estimate_rows(members.rows, rows, now_ns, self._rules)
        if only is None:
            self._quality.move(estimation.rows, estimation.amounts)
            for key in self.derivations.keys() - members.vpas.keys():
                del self.derivations[key]
        levels = self._levels(estimation)
        turns = self._turns(now_ns)
        due = (levels >= Difference.BOUNDS) | (turns & (members.vpa_table.waits | (levels > 0)))
        due |= members.vpa_table.is_dirty | members.vpa_table.is_urgent
        wanted = due[members.rows.vpa[estimation.rows]]
        members.rows.estimated[estimation.rows[wanted]] = estimation.amounts[wanted]
        members.rows.estimated_shows[estimation.rows[wanted]] = estimation.shows[wanted]
        entries = shape_rows(members.rows, estimation, wanted, self._rules.format)
        derivations = Derivations(members.rows, estimation, wanted, now)
        lines = np.flatnonzero(due).tolist() if only is None else list(only)
        found = list[Publication | None]()
        members.vpa_table.is_dirty[lines] = False
        for tracked in [members.by_line[line] for line in lines if line in members.by_line]:
            with members.skipped.guard("VPA", *tracked.key):
                shown = entries.get(tracked.line, [])
                found.append(self._publication(tracked, shown, turns, derivations))
                continue
            members.vpa_table.is_dirty[tracked.line] = True  # it failed; the next tick tries again
        members.vpa_table.is_urgent[lines] = False
        return [one for one in found if one is not None]

    def _levels(self, estimation: Estimation) -> Bits:
        """Return for each VPA how much its numbers have moved since its estimate was last kept."""
        rows, amounts = self._members.rows, estimation.amounts
        before = rows.estimated[estimation.rows]
        changes = np.abs(amounts - before)
        far = changes[:, _BOUNDS] > self._rules.publish.bound_tolerance * before[:, _BOUNDS]
        level = np.where(changes.any(axis=1), Difference.SLIGHT, Difference.NONE)
        level = np.where(far.any(axis=1), Difference.BOUNDS, level)
        other = rows.estimated_shows[estimation.rows] != estimation.shows
        other |= changes[:, _TARGETS].any(axis=1)
        level = np.where(other, Difference.TARGET, level).astype(np.int8)
        levels = np.zeros(self._members.vpa_table.capacity, dtype=np.int8)
        np.maximum.at(levels, rows.vpa[estimation.rows], level)
        return levels

    def _turns(self, now_ns: int) -> Flags:
        """Tell for which VPAs a new turn of the refresh cycle began since they were published."""
        table = self._members.vpa_table
        if not self._refresh_ns:
            return np.ones(table.capacity, dtype=np.bool_)
        phases = (np.arange(table.capacity) * GOLDEN % 1.0 * self._refresh_ns).astype(np.int64)
        past = np.maximum(table.published_ns, 0)
        before, after = (past + phases) // self._refresh_ns, (now_ns + phases) // self._refresh_ns
        return np.asarray(after != before)  # earlier: a clock was put right

    def _publication(
        self,
        tracked: TrackedVpa,
        entries: list[ContainerRecommendation],
        turns: Flags,
        derivations: Derivations,
    ) -> Publication | None:
        table, line, now = self._members.vpa_table, tracked.line, derivations.at
        stands = tracked.sent if tracked.sent_for is tracked.observed else None
        stands = stands or status_of(tracked.vpa)
        new = self._status(tracked, entries, stands, now)
        found = difference(new, stands, self._rules.publish.bound_tolerance)
        waits = table.waits[line] = found is Difference.SLIGHT and not turns[line]
        if not waits or tracked.key not in self.derivations:
            self.derivations[tracked.key] = derivations.of(line)
        if waits or found is Difference.NONE:
            return None
        killed = bool(table.is_urgent[line])
        made = publication(tracked.observed, new, stands, found, killed=killed)
        tracked.sent, tracked.sent_for = new, tracked.observed
        table.published_ns[line] = nanoseconds(now)
        return made

    def _status(
        self,
        tracked: TrackedVpa,
        entries: list[ContainerRecommendation],
        stands: VpaStatus,
        now: datetime,
    ) -> VpaStatus:
        recommendation = retained(tracked, self._members.rows, entries, stands, now)
        standing = ConditionInputs(
            is_provided=bool(recommendation),
            matches_pods=bool(tracked.pods),
            lacking=tuple(_lacking(tracked, self._members, recommendation, nanoseconds(now))),
            problem=problem_of(tracked.observed),
            stronger=self.overlaps.stronger(tracked.line),
            scaled_by=holding_metrics(tracked.vpa, recommendation),
            role_problem=tracked.vpa.role_problem,
        )
        conditions = conditions_for(stands.conditions, standing, now)
        return VpaStatus(recommendation, conditions, tracked.vpa.generation or None)


def _lacking(
    tracked: TrackedVpa, members: Membership, recommendation: Recommendation, now_ns: int
) -> Iterator[Lacking]:
    """Yield what has no target of containers that are recommended for, or that live."""
    targets = {one.container: one.target for one in recommendation}
    for container, row in sorted(tracked.rows.items()):
        rules = members.rows.rules[row]
        missing = [name for name in rules.controlled if name not in targets.get(container, ())]
        if rules.is_off or not missing:
            continue
        if container not in targets and not members.rows.live[row]:
            continue
        pods = (members.pods[key] for key in tracked.pods)
        is_boosted = any(members.uses_boosted_cpu(pod, container, now_ns) for pod in pods)
        for resource in missing:
            boosts = is_boosted and resource == CPU
            why = NotProvided.STARTUP_BOOST if boosts else NotProvided.NOT_LEARNED
            yield Lacking(container, resource, why)


def _rows_of(members: Membership, lines: Collection[int]) -> Rows:
    rows = [row for line in lines for row in members.by_line[line].rows.values()]
    return np.array(rows, dtype=np.intp)


class Overlaps:
    """Which VPA comes first for pods that others select too."""

    def __init__(self, members: Membership) -> None:
        self._members = members
        self._stronger: dict[int, str] = {}
        self.pods: Counter[str] = Counter()  # by namespace, claimed more than once

    def look(self) -> None:
        """Look again; VPAs for which the answer changed become dirty."""
        members = self._members
        if not (members.shared or self._stronger):
            return
        found: dict[int, str] = {}
        self.pods = Counter(namespace for namespace, _ in members.shared)
        for key in sorted(members.shared):
            lines = members.selecting(members.pods[key])
            first, *others = sorted(lines, key=lambda line: members.by_line[line].vpa.precedence)
            for line in others:
                found.setdefault(line, members.by_line[first].vpa.name)
        for line in (found.keys() | self._stronger.keys()) & members.by_line.keys():
            if found.get(line) != self._stronger.get(line):
                members.vpa_table.is_dirty[line] = True
        self._stronger = found

    def stronger(self, line: int) -> str:
        """Return the name of the VPA that comes before this one, empty if none does."""
        return self._stronger.get(line, "")


def retained(
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
    if tracked.awaits_history or _never_had_rows(tracked, rows, now):
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


def _never_had_rows(tracked: TrackedVpa, rows: RowTable, now: datetime) -> bool:
    """Whether no container of a VPA was known yet, and history would not have expired since."""
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
            is_off = policy is not None and policy.is_off
            if not (is_off or old.container in tracked.left_alone):
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
