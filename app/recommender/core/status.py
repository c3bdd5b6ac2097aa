"""The status of a VPA: conditions, recommendation, when it differs, and why it is written.

Strategy: a status is a value; conditions keep their transition time while their status stays.
Types that are not set here are left as they were found.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import IntEnum, StrEnum
from typing import Final, NamedTuple

from app.model.fields import Json
from app.model.kinds import Condition
from app.model.quantity import Quantities
from app.model.scalers import ScaledMetric
from app.model.times import rfc3339
from app.model.vpa import ContainerRecommendation, Recommendation, Vpa
from app.recommender.core.targets import ObservedVpa

NO_PODS_MATCHED: Final = "NoPodsMatched"
_NO_PODS_TEXT: Final = "No pods match this VPA object"

_CANNOT_READ: Final = "Cannot read targetRef"
_MOST_NAMED: Final = 3


class ConditionType(StrEnum):
    """The conditions that are set or removed here."""

    RECOMMENDATION_PROVIDED = "RecommendationProvided"
    NO_PODS_MATCHED = "NoPodsMatched"
    CONFIG_UNSUPPORTED = "ConfigUnsupported"
    CONFIG_DEPRECATED = "ConfigDeprecated"
    FETCHING_HISTORY = "FetchingHistory"
    SELECTOR_OVERLAP = "SelectorOverlap"
    SCALED_HORIZONTALLY = "ScaledHorizontally"
    ROLE_UNKNOWN = "RoleUnknown"


@dataclass(frozen=True, slots=True)
class VpaStatus:
    """What stands, or shall stand, in the status of a VPA."""

    recommendation: Recommendation | None
    conditions: tuple[Condition, ...]
    observed_generation: int | None


class NotProvided(StrEnum):
    """Why something is not recommended, beside that there are no pods."""

    STARTUP_BOOST = "StartupBoost"
    NOT_LEARNED = "NotLearned"


class Lacking(NamedTuple):
    """A resource of a container that has no target although it should have one."""

    container: str
    resource: str
    why: NotProvided


@dataclass(frozen=True, slots=True)
class ConditionInputs:
    """What conditions depend on."""

    is_provided: bool  # there is a recommendation for at least one container
    matches_pods: bool
    lacking: tuple[Lacking, ...] = ()
    problem: str = ""  # with the target
    stronger: str | None = None  # the VPA that comes first for shared pods; None: do not say
    scaled_by: tuple[ScaledMetric, ...] = ()  # what keeps resources from being changed
    role_problem: tuple[str, str] | None = None  # why it is not known which pod leads


class Difference(IntEnum):
    """How much one status differs from another."""

    NONE = 0
    SLIGHT = 1  # bounds, within tolerance
    BOUNDS = 2
    TARGET = 3  # or which containers and resources there are
    CONDITIONS = 4
    GENERATION = 5


def status_of(vpa: Vpa) -> VpaStatus:
    """Return the status a VPA has."""
    return VpaStatus(vpa.recommendation, vpa.conditions, vpa.observed_generation)


def fetches_history(vpa: Vpa) -> bool:
    """Whether a condition says that history is being fetched; it is never set here."""
    kind = ConditionType.FETCHING_HISTORY
    return any(one.type == kind and one.status == "True" for one in vpa.conditions)


def conditions_for(
    found: tuple[Condition, ...], standing: ConditionInputs, now: datetime
) -> tuple[Condition, ...]:
    """Return the conditions of a VPA, sorted by type."""
    conditions = {condition.type: condition for condition in found}
    for kind, wanted in _wanted(standing).items():
        before = conditions.pop(kind, None)
        if wanted is not None:
            stays = before is not None and before.status == wanted.status
            since = before.last_transition if before is not None and stays else now
            conditions[kind] = replace(wanted, last_transition=since)
    return tuple(sorted(conditions.values(), key=lambda condition: condition.type))


def _wanted(standing: ConditionInputs) -> dict[ConditionType, Condition | None]:
    """Return the conditions that must be; None is one that must not be."""
    kinds = ConditionType
    missing = ("", "") if standing.matches_pods else (NO_PODS_MATCHED, _NO_PODS_TEXT)
    provided = ("True", "", "") if standing.is_provided else ("False", *missing)
    if standing.lacking:
        provided = "False", *_not_provided(standing.lacking)
    wanted: dict[ConditionType, Condition | None] = {
        kinds.CONFIG_DEPRECATED: None,
        kinds.CONFIG_UNSUPPORTED: None,
        kinds.NO_PODS_MATCHED: None,
        kinds.SCALED_HORIZONTALLY: _held(standing.scaled_by),
        kinds.ROLE_UNKNOWN: None,
        kinds.RECOMMENDATION_PROVIDED: Condition(kinds.RECOMMENDATION_PROVIDED, *provided),
    }
    if standing.problem:
        wanted[kinds.CONFIG_UNSUPPORTED] = Condition(
            kinds.CONFIG_UNSUPPORTED, "True", "", standing.problem
        )
    if standing.role_problem is not None:
        wanted[kinds.ROLE_UNKNOWN] = Condition(kinds.ROLE_UNKNOWN, "True", *standing.role_problem)
    if not standing.matches_pods:
        wanted[kinds.NO_PODS_MATCHED] = Condition(kinds.NO_PODS_MATCHED, "True", *missing)
    if standing.stronger is not None:
        wanted[kinds.SELECTOR_OVERLAP] = _overlap(standing.stronger)
    return wanted


_WHY_NOT: Final = {
    NotProvided.STARTUP_BOOST: "nothing is learned of it before the startup boost is over",
    NotProvided.NOT_LEARNED: "nothing was learned of it yet",
}


def _not_provided(lacking: Sequence[Lacking]) -> tuple[str, str]:
    """Return in a word and in sentences why something has no target."""
    told = [
        f"No target for {_named(names)}: {text}"
        for why, text in _WHY_NOT.items()
        if (names := [f"{one.resource} of {one.container}" for one in lacking if one.why is why])
    ]
    boosts = any(one.why is NotProvided.STARTUP_BOOST for one in lacking)
    return NotProvided.STARTUP_BOOST if boosts else NotProvided.NOT_LEARNED, "; ".join(told)


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + more


def _held(scaled_by: Sequence[ScaledMetric]) -> Condition | None:
    if not scaled_by:
        return None
    message = "; ".join(metric.sentence for metric in scaled_by)
    return Condition(
        ConditionType.SCALED_HORIZONTALLY, "True", "Held", f"Not changed by this VPA: {message}"
    )


def _overlap(stronger: str) -> Condition | None:
    if not stronger:
        return None
    message = f'VPA "{stronger}" selects some of the same pods and comes first'
    return Condition(ConditionType.SELECTOR_OVERLAP, "True", "OverlappingPods", message)


def difference(new: VpaStatus, old: VpaStatus, tolerance: float) -> Difference:
    """Tell how much a new status differs; bounds may move by a share before it matters."""
    if new.observed_generation != old.observed_generation:
        return Difference.GENERATION
    if new.conditions != tuple(sorted(old.conditions, key=lambda condition: condition.type)):
        return Difference.CONDITIONS
    if new.recommendation is None or old.recommendation is None:
        same = new.recommendation is old.recommendation
        return Difference.NONE if same else Difference.TARGET
    return _moved(new.recommendation, old.recommendation, tolerance)


def _moved(new: Recommendation, old: Recommendation, tolerance: float) -> Difference:
    if [one.container for one in new] != [one.container for one in old]:
        return Difference.TARGET
    found = Difference.NONE
    for one, other in zip(new, old, strict=True):
        if one.target != other.target or one.uncapped_target != other.uncapped_target:
            return Difference.TARGET
        for after, before in (
            (one.lower_bound, other.lower_bound),
            (one.upper_bound, other.upper_bound),
        ):
            found = max(found, _bounds_moved(after, before, tolerance))
    return found


def _bounds_moved(new: Quantities, old: Quantities, tolerance: float) -> Difference:
    if new == old:
        return Difference.NONE
    if new.keys() != old.keys():
        return Difference.BOUNDS
    far = any(
        abs(amount.nano - old[name].nano) > tolerance * old[name].nano
        for name, amount in new.items()
    )
    return Difference.BOUNDS if far else Difference.SLIGHT


def status_json(status: VpaStatus) -> Json:
    """Write a status as JSON."""
    item: Json = {"conditions": [_condition_json(one) for one in status.conditions]}
    if status.observed_generation:
        item["observedGeneration"] = status.observed_generation
    if status.recommendation is not None:
        item["recommendation"] = recommendation_json(status.recommendation)
    return item


def recommendation_json(recommendation: Recommendation) -> Json:
    """Write a recommendation as JSON; one without containers is an empty object."""
    containers = [_container_json(one) for one in recommendation]
    return {"containerRecommendations": containers} if containers else {}


def status_patch(status: VpaStatus) -> list[Json]:
    """Return the JSON patch of the status subresource."""
    return [{"op": "add", "path": "/status", "value": status_json(status)}]


def _condition_json(condition: Condition) -> Json:
    since, generation = condition.last_transition, condition.observed_generation
    item: Json = {
        "type": str(condition.type),
        "status": condition.status,
        "lastTransitionTime": None if since is None else rfc3339(since),
    }
    optional = {
        "reason": condition.reason,
        "message": condition.message,
        "observedGeneration": generation,
    }
    return item | {key: value for key, value in optional.items() if value}


def _container_json(one: ContainerRecommendation) -> Json:
    item: Json = {"containerName": one.container, "target": amounts_json(one.target)}
    lists = {
        "lowerBound": one.lower_bound,
        "upperBound": one.upper_bound,
        "uncappedTarget": one.uncapped_target,
    }
    return item | {key: amounts_json(amounts) for key, amounts in lists.items() if amounts}


def amounts_json(amounts: Quantities) -> dict[str, str]:
    """Write amounts as they are published."""
    return {name: str(amount) for name, amount in amounts.items()}


class Why(StrEnum):
    """Why a status is published."""

    FIRST = "first recommendation"
    KILL = "a container ran out of memory"
    TARGET = "a target changed"
    BOUNDS = "a bound moved"
    CONDITIONS = "a condition changed"
    GENERATION = "the object changed"
    REFRESH = "the refresh is due"


_WHY: Final = {
    Difference.SLIGHT: Why.REFRESH,
    Difference.BOUNDS: Why.BOUNDS,
    Difference.TARGET: Why.TARGET,
    Difference.CONDITIONS: Why.CONDITIONS,
    Difference.GENERATION: Why.GENERATION,
}


@dataclass(frozen=True, slots=True)
class Publication:
    """A status that shall be written."""

    namespace: str
    name: str
    status: VpaStatus
    why: Why


def publication(
    observed: ObservedVpa, new: VpaStatus, stands: VpaStatus, found: Difference, *, killed: bool
) -> Publication:
    """Return a new status with the reason that fits best."""
    why = Why.KILL if killed else _WHY[found]
    if not stands.recommendation and new.recommendation:
        why = Why.FIRST
    return Publication(*observed.key, new, why)


def problem_of(observed: ObservedVpa) -> str:
    """Return what is wrong with the target of a VPA, empty if nothing is."""
    return "" if observed.selector is not None else observed.problem or _CANNOT_READ
