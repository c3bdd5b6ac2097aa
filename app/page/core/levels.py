"""What usage is compared with: request, limit, target and bounds, as they are and as they change.

Strategy: the request of several pods is that of the one in the middle. A change below a percent is
none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from app.model.pods import Pod, Resources
from app.model.quantity import CPU, SIZED, Quantity
from app.model.vpa import ContainerRecommendation, Vpa
from app.page.core.charts import ChartLevel, LevelKind
from app.page.core.usage_series import SeriesKey

Amounts = Mapping[LevelKind, int]  # millicores or bytes

_KEPT: Final = timedelta(days=1)
_MOST: Final = 48  # changes of one level
_LEAST: Final = 0.01


def changed(
    changes: list[tuple[datetime, int]], amount: int, now: datetime
) -> list[tuple[datetime, int]]:
    """Return the changes of a level, without those that are over."""
    if changes and abs(changes[-1][1] - amount) <= changes[-1][1] * _LEAST:
        added = changes
    else:
        added = [*changes, (now, amount)]
    begins = 0
    while begins + 1 < len(added) and added[begins + 1][0] <= now - _KEPT:
        begins += 1
    return added[max(begins, len(added) - _MOST) :] if begins or len(added) > _MOST else added


def current_levels(vpa: Vpa | None, pods: Sequence[Pod]) -> dict[SeriesKey, Amounts]:
    """Return the levels of all containers as they are now."""
    resources: dict[str, list[Resources]] = {}
    for pod in pods:
        for name, found in pod.current_resources.items():
            resources.setdefault(name, []).append(found)
    recommended = {one.container: one for one in (vpa and vpa.recommendation) or ()}
    return {
        (name, resource): amounts
        for name in sorted({*resources, *recommended})
        for resource in SIZED
        if (amounts := dict(_levels(resource, resources.get(name, []), recommended.get(name))))
    }


def levels_now(
    vpa: Vpa | None, pods: Sequence[Pod]
) -> dict[SeriesKey, dict[LevelKind, ChartLevel]]:
    """Return the levels as they are now, without their past."""
    return {
        key: {kind: ChartLevel(amount) for kind, amount in amounts.items()}
        for key, amounts in current_levels(vpa, pods).items()
    }


def _levels(
    resource: str, found: Sequence[Resources], recommended: ContainerRecommendation | None
) -> Iterator[tuple[LevelKind, int]]:
    requests = [one.request(resource) for one in found]
    limits = [one.limit(resource) for one in found]
    yield from _middle(LevelKind.REQUEST, resource, requests)
    if recommended is not None:
        named = (
            (LevelKind.TARGET, recommended.target),
            (LevelKind.LOWER, recommended.lower_bound),
            (LevelKind.UPPER, recommended.upper_bound),
        )
        for kind, amounts in named:
            if (amount := amounts.get(resource)) is not None:
                yield kind, _whole(resource, amount)
    yield from _middle(LevelKind.LIMIT, resource, limits)


def _middle(
    kind: LevelKind, resource: str, found: Iterable[Quantity | None]
) -> Iterator[tuple[LevelKind, int]]:
    known = sorted(one for one in found if one is not None)
    if known:
        yield kind, _whole(resource, known[len(known) // 2])


def _whole(resource: str, quantity: Quantity) -> int:
    return quantity.milli if resource == CPU else quantity.units
