"""Lets reviews of VPAs for the same target go one after the other.

Strategy: a target has a lock only while reviews hold it or wait for it, so there are never more
locks than reviews under way, and none is dropped while it is in use. What was let pass a moment
ago is remembered beside them until no review asks for it any more. Selectors can be large, so
what is remembered is limited, and the targets that were let pass first make room.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from app.admission.core.overlap import LONGEST_SECONDS, PendingVpas, SiblingsWanted
from app.admission.core.validate import Phase
from app.admission.metrics import ReviewLimit
from app.kube.lookup_limits import LimitReached
from app.model.vpa import Vpa

MOST_PENDING: Final = 50_000  # by the weight of `PendingVpas`: some 10 MB


class Target(NamedTuple):
    """What VPAs point at; API groups are not compared, because an absent one equals any."""

    namespace: str
    kind: str
    name: str


@dataclass(slots=True)
class _TargetLock:
    users: int = 0  # reviews that hold it or wait for it
    lock: threading.Lock = field(default_factory=threading.Lock)


class AcceptedVpas:
    """VPAs that were accepted a moment ago, by target and phase; from any thread.

    A VPA is reviewed twice, and by several processes: what was accepted in the earlier phase alone
    may not be refused in the later one, or of rivals that come at once none would be stored.
    """

    def __init__(self, reached: LimitReached) -> None:
        self._reached = reached
        self._lock = threading.Lock()
        # The longest unchanged first.
        self._pending: OrderedDict[tuple[Target, Phase], PendingVpas] = OrderedDict()
        self._weight = 0

    def __len__(self) -> int:
        return len(self._pending)

    def add(self, target: Target, phase: Phase, vpa: Vpa, now: float) -> None:
        """Remember a VPA that was accepted; forget those that no review asks for any more."""
        with self._lock:
            before = self._pending.pop((target, phase), PendingVpas())
            after = self._pending[target, phase] = before.adding(vpa, now)
            self._weight += after.weight - before.weight
            self._forget(now)

    def of(self, target: Target, phase: Phase, since: float) -> tuple[Vpa, ...]:
        """Return the VPAs that count in a phase beside what was stored at some time."""
        phases = (Phase.VALIDATING,) if phase is Phase.VALIDATING else tuple(Phase)
        with self._lock:
            found = [self._pending.get((target, one), PendingVpas()) for one in phases]
        return tuple(vpa for one in found for vpa in one.pending(since))

    def _forget(self, now: float) -> None:
        while self._pending:
            (target, _), first = next(iter(self._pending.items()))
            if first.pending(now - LONGEST_SECONDS):
                if self._weight <= MOST_PENDING:
                    return
                self._reached(ReviewLimit.PENDING_VPAS, namespace=target.namespace)
            self._weight -= first.weight
            self._pending.popitem(last=False)


class TargetLocks:
    """The locks of targets under review; safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._targets: dict[Target, _TargetLock] = {}

    def __len__(self) -> int:
        return len(self._targets)

    @contextmanager
    def held(self, wanted: SiblingsWanted, wait_seconds: float) -> Iterator[Target | None]:
        """Hold the lock of a target; None if it did not become free in time."""
        key = Target(wanted.namespace, wanted.kind, wanted.name)
        with self._lock:
            target = self._targets.setdefault(key, _TargetLock())
            target.users += 1
        is_ours = target.lock.acquire(timeout=max(wait_seconds, 0.0))
        try:
            yield key if is_ours else None
        finally:
            if is_ours:
                target.lock.release()
            with self._lock:
                target.users -= 1
                if not target.users:
                    del self._targets[key]
