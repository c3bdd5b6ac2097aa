"""Why a recommendation is what it is: every step from the histogram to the published amount.

Strategy: nothing is derived a second way. The steps are what the functions answer that made the
publication, asked again with the numbers that it was made from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

import numpy as np

from app.model.quantity import Quantity
from app.model.vpa import ContainerRecommendation
from app.recommender.core.estimation import (
    BASIS,
    SHOWS_CPU,
    SHOWS_ENTRY,
    SHOWS_MEMORY,
    Basis,
    Derivation,
    Derivations,
    estimate,
    estimate_rows,
)
from app.recommender.core.histograms import CPU_GRID, EMPTY, MEMORY_GRID, Amounts, Grid
from app.recommender.core.moments import moment_or_none, nanoseconds
from app.recommender.core.rules import (
    CPU,
    MEMORY,
    Cap,
    ContainerRules,
    RecommenderRules,
    ResourceRules,
)
from app.recommender.core.shaping import (
    UNCAPPED,
    Bound,
    Caps,
    Shaped,
    cpu_quantity,
    memory_quantity,
    shape_cpu,
    shape_memory,
)
from app.recommender.core.tables import RowTable

_WORDS: Final = ("target", "lowerBound", "upperBound")  # in the order of all columns
_CAPPED: Final[Mapping[int, str]] = {
    Bound.NOTHING: "",
    Bound.LEAST: "minAllowed",
    Bound.MOST: "maxAllowed",
}


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
    now: datetime,
    rules: RecommenderRules,
) -> Explanation:
    """Explain what one of the rows of a VPA would be given now."""
    estimation = estimate_rows(table, np.array(rows, dtype=np.intp), nanoseconds(now), rules)
    every = np.ones(len(rows), dtype=np.bool_)
    derivation = Derivations(table, estimation, every, now).of(int(table.vpa[rows[0]]))
    return explanations([derivation], rules)[0][container]


def explanations(
    derivations: Sequence[Derivation], rules: RecommenderRules
) -> list[Mapping[str, Explanation]]:
    """Explain what was recommended for each container of some VPAs, of all of them at once."""
    joined = b"".join(found.basis.tobytes() for found in derivations)  # fast also for thousands
    basis = np.frombuffer(joined, dtype=BASIS)
    own = [one for found in derivations for one in found.rules]
    ways = _Ways(basis, own, rules)
    lines = iter(range(len(own)))
    return [
        {name: ways.explained(name, derivation.at, next(lines)) for name in derivation.containers}
        for derivation in derivations
    ]


class _Ways:
    """The ways of both resources of some containers, one line for each."""

    def __init__(
        self, basis: Basis, own: Sequence[ContainerRules], rules: RecommenderRules
    ) -> None:
        self._own = own
        margin = rules.estimator.margin_fraction
        self._cpu = _Way(_of_cpu(own, rules), basis[CPU], margin)
        self._memory = _Way(_of_memory(own, rules), basis[MEMORY], margin)
        self._first, self._last, self._samples, self._living, self._shows = (
            basis[name].tolist() for name in ("first", "last", "samples", "living", "shows")
        )

    def explained(self, container: str, at: datetime, line: int) -> Explanation:
        """Return the way of one container."""
        own, shows = self._own[line], self._shows[line]
        cpu = self._cpu.explained(line, own.cpu, is_shown=bool(shows & SHOWS_CPU))
        memory = self._memory.explained(line, own.memory, is_shown=bool(shows & SHOWS_MEMORY))
        absence = Absence.NONE
        if not shows & SHOWS_ENTRY:
            absence = _absence(own, is_known=cpu.weight > 0 or memory.weight > 0)
        return Explanation(
            container=container,
            at=at,
            absence=absence,
            first_sample=moment_or_none(self._first[line]),
            last_sample=moment_or_none(self._last[line]),
            samples=self._samples[line],
            living=self._living[line],
            is_whole_cores=own.whole_cores,
            resources=(cpu, memory),
        )


def _absence(own: ContainerRules, *, is_known: bool) -> Absence:
    if own.is_off:
        return Absence.OFF
    return Absence.STALE if is_known else Absence.NO_SAMPLES


class _Way:
    """The way of one resource of some containers, from percentile to quantity, as columns."""

    def __init__(self, made: _Made, basis: Basis, margin_fraction: float) -> None:
        buckets, bases = basis["buckets"].astype(np.intp), basis["bases"]
        floors, confidences = basis["floor"], basis["confidence"]
        found = estimate(buckets, bases, confidences, floors, margin_fraction)
        free = estimate(buckets, bases, confidences, np.zeros_like(floors), margin_fraction)
        rounded = made.shape(found.amounts, Caps.none(len(basis)))
        capped = made.shape(found.amounts, made.caps)
        self._made = made
        self._buckets, self._bases = buckets.tolist(), bases.tolist()
        self._with_margin = found.with_margin.tolist()
        self._multipliers = found.multipliers.tolist()
        self._with_confidence, self._estimates = free.amounts.tolist(), found.amounts.tolist()
        self._rounded = rounded.amounts.tolist()
        self._capped, self._bounds = capped.amounts.tolist(), capped.bounds.tolist()
        self._floors, self._confidences, self._weights, self._references = (
            basis[name].tolist() for name in ("floor", "confidence", "weight", "reference")
        )

    def explained(self, line: int, cap: Cap, *, is_shown: bool) -> ResourceExplanation:
        """Return the way of one container."""
        return ResourceExplanation(
            resource=self._made.resource,
            is_shown=is_shown,
            confidence=self._confidences[line],
            weight=self._weights[line],
            reference=moment_or_none(self._references[line]),
            steps=tuple(self._steps(line, column, cap) for column in range(len(_WORDS))),
            uncapped=self._made.quantity(self._capped[line][UNCAPPED], Bound.NOTHING, cap),
        )

    def _steps(self, line: int, column: int, cap: Cap) -> Steps:
        made, bucket = self._made, self._buckets[line][column]
        capped, bound = self._capped[line][column], self._bounds[line][column]
        return Steps(
            word=_WORDS[column],
            fraction=made.asked.fractions[column],
            bucket=None if bucket == EMPTY else bucket,
            bucket_start=None if bucket == EMPTY else float(made.grid.exact_starts[bucket]),
            percentile=self._bases[line][column],
            with_margin=self._with_margin[line][column],
            multiplier=self._multipliers[line][column],
            with_confidence=self._with_confidence[line][column],
            floor=self._floors[line],
            estimate=self._estimates[line][column],
            rounded=self._rounded[line][column],
            capped=capped,
            capped_by=_CAPPED[bound],
            quantity=made.quantity(capped, bound, cap),
        )


@dataclass(frozen=True, slots=True)
class _Made:
    """How amounts of one resource are made."""

    resource: str
    grid: Grid
    asked: ResourceRules
    caps: Caps
    shape: Callable[[Amounts, Caps], Shaped]
    quantity: Callable[[int, int, Cap], Quantity]


def _of_cpu(own: Sequence[ContainerRules], rules: RecommenderRules) -> _Made:
    step = rules.format.round_cpu_millicores
    whole = np.array([one.whole_cores for one in own], dtype=np.bool_)
    return _Made(
        resource=CPU,
        grid=CPU_GRID,
        asked=rules.estimator.cpu,
        caps=Caps.of([one.cpu for one in own]),
        shape=lambda amounts, caps: shape_cpu(amounts, step, whole, caps),
        quantity=cpu_quantity,
    )


def _of_memory(own: Sequence[ContainerRules], rules: RecommenderRules) -> _Made:
    step, humanize = rules.format.round_memory_bytes, rules.format.humanize_memory
    return _Made(
        resource=MEMORY,
        grid=MEMORY_GRID,
        asked=rules.estimator.memory,
        caps=Caps.of([one.memory for one in own]),
        shape=lambda amounts, caps: shape_memory(amounts, step, caps, humanize=humanize),
        quantity=memory_quantity,
    )
