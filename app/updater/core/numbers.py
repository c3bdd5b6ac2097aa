"""How far a pod is from its recommendation.

Strategy: relative changes of the pod's totals, summed over resources, as upstream counts them.
Beside that number stands one that does not let two containers cancel each other out, and one
that looks at what grows alone. A missing request counts as the least amount there is.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from app.model.pods import OBSERVED_ANNOTATION, Pod, Resources
from app.model.quantity import CPU
from app.sizing.sizing import CappedRecommendation
from app.updater.core.decisions import Numbers, Pair

_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)


def observed_containers(pod: Pod) -> frozenset[str] | None:
    """Return the containers that the webhook saw, None for all."""
    text = pod.annotation(OBSERVED_ANNOTATION)
    return None if text is None else _parse_observed(text)


@lru_cache(4096)
def _parse_observed(text: str) -> frozenset[str] | None:
    if not text:
        return frozenset()
    names = text.split(", ")
    return frozenset(names) if all(map(_NAME.fullmatch, names)) else None


def pairs_of(
    pod: Pod,
    amounts: Mapping[str, CappedRecommendation],
    current: Mapping[str, Resources],
    boosted: frozenset[str] = frozenset(),
) -> tuple[Pair, ...]:
    """Return every resource with a target, container by container.

    Args:
        pod: the pod.
        amounts: the recommendation of each container after caps.
        current: what each container has now.
        boosted: containers whose cpu is left out.
    """
    observed = observed_containers(pod)
    found: list[Pair] = []
    for container in pod.containers:
        name = container.name
        capped = amounts.get(name)
        if capped is None or (observed is not None and name not in observed):
            continue
        requests = current[name].requests or {}
        lower, upper = capped.lower_bound, capped.upper_bound
        for resource, target in capped.target.items():
            if resource == CPU and name in boosted:
                continue
            found.append(
                Pair(
                    name,
                    resource,
                    requests.get(resource),
                    target,
                    lower.get(resource),
                    upper.get(resource),
                    capped.is_own,
                )
            )
    return tuple(found)


def _share(part: int, whole: int) -> float:
    """Return a quotient; some quantities are larger than any float."""
    try:
        return part / whole
    except OverflowError:
        return math.inf


class _Sums:
    """The totals of one resource, in thousandths."""

    __slots__ = ("added", "requested", "taken", "wanted")

    def __init__(self) -> None:
        self.requested = self.wanted = self.added = self.taken = 0

    @property
    def base(self) -> int:
        return max(self.requested, 1)

    @property
    def difference(self) -> float:
        return _share(abs(self.base - self.wanted), self.base)

    @property
    def gross_difference(self) -> float:
        if self.added and self.taken:
            return _share(self.added + self.taken, self.base)
        return self.difference


def measure(pairs: tuple[Pair, ...], *, with_rise: bool = False) -> Numbers:
    """Return how far the pairs together are from their targets; the rise alone takes more time."""
    sums: dict[str, _Sums] = {}
    is_outside = is_up = False
    for pair in pairs:
        total = sums.get(pair.resource)
        if total is None:
            total = sums[pair.resource] = _Sums()
        target = pair.target.milli
        total.wanted += target
        request = pair.current
        if request is None:
            is_up = is_outside = True
            total.added += target
            continue
        milli = request.milli
        total.requested += milli
        if target > milli:
            is_up = True
            total.added += target - milli
        else:
            total.taken += milli - target
        if (pair.lower is not None and request < pair.lower) or (
            pair.upper is not None and request > pair.upper
        ):
            is_outside = True
    rise, rises_outside = _rise(pairs) if with_rise else (0.0, False)
    return Numbers(
        pairs,
        sum(total.difference for total in sums.values()),
        sum(total.gross_difference for total in sums.values()),
        is_outside,
        is_up,
        rise,
        rises_outside,
    )


def _rise(pairs: tuple[Pair, ...]) -> tuple[float, bool]:
    """Return the relative growth if nothing shrank, and whether some of it is below its bound."""
    sums: dict[str, _Sums] = {}
    is_outside = False
    for pair in pairs:
        if not pair.is_controlled:
            continue
        total = sums.setdefault(pair.resource, _Sums())
        target, request = pair.target.milli, pair.current.milli if pair.current else 0
        total.requested += request
        if pair.current is None or target > request:
            total.added += target - request
            is_outside |= pair.current is None or (
                pair.lower is not None and pair.current < pair.lower
            )
    return sum(_share(total.added, total.base) for total in sums.values()), is_outside
