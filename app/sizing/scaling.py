"""Limits in proportion to requests.

Strategy: a container keeps the ratio between limit and request that its author gave it. Where
there is no ratio (no request, or request equals limit) the limit becomes the request.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from app.model.quantity import CPU, MEMORY, ZERO, Quantity, scale_cpu, scale_memory
from app.model.vpa import ContainerPolicy, ControlledValues

_RANKS = {CPU: 0, MEMORY: 1}
_SHORT: tuple[list[str], ...] = ([], [CPU], [MEMORY], [CPU, MEMORY])  # in order as they come


class Limit(NamedTuple):
    """A limit for a new request, or None with the reason; a note may come with a limit too."""

    amount: Quantity | None
    note: str


def in_order(resources: Iterable[str]) -> list[str]:
    """Return cpu, memory, then others by name."""
    names = list(resources)
    return names if names in _SHORT else sorted(names, key=_rank)


def _rank(resource: str) -> tuple[int, str]:
    return (_RANKS.get(resource, 2), resource)


def limits_follow(policy: ContainerPolicy | None) -> bool:
    """Whether limits are written at all; an unknown value leaves them alone."""
    values = policy.controlled_values if policy is not None else None
    return values is None or values == ControlledValues.REQUESTS_AND_LIMITS


def scale(
    resource: str, amount: Quantity, base: Quantity, target: Quantity, *, round_up: bool = False
) -> Quantity:
    """Scale an amount as base grows to target: cpu in millicores, memory in bytes."""
    if resource == CPU:
        return scale_cpu(amount, base, target, round_up=round_up)[0]
    return scale_memory(amount, base, target)[0]


def proportional_limit(
    resource: str,
    limit: Quantity | None,
    request: Quantity | None,
    target: Quantity | None,
    default: Quantity = ZERO,
) -> Limit:
    """Return the limit that goes with a new request, from the limit and request of today."""
    if limit is None or limit.nano == 0:
        limit = default
    if limit.nano == 0:
        return Limit(None, f"{resource}: limit NOT set since originalLimit is nil or 0")
    if target is None or target.nano == 0:
        return Limit(None, f"{resource}: limit NOT set since recommendedRequest is nil or 0")
    if request is None or request.nano == 0 or request.milli == limit.milli:
        return Limit(target, "")
    scaled, is_cut = (scale_cpu if resource == CPU else scale_memory)(limit, request, target)
    note = f"{resource}: failed to keep limit to request ratio; capping limit to int64"
    return Limit(scaled, note if is_cut else "")
