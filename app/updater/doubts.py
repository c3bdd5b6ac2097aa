"""Calls in doubt: nobody saw whether they were carried out, so it is looked again.

Strategy: what the watch shows to be done is done. For some seconds a call may still be on its way
to be carried out; after that the pod itself tells, as soon as it can be read. If it never can, the
watch is believed when it had time enough to show more. So a workload waits no longer than the API
server is silent. Looking may take long, so it is done in a loop of its own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Final

from app.model.pods import Pod
from app.model.snapshot import Snapshot
from app.ports import Clock
from app.updater.calls import Answer, Calls, seen_in
from app.updater.core.decisions import PodChange
from app.updater.core.outcomes import Outcome, undone
from app.updater.core.rules import UpdateRules
from app.updater.notebook import Lesson

_SETTLED_SECONDS: Final = 15.0  # then a call without an answer is not carried out any more


@dataclass(frozen=True, slots=True, eq=False)
class _Doubt:
    """A call in doubt, what it was planned upon, and since when."""

    outcome: Outcome
    snapshot: Snapshot
    origin: datetime  # of the clock by which the outcome tells its moment
    since: float  # by the monotonic clock

    @property
    def pod(self) -> Pod:
        return self.outcome.step.pod

    @property
    def change(self) -> PodChange | None:
        return self.outcome.step.decision.change


class Doubts:
    """Remembers calls in doubt; all but `settled` may be called from any thread."""

    def __init__(
        self, calls: Calls, rules: UpdateRules, clock: Clock, snapshot: Callable[[], Snapshot]
    ) -> None:
        self._calls = calls
        self._lag_seconds = rules.watch_lag.total_seconds()
        self._clock = clock
        self._snapshot = snapshot
        self._lock = threading.Lock()
        self._doubts: list[_Doubt] = []  # what was asked about last is at the end

    def note(self, outcome: Outcome, snapshot: Snapshot, origin: datetime) -> None:
        """Remember a call that failed, but may have been carried out."""
        with self._lock:
            self._doubts.append(_Doubt(outcome, snapshot, origin, self._clock.monotonic()))

    def forget(self, pod: Pod | None = None) -> None:
        """Forget doubts about a pod, for something else is done to it now, or all of them."""
        with self._lock:
            self._doubts = [
                doubt for doubt in self._doubts if pod is not None and doubt.pod.uid != pod.uid
            ]

    def settled(self) -> Iterator[Lesson]:
        """Yield what came of the calls that can be told by now; each is forgotten once learnt.

        When one pod cannot be read, the others are judged by the watch alone until next time.
        """
        may_ask = True
        for doubt in self._open():
            answer = self._shown(doubt)
            if answer is None and may_ask and self._age_seconds(doubt) >= _SETTLED_SECONDS:
                answer = self._calls.seen(doubt.pod, doubt.change)
                if answer is None:
                    may_ask = False
                    self._remove(doubt, to_end=True)
            if answer is not None:
                yield _lesson(doubt, answer)
                self._remove(doubt)
                if answer.error is None and doubt.change is not None:
                    self._calls.leave_marks(doubt.pod, doubt.change)

    def _open(self) -> list[_Doubt]:
        with self._lock:
            return list(self._doubts)

    def _remove(self, doubt: _Doubt, *, to_end: bool = False) -> None:
        with self._lock:
            if doubt in self._doubts:
                self._doubts.remove(doubt)
                self._doubts += [doubt] if to_end else []

    def _age_seconds(self, doubt: _Doubt) -> float:
        return self._clock.monotonic() - doubt.since

    def _shown(self, doubt: _Doubt) -> Answer | None:
        """Return what the watch tells; what it shows undone may be yet to be seen for a while."""
        found = self._snapshot().of(doubt.pod.namespace).pods.get(doubt.pod.name)
        answer = seen_in(found if found and found.uid == doubt.pod.uid else None, doubt.change)
        is_final = answer.error is None or answer.is_gone
        return answer if is_final or self._age_seconds(doubt) >= self._lag_seconds else None


def _lesson(doubt: _Doubt, answer: Answer) -> Lesson:
    if answer.error is None:
        done = replace(doubt.outcome, error=None, generation=answer.generation)
        return Lesson(done, doubt.snapshot, origin=doubt.origin)
    return Lesson(change=partial(undone, outcome=doubt.outcome), origin=doubt.origin)
