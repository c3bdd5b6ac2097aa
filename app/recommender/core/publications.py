"""Statuses that shall be written, and why."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from app.recommender.core.observations import ObservedVpa
from app.recommender.core.status import Difference, VpaStatus

_CANNOT_READ: Final = "Cannot read targetRef"


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
