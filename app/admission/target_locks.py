"""Lets reviews of VPAs for the same target go one after the other.

Strategy: a lock for each target that is asked about, and with it what was let pass there a moment
ago. Locks that are not needed any more are cleared away when they become many.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from app.admission.core.overlap import LONGEST_SECONDS, PendingVpas, SiblingsWanted
from app.admission.core.validate import Phase
from app.model.vpa import Vpa

_MOST_IDLE: Final = 1000


class TargetLock:
    """What the reviews of one target share.

    A VPA is reviewed twice, and by several processes: what was accepted in the earlier phase alone
    may not be refused in the later one, or of rivals that come at once none would be stored.
    """

    def __init__(self) -> None:
        self._claims = dict.fromkeys(Phase, PendingVpas())
        self.users = 0  # reviews that hold it or wait for it
        self.lock = threading.Lock()

    def claim(self, vpa: Vpa, phase: Phase, now: float) -> None:
        """Remember a VPA that was accepted."""
        self._claims[phase] = self._claims[phase].adding(vpa, now)

    def claims(self, phase: Phase, since: float) -> tuple[Vpa, ...]:
        """Return the accepted VPAs that count in a phase beside what was stored at some time."""
        found = self._claims[Phase.VALIDATING].pending(since)
        return found if phase is Phase.VALIDATING else found + self._claims[phase].pending(since)


class TargetLocks:
    """The locks of all targets; safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._targets: dict[tuple[str, str, str], TargetLock] = {}

    @contextmanager
    def held(
        self, wanted: SiblingsWanted, now: float, wait_seconds: float
    ) -> Iterator[TargetLock | None]:
        """Hold the lock of a target; None if it did not become free in time."""
        target = self._used((wanted.namespace, wanted.kind, wanted.name), now)
        is_ours = target.lock.acquire(timeout=max(wait_seconds, 0.0))
        try:
            yield target if is_ours else None
        finally:
            if is_ours:
                target.lock.release()
            with self._lock:
                target.users -= 1

    def __len__(self) -> int:
        return len(self._targets)

    def _used(self, key: tuple[str, str, str], now: float) -> TargetLock:
        with self._lock:
            if len(self._targets) > _MOST_IDLE:
                self._targets = {
                    one: target
                    for one, target in self._targets.items()
                    if target.users or target.claims(Phase.MUTATING, now - LONGEST_SECONDS)
                }
            target = self._targets.setdefault(key, TargetLock())
            target.users += 1
            return target
