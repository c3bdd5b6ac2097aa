"""VerticalPodAutoscaler objects: what their owners ask for, and what was recommended.

Strategy: None is "not there", which validation tells apart from empty and zero. Words keep the
spelling of the object, also unknown ones; who acts on them asks the properties.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from math import inf
from typing import Any, TypeVar

from app.model.errors import BadObject
from app.model.fields import (
    Object,
    as_object,
    int64_at,
    integer_at,
    items_at,
    labels_at,
    object_at,
    optional_object,
    optional_text,
    quantities_at,
    quantity_at,
    text_at,
    texts_at,
    time_at,
)
from app.model.kinds import Condition, ObjectKey, read_conditions, target_key
from app.model.quantity import Quantities, Quantity
from app.model.scalers import ScaledMetric
from app.model.selectors import Selector
from app.model.times import parse_duration
from app.model.update_modes import DEFAULT_MODE, ModeRules, mode_rules

VPA_GROUP = "autoscaling.k8s.io"
VPA_KIND = "VerticalPodAutoscaler"
_EMPTY: Mapping[str, Any] = {}


class ScalingMode(StrEnum):
    """Whether a container takes part."""

    AUTO = "Auto"
    OFF = "Off"


class ControlledValues(StrEnum):
    """Which values follow the recommendation."""

    REQUESTS_AND_LIMITS = "RequestsAndLimits"
    REQUESTS_ONLY = "RequestsOnly"


class BoostType(StrEnum):
    """How a boost is told."""

    FACTOR = "Factor"
    QUANTITY = "Quantity"


class ChangeRequirement(StrEnum):
    """What a change must be, for an eviction."""

    HIGHER = "TargetHigherThanRequests"
    LOWER = "TargetLowerThanRequests"


@dataclass(frozen=True, slots=True)
class TargetReference:
    """The workload whose pods are meant."""

    api_version: str
    kind: str
    name: str

    @property
    def key(self) -> ObjectKey:
        """The key of the target."""
        return target_key(self.api_version, self.kind, self.name)


@dataclass(frozen=True, slots=True)
class EvictionRequirement:
    """A condition that must hold before a pod may be evicted."""

    resources: tuple[str, ...]
    change: str


@dataclass(frozen=True, slots=True)
class UpdatePolicy:
    """`spec.updatePolicy`."""

    mode: str | None = None
    min_replicas: int | None = None
    eviction_requirements: tuple[EvictionRequirement, ...] = ()
    evict_after_oom_seconds: int | None = None


@dataclass(frozen=True, slots=True)
class CpuBoost:
    """`startupBoost.cpu`."""

    type: str = ""
    factor: int | None = None
    quantity: Quantity | None = None
    duration: str | None = None
    duration_seconds: int | None = None

    @property
    def lasts(self) -> timedelta:
        """How long after Ready the boost stays; what is not said, or not readably, is no time."""
        if self.duration is None:
            return timedelta(seconds=self.duration_seconds or 0)
        try:
            return parse_duration(self.duration)
        except BadObject:
            return timedelta()


@dataclass(frozen=True, slots=True)
class StartupBoost:
    """`startupBoost`; without a cpu part it says "no boost here"."""

    cpu: CpuBoost | None = None


@dataclass(frozen=True, slots=True)
class ContainerPolicy:
    """An entry of `spec.resourcePolicy.containerPolicies`."""

    container: str = ""
    mode: str | None = None
    min_allowed: Quantities | None = None
    max_allowed: Quantities | None = None
    controlled_resources: tuple[str, ...] | None = None
    controlled_values: str | None = None
    oom_bump_up_ratio: Quantity | None = None
    oom_min_bump_up: Quantity | None = None
    memory_interval_seconds: int | None = None
    memory_interval_count: int | None = None
    startup_boost: StartupBoost | None = None

    @property
    def is_off(self) -> bool:
        """Whether the container takes no part in recommendations."""
        return self.mode == ScalingMode.OFF

    @property
    def requests_only(self) -> bool:
        """Whether limits stay as they are."""
        return self.controlled_values == ControlledValues.REQUESTS_ONLY


@dataclass(frozen=True, slots=True)
class ContainerRecommendation:
    """What one container should request."""

    container: str
    target: Quantities
    lower_bound: Quantities
    upper_bound: Quantities
    uncapped_target: Quantities


Recommendation = tuple[ContainerRecommendation, ...]


@dataclass(frozen=True, slots=True)
class Vpa:
    """A VerticalPodAutoscaler."""

    namespace: str
    name: str
    uid: str
    generation: int
    created: datetime | None
    deleted: datetime | None
    annotations: Mapping[str, str]
    target: TargetReference | None
    selector: Selector | None  # None: all pods of the target
    update_policy: UpdatePolicy | None
    policies: tuple[ContainerPolicy, ...] | None  # None: no resourcePolicy
    startup_boost: StartupBoost | None
    recommenders: tuple[str, ...]
    recommendation: Recommendation | None  # None: not there, which differs from empty
    conditions: tuple[Condition, ...]
    observed_generation: int | None
    scaled_by: tuple[ScaledMetric, ...] = field(default=(), compare=False)  # as a snapshot knows
    role_problem: tuple[str, str] | None = field(default=None, compare=False)  # the same: why
    index: VpaIndex = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "index", VpaIndex(self))

    @property
    def mode(self) -> str:
        """The update mode in force; what is not said means Recreate."""
        return (self.update_policy and self.update_policy.mode) or DEFAULT_MODE

    @property
    def allows(self) -> ModeRules:
        """What its update mode allows."""
        return mode_rules(self.mode)

    @property
    def is_off(self) -> bool:
        """Whether recommendations are only shown."""
        return not self.allows.on_creation

    @property
    def precedence(self) -> tuple[float, str]:
        """Sorts first the VPA that wins: the oldest, then by name; an unknown age is the oldest."""
        return (self.created.timestamp() if self.created else -inf, self.name)

    @property
    def mentions_boost(self) -> bool:
        """Whether a boost stands anywhere, be it an empty one."""
        return self.startup_boost is not None or self.index.mentions_boost

    def policy(self, container: str) -> ContainerPolicy | None:
        """Return the policy of a container: its own, else the last `*`, else None."""
        return self.index.policies.get(container, self.index.wildcard)

    def boost(self, container: str) -> CpuBoost | None:
        """Return the boost of a container: its policy's if it mentions one, else the VPA's."""
        policy = self.policy(container)
        boost = policy.startup_boost if policy else None
        boost = boost if boost is not None else self.startup_boost
        return boost.cpu if boost else None

    def boost_lasts(self, container: str) -> timedelta:
        """Return how long after Ready a container stays boosted, no time without a boost."""
        boost = self.boost(container)
        return timedelta() if boost is None else boost.lasts

    def held_by(self, container: str, resource: str) -> ScaledMetric | None:
        """Return the metric that decides about replicas by a request, which is then not changed."""
        return next((one for one in self.scaled_by if one.covers(container, resource)), None)

    def recommended(self, container: str) -> ContainerRecommendation | None:
        """Return the recommendation for a container, None if there is none."""
        return self.index.recommendations.get(container)


class VpaIndex:
    """What one version of a VPA says by container; goes with it, and so do weak references."""

    __slots__ = ("__weakref__", "mentions_boost", "policies", "recommendations", "wildcard")

    def __init__(self, vpa: Vpa) -> None:
        policies = vpa.policies or ()
        self.mentions_boost = any(policy.startup_boost is not None for policy in policies)
        self.policies = _by_container(policies)
        self.wildcard = next((one for one in reversed(policies) if one.container == "*"), None)
        self.recommendations = _by_container(vpa.recommendation or ())


C = TypeVar("C", ContainerPolicy, ContainerRecommendation)


def _by_container(entries: Iterable[C]) -> Mapping[str, C]:
    """Return entries by the containers that they name, the first of each."""
    found: dict[str, C] = {}
    for entry in entries:
        found.setdefault(entry.container, entry)
    return found or _EMPTY


def read_vpa(item: Object, *, with_bounds: bool = True) -> Vpa:
    """Read a VPA; without bounds only the targets of its status are kept."""
    metadata = object_at(item, "metadata", "")
    spec = object_at(item, "spec", "")
    status = object_at(item, "status", "")
    return Vpa(
        namespace=text_at(metadata, "namespace", "metadata"),
        name=text_at(metadata, "name", "metadata"),
        uid=text_at(metadata, "uid", "metadata"),
        generation=int64_at(metadata, "generation", "metadata") or 0,
        created=time_at(metadata, "creationTimestamp", "metadata"),
        deleted=time_at(metadata, "deletionTimestamp", "metadata"),
        annotations=labels_at(metadata, "annotations", "metadata"),
        target=_target(spec),
        selector=None
        if spec.get("selector") is None
        else Selector.read(spec["selector"], "spec.selector"),
        update_policy=_update_policy(spec),
        policies=_policies(spec),
        startup_boost=_startup_boost(spec, "spec"),
        recommenders=tuple(
            text_at(entry, "name", path) for entry, path in items_at(spec, "recommenders", "spec")
        ),
        recommendation=_recommendation(status, with_bounds=with_bounds),
        conditions=read_conditions(status),
        observed_generation=int64_at(status, "observedGeneration", "status"),
    )


def _target(spec: Object) -> TargetReference | None:
    target = optional_object(spec, "targetRef", "spec")
    if target is None:
        return None
    names = ("apiVersion", "kind", "name")
    return TargetReference(*(text_at(target, name, "spec.targetRef") for name in names))


def _update_policy(spec: Object) -> UpdatePolicy | None:
    policy = optional_object(spec, "updatePolicy", "spec")
    if policy is None:
        return None
    path = "spec.updatePolicy"
    return UpdatePolicy(
        mode=optional_text(policy, "updateMode", path),
        min_replicas=integer_at(policy, "minReplicas", path),
        eviction_requirements=tuple(
            EvictionRequirement(
                texts_at(entry, "resources", at) or (), text_at(entry, "changeRequirement", at)
            )
            for entry, at in items_at(policy, "evictionRequirements", path)
        ),
        evict_after_oom_seconds=integer_at(policy, "evictAfterOOMSeconds", path),
    )


def _policies(spec: Object) -> tuple[ContainerPolicy, ...] | None:
    policy = optional_object(spec, "resourcePolicy", "spec")
    if policy is None:
        return None
    entries = items_at(policy, "containerPolicies", "spec.resourcePolicy")
    return tuple(_policy(entry, path) for entry, path in entries)


def _policy(entry: Object, path: str) -> ContainerPolicy:
    return ContainerPolicy(
        container=text_at(entry, "containerName", path),
        mode=optional_text(entry, "mode", path),
        min_allowed=quantities_at(entry, "minAllowed", path),
        max_allowed=quantities_at(entry, "maxAllowed", path),
        controlled_resources=texts_at(entry, "controlledResources", path),
        controlled_values=optional_text(entry, "controlledValues", path),
        oom_bump_up_ratio=quantity_at(entry, "oomBumpUpRatio", path),
        oom_min_bump_up=quantity_at(entry, "oomMinBumpUp", path),
        memory_interval_seconds=integer_at(entry, "memoryAggregationIntervalSeconds", path),
        memory_interval_count=int64_at(entry, "memoryAggregationIntervalCount", path),
        startup_boost=_startup_boost(entry, path),
    )


def _startup_boost(parent: Object, path: str) -> StartupBoost | None:
    boost = optional_object(parent, "startupBoost", path)
    if boost is None:
        return None
    cpu = optional_object(boost, "cpu", f"{path}.startupBoost")
    if cpu is None:
        return StartupBoost()
    at = f"{path}.startupBoost.cpu"
    return StartupBoost(
        CpuBoost(
            type=text_at(cpu, "type", at),
            factor=integer_at(cpu, "factor", at),
            quantity=quantity_at(cpu, "quantity", at),
            duration=optional_text(cpu, "duration", at),
            duration_seconds=integer_at(cpu, "durationSeconds", at),
        )
    )


def _recommendation(status: Object, *, with_bounds: bool) -> Recommendation | None:
    recommendation = optional_object(status, "recommendation", "status")
    if recommendation is None:
        return None
    entries = items_at(recommendation, "containerRecommendations", "status.recommendation")
    return tuple(
        ContainerRecommendation(
            container=text_at(entry, "containerName", path),
            target=_amounts(entry, "target", path),
            lower_bound=_amounts(entry, "lowerBound", path, keep=with_bounds),
            upper_bound=_amounts(entry, "upperBound", path, keep=with_bounds),
            uncapped_target=_amounts(entry, "uncappedTarget", path, keep=with_bounds),
        )
        for entry, path in entries
    )


def _amounts(entry: Object, key: str, path: str, *, keep: bool = True) -> Quantities:
    amounts = quantities_at(entry, key, path)
    return amounts if amounts and keep else _EMPTY


def without_status(item: object) -> Object:
    """Return a VPA object without its status, for one whose status cannot be read."""
    return {key: value for key, value in as_object(item, "").items() if key != "status"}
