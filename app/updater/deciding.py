"""Make plans, and find the owners that they need.

Strategy: a plan names the controllers that it could not see. They are looked up side by side and
the plan is made again, one level of owners at a time; what was found serves the next plans too.
Parts of the cluster that did not change are taken over from the plan before. A namespace that
brings a defect of ours to light is left out, so that it spoils nobody else's plan.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from app.model.gates import FeatureGates
from app.model.kinds import ObjectKey
from app.model.snapshot import Snapshot
from app.model.workloads import Lookup, LookupResult
from app.ports import Clock, Owners
from app.updater.core.memory import Memory
from app.updater.core.plan import Plan, PlanOptions, Unplannable, plan
from app.updater.core.rules import UpdateRules

log = logging.getLogger("updater.plan")

MOST_LEVELS: Final = 10  # of owners above each other
_KEPT: Final = timedelta(minutes=10)  # then it is seen anew which owners are needed
_LOOKUP_SECONDS: Final = 3.0  # for all owners of one level together
_HASTY_SECONDS: Final = 0.3  # the same for a plan about some pods, which comes again soon


@dataclass(frozen=True, slots=True)
class Sight:
    """What is decided upon."""

    snapshot: Snapshot
    webhook_is_healthy: bool = True
    only: frozenset[tuple[str, str]] | None = None  # pods by namespace and name, None for all


@dataclass(slots=True)
class _Needed:
    """The owners that plans asked for, and since when they are collected."""

    lookups: dict[Lookup, None] = field(default_factory=dict)
    since: datetime | None = None


class Decider:
    """Decides; for one thread."""

    def __init__(
        self, rules: UpdateRules, gates: FeatureGates, owners: Owners, clock: Clock
    ) -> None:
        self._rules = rules
        self._gates = gates
        self._owners = owners
        self._clock = clock
        self._needed = _Needed()
        self._before: Plan | None = None

    def plan(self, sight: Sight, memory: Memory, now: datetime) -> Plan:
        """Return the plan for what is seen."""
        needed = self._needed
        if needed.since is None or now - needed.since >= _KEPT:
            needed = self._needed = _Needed(since=now)
        around = PlanOptions(sight.webhook_is_healthy, {}, self._before, sight.only)
        for _ in range(MOST_LEVELS):
            around = replace(around, looked_up=self._looked_up(needed.lookups, sight))
            made = self._made(sight.snapshot, memory, now, around)
            fresh = [lookup for lookup in made.lookups if lookup not in needed.lookups]
            if not made.is_partial:
                around = replace(around, before=made)
            if not fresh:
                break
            needed.lookups.update(dict.fromkeys(fresh))
        self._before = around.before
        return made

    def _looked_up(
        self, lookups: Iterable[Lookup], sight: Sight
    ) -> Mapping[str, Mapping[ObjectKey, LookupResult]]:
        """Return what is found of owners, by namespace.

        Some pods that are looked at in haste do not wait for owners that are none of theirs.
        """
        if sight.only is None:
            return found_owners(self._owners, self._clock, lookups)
        namespaces = {place[0] for place in sight.only}
        near = (lookup for lookup in lookups if lookup.namespace in namespaces)
        return found_owners(self._owners, self._clock, near, _HASTY_SECONDS)

    def _made(self, snapshot: Snapshot, memory: Memory, now: datetime, around: PlanOptions) -> Plan:
        """Return the plan, without the namespaces of which none can be made."""
        while True:
            try:
                return plan(snapshot, self._rules, self._gates, memory, now, around)
            except Unplannable as error:
                log.exception("namespace left out", extra={"namespace": error.namespace})
                around = replace(around, without=around.without | {error.namespace})


def found_owners(
    owners: Owners, clock: Clock, lookups: Iterable[Lookup], seconds: float = _LOOKUP_SECONDS
) -> dict[str, dict[ObjectKey, LookupResult]]:
    """Return what is found of owners within some seconds, side by side, by namespace."""
    wanted = list(lookups)
    for lookup in wanted:
        owners.find(lookup, 0.0)  # all begin before the first one is waited for
    until = clock.monotonic() + seconds
    found: dict[str, dict[ObjectKey, LookupResult]] = {}
    for lookup in wanted:
        left = max(until - clock.monotonic(), 0.0)
        found.setdefault(lookup.namespace, {})[lookup.key] = owners.find(lookup, left)
    return found
