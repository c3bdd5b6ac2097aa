"""What the threads that update pods know together: memory, who is being acted upon, last deeds.

Strategy: a plan is made from the memory of one moment while calls go on; what those calls teach
is put on top of the plan's memory afterwards, so nothing is lost. A call begins only if nobody
else acts on its pod, and if no place of its owner was taken by others since its plan was made.
When the clock is set, what is remembered moves along.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import groupby
from typing import Final

from app.model.kinds import ObjectKey
from app.model.snapshot import Snapshot
from app.ports import Clock
from app.updater.core.action_queue import ActionQueue, QueueStep
from app.updater.core.decisions import Action
from app.updater.core.memory import Memory, after_absence, shifted
from app.updater.core.outcomes import Outcome, learn
from app.updater.core.rules import UpdateRules

log = logging.getLogger("updater.state")

Owner = tuple[str, ObjectKey]  # namespace and owner

_UNNOTICED: Final = timedelta(seconds=2)  # clocks are set by so much all the time
_KEPT: Final = timedelta(hours=1)  # the last deed for a pod that is gone


@dataclass(frozen=True, slots=True)
class Deed:
    """The last thing that was done to a pod, or tried."""

    namespace: str
    pod: str
    uid: str
    vpa: str
    action: Action
    at: datetime
    error: str = ""  # empty: it was accepted


@dataclass(frozen=True, slots=True)
class Lesson:
    """Something to be remembered: an outcome with what was planned upon, or a plain change."""

    outcome: Outcome | None = None
    snapshot: Snapshot = field(default_factory=Snapshot)
    change: Callable[[Memory], Memory] | None = None
    origin: datetime | None = None  # of the clock that tells its moments, None for the one now


@dataclass(frozen=True, slots=True)
class _Noted:
    """A lesson, and by which clock its moments are told."""

    lesson: Lesson
    origin: datetime


@dataclass(frozen=True, slots=True)
class Actor:
    """Who acts, and upon the knowledge of which moment."""

    name: str
    mark: int


@dataclass(slots=True)
class _Traces:
    """When who acted upon pods, and when who took places of owners; moments are numbers."""

    pods: dict[str, Actor] = field(default_factory=dict)  # by uid
    owners: dict[Owner, dict[str, int]] = field(default_factory=dict)

    def since(self, mark: int) -> _Traces:
        """Return the traces from after a moment."""
        owners = {
            owner: whens for owner, whens in self.owners.items() if max(whens.values()) > mark
        }
        pods = {uid: actor for uid, actor in self.pods.items() if actor.mark > mark}
        return _Traces(pods, owners)


class Entry(StrEnum):
    """Whether a call may begin."""

    FREE = "free"
    ACTED = "acted"  # somebody acted on the pod since, or does now
    STALE = "stale"  # others took places of its owner since


class Notebook:
    """Memory and order among threads; every method may be called from any of them."""

    def __init__(self, rules: UpdateRules, clock: Clock) -> None:
        self._rules = rules
        self._clock = clock
        self._changed = threading.Condition()
        self._origin = self._begun_origin = self._memory_origin = _origin(clock)
        self._memory = after_absence(Memory())
        self._lessons: list[_Noted] = []  # since the last plan of everything began
        self._learnt = 0  # how many of them are in the memory
        self._count = 0  # moments
        self._begun = 0  # the moment at which the last plan of everything began
        self._traces = _Traces()
        self._busy_pods: set[str] = set()
        self._busy_owners: set[Owner] = set()
        self._deeds: dict[str, Deed] = {}

    # --- memory

    def forget(self) -> None:
        """Begin anew, for others acted meanwhile; what is to rest goes on resting."""
        with self._changed:
            self._memory = after_absence(self._remembered())
            self._lessons, self._learnt = [], 0

    def look(self, name: str) -> tuple[Memory, Actor]:
        """Return the memory now, for a plan about some pods, and who will act upon it."""
        with self._changed:
            return self._remembered(), Actor(name, self._count)

    def begin(self, name: str) -> tuple[Memory, Actor]:
        """Return the memory for a plan about everything; `planned` takes in what it learns."""
        with self._changed:
            memory = self._remembered()
            self._begun_origin = self._origin
            self._lessons, self._learnt = [], 0
            self._traces, self._begun = self._traces.since(self._begun), self._count
            return memory, Actor(name, self._count)

    def planned(self, memory: Memory) -> None:
        """Take over the memory of a plan; what was learnt since it began comes on top."""
        with self._changed:
            self._memory, self._memory_origin, self._learnt = memory, self._begun_origin, 0

    def learn(self, *lessons: Lesson) -> None:
        """Note what is to be remembered."""
        with self._changed:
            self._look_at_clock()
            self._lessons += [_Noted(lesson, lesson.origin or self._origin) for lesson in lessons]
            for lesson in lessons:
                if lesson.outcome is not None:
                    deed = _deed(lesson.outcome)
                    self._deeds[deed.uid] = deed

    def origin(self) -> datetime:
        """Return by which clock moments are told now."""
        with self._changed:
            self._look_at_clock()
            return self._origin

    def _remembered(self) -> Memory:
        self._look_at_clock()
        fresh = self._lessons[self._learnt :]
        self._learnt = len(self._lessons)
        for (_, _, origin), found in groupby(fresh, key=_kind):
            lessons = [noted.lesson for noted in found]
            self._memory = _after(self._told_from(origin), lessons, self._rules)
        self._memory = self._told_from(self._origin)
        return self._memory

    def _told_from(self, origin: datetime) -> Memory:
        """Return the memory as a clock tells it that began at another time of day."""
        memory = shifted(self._memory, origin - self._memory_origin)
        self._memory_origin = origin
        return memory

    def _look_at_clock(self) -> None:
        origin = _origin(self._clock)
        if abs(origin - self._origin) > _UNNOTICED:
            seconds = (origin - self._origin).total_seconds()
            log.warning("the clock was set", extra={"seconds": seconds})
            self._origin = origin

    # --- order

    def enter(self, step: QueueStep, queue: ActionQueue, actor: Actor) -> Entry:
        """Claim a pod, and its owner if a place is taken; unless it is free nothing is claimed."""
        owner, uid = (queue.namespace, queue.owner), step.pod.uid
        with self._changed:
            if step.takes_place:
                self._changed.wait_for(lambda: owner not in self._busy_owners)
            last = self._traces.pods.get(uid, actor)
            if uid in self._busy_pods or (last.name != actor.name and last.mark > actor.mark):
                return Entry.ACTED
            others = self._traces.owners.get(owner, {})
            if step.takes_place and any(
                when > actor.mark for name, when in others.items() if name != actor.name
            ):
                return Entry.STALE
            self._busy_pods.add(uid)
            if step.takes_place:
                self._busy_owners.add(owner)
            return Entry.FREE

    def leave(self, step: QueueStep, queue: ActionQueue, actor: Actor, *, took_place: bool) -> None:
        """Let others act on the pod and its owner again; call it after `learn`."""
        owner = (queue.namespace, queue.owner)
        with self._changed:
            self._count += 1
            self._traces.pods[step.pod.uid] = Actor(actor.name, self._count)
            if took_place:
                self._traces.owners.setdefault(owner, {})[actor.name] = self._count
            self._busy_pods.discard(step.pod.uid)
            if step.takes_place:
                self._busy_owners.discard(owner)
            self._changed.notify_all()

    # --- deeds

    def deeds(self) -> Mapping[str, Deed]:
        """Return the last deed for each pod, by uid."""
        with self._changed:
            return dict(self._deeds)

    def forget_deeds(self, there: Collection[str], now: datetime) -> None:
        """Drop old deeds for pods that are gone; `there` are the uids of the others."""
        with self._changed:
            self._deeds = {
                uid: deed
                for uid, deed in self._deeds.items()
                if uid in there or now - deed.at < _KEPT
            }


def _deed(outcome: Outcome) -> Deed:
    decision = outcome.step.decision
    return Deed(
        decision.namespace,
        decision.pod,
        decision.uid,
        decision.vpa,
        outcome.action,
        outcome.at,
        outcome.error.message if outcome.error is not None else "",
    )


def _origin(clock: Clock) -> datetime:
    """Return the time of day at which the monotonic clock began; it differs once one is set."""
    return clock.now() - timedelta(seconds=clock.monotonic())


def _kind(noted: _Noted) -> tuple[int, bool, datetime]:
    return id(noted.lesson.snapshot), noted.lesson.change is None, noted.origin


def _after(memory: Memory, lessons: Sequence[Lesson], rules: UpdateRules) -> Memory:
    """Return the memory after lessons of one kind."""
    outcomes = [lesson.outcome for lesson in lessons if lesson.outcome is not None]
    if outcomes:
        memory = learn(memory, outcomes, lessons[0].snapshot, rules)
    for lesson in lessons:
        if lesson.change is not None:
            memory = lesson.change(memory)
    return memory
