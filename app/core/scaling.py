"""Limits in proportion to requests.

Strategy: a container keeps the ratio between limit and request that its author gave it. Where
there is no ratio (no request, or request equals limit) the limit becomes the request.
"""

from __future__ import annotations

from typing import NamedTuple

from app.model.quantity import ZERO, Quantity, scale_cpu, scale_memory

CPU = "cpu"
MEMORY = "memory"
SIZED = (CPU, MEMORY)


class Limit(NamedTuple):
    """A limit for a new request, or None with the reason; a note may come with a limit too."""

    amount: Quantity | None
    note: str


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
    if limit is None or limit.is_zero:
        limit = default
    if limit.is_zero:
        return Limit(None, f"{resource}: limit NOT set since originalLimit is nil or 0")
    if target is None or target.is_zero:
        return Limit(None, f"{resource}: limit NOT set since recommendedRequest is nil or 0")
    if request is None or request.is_zero or request.milli == limit.milli:
        return Limit(target, "")
    scaled, is_cut = (scale_cpu if resource == CPU else scale_memory)(limit, request, target)
    note = f"{resource}: failed to keep limit to request ratio; capping limit to int64"
    return Limit(scaled, note if is_cut else "")
