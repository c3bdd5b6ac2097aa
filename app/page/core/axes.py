"""Axes: how high a chart is, and which few amounts and times are written beside it.

Strategy: amounts are written in Kubernetes units, so CPU goes up in steps of 1, 2 or 5 and memory
in powers of two. Usage, request and target decide how high a chart is; a limit or a bound far above
them would press all else to the ground, so it is only written, not drawn.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from app.model.quantity import CPU
from app.model.text import cores, size
from app.recommender.core.moments import SECOND, moment

_ROOM: Final = 1.06  # above the highest
_FAR: Final = 1.6  # times the highest; what is above is not drawn
_MOST_AMOUNTS: Final = 5
_MOST_TIMES: Final = 6
_DECIMAL: Final = (1, 2, 5)
_MINUTE: Final = 60
_DAY: Final = 86_400
_TIME_STEPS: Final = (
    *(minutes * _MINUTE for minutes in (10, 15, 30, 60, 120, 240, 360, 720)),
    *(days * _DAY for days in (1, 2, 3, 7)),
)


@dataclass(frozen=True, slots=True)
class Tick:
    """A place on an axis, and what is written there."""

    share: float  # of the axis
    text: str


def shown_amount(resource: str, amount: float) -> str:
    """Write millicores or bytes."""
    whole = round(amount)
    return cores(whole) if resource == CPU else size(whole)


def top_of(highest: Collection[float], others: Collection[float]) -> float:
    """Return the amount at the top of a chart; of the others those count that are not far off."""
    top = max(highest, default=0.0)
    near = [amount for amount in others if amount <= top * _FAR or not top]
    return max([top, *near, 1.0]) * _ROOM


def amount_ticks(resource: str, top: float) -> list[Tick]:
    """Return a few round amounts from zero to the top."""
    step = _decimal_step(top) if resource == CPU else _binary_step(top)
    count = int(top // step)
    return [Tick(n * step / top, shown_amount(resource, n * step)) for n in range(count + 1)]


def _decimal_step(top: float) -> int:
    power = 1
    while True:
        for factor in _DECIMAL:
            if top <= factor * power * _MOST_AMOUNTS:
                return factor * power
        power *= 10


def _binary_step(top: float) -> int:
    step = 1
    while top > step * _MOST_AMOUNTS:
        step *= 2
    return step


def time_ticks(start: int, end: int) -> list[Tick]:
    """Return a few round times, in seconds since 1970, between two."""
    length = end - start
    step = next((one for one in _TIME_STEPS if length <= one * _MOST_TIMES), _TIME_STEPS[-1])
    first = -(-start // step) * step
    return [Tick((at - start) / length, _time(at)) for at in range(first, end + 1, step)]


def _time(seconds: int) -> str:
    at = moment(seconds * SECOND)
    return f"{at:%H:%M}" if seconds % _DAY else f"{at.day} {at:%b}"


def spread(shares: Sequence[float], least: float) -> list[list[int]]:
    """Put places that lie too near together into groups: the indexes of each, in order."""
    groups: list[list[int]] = []
    for index in sorted(range(len(shares)), key=lambda one: shares[one]):
        if groups and shares[index] - shares[groups[-1][0]] < least:
            groups[-1].append(index)
        else:
            groups.append([index])
    return groups
