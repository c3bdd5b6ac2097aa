"""Carry out a plan: the most urgent step first, one at a time for each owner.

Strategy: each worker takes the most urgent turn, makes its call and puts the walk back; so owners
are served side by side, and no owner twice at a time. Who finds no token is put aside, and nobody
waits for it. A step whose pod or VPA changed since the plan was made is left to the next one. A
place stays taken unless it is known that the pod is where it was.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from math import inf
from typing import Final

from app.model.errors import ClusterError
from app.model.snapshot import Snapshot
from app.ports import Clock
from app.updater.calls import Calls, Doubts, Trials
from app.updater.core.action_queue import ActionQueue, QueueCursor, QueueStep
from app.updater.core.decisions import Decision, Reason, Why
from app.updater.core.memory import Memory
from app.updater.core.outcomes import (
    Outcome,
    RefusalKind,
    eviction_refusal,
    evicts_instead,
    refusal_reason,
    resize_refusal,
)
from app.updater.core.replacements import Trial, after_useless_trial, judge_trial, needs_trial
from app.updater.core.rules import UpdateRules
from app.updater.state import Actor, Entry, Lesson, Notebook
from app.updater.work_queue import RATE_LIMITED, Pace, Turn, Turns, Wait

log = logging.getLogger("updater.executor")

_SLICE_SECONDS: Final = 0.2  # how late a stop may be noticed by who waits for a token
_MOMENT_SECONDS: Final = 0.001  # the least wait, for sums of fractions are never quite right
_DOUBT_SECONDS: Final = 1.0
_OVER = (Reason.RATE_LIMITED, "the round was over before its turn")
_STALE = (Reason.BUDGET_EXHAUSTED, "something else was done for the same owner meanwhile")
_FALLEN = (Reason.BUDGET_EXHAUSTED, "another pod of its owner went down meanwhile")
_WITHOUT_WEBHOOK = (Reason.LEASE_STALE, "the admission webhook gives no sign of life")
_USELESS = (Reason.RECREATED_WITHOUT_CHANGE, "a pod created on trial came back unchanged")
_HIDDEN_BUDGET = (Reason.PDB_BLOCKED, "a PodDisruptionBudget that is not seen refused another pod")


@dataclass(frozen=True, slots=True)
class Job:
    """Queues to carry out, and what they were planned upon."""

    queues: Sequence[ActionQueue]
    snapshot: Snapshot
    actor: Actor
    until: float | None = None  # no step begins later, by the monotonic clock


@dataclass(slots=True)
class Done:
    """What was done, and what became of every decision to do something."""

    outcomes: list[Outcome] = field(default_factory=list)
    decisions: dict[str, Decision] = field(default_factory=dict)  # by uid, as they came out
    limited: list[Decision] = field(default_factory=list)  # for which there was no token

    def tried(self, outcome: Outcome) -> None:
        """Note a call."""
        self.outcomes.append(outcome)
        if outcome.error is None:
            self.decisions[outcome.step.pod.uid] = outcome.step.decision
        else:
            self.put_off(outcome.step, *refusal_reason(outcome.action, outcome.error))

    def put_off(self, step: QueueStep, reason: Reason, message: str) -> None:
        """Note that nothing came of a step."""
        told = f"{step.decision.message}; {message}"
        self.decisions[step.pod.uid] = step.decision.put_off(reason, told)

    def without_turn(self, walk: QueueCursor, why: Why | None = None) -> None:
        """Note the steps of a walk that got no turn."""
        for step, usual in walk.rest():
            if step.pod.uid not in self.decisions:
                self.put_off(step, *(why or usual))


@dataclass(frozen=True, slots=True)
class Doors:
    """What carrying out needs of the world."""

    calls: Calls
    doubts: Doubts
    trials: Trials
    evictions: Pace
    resizes: Pace
    clock: Clock
    snapshot: Callable[[], Snapshot]  # what the watch shows now
    may_act: Callable[[], bool]  # whether we lead, and nobody told us to stop
    may_evict: Callable[[], bool]  # whether the webhook lives
    told: Callable[[Outcome], None]  # as soon as something was tried


class _Work:
    """A job that some workers share."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.turns = Turns(job.queues)
        self.done = Done()
        self.is_over = False  # what is left is not even tried

    def ended(self) -> Done:
        """Return what was done, once all workers have ended."""
        for walk in self.turns.ended:
            self.done.without_turn(walk)
        for walk in self.turns.abandoned:
            self.done.without_turn(walk, _STALE)
        return self.done


class Carrier:
    """Carries out plans with some workers."""

    def __init__(
        self, doors: Doors, notebook: Notebook, rules: UpdateRules, concurrency: int
    ) -> None:
        self._doors = doors
        self._notebook = notebook
        self._rules = rules
        self._concurrency = concurrency

    def carry_out(self, job: Job) -> Done:
        """Do what is possible; return what was done."""
        work = _Work(job)
        workers = min(self._concurrency, len(job.queues))
        if workers <= 1:
            self._work(work)
            return work.ended()
        with ThreadPoolExecutor(workers, "updates") as pool:
            for _ in range(workers):
                pool.submit(self._work, work)
        return work.ended()

    def forget(self) -> None:
        """Begin anew, for others acted meanwhile."""
        self._doors.doubts.forget()
        self._notebook.forget()

    def settle_doubts(self, _now: datetime) -> float:
        """Look what came of calls in doubt; return the seconds until the next look."""
        for lesson in self._doors.doubts.settled() if self._doors.may_act() else ():
            self._notebook.learn(lesson)
            if lesson.outcome is not None:
                self._doors.told(lesson.outcome)
        return _DOUBT_SECONDS

    def _work(self, work: _Work) -> None:
        clock = self._doors.clock
        while True:
            found = work.turns.take(clock.monotonic(), is_over=self._is_over(work))
            if found is None:
                return
            if isinstance(found, float):
                clock.wait(min(found, _SLICE_SECONDS))
                continue
            is_back = False
            try:
                is_back = self._step(work, found)
            except Exception:
                log.exception("a step failed unexpectedly", extra={"pod": found.step.decision.pod})
            if not is_back:
                work.turns.put_back(found)

    def _is_over(self, work: _Work) -> bool:
        doors, until = self._doors, work.job.until
        if (until is not None and doors.clock.monotonic() > until) or not doors.may_act():
            work.is_over = True
        return work.is_over

    def _step(self, work: _Work, turn: Turn) -> bool:
        """Take a step if it may be taken; return whether its turn waits for a token instead."""
        step, namespace = turn.step, turn.queue.namespace
        why = self._hindered(work, turn)
        if why is None:
            wait = self._token(step, namespace)
            if wait is None:
                self._act(work, turn)
                return False
            not_before = self._doors.clock.monotonic() + max(wait.seconds, _MOMENT_SECONDS)
            if not_before < (inf if work.job.until is None else work.job.until):
                work.turns.wait(turn, (step.is_eviction, wait.namespace), not_before)
                return True
            turn.walk.came_to_nothing(step)
            why = self._too_late(work, turn)
        work.done.put_off(step, *why)
        return False

    def _token(self, step: QueueStep, namespace: str) -> Wait | None:
        """Take a token, or return how long there is none; who only takes marks away needs none."""
        change = step.decision.change
        if step.is_eviction:
            return self._doors.evictions.take(namespace)
        return self._doors.resizes.take(namespace) if change and change.containers else None

    def _too_late(self, work: _Work, turn: Turn) -> Why:
        work.done.limited.append(turn.step.decision)
        return RATE_LIMITED

    def _act(self, work: _Work, turn: Turn) -> None:
        step, queue, actor = turn.step, turn.queue, work.job.actor
        entry = self._notebook.enter(step, queue, actor)
        if entry is not Entry.FREE:
            work.done.put_off(step, *_STALE)
            if entry is Entry.STALE:
                work.turns.abandon(turn)
            return
        took_place = step.takes_place
        self._doors.doubts.forget(step.pod)
        try:
            took_place = self._is_still_right(work, turn) and self._call(work, turn)
        finally:
            self._notebook.leave(step, queue, actor, took_place=took_place)

    # --- before a call

    def _is_still_right(self, work: _Work, turn: Turn) -> bool:
        """Whether the step may be taken after all the time that its place and a trial took."""
        if needs_trial(turn.step, self._rules) and self._is_useless(work, turn):
            return False
        why = self._hindered(work, turn) or self._without_room(work, turn)
        if why is not None:
            work.done.put_off(turn.step, *why)
        return why is None

    def _without_room(self, work: _Work, turn: Turn) -> Why | None:
        """Return why a step has lost its place, None if it has not."""
        step, walk, namespace = turn.step, turn.walk, turn.queue.namespace
        now = self._doors.snapshot().of(namespace)
        if now is work.job.snapshot.of(namespace) or walk.has_still_room(step, now.pods):
            return None
        walk.came_to_nothing(step)
        return _FALLEN

    def _hindered(self, work: _Work, turn: Turn) -> Why | None:
        """Return why a step is not taken, None if it is."""
        if self._is_over(work):
            return self._too_late(work, turn) if turn.has_waited else _OVER
        if why := self._changed(work, turn):
            return why
        if turn.step.is_eviction and not self._doors.may_evict():
            turn.walk.came_to_nothing(turn.step)
            return _WITHOUT_WEBHOOK
        return None

    def _changed(self, work: _Work, turn: Turn) -> Why | None:
        """Return what changed since the plan was made so that a step is no longer right."""
        step, now = turn.step, self._doors.snapshot().of(turn.queue.namespace)
        pod = now.pods.get(step.pod.name)
        if pod is None or pod.uid != step.pod.uid or pod.deleted is not None:
            return Reason.POD_TERMINATING, "the pod went meanwhile"
        before = work.job.snapshot.of(turn.queue.namespace).vpas.get(step.decision.vpa)
        vpa = now.vpas.get(step.decision.vpa)
        is_same = vpa is before or (
            vpa is not None
            and before is not None
            and (vpa.uid, vpa.generation, vpa.deleted)
            == (before.uid, before.generation, before.deleted)
        )
        if is_same and pod.labels == step.pod.labels:
            return None
        turn.walk.came_to_nothing(step)
        return Reason.NO_RECOMMENDATION, "its VPA or its labels changed meanwhile"

    def _is_useless(self, work: _Work, turn: Turn) -> bool:
        """Create a pod on trial; tell whether evicting would not help, and let it rest then."""
        step, queue, walk, job = turn.step, turn.queue, turn.walk, work.job
        created = self._doors.trials.created(queue.owner, step.pod)
        if judge_trial(step, created) is not Trial.USELESS:
            return False
        now = self._doors.clock.now()

        def rest(memory: Memory) -> Memory:
            return after_useless_trial(memory, queue, step, job.snapshot, self._rules, now)

        self._notebook.learn(Lesson(change=rest))
        walk.came_to_nothing(step)
        walk.stop_evicting(step.decision.vpa, _USELESS)
        work.done.put_off(step, *_USELESS)
        return True

    # --- the call

    def _call(self, work: _Work, turn: Turn) -> bool:
        """Make the call; tell whether its place stays taken."""
        step, snapshot = turn.step, work.job.snapshot
        now, origin = self._doors.clock.now(), self._notebook.origin()
        change = step.decision.change
        if step.is_eviction or change is None:
            answer = self._doors.calls.evict(step.pod)
        else:
            answer = self._doors.calls.resize(step.pod, change, step.decision.action)
        outcome = Outcome(
            turn.queue,
            step,
            now,
            answer.error,
            answer.generation,
            is_unanswered=answer.is_doubtful,
        )
        self._notebook.learn(Lesson(outcome, snapshot, origin=origin))
        if answer.is_doubtful:
            self._doors.doubts.note(outcome, snapshot, origin)
        work.done.tried(outcome)
        self._doors.told(outcome)
        if answer.error is None or answer.is_gone or answer.is_doubtful:
            return step.takes_place
        turn.walk.came_to_nothing(step)
        self._after_refusal(turn, answer.error)
        return False

    def _after_refusal(self, turn: Turn, error: ClusterError) -> None:
        step, walk = turn.step, turn.walk
        if not step.is_eviction:
            if evicts_instead(resize_refusal(error)):
                walk.evict_later(step)
            return
        if eviction_refusal(error) is RefusalKind.BUDGET:
            walk.close(step.guards)
            if not step.guards:  # one that the watch does not show
                walk.stop_evicting(step.decision.vpa, _HIDDEN_BUDGET)
