"""What is remembered, told by another clock: the time of day may be set while we work.

Strategy: memory counts for so long after a deed, whatever the time of day; so when the clock is
set all that is remembered moves along.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from app.updater.core.failures import Pause
from app.updater.core.memory import Memory, PodMemory
from app.updater.core.moments import later
from app.updater.core.proof import Breaker, Proof


def shifted(memory: Memory, by: timedelta) -> Memory:
    """Return the memory after the clock was set forward (or back) by so much."""
    if not by:
        return memory
    return replace(
        memory,
        pods={uid: _pod(found, by) for uid, found in memory.pods.items()},
        proofs={key: _proof(found, by) for key, found in memory.proofs.items()},
        breaker=_breaker(memory.breaker, by),
        budget_pauses={key: _pause(found, by) for key, found in memory.budget_pauses.items()},
        rollouts={
            key: replace(found, since=later(found.since, by))
            for key, found in memory.rollouts.items()
        },
    )


def _pod(found: PodMemory, by: timedelta) -> PodMemory:
    resized, infeasible, pause = found.resized, found.infeasible, found.pause
    return replace(
        found,
        evicted=_moment(found.evicted, by),
        resized=replace(resized, at=later(resized.at, by)) if resized is not None else None,
        resizing_since=_moment(found.resizing_since, by),
        infeasible=replace(infeasible, at=later(infeasible.at, by)) if infeasible else None,
        pause=_pause(pause, by) if pause is not None else None,
        unboosted=_moment(found.unboosted, by),
    )


def _proof(found: Proof, by: timedelta) -> Proof:
    return replace(found, since=_moment(found.since, by), until=_moment(found.until, by))


def _breaker(found: Breaker, by: timedelta) -> Breaker:
    verdicts = tuple((later(moment, by), helped) for moment, helped in found.verdicts)
    return replace(found, verdicts=verdicts, until=_moment(found.until, by))


def _pause(found: Pause, by: timedelta) -> Pause:
    return replace(found, until=later(found.until, by))


def _moment(moment: datetime | None, by: timedelta) -> datetime | None:
    return None if moment is None else later(moment, by)
