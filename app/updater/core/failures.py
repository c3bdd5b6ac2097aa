"""What follows from an API server's refusal of an eviction or a resize.

Strategy: only a refusal that no waiting can mend leads to an eviction instead of a resize. What
would hit the recreated pod just as well (a quota, a LimitRange, a missing right) leads to
waiting, longer each time.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from app.model.errors import (
    ClusterError,
    Conflict,
    Invalid,
    NotFound,
    Refused,
    TooMany,
    Unavailable,
)
from app.updater.core.decisions import Action, Reason, Why

_NODE_CAPACITY: Final = "NodeCapacity"
_BUDGET: Final = "DisruptionBudget"
_SEVERAL_BUDGETS: Final = "more than one PodDisruptionBudget"
_NO_SUCH_PATH: Final = "could not find the requested resource"
_WOULD_STRIKE_AGAIN: Final = ("exceeded quota", "usage per Container", "usage per Pod", "cannot ")
_FIRST_PAUSE: Final = timedelta(seconds=10)
LONGEST_PAUSE: Final = timedelta(minutes=10)
_LONGEST_ASKED_SECONDS: Final = 3600.0  # a server that asks for more is not believed


class Aftermath(StrEnum):
    """What a refusal means."""

    GONE = "gone"  # the pod is no longer there, or another one has its name
    RETRY = "retry"  # wait, then try again
    INFEASIBLE = "infeasible"  # too much for the node
    HOPELESS = "hopeless"  # never in this form
    BUDGET = "budget"  # a PodDisruptionBudget holds


_TOLD: Final = {
    Aftermath.BUDGET: Reason.PDB_BLOCKED,
    Aftermath.INFEASIBLE: Reason.RESIZE_INFEASIBLE,
}


def after_resize(error: ClusterError) -> Aftermath:
    """Tell what a refused resize means."""
    match error:
        case NotFound():
            return Aftermath.HOPELESS if _NO_SUCH_PATH in error.message else Aftermath.GONE
        case Refused():
            if any(reason == _NODE_CAPACITY for reason, _ in error.causes):
                return Aftermath.INFEASIBLE
            if any(text in error.message for text in _WOULD_STRIKE_AGAIN):
                return Aftermath.RETRY
            return Aftermath.HOPELESS
        case Invalid():
            return Aftermath.HOPELESS
        case _:
            return Aftermath.HOPELESS if error.status in (405, 415) else Aftermath.RETRY


def after_eviction(error: ClusterError) -> Aftermath:
    """Tell what a refused eviction means."""
    match error:
        case NotFound() | Conflict():
            return Aftermath.GONE
        case TooMany():
            is_budget = any(reason == _BUDGET for reason, _ in error.causes)
            return Aftermath.BUDGET if is_budget or _BUDGET in error.message else Aftermath.RETRY
        case Unavailable() if _SEVERAL_BUDGETS in error.message:
            return Aftermath.BUDGET
        case _:
            return Aftermath.RETRY


def refusal(action: Action, error: ClusterError) -> Why:
    """Return what is told of a pod for which a call was refused."""
    if action is Action.EVICT:
        aftermath, usual = after_eviction(error), Reason.EVICTION_ERROR
    else:
        aftermath, usual = after_resize(error), Reason.RESIZE_ERROR
    if aftermath is Aftermath.GONE:
        return Reason.POD_TERMINATING, "the pod went meanwhile"
    return _TOLD.get(aftermath, usual), f"refused: {error.message}"


def evicts_instead(aftermath: Aftermath) -> bool:
    """Whether a pod whose resize was refused is evicted, if it may be."""
    return aftermath in (Aftermath.HOPELESS, Aftermath.INFEASIBLE)


@dataclass(frozen=True, slots=True)
class Pause:
    """How often something failed in a row, and until when it rests."""

    reason: Reason
    message: str
    count: int
    until: datetime

    def is_over(self, now: datetime) -> bool:
        """Whether it may be tried again."""
        return now >= self.until


def longer(
    before: Pause | None,
    reason: Reason,
    message: str,
    now: datetime,
    *,
    longest: timedelta = LONGEST_PAUSE,
    retry_after_seconds: float | None = None,
) -> Pause:
    """Return the pause after one more failure: doubling, and no shorter than the server asks."""
    count = before.count + 1 if before is not None else 1
    pause = doubled(_FIRST_PAUSE, count, longest)
    if retry_after_seconds is not None:
        pause = max(pause, timedelta(seconds=min(retry_after_seconds, _LONGEST_ASKED_SECONDS)))
    return Pause(reason, message, count, now + pause)


def doubled(first: timedelta, count: int, longest: timedelta) -> timedelta:
    """Return the pause after the n-th failure in a row."""
    return min(first * (1 << min(count - 1, 30)), longest)
