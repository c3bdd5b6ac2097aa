"""When to look at a boosted pod again: the life of one entry in the queue of boosted pods.

Strategy: a pod is looked at when it changes and when its boost is over, not on a grid. What
cannot be done yet comes back after a pause that doubles; a change of the pod's readiness or of
its resize starts the pauses anew.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from app.model.kinds import Condition
from app.model.pods import Pod
from app.model.vpa import Vpa
from app.updater.core.failures import doubled
from app.updater.core.resizing import IN_PROGRESS, PENDING
from app.updater.core.unboost import (
    boosted_containers,
    due_containers,
    pending_containers,
    remaining,
)

_FIRST: Final = timedelta(milliseconds=100)
_LONGEST: Final = timedelta(seconds=30)
_LOOKS_WITHOUT_VPA: Final = 6
_WATCHED: Final = ("Ready", PENDING, IN_PROGRESS)


class Next(StrEnum):
    """What becomes of an entry."""

    FORGET = "forget"  # until the pod changes
    LATER = "later"  # a pause that counts
    WHEN_DUE = "when due"  # and its pauses start anew
    UNBOOST = "unboost"  # now


@dataclass(frozen=True, slots=True)
class Look:
    """What a look at an entry tells."""

    next: Next
    wait: timedelta = timedelta()


def pause_after(count: int) -> timedelta:
    """Return the pause after so many earlier ones in a row."""
    return doubled(_FIRST, count + 1, _LONGEST)


def look(pod: Pod | None, vpa: Vpa | None, count: int, now: datetime) -> Look:
    """Tell what to do about an entry that came back after `count` pauses in a row."""
    if pod is None or not (boosted_containers(pod) or pending_containers(pod)):
        return Look(Next.FORGET)
    if vpa is None:
        if count >= _LOOKS_WITHOUT_VPA:
            return Look(Next.FORGET)
        return Look(Next.LATER, pause_after(count))
    if due_containers(pod, vpa, now) or pending_containers(pod):
        return Look(Next.UNBOOST)
    wait = remaining(pod, vpa, now)
    if wait:
        return Look(Next.WHEN_DUE, wait)
    return Look(Next.LATER, pause_after(count))


def starts_anew(before: Pod, after: Pod) -> bool:
    """Whether a pod changed in a way that makes another look worth while at once."""
    return _watched(before) != _watched(after)


def _watched(pod: Pod) -> list[Condition]:
    return [found for found in pod.conditions if found.type in _WATCHED]
