"""Whether a pod needs an update, how urgently, and when that may change by itself.

Strategy: outside of its bounds, or killed for want of memory, a pod is updated at once; within
them only if the difference is worth it and the pod is not young.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum
from functools import lru_cache

from app.model.pods import Pod
from app.model.times import rfc3339
from app.updater.core.decisions import Numbers, Reason
from app.updater.core.moments import later
from app.updater.core.oom import QuickOom
from app.updater.core.rules import UpdateRules


@dataclass(frozen=True, slots=True)
class Trigger:
    """What is looked at: the pod as a whole, or what grows in it."""

    difference: float
    is_outside: bool


@dataclass(frozen=True, slots=True)
class Need:
    """Whether a pod needs an update; a reason tells why not."""

    reason: Reason | None
    message: str
    until: datetime | None = None  # when the answer may change without any event


def trigger(numbers: Numbers, *, upscale_only: bool) -> Trigger:
    """Return what decides whether a pod needs an update."""
    if upscale_only:
        return Trigger(numbers.rise, numbers.rises_outside)
    return Trigger(numbers.gross_difference, numbers.is_outside)


def calm(found: Trigger, rules: UpdateRules) -> Need | None:
    """Return what holds for every pod with such a difference, unless it ran out of memory."""
    difference = found.difference
    if found.is_outside:
        if 0 < difference >= rules.least_difference:
            return None
        told = f"outside of its bounds, but the difference is {percent(difference)}"
        return Need(Reason.NO_CHANGE, told)
    if difference == 0:
        return Need(Reason.NO_CHANGE, "within its bounds and as recommended")
    if difference >= rules.update_threshold:
        return None
    least = percent(rules.update_threshold)
    told = f"within its bounds; a difference of {percent(difference)} is less than {least}"
    return Need(Reason.TOO_SMALL, told)


def need(
    found: Trigger,
    oom: QuickOom | None,
    since: datetime | None,
    rules: UpdateRules,
    now: datetime,
) -> Need:
    """Tell whether a pod needs an update; `since` is when it started or was last resized."""
    difference = percent(found.difference)
    if oom is not None:
        if not 0 < found.difference >= rules.least_difference:
            told = f"killed for want of memory, but the difference is {difference}"
            return Need(Reason.NO_CHANGE, told)
        return Need(None, f"container {oom.container} ran out of memory", oom.until)
    if (quiet := calm(found, rules)) is not None:
        return quiet
    if found.is_outside:
        return Need(None, f"outside of its bounds; differs by {difference}")
    if since is None:
        return Need(Reason.NO_START_TIME, "within its bounds, and the time of its start is unknown")
    old_enough = later(since, rules.lifetime_threshold)
    if now < old_enough:
        told = f"within its bounds; differs by {difference}, too young until "
        return Need(Reason.TOO_YOUNG, told + rfc3339(old_enough), old_enough)
    return Need(None, f"within its bounds, but differs by {difference}")


@lru_cache(4096)
def percent(share: float) -> str:
    """Write a share for people."""
    return f"{share * 100:.3g} %" if share < 10 else f"{share:,.0f} times"


class Urgency(IntEnum):
    """The classes of the order, the most urgent first."""

    OUT_OF_MEMORY = 0
    FAR_TOO_SMALL = 1
    TOO_SMALL = 2
    TOO_BIG = 3


@dataclass(frozen=True, slots=True)
class Priority:
    """What sorts pods that need an update."""

    pod: Pod
    is_up: bool
    found: Trigger
    quick_oom: bool

    def key(self) -> tuple[int, float, float, str, str]:
        """Return what to sort by: urgency, difference, age, name."""
        created = self.pod.created.timestamp() if self.pod.created else 0.0
        return (
            self._urgency(),
            -self.found.difference,
            created,
            self.pod.namespace,
            self.pod.name,
        )

    def _urgency(self) -> Urgency:
        if self.quick_oom:
            return Urgency.OUT_OF_MEMORY
        if self.is_up and self.found.is_outside:
            return Urgency.FAR_TOO_SMALL
        return Urgency.TOO_SMALL if self.is_up else Urgency.TOO_BIG
