"""Carry out a plan: the most urgent step first, one at a time for each owner.

Strategy: walks wait in a heap by the urgency of their next step, and each worker takes the most
urgent one, makes its call and puts it back; so owners are served side by side, and no owner
twice at a time. A step whose pod or VPA changed since the plan was made is left to the next one.
A place stays taken unless it is known that the pod is where it was.
"""

from __future__ import annotations

import heapq
import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from app.core.updating.carrying import NO_RANK, Queue, Rank, Step, Walk
from app.core.updating.decisions import Decision, Reason, Why
from app.core.updating.failures import (
    Aftermath,
    after_eviction,
    after_resize,
    evicts_instead,
    refusal,
)
from app.core.updating.memory import Memory
from app.core.updating.outcomes import Outcome
from app.core.updating.rules import UpdateRules
from app.core.updating.trials import Trial, after_useless_trial, judge_trial, needs_trial
from app.model.errors import ClusterError
from app.model.snapshot import Snapshot
from app.ports import Clock
from app.workers.calls import Answer, Calls, doubt
from app.workers.notebook import Actor, Entry, Lesson, Notebook
from app.workers.pace import RATE_LIMITED, Pace
from app.workers.trials import Trials

log = logging.getLogger(__name__)

_OVER = (Reason.RATE_LIMITED, "the round was over before its turn")
_STALE = (Reason.BUDGET_EXHAUSTED, "something else was done for the same owner meanwhile")
_WITHOUT_WEBHOOK = (Reason.LEASE_STALE, "the admission webhook gives no sign of life")
_USELESS = (Reason.RECREATED_WITHOUT_CHANGE, "a pod created on trial came back unchanged")
_HIDDEN_BUDGET = (Reason.PDB_BLOCKED, "a PodDisruptionBudget that is not seen refused another pod")


@dataclass(frozen=True, slots=True)
class Job:
    """Queues to carry out, and what they were planned upon."""

    queues: Sequence[Queue]
    snapshot: Snapshot
    actor: Actor
    until: datetime | None = None  # no step begins later


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
            self.put_off(outcome.step, *refusal(outcome.action, outcome.error))

    def put_off(self, step: Step, reason: Reason, message: str) -> None:
        """Note that nothing came of a step."""
        told = f"{step.decision.message}; {message}"
        self.decisions[step.pod.uid] = step.decision.put_off(reason, told)

    def without_turn(self, walk: Walk, why: Why | None = None) -> None:
        """Note the steps of a walk that got no turn."""
        for step, usual in walk.rest():
            if step.pod.uid not in self.decisions:
                self.put_off(step, *(why or usual))


@dataclass(frozen=True, slots=True)
class Doors:
    """What carrying out needs of the world."""

    calls: Calls
    trials: Trials
    evictions: Pace
    resizes: Pace
    clock: Clock
    snapshot: Callable[[], Snapshot]  # what the watch shows now
    may_act: Callable[[], bool]  # whether we lead, and nobody told us to stop
    may_evict: Callable[[], bool]  # whether the webhook lives
    told: Callable[[Outcome], None]  # as soon as something was tried


class _Turn(NamedTuple):
    """The next step of a walk, its place taken already."""

    rank: tuple[int, Rank]
    number: int
    walk: Walk
    queue: Queue
    step: Step


class _Work:
    """Walks that wait for their turn; shared by the workers."""

    def __init__(self, job: Job, *, plain_order: bool) -> None:
        self.job = job
        self.done = Done()
        self.is_over = False  # what is left is not even tried
        self._plain_order = plain_order
        self._lock = threading.Lock()
        self._waiting: list[_Turn] = []
        self._abandoned: set[int] = set()
        for number, queue in enumerate(job.queues):
            self._put(number, Walk(queue), queue)

    def take(self) -> _Turn | None:
        """Return the most urgent turn, None if no walk waits."""
        with self._lock:
            return heapq.heappop(self._waiting) if self._waiting else None

    def put_back(self, turn: _Turn) -> None:
        """Let a walk go on."""
        with self._lock:
            if turn.number in self._abandoned:
                self.done.without_turn(turn.walk, _STALE)
            else:
                self._put(turn.number, turn.walk, turn.queue)

    def abandon(self, turn: _Turn) -> None:
        """Let a walk end here."""
        with self._lock:
            self._abandoned.add(turn.number)

    def _put(self, number: int, walk: Walk, queue: Queue) -> None:
        step = walk.next()
        if step is None:
            self.done.without_turn(walk)
            return
        rank = (number, NO_RANK) if self._plain_order else (0, step.rank)
        heapq.heappush(self._waiting, _Turn(rank, number, walk, queue, step))


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
        work = _Work(job, plain_order=self._rules.upstream.plain_order)
        workers = min(self._concurrency, len(job.queues))
        if workers <= 1:
            self._work(work)
            return work.done
        with ThreadPoolExecutor(workers, "updates") as pool:
            for _ in range(workers):
                pool.submit(self._work, work)
        return work.done

    def _work(self, work: _Work) -> None:
        while (turn := work.take()) is not None:
            try:
                self._step(work, turn)
            except Exception:
                log.exception("a step failed unexpectedly", extra={"pod": turn.step.decision.pod})
            work.put_back(turn)

    def _step(self, work: _Work, turn: _Turn) -> None:
        step, queue, actor = turn.step, turn.queue, work.job.actor
        why = self._hindered(work, turn)
        if why is not None:
            work.done.put_off(step, *why)
            return
        entry = self._notebook.enter(step, queue, actor)
        if entry is not Entry.FREE:
            work.done.put_off(step, *_STALE)
            if entry is Entry.STALE:
                work.abandon(turn)
            return
        took_place = step.takes_place
        try:
            is_useless = needs_trial(step, self._rules) and self._is_useless(work, turn)
            took_place = not is_useless and self._call(work, turn)
        finally:
            self._notebook.leave(step, queue, actor, took_place=took_place)

    # --- before a call

    def _hindered(self, work: _Work, turn: _Turn) -> Why | None:
        """Return why a step is not taken, None if it is."""
        doors, step, until = self._doors, turn.step, work.job.until
        is_late = until is not None and doors.clock.now() > until
        if work.is_over or is_late or not doors.may_act():
            work.is_over = True
            return _OVER
        if why := self._changed(work, turn):
            return why
        pace = doors.evictions if step.is_eviction else doors.resizes
        if not pace.take(turn.queue.namespace, until):
            turn.walk.came_to_nothing(step)
            work.is_over = self._rules.upstream.stops_at_rate_limit
            work.done.limited.append(step.decision)
            return RATE_LIMITED
        if why := self._changed(work, turn):  # while it waited
            return why
        if step.is_eviction and not doors.may_evict():
            turn.walk.came_to_nothing(step)
            return _WITHOUT_WEBHOOK
        return None

    def _changed(self, work: _Work, turn: _Turn) -> Why | None:
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

    def _is_useless(self, work: _Work, turn: _Turn) -> bool:
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

    def _call(self, work: _Work, turn: _Turn) -> bool:
        """Make the call; tell whether its place stays taken."""
        step, job, now = turn.step, work.job, self._doors.clock.now()
        change = step.decision.change
        if step.is_eviction or change is None:
            answer = self._doors.calls.evict(step.pod)
        else:
            answer = self._doors.calls.resize(step.pod, change, step.decision.action)
        outcome = Outcome(turn.queue, step, now, answer.error, answer.generation)
        lessons = [Lesson(outcome, job.snapshot)]
        if answer.is_doubtful and not self._rules.upstream.budget_per_vpa:
            lessons.append(Lesson(change=doubt(step.pod, change, now)))
        self._notebook.learn(*lessons)
        work.done.tried(outcome)
        self._doors.told(outcome)
        if answer.error is None or answer.is_gone or self._counts_as_done(answer):
            return step.takes_place
        turn.walk.came_to_nothing(step)
        self._after_refusal(turn, answer.error)
        return False

    def _counts_as_done(self, answer: Answer) -> bool:
        return answer.is_doubtful and not self._rules.upstream.evicts_on_any_resize_error

    def _after_refusal(self, turn: _Turn, error: ClusterError) -> None:
        step, walk, rules = turn.step, turn.walk, self._rules
        if not step.is_eviction:
            if evicts_instead(after_resize(error), rules):
                walk.evict_later(step)
            return
        is_held = after_eviction(error) is Aftermath.BUDGET
        if is_held and not rules.upstream.ignores_disruption_budgets:
            walk.close(step.guards)
            if not step.guards:  # one that the watch does not show
                walk.stop_evicting(step.decision.vpa, _HIDDEN_BUDGET)
