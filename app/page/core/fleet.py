"""The fleet: all workloads that a viewer may see, with sums, as a table that is sorted and paged.

Strategy: rows and sums are made once for each namespace that changed; a view adds up the sums of
the namespaces that its viewer may see, so that nothing tells of the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta
from enum import StrEnum
from math import ceil
from typing import Final

from app.diagnosis.core.attention import Attention
from app.page.core.rows import ResourceTotals, WorkloadRow

ROWS_A_PAGE: Final = 50
_TODAY: Final = timedelta(days=1)
_CORE: Final = 1000  # millicores
_MEMORY_BESIDE_A_CORE: Final = 4 * 2**30  # what a node usually has; for an order of both together


class Sort(StrEnum):
    """By what the rows are sorted."""

    DIFFERENCE = "difference"  # what could be saved or is short, of both resources
    CPU = "cpu"
    MEMORY = "memory"
    NAME = "name"
    PODS = "pods"
    STATUS = "status"  # those that need most attention first
    CONFIDENCE = "confidence"
    AGE = "age"


class Only(StrEnum):
    """What a workload must be, to be shown."""

    BLOCKED = "blocked"
    HELD = "held"
    KILLED = "killed"
    UNSIZED = "unsized"


@dataclass(frozen=True, slots=True)
class FleetQuery:
    """What of the fleet is wanted."""

    namespace: str = ""
    reason: str = ""
    only: Only | None = None
    words: str = ""
    sort: Sort = Sort.DIFFERENCE
    page: int = 1


@dataclass(frozen=True, slots=True)
class FleetSums:
    """What some workloads come to."""

    sized: int = 0
    unsized: int = 0
    pods: int = 0  # under VPAs
    # Of those with a recommendation, so that all amounts are about the same pods; held ones stay.
    cpu: ResourceTotals = field(default_factory=ResourceTotals)
    memory: ResourceTotals = field(default_factory=ResourceTotals)
    reasons: Counter[str] = field(default_factory=Counter)  # pods by reason
    blocked: int = 0  # workloads that wait for a person
    held: int = 0  # of which a resource stays as it is, because an HPA scales by it
    killed: int = 0  # of which a container ran out of memory within a day


@dataclass(frozen=True, slots=True)
class NamespaceRows:
    """The rows of a namespace, and what they come to."""

    namespace: str
    rows: Sequence[WorkloadRow]
    sums: FleetSums


Fleet = Mapping[str, NamespaceRows]


def namespace_rows(namespace: str, rows: Sequence[WorkloadRow], now: datetime) -> NamespaceRows:
    """Return rows with their sums."""
    sized = [row for row in rows if row.vpa]
    reasons: Counter[str] = Counter()
    for row in sized:
        reasons.update(dict(row.reasons))
    sums = FleetSums(
        sized=len(sized),
        unsized=len(rows) - len(sized),
        pods=sum(row.pods for row in sized),
        cpu=_added(row.cpu for row in sized if row.cpu.target is not None),
        memory=_added(row.memory for row in sized if row.memory.target is not None),
        reasons=reasons,
        blocked=sum(_is_only(row, Only.BLOCKED, now) for row in rows),
        held=sum(_is_only(row, Only.HELD, now) for row in rows),
        killed=sum(_is_only(row, Only.KILLED, now) for row in rows),
    )
    return NamespaceRows(namespace, rows, sums)


def _is_only(row: WorkloadRow, only: Only, now: datetime) -> bool:
    match only:
        case Only.BLOCKED:
            return row.status.level is Attention.BLOCKED
        case Only.HELD:
            return bool(row.held)
        case Only.KILLED:
            return row.killed_at is not None and now - row.killed_at < _TODAY
        case _:  # not sized
            return not row.vpa


def _added(found: Iterable[ResourceTotals]) -> ResourceTotals:
    """Add up; what is not known of one counts as nothing, as long as it is known of another."""
    totals: dict[str, int | None] = {}
    for one in found:
        for name in _AMOUNTS:
            amount = getattr(one, name)
            if amount is not None:
                totals[name] = (totals.get(name) or 0) + amount
    return ResourceTotals(**totals)  # type: ignore[arg-type]  # the last two are never None


_AMOUNTS: Final = tuple(one.name for one in fields(ResourceTotals))


@dataclass(frozen=True, slots=True)
class FleetView:
    """One page of the fleet."""

    query: FleetQuery
    sums: FleetSums  # of all that the viewer may see, whatever the filters
    namespaces: Sequence[str]
    reasons: Sequence[str]  # of any row or pod
    found: int  # rows that pass the filters
    pages: int
    rows: Sequence[WorkloadRow]
    is_empty: bool  # the viewer sees no workload at all


def fleet_view(
    fleet: Fleet,
    query: FleetQuery,
    may_see: Callable[[str], bool],
    now: datetime,
    rows: int | None = ROWS_A_PAGE,
) -> FleetView:
    """Return a page of what a viewer may see; `pages` tells whether there is such a page."""
    told = sorted((name, part) for name, part in fleet.items() if part.rows)
    seen = [part for namespace, part in told if may_see(namespace)]
    found = [row for part in seen for row in part.rows if _is_wanted(row, query, now)]
    found.sort(key=lambda row: (_rank(row, query.sort), row.namespace, row.name, row.vpa))
    sums = added_sums(part.sums for part in seen)
    a_page = max(len(found), 1) if rows is None else rows
    first = (query.page - 1) * a_page
    return FleetView(
        query=query,
        sums=sums,
        namespaces=[part.namespace for part in seen],
        reasons=sorted({*sums.reasons, *(row.reason for part in seen for row in part.rows)}),
        found=len(found),
        pages=max(ceil(len(found) / a_page), 1),
        rows=found[first : first + a_page],
        is_empty=not seen,
    )


def added_sums(found: Iterable[FleetSums]) -> FleetSums:
    """Add up the sums of namespaces."""
    some = list(found)
    return FleetSums(
        sized=sum(one.sized for one in some),
        unsized=sum(one.unsized for one in some),
        pods=sum(one.pods for one in some),
        cpu=_added(one.cpu for one in some),
        memory=_added(one.memory for one in some),
        reasons=sum((one.reasons for one in some), Counter[str]()),
        blocked=sum(one.blocked for one in some),
        held=sum(one.held for one in some),
        killed=sum(one.killed for one in some),
    )


def _is_wanted(row: WorkloadRow, query: FleetQuery, now: datetime) -> bool:
    if query.namespace and row.namespace != query.namespace:
        return False
    if query.reason and query.reason != row.reason and query.reason not in dict(row.reasons):
        return False
    if query.only is not None and not _is_only(row, query.only, now):
        return False
    marks = " ".join((*row.badges, *row.roles))
    text = f"{row.namespace}/{row.workload or ''} {row.vpa} {row.mode} {marks}"
    return all(word in text.lower() for word in query.words.lower().split())


def _rank(row: WorkloadRow, sort: Sort) -> tuple[bool, float | str]:
    """Return what rows are sorted by; workloads without a VPA stand behind the others."""
    amount: float
    match sort:
        case Sort.DIFFERENCE:
            amount = -row.cpu.difference / _CORE - row.memory.difference / _MEMORY_BESIDE_A_CORE
        case Sort.CPU:
            amount = -row.cpu.difference
        case Sort.MEMORY:
            amount = -row.memory.difference
        case Sort.NAME:
            return False, row.name
        case Sort.PODS:
            return False, -row.pods
        case Sort.STATUS:
            return False, float(row.status.level)
        case Sort.CONFIDENCE:
            amount = -1.0 if row.confidence is None else row.confidence
        case _:  # by age
            amount = row.as_of.timestamp() if row.as_of is not None else 0.0
    return not row.vpa, amount
