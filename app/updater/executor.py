"""Carry out a plan: the most urgent step first, one at a time for each owner.

Strategy: each worker takes the most urgent item, makes its call and puts the cursor back; so owners
are served side by side, and no owner twice at a time. A step without a token is put aside and
delays no other. A step whose pod or VPA changed since the plan was made is left to the next plan.
A place stays taken unless it is known that the pod is where it was.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from app.model.errors import ClusterError
from app.model.snapshot import Snapshot
from app.updater.calls import PodCalls, UnconfirmedCalls, dry_run_pod
from app.updater.core.action_queue import ActionQueue, QueueCursor, QueueStep
from app.updater.core.decisions import Decision, Reason, Why
from app.updater.core.memory import Memory
from app.updater.core.outcomes import (
    Outcome,
    RefusalKind,
    after_useless_trial,
    eviction_refusal,
    evicts_instead,
    is_useless,
    needs_trial,
    refusal_reason,
    resize_refusal,
)
from app.updater.core.rules import UpdateRules
from app.updater.report import Reporter
from app.updater.state import ClaimResult, PlanVersion, StateUpdate, UpdaterContext, UpdaterState
from app.updater.webhook_lease import WebhookLease
from app.updater.work_queue import (
    RATE_LIMITED,
    RateLimiter,
    RateLimits,
    TokenWait,
    WorkItem,
    WorkQueue,
)

log = logging.getLogger("updater.executor")

_SLICE_SECONDS: Final = 0.2  # how late a worker that waits for a token may notice a stop
_MOMENT_SECONDS: Final = 0.001  # the least wait, because sums of fractions are never quite right
_UNCONFIRMED_SECONDS: Final = 1.0
_OVER = (Reason.RATE_LIMITED, "the round was over before its turn")
_STALE = (Reason.BUDGET_EXHAUSTED, "something else was done for the same owner meanwhile")
_FALLEN = (Reason.BUDGET_EXHAUSTED, "another pod of its owner went down meanwhile")
_WITHOUT_WEBHOOK = (Reason.LEASE_STALE, "the admission webhook gives no sign of life")
_USELESS = (Reason.RECREATED_WITHOUT_CHANGE, "a pod created on trial came back unchanged")
_HIDDEN_BUDGET = (Reason.PDB_BLOCKED, "a PodDisruptionBudget that is not seen refused another pod")
_CHANGED = (Reason.NO_RECOMMENDATION, "its VPA or its labels changed meanwhile")
_GONE = (Reason.POD_TERMINATING, "the pod went meanwhile")


@dataclass(frozen=True, slots=True)
class Batch:
    """Queues to carry out, and what they were planned upon."""

    queues: Sequence[ActionQueue]
    snapshot: Snapshot
    plan: PlanVersion
    workers: int  # calls at the same time
    until: float  # no step begins later, by the monotonic clock


@dataclass(slots=True)
class BatchResult:
    """What was done, and what became of every decision to do something."""

    outcomes: list[Outcome] = field(default_factory=list)
    decisions: dict[str, Decision] = field(default_factory=dict)  # by uid, as they came out
    limited: list[Decision] = field(default_factory=list)  # for which there was no token

    def add(self, outcome: Outcome) -> None:
        """Add a call."""
        self.outcomes.append(outcome)
        if outcome.error is None:
            self.decisions[outcome.step.pod.uid] = outcome.step.decision
        else:
            self.put_off(outcome.step, *refusal_reason(outcome.action, outcome.error))

    def put_off(self, step: QueueStep, reason: Reason, message: str) -> None:
        """Add that nothing came of a step."""
        message = f"{step.decision.message}; {message}"
        self.decisions[step.pod.uid] = step.decision.put_off(reason, message)

    def add_rest(self, cursor: QueueCursor, why: Why | None = None) -> None:
        """Add the steps of a cursor that were never next."""
        for step, usual in cursor.rest():
            if step.pod.uid not in self.decisions:
                self.put_off(step, *(why or usual))


class _Run:
    """A batch that is carried out, shared by its workers."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self.work = WorkQueue(batch.queues)
        self.result = BatchResult()
        self.is_over = False  # what is left is not even tried


class Executor:
    """Carries out the batches of every loop, side by side."""

    def __init__(
        self,
        context: UpdaterContext,
        rules: UpdateRules,
        limits: RateLimits,
        state: UpdaterState,
        lease: WebhookLease,
        reporter: Reporter,
    ) -> None:
        self._context, self._clock = context, context.clock
        self._rules = rules
        self._state = state
        self._lease = lease
        self._reporter = reporter
        self._calls = PodCalls(context.acting)
        self._unconfirmed = UnconfirmedCalls(self._calls, rules, context)
        self._evictions = RateLimiter(limits, self._clock)
        self._resizes = RateLimiter(limits, self._clock)

    def carry_out(self, batch: Batch) -> BatchResult:
        """Do what is possible; return what was done."""
        run = _Run(batch)
        workers = min(batch.workers, len(batch.queues))
        if workers <= 1:
            self._work(run)
        else:
            with ThreadPoolExecutor(workers, "updates") as pool:
                for _ in range(workers):
                    pool.submit(self._work, run)
        for cursor in run.work.ended:
            run.result.add_rest(cursor)
        for cursor in run.work.abandoned:
            run.result.add_rest(cursor, _STALE)
        return run.result

    def forget(self) -> None:
        """Begin again, because another process led meanwhile."""
        self._unconfirmed.forget()
        self._state.forget()

    def settle_unconfirmed(self, _now: datetime) -> float:
        """Find out what came of calls without an answer; return the seconds until the next look."""
        for update in self._unconfirmed.settled() if self._context.may_act() else ():
            self._state.record(update)
            if update.outcome is not None:
                self._reporter.report_call(update.outcome, self._context.snapshot())
        return _UNCONFIRMED_SECONDS

    def _work(self, run: _Run) -> None:
        while True:
            item = run.work.get(self._clock.monotonic(), is_over=self._is_over(run))
            if item is None:
                return
            if isinstance(item, float):
                self._clock.wait(min(item, _SLICE_SECONDS))
                continue
            is_aside = False
            try:
                is_aside = self._step(run, item)
            except Exception:
                log.exception("a step failed unexpectedly", extra={"pod": item.step.decision.pod})
            if not is_aside:
                run.work.put_back(item)

    def _is_over(self, run: _Run) -> bool:
        if self._clock.monotonic() > run.batch.until or not self._context.may_act():
            run.is_over = True
        return run.is_over

    def _step(self, run: _Run, item: WorkItem) -> bool:
        """Take a step if it may be taken; return whether it waits for a token instead."""
        step, namespace = item.step, item.queue.namespace
        why = self._blocker(run, item)
        if why is None:
            wait = self._take_token(step, namespace)
            if wait is None:
                self._act(run, item)
                return False
            not_before = self._clock.monotonic() + max(wait.seconds, _MOMENT_SECONDS)
            if not_before < run.batch.until:
                run.work.wait(item, (step.is_eviction, wait.namespace), not_before)
                return True
            item.cursor.came_to_nothing(step)
            why = self._without_token(run, step)
        run.result.put_off(step, *why)
        return False

    def _take_token(self, step: QueueStep, namespace: str) -> TokenWait | None:
        """Take a token, or return how long there is none; removing marks alone needs none."""
        change = step.decision.change
        if step.is_eviction:
            return self._evictions.take(namespace)
        return self._resizes.take(namespace) if change and change.containers else None

    def _without_token(self, run: _Run, step: QueueStep) -> Why:
        run.result.limited.append(step.decision)
        return RATE_LIMITED

    def _act(self, run: _Run, item: WorkItem) -> None:
        step, queue, plan = item.step, item.queue, run.batch.plan
        claim = self._state.claim(step, queue, plan)
        if claim is not ClaimResult.GRANTED:
            run.result.put_off(step, *_STALE)
            if claim is ClaimResult.OWNER_CHANGED:
                run.work.abandon(item)
            return
        took_place = step.needs_slot
        self._unconfirmed.forget(step.pod)
        try:
            took_place = self._is_still_right(run, item) and self._call(run, item)
        finally:
            self._state.release(step, queue, plan, took_place=took_place)

    # --- before a call

    def _is_still_right(self, run: _Run, item: WorkItem) -> bool:
        """Whether the step may be taken after all the time that its claim and a trial took."""
        if needs_trial(item.step, self._rules) and self._is_useless(run, item):
            return False
        why = self._blocker(run, item) or self._without_room(run, item)
        if why is not None:
            run.result.put_off(item.step, *why)
        return why is None

    def _without_room(self, run: _Run, item: WorkItem) -> Why | None:
        """Return why a step has lost its place, None if it has not."""
        step, cursor, namespace = item.step, item.cursor, item.queue.namespace
        now = self._context.snapshot().of(namespace)
        if now is run.batch.snapshot.of(namespace) or cursor.has_still_room(step, now.pods):
            return None
        cursor.came_to_nothing(step)
        return _FALLEN

    def _blocker(self, run: _Run, item: WorkItem) -> Why | None:
        """Return why a step is not taken, None if it is."""
        if self._is_over(run):
            return self._without_token(run, item.step) if item.has_waited else _OVER
        if why := self._changed(run, item):
            return why
        if item.step.is_eviction and not self._lease.is_fresh():
            item.cursor.came_to_nothing(item.step)
            return _WITHOUT_WEBHOOK
        return None

    def _changed(self, run: _Run, item: WorkItem) -> Why | None:
        """Return what changed since the plan was made so that a step is no longer right."""
        step, namespace = item.step, item.queue.namespace
        before, now = run.batch.snapshot.of(namespace), self._context.snapshot().of(namespace)
        pod = now.pods.get(step.pod.name)
        if pod is None or pod.uid != step.pod.uid or pod.deleted is not None:
            return _GONE
        was, vpa = before.vpas.get(step.decision.vpa), now.vpas.get(step.decision.vpa)
        is_same = vpa is was or (
            vpa is not None
            and was is not None
            and (vpa.uid, vpa.generation, vpa.deleted) == (was.uid, was.generation, was.deleted)
        )
        if is_same and pod.labels == step.pod.labels:
            return None
        item.cursor.came_to_nothing(step)
        return _CHANGED

    def _is_useless(self, run: _Run, item: WorkItem) -> bool:
        """Create a pod on trial; return whether evicting would not help, and pause it then."""
        step, queue, cursor = item.step, item.queue, item.cursor
        created = dry_run_pod(self._context.acting(), queue.owner, step.pod)
        if not is_useless(step, created):
            return False
        now = self._clock.now()

        def pause(memory: Memory) -> Memory:
            return after_useless_trial(memory, queue, step, self._rules, now)

        self._state.record(StateUpdate(change=pause))
        cursor.came_to_nothing(step)
        cursor.stop_evicting(step.decision.vpa, _USELESS)
        run.result.put_off(step, *_USELESS)
        return True

    # --- the call

    def _call(self, run: _Run, item: WorkItem) -> bool:
        """Make the call; return whether its place stays taken."""
        step = item.step
        now, origin = self._clock.now(), self._state.clock_origin()
        change = step.decision.change
        if step.is_eviction or change is None:
            found = self._calls.evict(step.pod)
        else:
            found = self._calls.resize(step.pod, change, step.decision.action)
        outcome = Outcome(
            item.queue,
            step,
            now,
            found.error,
            found.generation,
            is_unanswered=found.is_unconfirmed,
        )
        self._state.record(StateUpdate(outcome, origin=origin))
        if found.is_unconfirmed:
            self._unconfirmed.add(outcome, origin)
        run.result.add(outcome)
        self._reporter.report_call(outcome, self._context.snapshot())
        if found.error is None or found.is_gone or found.is_unconfirmed:
            return step.needs_slot
        item.cursor.came_to_nothing(step)
        _after_refusal(item, found.error)
        return False


def _after_refusal(item: WorkItem, error: ClusterError) -> None:
    step, cursor = item.step, item.cursor
    if not step.is_eviction:
        if evicts_instead(resize_refusal(error)):
            cursor.evict_later(step)
        return
    if eviction_refusal(error) is RefusalKind.BUDGET:
        cursor.close(step.pdbs)
        if not step.pdbs:  # one that the watch does not show
            cursor.stop_evicting(step.decision.vpa, _HIDDEN_BUDGET)
