"""Why a recommendation is what it is, as JSON: from the histogram to the published amount.

Strategy: nothing is derived a second way. The steps are what the functions answer that made the
publication, asked again with the numbers that it was made from. The amounts are always those of
the status, because everything acts on them; beside them stands on what they rest, where that is
known here. An amount that is not what was computed last, because it was written elsewhere or
because nothing was learned yet that could take its place, is `kept`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import partial
from itertools import count
from math import isfinite
from typing import Final

import numpy as np

from app.model.fields import Json
from app.model.kinds import Condition
from app.model.quantity import Quantities, Quantity
from app.model.times import rfc3339
from app.model.vpa import ContainerRecommendation, Vpa
from app.recommender.core.estimation import (
    BASIS,
    SHOWS_CPU,
    SHOWS_ENTRY,
    SHOWS_MEMORY,
    Basis,
    VpaDerivation,
    estimate,
)
from app.recommender.core.histograms import CPU_GRID, EMPTY, MEMORY_GRID, Grid
from app.recommender.core.moments import moment_or_none
from app.recommender.core.rules import (
    CPU,
    MEMORY,
    Cap,
    ContainerRules,
    RecommenderRules,
    ResourceRules,
)
from app.recommender.core.shaping import (
    Bound,
    Caps,
    quantity,
    shape,
)
from app.recommender.core.status import amounts_json

_WORDS: Final = ("target", "lowerBound", "upperBound")  # in the order of all columns
_FLAG: Final = "--container-recommendation-max-allowed-"
_NONE: Final = (None, None, None, None)


class Absence(StrEnum):
    """Why a container is not recommended for."""

    NONE = ""
    OFF = "its policy says Off"
    NO_SAMPLES = "nothing was learned of it yet"
    STALE = "no such container has been alive for long, while others of the VPA are"


def explained(
    found: Sequence[tuple[Vpa, VpaDerivation | None]],
    rules: RecommenderRules,
    *,
    with_steps: bool = False,
) -> list[Json]:
    """Return what is recommended for VPAs, on what it rests where that is known, and every step.

    The numbers of all VPAs are laid out in arrays together, so this is fast also for thousands.
    """
    explainer = _Explainer([one for _, one in found if one is not None], rules, with_steps)
    lines = count()
    return [
        explainer.vpa(
            vpa,
            derivation.at if derivation is not None else None,
            {name: next(lines) for name in derivation.containers} if derivation is not None else {},
        )
        for vpa, derivation in found
    ]


class _Explainer:
    """Explains containers, a line each, in the order of the derivations."""

    def __init__(
        self, derivations: Sequence[VpaDerivation], rules: RecommenderRules, with_steps: bool
    ) -> None:
        joined = b"".join(one.basis.tobytes() for one in derivations)
        basis = np.frombuffer(joined, dtype=BASIS)
        self._rules = [one for derivation in derivations for one in derivation.rules]
        self._with_steps = with_steps
        asked = rules.estimator
        self._cpu = _Steps(_CPU, self._rules, basis[CPU], asked.cpu, rules)
        self._memory = _Steps(_MEMORY, self._rules, basis[MEMORY], asked.memory, rules)
        self._first, self._last, self._samples, self._living, self._shows = (
            basis[name].tolist() for name in ("first", "last", "samples", "living", "shows")
        )

    def vpa(self, vpa: Vpa, at: datetime | None, lines: Mapping[str, int]) -> Json:
        """Explain a VPA whose containers are known on some lines."""
        standing = {one.container: one for one in vpa.recommendation or ()}
        target = vpa.target
        return {
            "namespace": vpa.namespace,
            "name": vpa.name,
            "updateMode": str(vpa.mode),
            "recommender": next(iter(vpa.recommenders), "default"),
            "target": None
            if target is None
            else {"apiVersion": target.api_version, "kind": target.kind, "name": target.name},
            "generation": vpa.generation,
            "observedGeneration": vpa.observed_generation,
            "conditions": [_condition(one) for one in vpa.conditions],
            "computedAt": _time(at),
            "containers": [
                self._container(
                    standing.get(name) or ContainerRecommendation(name, {}, {}, {}, {}),
                    vpa,
                    lines.get(name),
                )
                for name in sorted(standing.keys() | lines.keys())
            ],
        }

    def _container(self, stands: ContainerRecommendation, vpa: Vpa, line: int | None) -> Json:
        item: Json = {
            "container": stands.container,
            "target": amounts_json(stands.target),
            "lowerBound": amounts_json(stands.lower_bound),
            "upperBound": amounts_json(stands.upper_bound),
            "uncappedTarget": amounts_json(stands.uncapped_target),
            "origin": dict.fromkeys(stands.target),
            "absence": "",
            "evidence": None,
            "cappedBy": {},
        }
        if line is not None:
            self._explain(item, stands, vpa, line)
        return item

    def _explain(self, item: Json, stands: ContainerRecommendation, vpa: Vpa, line: int) -> None:
        """Add how the amounts of a container came about."""
        policy = vpa.policy(stands.container)
        own = (policy.max_allowed or {}) if policy is not None else {}
        both = self._cpu, self._memory
        computed: dict[str, tuple[Quantity, ...]] = {}
        for steps in both:
            resource = steps.of.name
            if not self._shows[line] & steps.of.shows:
                continue
            computed[resource] = steps.quantities(line)
            lists = zip(_WORDS, computed[resource], _standing(stands, resource), strict=False)
            same = [word for word, quantity, stood in lists if stood == quantity]
            caps = dict(zip(_WORDS, steps.capped_by(line, own), strict=True))
            if held := {word: caps[word] for word in same if caps.get(word)}:
                item["cappedBy"][resource] = held
        item["origin"] = {
            name: "computed" if _standing(stands, name) == computed.get(name, _NONE) else "kept"
            for name in stands.target
        }
        item["absence"] = str(self._absence(line))
        item["evidence"] = self._evidence(line)
        if self._with_steps:
            shows, rules = self._shows[line], self._rules[line]
            item["derivation"] = {
                steps.of.name: {"unit": steps.of.unit, "isShown": bool(shows & steps.of.shows)}
                | steps.to_json(line, own, is_whole_cores=rules.whole_cores)
                for steps in both
            }

    def _absence(self, line: int) -> Absence:
        if self._shows[line] & SHOWS_ENTRY:
            return Absence.NONE
        if self._rules[line].is_off:
            return Absence.OFF
        is_known = self._cpu.weights[line] > 0 or self._memory.weights[line] > 0
        return Absence.STALE if is_known else Absence.NO_SAMPLES

    def _evidence(self, line: int) -> Json:
        first, last = moment_or_none(self._first[line]), moment_or_none(self._last[line])
        return {
            "samples": self._samples[line],
            "firstSample": _time(first),
            "lastSample": _time(last),
            "spanSeconds": (last - first).total_seconds() if first and last else 0.0,
            "livingContainers": self._living[line],
            "confidence": {
                steps.of.name: steps.confidences[line] for steps in (self._cpu, self._memory)
            },
        }


@dataclass(frozen=True, slots=True)
class _Resource:
    """How amounts of a resource are written."""

    name: str
    unit: str
    per_unit: int  # thousandths of a core or of a byte
    shows: int  # the bit of what a row shows
    grid: Grid


_CPU: Final = _Resource(CPU, "millicores", 1, SHOWS_CPU, CPU_GRID)
_MEMORY: Final = _Resource(MEMORY, "bytes", 1000, SHOWS_MEMORY, MEMORY_GRID)


class _Steps:
    """One resource of some containers, from percentile to quantity, as columns."""

    def __init__(
        self,
        of: _Resource,
        own: Sequence[ContainerRules],
        basis: Basis,
        asked: ResourceRules,
        rules: RecommenderRules,
    ) -> None:
        self.of = of
        self.caps = [one.cpu if of is _CPU else one.memory for one in own]
        self._fractions = asked.fractions
        self._format = rules.format
        self._margin = rules.estimator.margin_fraction
        buckets, bases = basis["buckets"].astype(np.intp), basis["bases"]
        floors, confidences = basis["floor"], basis["confidence"]
        found = estimate(buckets, bases, confidences, floors, self._margin)
        free = estimate(buckets, bases, confidences, np.zeros_like(floors), self._margin)
        cores = np.array([one.whole_cores for one in own], dtype=np.bool_)
        no_caps = Caps.of([Cap()] * len(own))
        rounded = shape(of.name, found.amounts, rules.format, cores, no_caps)
        capped = shape(of.name, found.amounts, rules.format, cores, Caps.of(self.caps))
        self._buckets, self._bases = buckets.tolist(), bases.tolist()
        self._with_margin = found.with_margin.tolist()
        self._multipliers = found.multipliers.tolist()
        self._with_confidence, self._estimates = free.amounts.tolist(), found.amounts.tolist()
        self._rounded = rounded.amounts.tolist()
        self._capped, self._bounds = capped.amounts.tolist(), capped.bounds.tolist()
        self._floors, self.confidences, self.weights, self._references = (
            basis[name].tolist() for name in ("floor", "confidence", "weight", "reference")
        )

    def quantities(self, line: int) -> tuple[Quantity, ...]:
        """Return target, lower bound, upper bound and uncapped target of a container."""
        columns, cap = zip(self._capped[line], self._bounds[line], strict=True), self.caps[line]
        return tuple(quantity(self.of.name, amount, bound, cap) for amount, bound in columns)

    def capped_by(self, line: int, own: Quantities) -> list[str]:
        """Return what capped each amount: the policy, or the flag where the policy has no most."""
        most = "maxAllowed" if self.of.name in own else _FLAG + self.of.name
        words = {Bound.NOTHING: "", Bound.LEAST: "minAllowed", Bound.MOST: most}
        return [words[bound] for bound in self._bounds[line][: len(_WORDS)]]

    def to_json(self, line: int, own: Quantities, *, is_whole_cores: bool) -> Json:
        """Return every step of a container."""
        capped_by, quantities = self.capped_by(line, own), self.quantities(line)
        is_cpu, shown = self.of is _CPU, self._format
        step = shown.round_cpu_millicores if is_cpu else shown.round_memory_bytes
        return {
            "confidence": self.confidences[line],
            "samplesWeight": self.weights[line],
            "referenceTime": _time(moment_or_none(self._references[line])),
            "marginFraction": self._margin,
            "roundedUpTo": max(step, 1),
            "isWholeCores": is_cpu and is_whole_cores,
            "isHumanized": not is_cpu and shown.humanize_memory,
        } | {
            word: self._amount(line, column, capped_by[column], quantities[column])
            for column, word in enumerate(_WORDS)
        }

    def _amount(self, line: int, column: int, capped_by: str, quantity: Quantity) -> Json:
        bucket, multiplier = self._buckets[line][column], self._multipliers[line][column]
        units = partial(_units, per_unit=self.of.per_unit)
        return {
            "percentile": self._fractions[column],
            "bucket": None if bucket == EMPTY else bucket,
            "bucketStart": None if bucket == EMPTY else float(self.of.grid.exact_starts[bucket]),
            "percentileAmount": self._bases[line][column],
            "withMargin": self._with_margin[line][column],
            "multiplier": multiplier if isfinite(multiplier) else None,
            "withConfidence": self._with_confidence[line][column],
            "floor": self._floors[line],
            "withFloor": self._estimates[line][column],
            "rounded": units(self._rounded[line][column]),
            "cappedBy": capped_by,
            "capped": units(self._capped[line][column]),
            "quantity": str(quantity),
        }


def _standing(stands: ContainerRecommendation, resource: str) -> tuple[Quantity | None, ...]:
    """Return the amounts of a resource that stand, in the order of all columns."""
    lists = (stands.target, stands.lower_bound, stands.upper_bound, stands.uncapped_target)
    return tuple(amounts.get(resource) for amounts in lists)


def _units(thousandths: int, per_unit: int) -> int | float:
    whole, rest = divmod(thousandths, per_unit)
    return thousandths / per_unit if rest else whole


def _condition(condition: Condition) -> Json:
    return {
        "type": str(condition.type),
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
        "lastTransitionTime": _time(condition.last_transition),
    }


def _time(at: datetime | None) -> str | None:
    return None if at is None else rfc3339(at)
