"""Caps of one container: its LimitRange, the VPA's policy, its own limit.

Strategy: bounds of a LimitRange speak of limits, so they are turned into the request at which
the proportional limit would just meet them. Policy comes after the LimitRange and wins; its
maximum comes after its minimum and wins.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from app.core.scaling import scale
from app.model.limits import Limits
from app.model.pods import Container, Resources
from app.model.quantity import CPU, SIZED, ZERO, Quantities, Quantity
from app.model.vpa import ContainerPolicy


class Cap(NamedTuple):
    """A step that changed an amount."""

    resource: str
    by: str
    amount: Quantity  # after the step
    is_noted: bool = True  # in the pod's annotation


@dataclass(slots=True)
class Draft:
    """A container's recommendation on its way through the caps."""

    container: Container
    current: Resources
    policy: ContainerPolicy | None
    recommended: Quantities | None  # None: nothing was recommended
    lists: dict[str, dict[str, Quantity]]  # by target, lower, upper; all in order of resources
    is_fixed: bool = False  # never changed, though it takes its share
    caps: list[Cap] = field(default_factory=list)  # of the target

    @property
    def requests_only(self) -> bool:
        """Whether the limit stays as it is."""
        return self.policy is not None and self.policy.requests_only


def cap_container(draft: Draft, limits: Limits | None) -> None:
    """Apply all caps of one container to each of its lists."""
    if limits is None and draft.policy is None:
        return
    for word, amounts in draft.lists.items():
        caps = draft.caps if word == "target" else []
        if limits is not None:
            _cap_to_limit_range(draft, amounts, limits, caps)
        if draft.policy is not None:
            _cap_to_policy(draft.policy, amounts, caps)
            if draft.policy.requests_only:
                _cap_to_own_limit(draft.current, amounts, caps)


def _cap_to_limit_range(
    draft: Draft,
    amounts: dict[str, Quantity],
    limits: Limits,
    caps: list[Cap],
) -> None:
    current, stays = draft.current, draft.requests_only
    for resource, amount in amounts.items():
        if resource not in SIZED:
            continue
        # Of equals the first is taken, and with it the way it is written.
        least = limits.least(resource)
        floor = max(request_at(resource, current, limits, least, stays=stays), least)
        if floor.nano > 0 and amount < floor:
            _cap(amounts, caps, Cap(resource, "capped to fit Min in container LimitRange", floor))
        if stays:
            _keep_ratio(resource, current, limits, amounts, caps)
        ceiling = request_at(resource, current, limits, limits.most(resource), stays=stays)
        if ceiling.nano > 0 and amounts[resource] > ceiling:
            _cap(amounts, caps, Cap(resource, "capped to fit Max in container LimitRange", ceiling))


def _keep_ratio(
    resource: str,
    current: Resources,
    limits: Limits,
    amounts: dict[str, Quantity],
    caps: list[Cap],
) -> None:
    """Keep a request high enough beside a limit that does not go down with it."""
    ratio, limit = limits.most_ratio(resource), _limit(resource, current, limits)
    if ratio.is_zero or limit.is_zero:
        return
    whole = 10**6 if resource == CPU else 10**9  # nano in a millicore, in a byte
    steps = -(-limit.nano * 10**9 // (ratio.nano * whole))
    floor = min(limit, Quantity(steps * whole, limit.format))
    if amounts[resource] < floor:
        by = "capped to fit maxLimitRequestRatio in container LimitRange"
        _cap(amounts, caps, Cap(resource, by, floor))


def _limit(resource: str, current: Resources, limits: Limits) -> Quantity:
    """Return the limit of a container, the usual one if it has none."""
    limit = current.limit(resource)
    return limits.usual(resource) if limit is None or limit.is_zero else limit


def request_at(
    resource: str, current: Resources, limits: Limits, bound: Quantity, *, stays: bool = False
) -> Quantity:
    """Return the request whose limit just meets a bound, zero if no limit would follow.

    With a limit that stays, it is the bound itself that holds for the request.
    """
    limit = _limit(resource, current, limits)
    if limit.is_zero:
        return ZERO
    request = current.request(resource)
    if request is None or request.is_zero:
        return bound
    found = scale(resource, request, limit, bound)
    return max(found, bound) if stays else found


def _cap_to_policy(policy: ContainerPolicy, amounts: dict[str, Quantity], caps: list[Cap]) -> None:
    least, most = policy.min_allowed or {}, policy.max_allowed or {}
    for resource, amount in amounts.items():
        floor, ceiling = least.get(resource, ZERO), most.get(resource, ZERO)
        if floor.nano > 0 and amount < floor:
            _cap(amounts, caps, Cap(resource, "capped to minAllowed", floor))
        if ceiling.nano > 0 and amounts[resource] > ceiling:
            _cap(amounts, caps, Cap(resource, "capped to maxAllowed", ceiling))


def _cap_to_own_limit(current: Resources, amounts: dict[str, Quantity], caps: list[Cap]) -> None:
    for resource, amount in amounts.items():
        limit = current.limit(resource)
        if limit is not None and _milli64(amount) > _milli64(limit):
            _cap(amounts, caps, Cap(resource, "capped to container limit", limit))


def _milli64(amount: Quantity) -> int:
    """Return thousandths in a signed 64-bit number, which wraps above 9.2e15 units.

    No container is that large; the wrap only keeps absurd values equal to upstream's.
    """
    return (amount.milli + 2**63) % 2**64 - 2**63


def _cap(amounts: dict[str, Quantity], caps: list[Cap], cap: Cap) -> None:
    amounts[cap.resource] = cap.amount
    caps.append(cap)
