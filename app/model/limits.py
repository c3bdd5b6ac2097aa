"""What limits pods from outside: LimitRanges, PodDisruptionBudgets and nodes.

Strategy: several LimitRanges of a namespace act together: the lowest maximum and the highest
minimum hold. Of several defaults the one of the last object by name counts, so that equal
clusters give equal answers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from app.model.fields import (
    Object,
    int64_at,
    integer_at,
    items_at,
    object_at,
    quantities_at,
    text_at,
)
from app.model.quantity import SIZED, ZERO, Quantities, Quantity
from app.model.selectors import Selector


@dataclass(frozen=True, slots=True)
class Limits:
    """What holds for one type of item; a resource that is not there is not limited."""

    minimum: Quantities = field(default_factory=dict)
    maximum: Quantities = field(default_factory=dict)
    default: Quantities = field(default_factory=dict)
    ratio: Quantities = field(default_factory=dict)  # most that a limit may be, in requests

    def least(self, resource: str) -> Quantity:
        """Return the minimum, zero if unset."""
        return self.minimum.get(resource, ZERO)

    def most(self, resource: str) -> Quantity:
        """Return the maximum, zero if unset."""
        return self.maximum.get(resource, ZERO)

    def usual(self, resource: str) -> Quantity:
        """Return the default limit, zero if unset."""
        return self.default.get(resource, ZERO)

    def max_limit_request_ratio(self, resource: str) -> Quantity:
        """Return how often a request may go into its limit at most, zero if unset."""
        return self.ratio.get(resource, ZERO)


@dataclass(frozen=True, slots=True)
class LimitRange:
    """A LimitRange: limits per type, in the order of the object."""

    namespace: str
    name: str
    items: tuple[tuple[str, Limits], ...]


@dataclass(frozen=True, slots=True)
class NamespaceLimits:
    """What all LimitRanges of a namespace ask for together; None where none speaks."""

    container: Limits | None = None
    pod: Limits | None = None


NO_LIMITS = NamespaceLimits()


def read_limit_range(item: Object) -> LimitRange:
    """Read a LimitRange."""
    metadata = object_at(item, "metadata", "")
    spec = object_at(item, "spec", "")
    return LimitRange(
        namespace=text_at(metadata, "namespace", "metadata"),
        name=text_at(metadata, "name", "metadata"),
        items=tuple(
            (
                text_at(entry, "type", path),
                Limits(
                    quantities_at(entry, "min", path) or {},
                    quantities_at(entry, "max", path) or {},
                    quantities_at(entry, "default", path) or {},
                    quantities_at(entry, "maxLimitRequestRatio", path) or {},
                ),
            )
            for entry, path in items_at(spec, "limits", "spec")
        ),
    )


def combined_limits(ranges: Iterable[LimitRange]) -> NamespaceLimits:
    """Return what several LimitRanges of one namespace ask for together."""
    ordered = sorted(ranges, key=lambda limit_range: limit_range.name)
    return NamespaceLimits(_together(ordered, "Container"), _together(ordered, "Pod"))


def _together(ranges: list[LimitRange], kind: str) -> Limits | None:
    spoken = [
        limits
        for limit_range in reversed(ranges)  # of equals the last one is taken
        for type_, limits in reversed(limit_range.items)
        if type_ == kind and (limits.minimum or limits.maximum or limits.default or limits.ratio)
    ]
    if not spoken:
        return None
    return Limits(
        _strictest([limits.minimum for limits in spoken], max),
        _strictest([limits.maximum for limits in spoken], min),
        next((limits.default for limits in spoken if limits.default), {}),
        _strictest([limits.ratio for limits in spoken], min),
    )


def _strictest(
    bounds: list[Quantities], choose: Callable[[Iterable[Quantity]], Quantity]
) -> dict[str, Quantity]:
    return {
        resource: choose(named)
        for resource in SIZED
        if (named := [bound[resource] for bound in bounds if resource in bound])
    }


@dataclass(frozen=True, slots=True)
class DisruptionBudget:
    """A PodDisruptionBudget and how many disruptions it allows now."""

    namespace: str
    name: str
    selector: Selector
    disruptions_allowed: int
    is_current: bool  # the controller has seen the latest spec


def read_disruption_budget(item: Object) -> DisruptionBudget:
    """Read a PodDisruptionBudget."""
    metadata = object_at(item, "metadata", "")
    status = object_at(item, "status", "")
    generation = int64_at(metadata, "generation", "metadata") or 0
    observed = int64_at(status, "observedGeneration", "status") or 0
    return DisruptionBudget(
        namespace=text_at(metadata, "namespace", "metadata"),
        name=text_at(metadata, "name", "metadata"),
        selector=Selector.read(object_at(item, "spec", "").get("selector"), "spec.selector"),
        disruptions_allowed=integer_at(status, "disruptionsAllowed", "status") or 0,
        is_current=observed >= generation,
    )


@dataclass(frozen=True, slots=True)
class Node:
    """A node and what it can give to pods."""

    name: str
    allocatable: Mapping[str, Quantity]


def read_node(item: Object) -> Node:
    """Read a node."""
    return Node(
        name=text_at(object_at(item, "metadata", ""), "name", "metadata"),
        allocatable=quantities_at(object_at(item, "status", ""), "allocatable", "status") or {},
    )
