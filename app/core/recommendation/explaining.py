"""Why a recommendation is what it is: every step from the histogram to the published amount.

Strategy: nothing is derived a second way. The steps are read off the very arrays from which
publications are made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

import numpy as np

from app.core.recommendation.appraisal import (
    SHOWS_CPU,
    SHOWS_ENTRY,
    SHOWS_MEMORY,
    Appraisal,
    appraise,
)
from app.core.recommendation.bank import EMPTY
from app.core.recommendation.entries import Entries, entries_of
from app.core.recommendation.estimators import Estimates
from app.core.recommendation.grid import CPU as CPU_GRID
from app.core.recommendation.grid import MEMORY as MEMORY_GRID
from app.core.recommendation.grid import Grid
from app.core.recommendation.moments import moment_or_none, nanoseconds
from app.core.recommendation.observations import VpaKey
from app.core.recommendation.policy import CPU, MEMORY
from app.core.recommendation.rows import RowTable
from app.core.recommendation.rules import EstimatorRules, RecommenderRules, ResourceRules
from app.core.recommendation.shaping import Bound, Shaped
from app.model.vpa import ContainerRecommendation

_WORDS: Final = ("target", "lowerBound", "upperBound")  # in the order of all columns


class Absence(StrEnum):
    """Why a container is not recommended for."""

    NONE = ""
    OFF = "its policy says Off"
    NO_SAMPLES = "nothing was learned of it yet"
    STALE = "no such container has been alive for long, while others of the VPA are"


@dataclass(frozen=True, slots=True)
class Steps:
    """How one amount came about; amounts are millicores or bytes."""

    word: str  # target, lowerBound or upperBound
    fraction: float  # the percentile that was asked for
    bucket: int | None  # where it fell, None without samples
    bucket_start: float | None
    percentile: int  # the end of the bucket
    with_margin: int
    multiplier: float  # by confidence; infinite while nothing is certain
    floor: int
    estimate: int
    thousandths: int  # after rounding and caps
    capped_by: str  # minAllowed, maxAllowed or nothing


@dataclass(frozen=True, slots=True)
class ResourceExplanation:
    """How the amounts of one resource came about."""

    resource: str
    is_shown: bool
    confidence: float  # intervals of history
    weight: float  # of all samples, at the reference time
    reference: datetime | None
    steps: tuple[Steps, ...]


@dataclass(frozen=True, slots=True)
class Explanation:
    """How the recommendation for one container came about."""

    namespace: str
    vpa: str
    container: str
    absence: Absence
    first_sample: datetime | None
    last_sample: datetime | None
    samples: int
    living: int  # containers
    margin_fraction: float
    resources: tuple[ResourceExplanation, ...]
    recommendation: ContainerRecommendation


def explain(
    table: RowTable,
    rows: Sequence[int],
    container: str,
    key: VpaKey,
    now: datetime,
    rules: RecommenderRules,
) -> Explanation:
    """Explain one of the rows of a VPA."""
    appraisal = appraise(table, np.array(rows, dtype=np.intp), nanoseconds(now), rules)
    every = np.ones(len(rows), dtype=np.bool_)
    entries = entries_of(table, appraisal, every, rules.format)
    line = [table.names[row] for row in rows].index(container)
    return _explanation(key, entries, appraisal, line, rules.estimator)


def _explanation(
    key: VpaKey, entries: Entries, appraisal: Appraisal, line: int, asked: EstimatorRules
) -> Explanation:
    table, row = entries.table, entries.rows[line]
    cpu = _resource(CPU_GRID, asked.cpu, appraisal.cpu, entries.cpu, line)
    memory = _resource(MEMORY_GRID, asked.memory, appraisal.memory, entries.memory, line)
    shows = entries.shows[line]
    return Explanation(
        namespace=key[0],
        vpa=key[1],
        container=table.names[row],
        absence=_absence(entries, line),
        first_sample=moment_or_none(int(table.first[row])),
        last_sample=moment_or_none(int(table.last[row])),
        samples=int(table.counts[row]),
        living=int(table.live[row]),
        margin_fraction=asked.margin_fraction,
        resources=(
            ResourceExplanation(
                CPU,
                bool(shows & SHOWS_CPU),
                float(appraisal.cpu_confidence[line]),
                float(table.cpu.totals[row]),
                moment_or_none(int(table.cpu.references[row])),
                cpu,
            ),
            ResourceExplanation(
                MEMORY,
                bool(shows & SHOWS_MEMORY),
                float(appraisal.memory_confidence[line]),
                float(table.memory.totals[row]),
                moment_or_none(int(table.memory.references[row])),
                memory,
            ),
        ),
        recommendation=list(entries.all())[line],
    )


def _absence(entries: Entries, line: int) -> Absence:
    table, row = entries.table, entries.rows[line]
    if entries.shows[line] & SHOWS_ENTRY:
        return Absence.NONE
    if table.is_off[row]:
        return Absence.OFF
    known = table.cpu.totals[row] or table.memory.totals[row]
    return Absence.STALE if known else Absence.NO_SAMPLES


def _resource(
    grid: Grid, asked: ResourceRules, found: Estimates, shaped: Shaped, line: int
) -> tuple[Steps, ...]:
    return tuple(
        Steps(
            word=word,
            fraction=asked.fractions[column],
            bucket=None
            if found.buckets[line, column] == EMPTY
            else int(found.buckets[line, column]),
            bucket_start=None
            if found.buckets[line, column] == EMPTY
            else float(grid.exact_starts[found.buckets[line, column]]),
            percentile=int(found.bases[line, column]),
            with_margin=int(found.with_margin[line, column]),
            multiplier=float(found.multipliers[line, column]),
            floor=int(found.floors[line]),
            estimate=int(found.amounts[line, column]),
            thousandths=int(shaped.amounts[line, column]),
            capped_by=_CAPPED[Bound(int(shaped.bounds[line, column]))],
        )
        for column, word in enumerate(_WORDS)
    )


_CAPPED: Final = {Bound.NOTHING: "", Bound.LEAST: "minAllowed", Bound.MOST: "maxAllowed"}
