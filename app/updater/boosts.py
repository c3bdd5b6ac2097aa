"""End start-up boosts as soon as they are due: driven by changes of pods, not by rounds.

Strategy: whatever happens to a boosted pod puts it into a queue; a look at it tells when to look
again, or that it is to be brought back now. Then a plan is made for these pods alone, and of that
plan only the ends of boosts are carried out. So a pod that got ready is brought back within
moments of its time, while rounds go on beside.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, NamedTuple

from app.model.pods import Pod
from app.model.snapshot import Snapshot
from app.model.vpa import Vpa
from app.ports import Clock
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
from app.updater.executor import Carrier, Job
from app.updater.state import Notebook
from app.updater.updater import Decider, Sight

_NAME: Final = "boosts"
_PAUSE_SECONDS: Final = 0.25  # how late a change may be noticed
_IDLE_SECONDS: Final = 1.0
_MOMENT_SECONDS: Final = 0.001
_SAFETY_SECONDS: Final = 10.0
_LONGEST_ROUND_SECONDS: Final = 1.0  # those that come to be due meanwhile shall not wait


class Change(NamedTuple):
    """A pod or VPA before and after; None where there was or is none."""

    namespace: str
    name: str
    before: object
    after: object


@dataclass(frozen=True, slots=True)
class _Entry:
    """When to look at a pod, and how many pauses in a row it had."""

    due: float  # by the monotonic clock, for the time of day may be set
    count: int = 0


class Boosts:
    """The queue of boosted pods; `note` may be called from any thread, `tick` is for a loop."""

    def __init__(
        self,
        decider: Decider,
        carrier: Carrier,
        notebook: Notebook,
        snapshot: Callable[[], Snapshot],
        is_active: Callable[[], bool],
        clock: Clock,
    ) -> None:
        self._decider = decider
        self._carrier = carrier
        self._notebook = notebook
        self._snapshot = snapshot
        self._is_active = is_active
        self._clock = clock
        self._lock = threading.Lock()
        self._entries: dict[NamespacedName, _Entry] = {}
        self._touched: set[str] = set()  # namespaces in which a VPA changed

    # --- what feeds the queue

    def note(self, changes: Iterable[Change]) -> None:
        """Take in what happened to pods and VPAs; it is quick."""
        for change in changes:
            if _is_new_spec(change):
                with self._lock:
                    self._touched.add(change.namespace)
            elif isinstance(change.after, Pod) and _is_boosted(change.after):
                self._note((change.namespace, change.name), change.before, change.after)

    def _note(self, place: NamespacedName, before: object, after: Pod) -> None:
        is_new = not isinstance(before, Pod) or before.uid != after.uid
        with self._lock:
            if is_new or place not in self._entries or _is_news(before, after):
                self._entries[place] = _Entry(self._clock.monotonic())

    def refill(self) -> None:
        """Look at every boosted pod again, as after a start."""
        self._put(self._snapshot().namespaces)

    def _put(self, namespaces: Iterable[str]) -> None:
        """Look at every boosted pod of some namespaces again; pauses that grew stay grown."""
        snapshot, now = self._snapshot(), self._clock.monotonic()
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
        if not self._is_active():
            return _IDLE_SECONDS
        with self._lock:
            touched, self._touched = self._touched, set()
        due: dict[NamespacedName, _Entry] = {}
        try:
            self._put(touched)
            due = self._take()
            snapshot = self._snapshot()
            places = {place: entry for place, entry in due.items() if _may_be_due(snapshot, place)}
            if places:
                self._look(places, snapshot, now)
        except Exception:
            self._take_back(touched, due)
            raise
        return self._pause()

    def _take_back(self, touched: set[str], due: Mapping[NamespacedName, _Entry]) -> None:
        """Look again at what was not looked at to the end."""
        with self._lock:
            self._touched |= touched
            self._entries = {**due, **self._entries}

    def _take(self) -> dict[NamespacedName, _Entry]:
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

    def _look(
        self, places: dict[NamespacedName, _Entry], snapshot: Snapshot, now: datetime
    ) -> None:
        memory, actor = self._notebook.look(_NAME)
        made = self._decider.plan(Sight(snapshot, only=frozenset(places)), memory, now)
        decisions = {(found.namespace, found.pod): found for found in made.decisions}
        ending = {
            place: entry
            for place, entry in places.items()
            if self._ends(place, entry, decisions.get(place), snapshot, now)
        }
        if not ending:
            return
        until = self._clock.monotonic() + _LONGEST_ROUND_SECONDS
        done = self._carrier.carry_out(Job(tuple(ends_of_boosts(made)), snapshot, actor, until))
        accepted = {
            (outcome.queue.namespace, outcome.step.pod.name)
            for outcome in done.outcomes
            if outcome.error is None
        }
        late = {
            (found.namespace, found.pod)
            for found in done.decisions.values()
            if found.reason is Reason.RATE_LIMITED
        }
        for place, entry in ending.items():
            if place in late:
                self._again(place, _PAUSE_SECONDS, entry.count)
            elif place in accepted:
                self._again(place, _SAFETY_SECONDS, 0)  # its next change comes earlier
            else:
                pause = pause_after(entry.count)
                self._again(place, pause.total_seconds(), entry.count + 1)

    def _ends(
        self,
        place: NamespacedName,
        entry: _Entry,
        decision: Decision | None,
        snapshot: Snapshot,
        now: datetime,
    ) -> bool:
        """Whether a boost ends now; if not, note when to look again."""
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
        pause = found.wait or pause_after(entry.count)
        self._again(place, pause.total_seconds(), entry.count + 1)
        return False

    def _again(self, place: NamespacedName, seconds: float, count: int) -> None:
        """Look again after a while, unless something happened to the pod since."""
        due = self._clock.monotonic() + seconds
        with self._lock:
            self._entries.setdefault(place, _Entry(due, count))


def ends_of_boosts(made: Plan) -> Iterator[ActionQueue]:
    """Yield queues with the ends of boosts alone; who takes no place waits for nobody."""
    for queue in made.queues:
        steps = [step for step in queue.steps if step.decision.action is Action.UNBOOST]
        in_turn = tuple(step for step in steps if step.takes_place)
        if in_turn:
            yield replace(queue, steps=in_turn)
        yield from (replace(queue, steps=(step,)) for step in steps if not step.takes_place)


def _is_new_spec(change: Change) -> bool:
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
