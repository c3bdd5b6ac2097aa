"""Calls in doubt: nobody saw whether they were carried out, so it is looked again.

Strategy: for some seconds a call may still be on its way to be carried out; after that the pod
itself tells, as soon as it can be read. What was done is learnt late, what was not is forgotten,
so that a workload waits no longer than the API server is silent.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from app.core.updating.memory import Memory, with_pods
from app.core.updating.outcomes import Outcome
from app.core.updating.rules import UpdateRules
from app.model.pods import Pod
from app.model.snapshot import Snapshot
from app.ports import Clock
from app.workers.calls import Calls
from app.workers.notebook import Lesson

_SETTLED_SECONDS: Final = 15.0  # then a call without an answer is not carried out any more


@dataclass(frozen=True, slots=True)
class _Doubt:
    """A call in doubt, what it was planned upon, and since when."""

    outcome: Outcome
    snapshot: Snapshot
    since: float


class Doubts:
    """Remembers calls in doubt; safe to use from many threads."""

    def __init__(self, calls: Calls, rules: UpdateRules, clock: Clock) -> None:
        self._calls = calls
        self._longest_seconds = rules.watch_lag.total_seconds()  # then all is forgotten anyway
        self._clock = clock
        self._lock = threading.Lock()
        self._doubts: list[_Doubt] = []

    def note(self, outcome: Outcome, snapshot: Snapshot) -> None:
        """Remember a call that failed, but may have been carried out."""
        with self._lock:
            self._doubts.append(_Doubt(outcome, snapshot, self._clock.monotonic()))

    def settled(self) -> Iterator[Lesson]:
        """Look at the pods again; yield what came of the calls that can be told by now."""
        while (doubt := self._next()) is not None:
            step = doubt.outcome.step
            answer = self._calls.again(step.pod, step.decision.change)
            if answer is None:
                with self._lock:
                    self._doubts.insert(0, doubt)
                return
            if answer.error is None:
                done = replace(doubt.outcome, error=None, generation=answer.generation)
                yield Lesson(done, doubt.snapshot)
            else:
                yield Lesson(change=_undone(step.pod, doubt.outcome))

    def _next(self) -> _Doubt | None:
        now = self._clock.monotonic()
        with self._lock:
            while self._doubts and now - self._doubts[0].since >= _SETTLED_SECONDS:
                doubt = self._doubts.pop(0)
                if now - doubt.since < self._longest_seconds:
                    return doubt
        return None


def _undone(pod: Pod, outcome: Outcome) -> Callable[[Memory], Memory]:
    """Return what forgets that a call may have been carried out."""

    def undone(memory: Memory) -> Memory:
        found = memory.of(pod)
        if found.evicted == outcome.at:
            found = replace(found, evicted=None)
        if found.resized is not None and found.resized.at == outcome.at:
            found = replace(found, resized=None)
        return with_pods(memory, {pod.uid: found})

    return undone
