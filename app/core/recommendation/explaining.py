"""Why a recommendation is what it is: every step from the histogram to the published amount.

Strategy: nothing is derived a second way. The steps are what the functions answer that made the
publication, asked again with the numbers that it was made from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import partial
from typing import Final

import numpy as np

from app.core.recommendation.appraisal import SHOWS_CPU, SHOWS_ENTRY, SHOWS_MEMORY, appraise
from app.core.recommendation.bank import EMPTY
from app.core.recommendation.derivations import Basis, Derivation, Derivations
from app.core.recommendation.estimators import Estimates, estimate
from app.core.recommendation.grid import CPU as CPU_GRID
from app.core.recommendation.grid import MEMORY as MEMORY_GRID
from app.core.recommendation.grid import Amounts, Grid
from app.core.recommendation.moments import moment_or_none, nanoseconds
from app.core.recommendation.observations import VpaKey
from app.core.recommendation.policy import CPU, MEMORY, Cap, ContainerRules
from app.core.recommendation.rows import RowTable
from app.core.recommendation.rules import RecommenderRules, ResourceRules
from app.core.recommendation.shaping import (
    UNCAPPED,
    Bound,
    Caps,
    Shaped,
    cpu_quantity,
    memory_quantity,
    shape_cpu,
    shape_memory,
)
from app.model.quantity import Quantity
from app.model.vpa import ContainerRecommendation

_WORDS: Final = ("target", "lowerBound", "upperBound")  # in the order of all columns
_CAPPED: Final = {Bound.NOTHING: "", Bound.LEAST: "minAllowed", Bound.MOST: "maxAllowed"}


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
    with_confidence: int
    floor: int
    estimate: int
    rounded: int  # thousandths of a core or of a byte, as what follows
    capped: int
    capped_by: str  # minAllowed, maxAllowed or nothing
    quantity: Quantity  # as it is published


@dataclass(frozen=True, slots=True)
class ResourceExplanation:
    """How the amounts of one resource came about."""

    resource: str
    is_shown: bool
    confidence: float  # intervals of history
    weight: float  # of all samples, at the reference time
    reference: datetime | None
    steps: tuple[Steps, ...]
    uncapped: Quantity


@dataclass(frozen=True, slots=True)
class Explanation:
    """How the recommendation for one container came about."""

    container: str
    at: datetime
    absence: Absence
    first_sample: datetime | None
    last_sample: datetime | None
    samples: int
    living: int  # containers
    is_whole_cores: bool
    resources: tuple[ResourceExplanation, ...]

    @property
    def recommendation(self) -> ContainerRecommendation:
        """What all steps end in."""
        shown = [found for found in self.resources if found.is_shown]
        target, lower, upper = (
            {found.resource: found.steps[column].quantity for found in shown}
            for column in range(len(_WORDS))
        )
        uncapped = {found.resource: found.uncapped for found in shown}
        return ContainerRecommendation(self.container, target, lower, upper, uncapped)


def explain(
    table: RowTable,
    rows: Sequence[int],
    container: str,
    key: VpaKey,
    now: datetime,
    rules: RecommenderRules,
) -> Explanation:
    """Explain what one of the rows of a VPA would be given now."""
    del key
    appraisal = appraise(table, np.array(rows, dtype=np.intp), nanoseconds(now), rules)
    every = np.ones(len(rows), dtype=np.bool_)
    derivation = Derivations(table, appraisal, every, now).of(int(table.vpa[rows[0]]))
    return explanations(derivation, rules)[container]


def explanations(derivation: Derivation, rules: RecommenderRules) -> Mapping[str, Explanation]:
    """Explain what was recommended for each container of a VPA."""
    cpu, memory = _cpu(derivation, rules), _memory(derivation, rules)
    found = {}
    for line, container in enumerate(derivation.containers):
        own, told = derivation.rules[line], derivation.basis[line]
        shows = int(told["shows"])
        found[container] = Explanation(
            container=container,
            at=derivation.at,
            absence=_absence(told, own),
            first_sample=moment_or_none(int(told["first"])),
            last_sample=moment_or_none(int(told["last"])),
            samples=int(told["samples"]),
            living=int(told["living"]),
            is_whole_cores=own.whole_cores,
            resources=(
                cpu.explained(line, own.cpu, is_shown=bool(shows & SHOWS_CPU)),
                memory.explained(line, own.memory, is_shown=bool(shows & SHOWS_MEMORY)),
            ),
        )
    return found


@dataclass(frozen=True, slots=True)
class _Way:
    """The way of one resource of all containers of a VPA, from percentile to quantity."""

    resource: str
    grid: Grid
    asked: ResourceRules
    basis: Basis
    estimates: Estimates
    unfloored: Amounts
    rounded: Amounts  # thousandths of a core or of a byte
    capped: Shaped
    quantity: Callable[[int, int, Cap], Quantity]

    def explained(self, line: int, cap: Cap, *, is_shown: bool) -> ResourceExplanation:
        """Return the way of one container."""
        return ResourceExplanation(
            resource=self.resource,
            is_shown=is_shown,
            confidence=float(self.basis["confidence"][line]),
            weight=float(self.basis["weight"][line]),
            reference=moment_or_none(int(self.basis["reference"][line])),
            steps=tuple(self._steps(line, column, cap) for column in range(len(_WORDS))),
            uncapped=self.quantity(int(self.capped.amounts[line, UNCAPPED]), Bound.NOTHING, cap),
        )

    def _steps(self, line: int, column: int, cap: Cap) -> Steps:
        found = self.estimates
        bucket: int | None = int(found.buckets[line, column])
        if bucket == EMPTY:
            bucket = None
        capped = int(self.capped.amounts[line, column])
        bound = Bound(int(self.capped.bounds[line, column]))
        return Steps(
            word=_WORDS[column],
            fraction=self.asked.fractions[column],
            bucket=bucket,
            bucket_start=None if bucket is None else float(self.grid.exact_starts[bucket]),
            percentile=int(found.bases[line, column]),
            with_margin=int(found.with_margin[line, column]),
            multiplier=float(found.multipliers[line, column]),
            with_confidence=int(self.unfloored[line, column]),
            floor=int(found.floors[line]),
            estimate=int(found.amounts[line, column]),
            rounded=int(self.rounded[line, column]),
            capped=capped,
            capped_by=_CAPPED[bound],
            quantity=self.quantity(capped, bound, cap),
        )


def _cpu(derivation: Derivation, rules: RecommenderRules) -> _Way:
    basis, step = derivation.basis[CPU], rules.format.round_cpu_millicores
    found, unfloored = _estimates(basis, rules.estimator.margin_fraction)
    whole = np.array([own.whole_cores for own in derivation.rules], dtype=np.bool_)
    caps = Caps.of([own.cpu for own in derivation.rules])
    return _Way(
        resource=CPU,
        grid=CPU_GRID,
        asked=rules.estimator.cpu,
        basis=basis,
        estimates=found,
        unfloored=unfloored,
        rounded=shape_cpu(found.amounts, step, whole, Caps.none(len(basis))).amounts,
        capped=shape_cpu(found.amounts, step, whole, caps),
        quantity=cpu_quantity,
    )


def _memory(derivation: Derivation, rules: RecommenderRules) -> _Way:
    basis, asked = derivation.basis[MEMORY], rules.format
    found, unfloored = _estimates(basis, rules.estimator.margin_fraction)
    caps = Caps.of([own.memory for own in derivation.rules])
    shape = partial(
        shape_memory, found.amounts, asked.round_memory_bytes, humanize=asked.humanize_memory
    )
    return _Way(
        resource=MEMORY,
        grid=MEMORY_GRID,
        asked=rules.estimator.memory,
        basis=basis,
        estimates=found,
        unfloored=unfloored,
        rounded=shape(Caps.none(len(basis))).amounts,
        capped=shape(caps),
        quantity=memory_quantity,
    )


def _estimates(basis: Basis, margin_fraction: float) -> tuple[Estimates, Amounts]:
    """Return the estimates, and their amounts as they would be without a floor."""
    buckets, bases = basis["buckets"].astype(np.intp), basis["bases"]
    floor, confidence = basis["floor"], basis["confidence"]
    found = estimate(buckets, bases, confidence, floor, margin_fraction)
    free = estimate(buckets, bases, confidence, np.zeros_like(floor), margin_fraction)
    return found, free.amounts


def _absence(told: np.void, own: ContainerRules) -> Absence:
    if told["shows"] & SHOWS_ENTRY:
        return Absence.NONE
    if own.is_off:
        return Absence.OFF
    known = told[CPU]["weight"] or told[MEMORY]["weight"]
    return Absence.STALE if known else Absence.NO_SAMPLES
