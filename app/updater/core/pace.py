"""When the next round begins: after an interval, or sooner while there is something to await.

Strategy: a replacement that proves that evictions help is there within seconds, and so are the
webhook and the API server once they are back. So after a round that left pods waiting for proof the
next one comes soon, then later and later until a round acts again. What an outage of the webhook
held up is caught up in the same way, as fast as budgets allow.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from app.updater.core.decisions import Reason

_FIRST_SECONDS: Final = 1.0  # doubled with every round in a row that did nothing
_MOST_IDLE: Final = 6  # such rounds, then nothing is caught up any more
_AWAITED: Final = frozenset({Reason.PROOF_PENDING, Reason.PLAN_OUTDATED})
_HELD_UP: Final = _AWAITED | {Reason.BUDGET_EXHAUSTED, Reason.PDB_BLOCKED}


@dataclass(frozen=True, slots=True)
class Pace:
    """How rounds follow each other."""

    is_webhook_away: bool = False  # no round evicts; its return is awaited
    is_catching_up: bool = False  # after that
    is_early: bool = False  # the next round comes before the interval is over
    idle: int = 0  # rounds in a row that did nothing

    def after_round(
        self, reasons: Collection[str], *, webhook_is_healthy: bool, has_acted: bool
    ) -> Pace:
        """Return the pace after a round.

        Args:
            reasons: those that stand for any pod.
            webhook_is_healthy: whether its Lease is fresh.
            has_acted: whether any call was accepted.
        """
        if not webhook_is_healthy:
            return Pace(is_webhook_away=True)
        idle = 0 if has_acted else self.idle + 1
        was_held_up = self.is_webhook_away or self.is_catching_up
        is_waiting = has_acted or not _HELD_UP.isdisjoint(reasons)
        is_catching_up = was_held_up and is_waiting and idle < _MOST_IDLE
        is_early = is_catching_up or not _AWAITED.isdisjoint(reasons)
        return Pace(is_catching_up=is_catching_up, is_early=is_early, idle=idle)

    def seconds(self, interval_seconds: float) -> float:
        """Return when the next round begins after the last one."""
        if not self.is_early:
            return interval_seconds
        return min(_FIRST_SECONDS * 2.0 ** min(self.idle, 30), interval_seconds)
