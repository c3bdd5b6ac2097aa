"""How the numbers of a VPA came about, step by step, worked out from its checkpoints.

Strategy: a checkpoint holds the history from which a recommender makes its numbers, so the very
functions that make them are asked again. The peaks of running memory intervals, which checkpoints
hold apart, are added as the recommender has added them. What comes out is compared with what is
published: newer samples, and other flags of the recommender, make a difference.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from app.model.errors import BadObject
from app.model.fields import Json
from app.model.quantity import Quantity
from app.model.text import cores, percent, size
from app.model.vpa import Vpa
from app.recommender.core.checkpoints import Checkpoint, StoredHistogram, decode
from app.recommender.core.estimation import (
    BASIS,
    SHOWS_CPU,
    SHOWS_ENTRY,
    SHOWS_MEMORY,
    Basis,
    VpaDerivation,
    confidence,
    floors,
    pod_minimum,
)
from app.recommender.core.explanation import explained
from app.recommender.core.histograms import CPU_GRID, EMPTY, MEMORY_GRID, Bank, Grid
from app.recommender.core.moments import moment, span
from app.recommender.core.rules import (
    CPU,
    MEMORY,
    ContainerRules,
    RecommenderRules,
    ResourceRules,
    container_rules,
)

_WORDS: Final = {"target": "target", "lowerBound": "lower bound", "upperBound": "upper bound"}
_RULES: Final = RecommenderRules()
_NEAR: Final = 0.05


@dataclass(frozen=True, slots=True)
class DerivationStep:
    """One step, and the amount after it."""

    text: str
    amount: str


@dataclass(frozen=True, slots=True)
class AmountDerivation:
    """How one amount of a container came about."""

    container: str
    resource: str
    word: str  # target, lower bound or upper bound
    steps: Sequence[DerivationStep]
    published: str  # empty: nothing is
    is_published: bool  # whether the steps end at what is published
    is_near: bool  # or a few percent beside it
    samples: int
    first: str
    last: str


def derivations(vpa: Vpa, checkpoints: Sequence[Checkpoint]) -> Iterator[AmountDerivation]:
    """Yield how the amounts of a VPA came about, as far as its checkpoints tell."""
    if not checkpoints:
        return
    (told,) = explained([(vpa, _derived(vpa, checkpoints))], _RULES, with_steps=True)
    for container in told["containers"]:
        for resource, steps in container.get("derivation", {}).items():
            if not steps["isShown"]:
                continue
            for word, shown in _WORDS.items():
                published = container[word].get(resource, "")
                yield AmountDerivation(
                    container["container"],
                    resource,
                    shown,
                    list(_steps(resource, steps, steps[word])),
                    published,
                    published == steps[word]["quantity"],
                    _is_near(published, steps[word]["quantity"]),
                    container["evidence"]["samples"],
                    container["evidence"]["firstSample"] or "",
                    container["evidence"]["lastSample"] or "",
                )


def _is_near(published: str, derived: str) -> bool:
    """Whether newer samples explain a difference, as checkpoints are a few minutes old."""
    try:
        known, found = Quantity.parse(published).nano, Quantity.parse(derived).nano
    except BadObject:
        return False
    return abs(known - found) <= known * _NEAR


def _derived(vpa: Vpa, checkpoints: Sequence[Checkpoint]) -> VpaDerivation:
    """Return what the recommender would keep of a publication made from these checkpoints."""
    names = [one.container for one in checkpoints]
    own = tuple(container_rules(vpa, name, _RULES) for name in names)
    basis = np.zeros(len(names), dtype=BASIS)
    basis["first"] = [one.first_ns for one in checkpoints]
    basis["last"] = [one.last_ns for one in checkpoints]
    basis["samples"] = [one.count for one in checkpoints]
    taking_part = sum(not one.is_off for one in own)
    asked = _RULES.estimator
    minima = dict(zip((CPU, MEMORY), pod_minimum(asked), strict=True))
    banks = {
        CPU: _bank([one.cpu for one in checkpoints], span(_RULES.aggregation.cpu_half_life)),
        MEMORY: _memory_bank(checkpoints),
    }
    for resource, grid, found in ((CPU, CPU_GRID, asked.cpu), (MEMORY, MEMORY_GRID, asked.memory)):
        counts = np.full(len(names), taking_part)
        basis[resource]["floor"] = floors(minima[resource], counts)
        _fill(basis, resource, banks[resource], grid, found)
    basis["shows"] = [
        _shown(one, bool(cpu), bool(memory))
        for one, cpu, memory in zip(own, banks[CPU].totals, banks[MEMORY].totals, strict=True)
    ]
    at = max(one.updated_ns for one in checkpoints)
    return VpaDerivation(moment(at), tuple(names), own, basis)


def _bank(histograms: Sequence[StoredHistogram], half_life_ns: int) -> Bank:
    bank = Bank(half_life_ns, len(histograms))
    for row, stored in enumerate(histograms):
        bank.put(row, *decode(stored), stored.reference_ns)
    return bank


def _memory_bank(checkpoints: Sequence[Checkpoint]) -> Bank:
    """Return the histograms of memory, with the peaks of the intervals that go on."""
    half_life_ns = span(_RULES.aggregation.memory_half_life)
    bank = _bank([one.memory for one in checkpoints], half_life_ns)
    for row, one in enumerate(checkpoints):
        for window in one.windows:
            at = np.array([row])
            peak = np.array([max(window.usage_bytes, window.oom_bytes)])
            bank.add(at, MEMORY_GRID.bucket(peak), np.array([window.end_ns]), 1.0)
    return bank


def _fill(basis: Basis, resource: str, bank: Bank, grid: Grid, rules: ResourceRules) -> None:
    of = basis[resource]
    buckets = bank.percentiles(np.arange(len(basis)), rules.fractions)
    of["buckets"], of["bases"] = buckets, np.where(buckets == EMPTY, 0, grid.ends[buckets])
    of["confidence"] = confidence(
        basis["first"], basis["last"], basis["samples"], rules.confidence_interval
    )
    of["weight"], of["reference"] = bank.totals, bank.references


def _shown(rules: ContainerRules, has_cpu: bool, has_memory: bool) -> int:
    if rules.is_off or not (has_cpu or has_memory):
        return 0
    shows_cpu = SHOWS_CPU * (has_cpu and CPU in rules.controlled)
    shows_memory = SHOWS_MEMORY * (has_memory and MEMORY in rules.controlled)
    return SHOWS_ENTRY | shows_cpu | shows_memory


def _steps(resource: str, steps: Json, one: Mapping[str, object]) -> Iterator[DerivationStep]:
    """Yield the steps from the percentile on; later ones only where they change something."""

    def shown(name: str) -> str:
        found = one[name]
        assert isinstance(found, int | float)
        return cores(round(found)) if resource == CPU else size(round(found))

    percentile, multiplier = one["percentile"], one["multiplier"]
    assert isinstance(percentile, float)
    what = "CPU samples, weighted by age," if resource == CPU else "memory peaks"
    yield DerivationStep(
        f"{percent(percentile)} of the {what} are at or below", shown("percentileAmount")
    )
    yield DerivationStep(
        f"with a margin of {percent(steps['marginFraction'])}", shown("withMargin")
    )
    if one["withConfidence"] != one["withMargin"]:
        by = f"x {multiplier:.3g}" if isinstance(multiplier, float) else "without any bound"
        days = f"{steps['confidence']:.3g} days of history"
        yield DerivationStep(f"{by}, because of {days}", shown("withConfidence"))
    if one["withFloor"] != one["withConfidence"]:
        yield DerivationStep(
            "at least the container's share of the smallest pod", shown("withFloor")
        )
    if one["cappedBy"]:
        yield DerivationStep(f"held by {one['cappedBy']}", shown("capped"))
