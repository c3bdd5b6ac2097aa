"""The picture of a cluster at one moment, from which all pages are made.

Strategy: a picture is made whenever something changed, and shown to all who ask until the next one.
Of a namespace whose objects, decisions and usage stay the same the rows are taken over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from app.diagnosis.core.comparisons import ContainerKey, LearnedHistory
from app.diagnosis.core.facts import Findings
from app.diagnosis.core.pod_events import PodEvent
from app.diagnosis.core.uncovered import TopWorkload
from app.model.snapshot import Snapshot
from app.page.core.charts import Mark
from app.page.core.fleet import Fleet, NamespaceRows, namespace_rows
from app.page.core.rows import NamespaceFacts, UsageNow, workload_rows
from app.updater.core.plan import Plan


@dataclass(frozen=True, slots=True)
class Measured:
    """What is known beside the objects that are watched; each is replaced as a whole."""

    usage: UsageNow = field(default_factory=dict)
    histories: Mapping[ContainerKey, LearnedHistory] = field(default_factory=dict)


Mistakes = Mapping[str, Mapping[str, str]]  # what is wrong with VPAs, by namespace and name


@dataclass(frozen=True, slots=True)
class WatchLine:
    """How long nothing was heard of a resource."""

    resource: str
    seconds: float
    is_unknown: bool  # all goes on without it


@dataclass(frozen=True, slots=True)
class Picture:
    """What is known of a cluster at one moment, and what is decided about its pods."""

    now: datetime
    snapshot: Snapshot
    plan: Plan
    tops: Mapping[str, Sequence[TopWorkload]]  # by namespace
    measured: Measured
    fleet: Fleet
    webhook: str = ""  # why no pod would be evicted now, empty if it may be
    problem: str = ""  # why no newer picture can be made
    age: timedelta | None = None  # of one that has a problem
    notes: Sequence[str] = ()  # what could not be read
    events: Sequence[PodEvent] = ()  # the latest first
    kills: Sequence[tuple[str, Mark]] = ()  # by namespace
    findings: Findings | None = None  # of the check of the installation; None: not looked yet
    watches: Sequence[WatchLine] = ()  # how long nothing was heard of what is watched
    mistakes: Mistakes = field(default_factory=dict)

    @property
    def told_of(self) -> set[str]:
        """The namespaces of which pages have something to tell."""
        rows = {name for name, part in self.fleet.items() if part.rows}
        return rows | {one.namespace for one in self.events}


def fleet_of(
    snapshot: Snapshot,
    plan: Plan,
    tops: Mapping[str, Sequence[TopWorkload]],
    measured: Measured,
    before: Picture | None,
    mistakes: Mistakes | None = None,
) -> Fleet:
    """Return the rows of all namespaces; those of unchanged ones are taken over."""
    names, mistakes = sorted({*snapshot.namespaces, *tops}), mistakes or {}
    others = before.mistakes if before is not None else {}
    return {
        name: (
            _kept(name, snapshot, plan, tops, measured, before)
            if mistakes.get(name) == others.get(name)
            else None
        )
        or _made(name, snapshot, plan, tops, measured, mistakes.get(name, {}))
        for name in names
    }


def _made(
    name: str,
    snapshot: Snapshot,
    plan: Plan,
    tops: Mapping[str, Sequence[TopWorkload]],
    measured: Measured,
    mistakes: Mapping[str, str],
) -> NamespaceRows:
    part = plan.namespaces.get(name)
    decisions = part.decisions if part is not None else ()
    facts = NamespaceFacts(
        snapshot.of(name),
        decisions,
        tops.get(name, ()),
        measured.histories,
        measured.usage,
        mistakes,
    )
    return namespace_rows(name, workload_rows(facts), plan.now)


def _kept(
    name: str,
    snapshot: Snapshot,
    plan: Plan,
    tops: Mapping[str, Sequence[TopWorkload]],
    measured: Measured,
    before: Picture | None,
) -> NamespaceRows | None:
    if before is None or measured is not before.measured:
        return None
    if plan.now.hour != before.now.hour:  # what is counted for a day is counted again
        return None
    is_same = (
        snapshot.of(name) is before.snapshot.of(name)
        and plan.namespaces.get(name) is before.plan.namespaces.get(name)
        and tops.get(name) is before.tops.get(name)
    )
    return before.fleet.get(name) if is_same else None
