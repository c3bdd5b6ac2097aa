"""End startup boosts as soon as they are due: driven by changes of pods, not by rounds.

Strategy: each change of a boosted pod makes an entry for it. When its look is due, a plan is made
for such pods alone: it says which boosts end now, and when to look at the others again. Of that
plan only the ends of boosts are carried out, as rounds do too. So a pod that got ready is brought
back within moments of its time, while rounds go on.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from app.kube.watch_cache import Transition
from app.model.pods import Pod
from app.model.snapshot import Snapshot
from app.model.vpa import Vpa
from app.updater.core.action_queue import ActionQueue
from app.updater.core.decisions import Action, Reason
from app.updater.core.memory import NOTHING, NamespacedName
from app.updater.core.plan import Plan
from app.updater.core.unboost import (
    NextLook,
    is_news,
    look_after_refusal,
    next_look,
)
from app.updater.state import UpdaterContext
from app.updater.updater import HastyPlans

_PAUSE_SECONDS: Final = 0.25  # how late a change may be noticed
_IDLE_SECONDS: Final = 1.0
_UNTRIED: Final = (Reason.RATE_LIMITED, Reason.PLAN_OUTDATED)  # no call was made
_UNTRIED_PAUSE: Final = timedelta(seconds=_PAUSE_SECONDS)
_SAFETY_PAUSE: Final = timedelta(seconds=10)


@dataclass(frozen=True, slots=True)
class _Entry:
    """When to look at a pod, and how many looks in a row have failed."""

    due_at: float  # by the monotonic clock, for the time of day may be set
    failed: int = 0


class BoostLoop:
    """Ends boosts when they are due; `add` may be called from any thread, `tick` is for a loop."""

    def __init__(
        self,
        context: UpdaterContext,
        plans: HastyPlans,
        workers: int,
    ) -> None:
        self._context, self._clock = context, context.clock
        self._plans = plans
        self._workers = workers
        self._lock = threading.Lock()
        self._entries: dict[NamespacedName, _Entry] = {}
        self._touched: set[str] = set()  # namespaces in which a VPA changed

    # --- entries

    def add(self, changes: Iterable[Transition]) -> None:
        """Take in what happened to pods and VPAs; it is quick."""
        for change in changes:
            if _is_new_spec(change):
                with self._lock:
                    self._touched.add(change.namespace)
            elif isinstance(change.after, Pod) and change.after.is_boosted:
                self._add((change.namespace, change.name), change.before, change.after)

    def _add(self, key: NamespacedName, before: object, after: Pod) -> None:
        is_news_now = (
            not isinstance(before, Pod) or before.uid != after.uid or is_news(before, after)
        )
        with self._lock:
            if is_news_now or key not in self._entries:
                self._entries[key] = _Entry(self._clock.monotonic())

    def refill(self) -> None:
        """Look at every boosted pod again, as after a start."""
        self._refill(self._context.snapshot().namespaces)

    def _refill(self, namespaces: Iterable[str]) -> None:
        """Look at every boosted pod of some namespaces again; pauses that grew stay grown."""
        snapshot, now = self._context.snapshot(), self._clock.monotonic()
        boosted = [
            (namespace, name)
            for namespace in namespaces
            for name, pod in snapshot.of(namespace).pods.items()
            if pod.is_boosted
        ]
        with self._lock:
            for key in boosted:
                known = self._entries.get(key)
                self._entries[key] = _Entry(now, known.failed if known is not None else 0)

    # --- looking

    def tick(self, now: datetime) -> float:
        """Look at the pods that are due; return the seconds until the next look."""
        if not (self._context.may_act() and self._context.is_known()):
            return _IDLE_SECONDS
        with self._lock:
            touched, self._touched = self._touched, set()
        entries: dict[NamespacedName, _Entry] = {}
        try:
            self._refill(touched)
            entries = self._take_due()
            snapshot = self._context.snapshot()
            ready = {key: entry for key, entry in entries.items() if _may_be_due(snapshot, key)}
            if ready:
                self._end_boosts(ready, snapshot, now)
        except Exception:
            self._take_back(touched, entries)
            raise
        return self._pause()

    def _take_back(self, touched: set[str], entries: Mapping[NamespacedName, _Entry]) -> None:
        """Look again at what was not looked at to the end."""
        with self._lock:
            self._touched |= touched
            self._entries = {**entries, **self._entries}

    def _take_due(self) -> dict[NamespacedName, _Entry]:
        now = self._clock.monotonic()
        with self._lock:
            entries = {key: entry for key, entry in self._entries.items() if entry.due_at <= now}
            for key in entries:
                del self._entries[key]
            return entries

    def _pause(self) -> float:
        with self._lock:
            first = min((entry.due_at for entry in self._entries.values()), default=None)
        if first is None:
            return _PAUSE_SECONDS
        return min(max(first - self._clock.monotonic(), 0.0), _PAUSE_SECONDS)

    def _end_boosts(
        self, entries: dict[NamespacedName, _Entry], snapshot: Snapshot, now: datetime
    ) -> None:
        made = self._plans.plan(entries, snapshot, now)
        decisions = {(decision.namespace, decision.pod): decision for decision in made.decisions}
        ending: dict[NamespacedName, _Entry] = {}
        for key, entry in entries.items():
            decision = decisions.get(key)
            if decision is not None and decision.action is Action.UNBOOST:
                ending[key] = entry
            else:
                self._again(key, next_look(decision, entry.failed, now))
        if not ending:
            return
        result = self._plans.carry_out(tuple(_ends_of_boosts(made)), self._workers)
        accepted = result.accepted
        untried = {
            (decision.namespace, decision.pod)
            for decision in result.decisions.values()
            if decision.reason in _UNTRIED
        }
        memory, now = self._plans.memory(), self._clock.now()
        for key, entry in ending.items():
            if key in untried:
                self._again(key, NextLook(_UNTRIED_PAUSE, entry.failed))
            elif key in accepted:
                self._again(key, NextLook(_SAFETY_PAUSE, 0))  # its next change comes earlier
            else:
                pause = memory.pods.get(decisions[key].uid, NOTHING).pause
                self._again(key, look_after_refusal(pause, entry.failed, now))

    def _again(self, key: NamespacedName, look: NextLook | None) -> None:
        """Look again after a while, unless something happened to the pod since."""
        if look is not None:
            due_at = self._clock.monotonic() + look.pause.total_seconds()
            with self._lock:
                self._entries.setdefault(key, _Entry(due_at, look.failed))


def _ends_of_boosts(made: Plan) -> Iterator[ActionQueue]:
    """Yield queues with the ends of boosts alone; a step that needs no slot waits for no other."""
    for queue in made.queues:
        steps = [step for step in queue.steps if step.decision.action is Action.UNBOOST]
        in_turn = tuple(step for step in steps if step.needs_slot)
        if in_turn:
            yield replace(queue, steps=in_turn)
        yield from (replace(queue, steps=(step,)) for step in steps if not step.needs_slot)


def _is_new_spec(change: Transition) -> bool:
    """Whether a VPA came, went, or asks for something else."""
    before, after = change.before, change.after
    if isinstance(before, Vpa) and isinstance(after, Vpa):
        return (before.uid, before.generation) != (after.uid, after.generation)
    return isinstance(before, Vpa) or isinstance(after, Vpa)


def _may_be_due(snapshot: Snapshot, key: NamespacedName) -> bool:
    """Whether a boost can be due at all; a pod that is not ready comes back when it gets ready."""
    pod = snapshot.of(key[0]).pods.get(key[1])
    if pod is None or not pod.is_boosted:
        return False
    return pod.ready is not None or bool(pod.returning_containers)
