"""Caps of one container: its LimitRange, the VPA's policy, its own limit.

Strategy: bounds of a LimitRange speak of limits, so they are turned into the request at which
the proportional limit would just meet them. Policy comes after the LimitRange and wins; its
maximum comes after its minimum and wins.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from app.core.scaling import SIZED, scale
from app.model.limits import Limits
from app.model.pods import Container, Resources
from app.model.quantity import ZERO, Quantity
from app.model.vpa import ContainerPolicy

Quantities = Mapping[str, Quantity]


@dataclass(frozen=True, slots=True)
class SizingRules:
    """Where sizing differs from the upstream autoscaler; all False is exactly upstream."""

    spares_off_containers: bool = True  # mode Off: never resized, not even to make room
    keeps_fixed_limits: bool = True  # RequestsOnly: LimitRanges judge the limit as it stays
    orders_bounds: bool = True  # lower <= target <= upper also after caps
    fits_pod_resources: bool = True  # containers stay within spec.resources of the pod


@dataclass(slots=True)
class Draft:
    """A container's recommendation on its way through the caps."""

    container: Container
    current: Resources
    policy: ContainerPolicy | None
    lists: dict[str, dict[str, Quantity]]  # by target, lower, upper; empty: no recommendation
    recommended: Quantities
    notes: list[str]
    is_own: bool
    is_fixed: bool  # never changed, though it takes its share

    @property
    def requests_only(self) -> bool:
        """Whether the limit stays as it is."""
        return self.policy is not None and self.policy.requests_only


def cap_container(draft: Draft, limits: Limits | None, rules: SizingRules) -> None:
    """Apply all caps of one container to each of its lists."""
    for word, amounts in draft.lists.items():
        notes = draft.notes if word == "target" else []
        if limits is not None:
            _cap_to_limit_range(draft, amounts, limits, rules, notes)
        if draft.policy is not None:
            _cap_to_policy(draft.policy, amounts, notes)
        if draft.requests_only:
            _cap_to_own_limit(draft.current, amounts, notes)


def _cap_to_limit_range(
    draft: Draft,
    amounts: dict[str, Quantity],
    limits: Limits,
    rules: SizingRules,
    notes: list[str],
) -> None:
    stays = rules.keeps_fixed_limits and draft.requests_only
    for resource in _in_order(amounts):
        if resource not in SIZED:
            continue
        least, most = limits.least(resource), limits.most(resource)
        floor = max(least, request_at(resource, draft.current, limits, least, stays=stays))
        ceiling = request_at(resource, draft.current, limits, most, stays=stays)
        if not floor.is_zero and amounts[resource] < floor:
            amounts[resource] = floor
            notes.append(f"{resource} capped to fit Min in container LimitRange")
        if not ceiling.is_zero and amounts[resource] > ceiling:
            amounts[resource] = ceiling
            notes.append(f"{resource} capped to fit Max in container LimitRange")


def request_at(
    resource: str, current: Resources, limits: Limits, bound: Quantity, *, stays: bool = False
) -> Quantity:
    """Return the request whose limit just meets a bound, zero if no limit would follow."""
    limit = current.limit(resource) or ZERO
    if limit.is_zero:
        limit = limits.usual(resource)
    if limit.is_zero:
        return ZERO
    request = current.request(resource) or ZERO
    if request.is_zero or stays:
        return bound
    return scale(resource, request, limit, bound)


def _cap_to_policy(policy: ContainerPolicy, amounts: dict[str, Quantity], notes: list[str]) -> None:
    for resource in _in_order(amounts):
        least = (policy.min_allowed or {}).get(resource, ZERO)
        most = (policy.max_allowed or {}).get(resource, ZERO)
        if not least.is_zero and amounts[resource] < least:
            amounts[resource] = least
            notes.append(f"{resource} capped to minAllowed")
        if not most.is_zero and amounts[resource] > most:
            amounts[resource] = most
            notes.append(f"{resource} capped to maxAllowed")


def _cap_to_own_limit(current: Resources, amounts: dict[str, Quantity], notes: list[str]) -> None:
    for resource in _in_order(amounts):
        limit = current.limit(resource)
        if limit is not None and _milli64(amounts[resource]) > _milli64(limit):
            amounts[resource] = limit
            notes.append(f"{resource} capped to container limit")


def _milli64(amount: Quantity) -> int:
    """Return thousandths in a signed 64-bit number, which wraps above 9.2e15 units.

    No container is that large; the wrap only keeps absurd values equal to upstream's.
    """
    return (amount.milli + 2**63) % 2**64 - 2**63


def _in_order(amounts: Quantities) -> list[str]:
    """Return cpu, memory, then others by name."""
    if len(amounts) <= 2:
        return [resource for resource in SIZED if resource in amounts] + [
            resource for resource in amounts if resource not in SIZED
        ]
    others = sorted(resource for resource in amounts if resource not in SIZED)
    return [resource for resource in SIZED if resource in amounts] + others
