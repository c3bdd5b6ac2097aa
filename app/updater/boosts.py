"""End start-up boosts as soon as they are due: driven by changes of pods, not by rounds.

Strategy: each change of a boosted pod queues the pod; a look at it tells when to look again, or
that its boost ends now. Then a plan is made for these pods alone, and of that plan only the ends
of boosts are carried out. So a pod that got ready is brought back within moments of its time,
while rounds go on.
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
from app.updater.core.decisions import Action, Decision, Reason
from app.updater.core.memory import NamespacedName
from app.updater.core.patching import boosted_containers, pending_containers
from app.updater.core.plan import Plan
from app.updater.core.unboost import (
    BoostStep,
    check_boost,
    pause_after,
    ready_condition,
    resets_pauses,
)
from app.updater.executor import Batch, Executor
from app.updater.state import UpdaterContext, UpdaterState
from app.updater.updater import Planner

_NAME: Final = "boosts"
_PAUSE_SECONDS: Final = 0.25  # how late a change may be noticed
_IDLE_SECONDS: Final = 1.0
_MOMENT_SECONDS: Final = 0.001
_SAFETY_SECONDS: Final = 10.0
_LONGEST_ROUND_SECONDS: Final = 1.0  # so that those that are due meanwhile do not wait


@dataclass(frozen=True, slots=True)
class _Entry:
    """When to look at a pod, and how many pauses in a row it had."""

    due: float  # by the monotonic clock, for the time of day may be set
    count: int = 0


class BoostQueue:
    """The queue of boosted pods; `add` may be called from any thread, `tick` is for a loop."""

    def __init__(
        self,
        context: UpdaterContext,
        planner: Planner,
        executor: Executor,
        state: UpdaterState,
        workers: int,
    ) -> None:
        self._context, self._clock = context, context.clock
        self._planner = planner
        self._executor = executor
        self._state = state
        self._workers = workers
        self._lock = threading.Lock()
        self._entries: dict[NamespacedName, _Entry] = {}
        self._touched: set[str] = set()  # namespaces in which a VPA changed

    # --- what feeds the queue

    def add(self, changes: Iterable[Transition]) -> None:
        """Queue what happened to pods and VPAs; it is quick."""
        for change in changes:
            if _is_new_spec(change):
                with self._lock:
                    self._touched.add(change.namespace)
            elif isinstance(change.after, Pod) and _is_boosted(change.after):
                self._add((change.namespace, change.name), change.before, change.after)

    def _add(self, place: NamespacedName, before: object, after: Pod) -> None:
        is_new = not isinstance(before, Pod) or before.uid != after.uid
        with self._lock:
            if is_new or place not in self._entries or _is_news(before, after):
                self._entries[place] = _Entry(self._clock.monotonic())

    def refill(self) -> None:
        """Look at every boosted pod again, as after a start."""
        self._refill(self._context.snapshot().namespaces)

    def _refill(self, namespaces: Iterable[str]) -> None:
        """Look at every boosted pod of some namespaces again; pauses that grew stay grown."""
        snapshot, now = self._context.snapshot(), self._clock.monotonic()
        places = [
            (namespace, name)
            for namespace in namespaces
            for name, pod in snapshot.of(namespace).pods.items()
            if _is_boosted(pod)
        ]
        with self._lock:
            for place in places:
                known = self._entries.get(place)
                self._entries[place] = _Entry(now, known.count if known is not None else 0)

    # --- looking

    def tick(self, now: datetime) -> float:
        """Look at the pods that are due; return the seconds until the next look."""
        if not (self._context.may_act() and self._context.is_known()):
            return _IDLE_SECONDS
        with self._lock:
            touched, self._touched = self._touched, set()
        due: dict[NamespacedName, _Entry] = {}
        try:
            self._refill(touched)
            due = self._take_due()
            snapshot = self._context.snapshot()
            places = {place: entry for place, entry in due.items() if _may_be_due(snapshot, place)}
            if places:
                self._end_boosts(places, snapshot, now)
        except Exception:
            self._take_back(touched, due)
            raise
        return self._pause()

    def _take_back(self, touched: set[str], due: Mapping[NamespacedName, _Entry]) -> None:
        """Look again at what was not looked at to the end."""
        with self._lock:
            self._touched |= touched
            self._entries = {**due, **self._entries}

    def _take_due(self) -> dict[NamespacedName, _Entry]:
        now = self._clock.monotonic()
        with self._lock:
            due = {place: entry for place, entry in self._entries.items() if entry.due <= now}
            for place in due:
                del self._entries[place]
            return due

    def _pause(self) -> float:
        with self._lock:
            first = min((entry.due for entry in self._entries.values()), default=None)
        if first is None:
            return _PAUSE_SECONDS
        return min(max(first - self._clock.monotonic(), 0.0), _PAUSE_SECONDS)

    def _end_boosts(
        self, places: dict[NamespacedName, _Entry], snapshot: Snapshot, now: datetime
    ) -> None:
        memory, version = self._state.read(_NAME)
        made = self._planner.plan(snapshot, memory, now, only=frozenset(places))
        decisions = {(found.namespace, found.pod): found for found in made.decisions}
        ending = {
            place: entry
            for place, entry in places.items()
            if self._ends(place, entry, decisions.get(place), snapshot, now)
        }
        if not ending:
            return
        until = self._clock.monotonic() + _LONGEST_ROUND_SECONDS
        queues = tuple(_ends_of_boosts(made))
        result = self._executor.carry_out(Batch(queues, snapshot, version, self._workers, until))
        accepted = {
            (outcome.queue.namespace, outcome.step.pod.name)
            for outcome in result.outcomes
            if outcome.error is None
        }
        late = {
            (found.namespace, found.pod)
            for found in result.decisions.values()
            if found.reason is Reason.RATE_LIMITED
        }
        for place, entry in ending.items():
            if place in late:
                self._again(place, _PAUSE_SECONDS, entry.count)
            elif place in accepted:
                self._again(place, _SAFETY_SECONDS, 0)  # its next change comes earlier
            else:
                self._again_after_pause(place, entry)

    def _ends(
        self,
        place: NamespacedName,
        entry: _Entry,
        decision: Decision | None,
        snapshot: Snapshot,
        now: datetime,
    ) -> bool:
        """Whether a boost ends now; if not, queue the next look."""
        view = snapshot.of(place[0])
        vpa = view.vpas.get(decision.vpa) if decision is not None else None
        found = check_boost(view.pods.get(place[1]), vpa, entry.count, now)
        match found.next:
            case BoostStep.FORGET:
                return False
            case BoostStep.WHEN_DUE:
                self._again(place, found.wait.total_seconds() + _MOMENT_SECONDS, 0)
                return False
            case BoostStep.UNBOOST if decision is not None and decision.action is Action.UNBOOST:
                return True
        self._again_after_pause(place, entry, found.wait)
        return False

    def _again_after_pause(
        self, place: NamespacedName, entry: _Entry, pause: timedelta = timedelta()
    ) -> None:
        pause = pause or pause_after(entry.count)
        self._again(place, pause.total_seconds(), entry.count + 1)

    def _again(self, place: NamespacedName, seconds: float, count: int) -> None:
        """Look again after a while, unless something happened to the pod since."""
        due = self._clock.monotonic() + seconds
        with self._lock:
            self._entries.setdefault(place, _Entry(due, count))


def _ends_of_boosts(made: Plan) -> Iterator[ActionQueue]:
    """Yield queues with the ends of boosts alone; a step that takes no place waits for no other."""
    for queue in made.queues:
        steps = [step for step in queue.steps if step.decision.action is Action.UNBOOST]
        in_turn = tuple(step for step in steps if step.takes_place)
        if in_turn:
            yield replace(queue, steps=in_turn)
        yield from (replace(queue, steps=(step,)) for step in steps if not step.takes_place)


def _is_new_spec(change: Transition) -> bool:
    """Whether a VPA came, went, or asks for something else."""
    before, after = change.before, change.after
    if isinstance(before, Vpa) and isinstance(after, Vpa):
        return (before.uid, before.generation) != (after.uid, after.generation)
    return isinstance(before, Vpa) or isinstance(after, Vpa)


def _is_boosted(pod: Pod) -> bool:
    return bool(pod.annotations) and bool(boosted_containers(pod) or pending_containers(pod))


def _is_news(before: object, after: Pod) -> bool:
    """Whether a pod changed so that a look that failed before may succeed now."""
    return isinstance(before, Pod) and (
        resets_pauses(before, after)
        or before.statuses != after.statuses
        or before.phase != after.phase
    )


def _may_be_due(snapshot: Snapshot, place: NamespacedName) -> bool:
    """Whether a pod can be due at all; one that is not ready comes back when it gets ready."""
    pod = snapshot.of(place[0]).pods.get(place[1])
    return pod is not None and (ready_condition(pod) is not None or bool(pending_containers(pod)))
