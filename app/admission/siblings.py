"""The other VPAs of a namespace, for the check that no two take the same pods.

Strategy: an overlap is found in the watched snapshot. That may be a moment old, so what counts is
read from the API server: in a small namespace the VPAs as a whole, in one with many only those
that seem to overlap, which may be gone. Whatever cannot be read in time is believed as it was
watched, so that frequent questions let nothing in. One list of a namespace is under way
at a time; all who came meanwhile share the next one, which begins after they came.

Reviews of VPAs for the same target go one after the other. A target has a lock only while reviews
hold it or wait for it, so there are never more locks than reviews under way, and none is dropped
while it is in use. What was let pass a moment ago is remembered beside them until no review asks
for it any more. Selectors can be large, so what is remembered is limited, and the targets that
were let pass first make room.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from app.admission.core.overlap import LONGEST_SECONDS, PendingVpas, SiblingsWanted, rivals
from app.admission.core.validate import Phase
from app.admission.metrics import ReviewLimit
from app.model.vpa import Vpa
from app.ports import LimitReached

if TYPE_CHECKING:
    from app.ports import Siblings

log = logging.getLogger("admission.reviews")

_LISTS: Final = 8  # that may be read at the same time
_MOST_VPAS: Final = 100  # of a namespace that is listed
_MOST_POLICIES: Final = 1000  # of all of them
_MOST_ASKED: Final = 3  # VPAs that are read one by one

Stored = tuple[Vpa, ...] | None


class KnownSiblings:
    """Siblings as they are watched, made sure of in the API server; from any thread."""

    def __init__(self, siblings: Siblings, now: Callable[[], float]) -> None:
        self._siblings = siblings
        self._now = now
        self._lists = SharedLists(siblings)

    def beside(self, vpa: Vpa, watched: Sequence[Vpa] | None, until: float) -> Stored:
        """Return the VPAs of a VPA's namespace, None if nothing is known.

        Args:
            vpa: the VPA that is to be written.
            watched: the VPAs of the snapshot, None if not all of it was read.
            until: when there is no time left, on the clock's monotonic scale.
        """
        if watched is None or _are_few(watched):
            stored = self._lists.of(vpa.namespace, until - self._now())
            return stored if stored is not None or watched is None else tuple(watched)
        known = {one.name: one for one in watched}
        found = rivals(vpa, watched)
        for rival in found[:_MOST_ASKED]:
            if self._now() >= until or self._is_stored(rival, vpa, known):
                return tuple(known.values())
        if len(found) > _MOST_ASKED:  # many have gone a moment ago
            stored = self._lists.of(vpa.namespace, until - self._now())
            return tuple(known.values()) if stored is None else stored
        return tuple(known.values())

    def _is_stored(self, rival: Vpa, vpa: Vpa, known: dict[str, Vpa]) -> bool:
        """Whether a watched rival is one still, as far as can be told; correct what is known."""
        try:
            stored = self._siblings.named(rival.namespace, rival.name)
        except Exception:
            log.exception("siblings not read", extra={"namespace": rival.namespace})
            return True
        if stored is None:
            del known[rival.name]
            return False
        known[rival.name] = stored
        return bool(rivals(vpa, [stored]))


def _are_few(vpas: Sequence[Vpa]) -> bool:
    policies = sum(len(one.policies or ()) for one in vpas)
    return len(vpas) <= _MOST_VPAS and policies <= _MOST_POLICIES


class SharedLists:
    """Lists of namespaces, each shared by all who wait for it."""

    def __init__(self, siblings: Siblings) -> None:
        self._siblings = siblings
        self._pool = ThreadPoolExecutor(_LISTS, "siblings")
        self._lock = threading.Lock()
        self._waiting: dict[str, Future[Stored]] = {}  # for lists that have not begun
        self._running: set[str] = set()

    def of(self, namespace: str, wait_seconds: float) -> Stored:
        """Return the VPAs that are stored by now, None if they cannot be had in time."""
        with self._lock:
            asked = self._waiting.get(namespace)
            if asked is None:
                asked = self._waiting[namespace] = Future()
                if namespace not in self._running:
                    self._running.add(namespace)
                    self._pool.submit(self._list, namespace)
        try:
            return asked.result(max(wait_seconds, 0.0))
        except TimeoutError:
            extra = {"namespace": namespace, "error": "no answer in time"}
            log.warning("siblings not read", extra=extra)
            return None

    def _list(self, namespace: str) -> None:
        with self._lock:
            asked = self._waiting.pop(namespace)
        found: Stored = None
        try:
            found = self._siblings.of(namespace)
        except Exception:
            log.exception("siblings not read", extra={"namespace": namespace})
        asked.set_result(found)
        with self._lock:
            if namespace in self._waiting:
                self._pool.submit(self._list, namespace)
            else:
                self._running.discard(namespace)


MOST_PENDING: Final = 50_000  # by the weight of `PendingVpas`: some 10 MB


class TargetKey(NamedTuple):
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
        self._pending: OrderedDict[tuple[TargetKey, Phase], PendingVpas] = OrderedDict()
        self._weight = 0

    def __len__(self) -> int:
        return len(self._pending)

    def add(self, target: TargetKey, phase: Phase, vpa: Vpa, now: float) -> None:
        """Remember a VPA that was accepted; forget those that no review asks for any more."""
        with self._lock:
            before = self._pending.pop((target, phase), PendingVpas())
            after = self._pending[target, phase] = before.adding(vpa, now)
            self._weight += after.weight - before.weight
            self._forget(now)

    def of(self, target: TargetKey, phase: Phase, since: float) -> tuple[Vpa, ...]:
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
        self._targets: dict[TargetKey, _TargetLock] = {}

    def __len__(self) -> int:
        return len(self._targets)

    @contextmanager
    def held(self, wanted: SiblingsWanted, wait_seconds: float) -> Iterator[TargetKey | None]:
        """Hold the lock of a target; None if it did not become free in time."""
        key = TargetKey(wanted.namespace, wanted.kind, wanted.name)
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
