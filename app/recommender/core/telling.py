"""Recommendations as plain JSON values, for whoever asks what they are and why.

Strategy: the amounts are always those of the status, because everybody acts on them. Beside them
stands on what they rest, where that is known here. An amount that is not what was computed last,
because somebody else wrote it, or because nothing was learned yet that could take its place, is
told to be `kept`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from math import isfinite
from typing import Final

from app.model.fields import Json
from app.model.kinds import Condition
from app.model.quantity import Quantities
from app.model.times import rfc3339
from app.model.vpa import ContainerRecommendation, Vpa
from app.recommender.core.estimation import Derivation
from app.recommender.core.explaining import (
    Explanation,
    ResourceExplanation,
    Steps,
    explanations,
)
from app.recommender.core.rules import CPU, MEMORY, RecommenderRules

_UNITS: Final = {CPU: "millicores", MEMORY: "bytes"}
_FLAG: Final = "--container-recommendation-max-allowed-"
_MOST: Final = "maxAllowed"
_PER_UNIT: Final = {CPU: 1, MEMORY: 1000}  # thousandths of a core, of a byte


@dataclass(frozen=True, slots=True)
class Teller:
    """Tells of VPAs; `explains` adds every step."""

    rules: RecommenderRules
    explains: bool = False

    def vpas(self, found: Sequence[tuple[Vpa, Derivation | None]]) -> list[Json]:
        """Return what is recommended for VPAs, and on what it rests where that is known."""
        known = iter(explanations([one for _, one in found if one is not None], self.rules))
        return [
            self._vpa(vpa, derivation, next(known) if derivation is not None else {})
            for vpa, derivation in found
        ]

    def _vpa(
        self, vpa: Vpa, derivation: Derivation | None, known: Mapping[str, Explanation]
    ) -> Json:
        standing = {found.container: found for found in vpa.recommendation or ()}
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
            "conditions": [_condition(found) for found in vpa.conditions],
            "computedAt": None if derivation is None else _time(derivation.at),
            "containers": [
                self._container(name, standing.get(name), known.get(name), vpa)
                for name in sorted(standing.keys() | known.keys())
            ],
        }

    def _container(
        self,
        name: str,
        standing: ContainerRecommendation | None,
        known: Explanation | None,
        vpa: Vpa,
    ) -> Json:
        stands = standing or ContainerRecommendation(name, {}, {}, {}, {})
        told: Json = {
            "container": name,
            "target": _amounts(stands.target),
            "lowerBound": _amounts(stands.lower_bound),
            "upperBound": _amounts(stands.upper_bound),
            "uncappedTarget": _amounts(stands.uncapped_target),
            "origin": {resource: _origin(stands, known, resource) for resource in stands.target},
            "absence": "",
            "evidence": None,
            "cappedBy": {},
        }
        if known is None:
            return told
        told["absence"] = str(known.absence)
        told["evidence"] = _evidence(known)
        told["cappedBy"] = {
            found.resource: capped
            for found in known.resources
            if found.is_shown and (capped := _capped(found, stands, vpa, known))
        }
        if self.explains:
            told["derivation"] = {
                found.resource: self._derivation(found, known, vpa) for found in known.resources
            }
        return told

    def _derivation(self, found: ResourceExplanation, known: Explanation, vpa: Vpa) -> Json:
        cpu = found.resource == CPU
        asked = self.rules.format
        step = asked.round_cpu_millicores if cpu else asked.round_memory_bytes
        return {
            "unit": _UNITS[found.resource],
            "isShown": found.is_shown,
            "confidence": found.confidence,
            "samplesWeight": found.weight,
            "referenceTime": _time(found.reference),
            "marginFraction": self.rules.estimator.margin_fraction,
            "roundedUpTo": max(step, 1),
            "isWholeCores": cpu and known.is_whole_cores,
            "isHumanized": not cpu and asked.humanize_memory,
        } | {
            steps.word: _steps(steps, found.resource, _cap(steps, found.resource, vpa, known))
            for steps in found.steps
        }


def _steps(steps: Steps, resource: str, capped_by: str) -> Json:
    return {
        "percentile": steps.fraction,
        "bucket": steps.bucket,
        "bucketStart": steps.bucket_start,
        "percentileAmount": steps.percentile,
        "withMargin": steps.with_margin,
        "multiplier": steps.multiplier if isfinite(steps.multiplier) else None,
        "withConfidence": steps.with_confidence,
        "floor": steps.floor,
        "withFloor": steps.estimate,
        "rounded": _units(steps.rounded, resource),
        "cappedBy": capped_by,
        "capped": _units(steps.capped, resource),
        "quantity": str(steps.quantity),
    }


def _evidence(known: Explanation) -> Json:
    first, last = known.first_sample, known.last_sample
    return {
        "samples": known.samples,
        "firstSample": _time(first),
        "lastSample": _time(last),
        "spanSeconds": (last - first).total_seconds() if first and last else 0.0,
        "livingContainers": known.living,
        "confidence": {found.resource: found.confidence for found in known.resources},
    }


def _origin(
    stands: ContainerRecommendation, known: Explanation | None, resource: str
) -> str | None:
    """Tell whether an amount is what was computed last; None if that is not known here."""
    if known is None:
        return None
    computed = known.recommendation
    same = all(
        one.get(resource) == other.get(resource)
        for one, other in (
            (stands.target, computed.target),
            (stands.lower_bound, computed.lower_bound),
            (stands.upper_bound, computed.upper_bound),
            (stands.uncapped_target, computed.uncapped_target),
        )
    )
    return "computed" if same else "kept"


def _capped(
    found: ResourceExplanation, stands: ContainerRecommendation, vpa: Vpa, known: Explanation
) -> Mapping[str, str]:
    """Return what holds the amounts that stand."""
    lists = (stands.target, stands.lower_bound, stands.upper_bound)
    return {
        steps.word: _cap(steps, found.resource, vpa, known)
        for steps, amounts in zip(found.steps, lists, strict=True)
        if steps.capped_by and amounts.get(found.resource) == steps.quantity
    }


def _cap(steps: Steps, resource: str, vpa: Vpa, known: Explanation) -> str:
    """Return what capped an amount: the policy, or the flag where the policy says nothing."""
    policy = vpa.policy(known.container)
    own = (policy.max_allowed or {}) if policy is not None else {}
    if steps.capped_by == _MOST and resource not in own:
        return _FLAG + resource
    return steps.capped_by


def _units(thousandths: int, resource: str) -> int | float:
    whole, rest = divmod(thousandths, _PER_UNIT[resource])
    return thousandths / _PER_UNIT[resource] if rest else whole


def _amounts(amounts: Quantities) -> dict[str, str]:
    return {name: str(amount) for name, amount in amounts.items()}


def _condition(condition: Condition) -> Json:
    return {
        "type": str(condition.type),
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
        "lastTransitionTime": _time(condition.last_transition),
    }


def _time(moment: datetime | None) -> str | None:
    return None if moment is None else rfc3339(moment)
