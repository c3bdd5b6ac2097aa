"""Carry out a plan: the most urgent step first, one at a time for each owner.

Strategy: each worker takes the most urgent item, makes its call and puts the cursor back; so owners
are served side by side, and no owner twice at a time. A step without a token is put aside and
delays no other. A step whose pod or VPA changed since the plan was made is left to the next plan.
The slot of a step that comes to nothing goes to another one. It stays taken where the pod may be
down, where another action may have taken it, and where no other step is tried any more.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Final

from app.model.errors import BadObject, ClusterError, NotSent, TooMany, Unavailable
from app.model.snapshot import NamespaceView, Snapshot
from app.ports import POD_METRICS, Ref
from app.updater.calls import PodCalls, UnconfirmedCalls, dry_run_pod
from app.updater.core.action_queue import ActionQueue, QueueCursor, QueueStep
from app.updater.core.decisions import Action, Decision, Reason, Why
from app.updater.core.memory import Memory, NamespacedName
from app.updater.core.outcomes import (
    Outcome,
    RefusalKind,
    after_useless_trial,
    came_back_unchanged,
    eviction_refusal,
    evicts_instead,
    needs_trial,
    refusal_reason,
    resize_refusal,
)
from app.updater.core.proposals import why_paused
from app.updater.core.role_changes import keeps_role, lowers, used_beyond
from app.updater.core.rules import UpdateRules
from app.updater.reporter import Reporter
from app.updater.state import ClaimResult, PlanVersion, UpdaterContext, UpdaterState
from app.updater.watches import WebhookLease
from app.updater.work_queue import (
    RATE_LIMITED,
    RateLimiter,
    RateLimits,
    TokenWait,
    WorkItem,
    WorkQueue,
)

log = logging.getLogger("updater.executor")

_MOMENT_SECONDS: Final = 0.001  # the least wait, because sums of fractions are never quite right
_HIDDEN_PDB = (
    Reason.PDB_BLOCKED,
    "a PodDisruptionBudget that is not in the watch cache refused another pod",
)


@dataclass(frozen=True, slots=True)
class Skip:
    """Why a step is not taken."""

    reason: Reason
    message: str
    frees_slot: bool = True  # another step may have it
    lacks_token: bool = False


_OVER = Skip(Reason.RATE_LIMITED, "the round ended before its turn", frees_slot=False)
_NO_TOKEN = Skip(*RATE_LIMITED, lacks_token=True)
_NO_TOKEN_BEFORE_END = replace(_NO_TOKEN, frees_slot=False)
_STOPPED = Skip(
    Reason.PLAN_OUTDATED,
    "the updater does not lead any more, or does not see the cluster",
    frees_slot=False,
)
_POD_TAKEN = Skip(
    Reason.PLAN_OUTDATED, "another action was taken on the pod meanwhile", frees_slot=False
)
_OWNER_CHANGED = Skip(
    Reason.PLAN_OUTDATED, "another action was taken on its workload meanwhile", frees_slot=False
)
_WITHOUT_WEBHOOK = Skip(Reason.LEASE_STALE, "the Lease of the admission webhook is not renewed")
_USELESS = Skip(
    Reason.RECREATED_WITHOUT_CHANGE, "a pod created by a server-side dry run came back unchanged"
)
_CHANGED = Skip(Reason.PLAN_OUTDATED, "its VPA, its labels or its role changed meanwhile")
_GONE = Skip(Reason.POD_TERMINATING, "the pod is gone", frees_slot=False)


@dataclass(frozen=True, slots=True)
class Batch:
    """Queues to carry out, and what they were planned upon."""

    queues: Sequence[ActionQueue]
    snapshot: Snapshot
    plan_version: PlanVersion
    workers: int  # calls at the same time
    until: float  # no step begins later, by the monotonic clock


@dataclass(slots=True)
class BatchResult:
    """What was done, and what became of every decision to do something."""

    outcomes: list[Outcome] = field(default_factory=list)
    decisions: dict[str, Decision] = field(default_factory=dict)  # by uid, as they came out
    limited: list[Decision] = field(default_factory=list)  # for which there was no token

    @property
    def accepted(self) -> frozenset[NamespacedName]:
        """The pods whose calls were accepted."""
        return frozenset(
            (outcome.queue.namespace, outcome.step.pod.name)
            for outcome in self.outcomes
            if outcome.error is None
        )

    def add(self, outcome: Outcome) -> None:
        """Add a call."""
        self.outcomes.append(outcome)
        if outcome.error is None:
            self.decisions[outcome.step.pod.uid] = outcome.step.decision.done()
        else:
            self.put_off(outcome.step, *refusal_reason(outcome.action, outcome.error))

    def skip(self, item: WorkItem, skip: Skip) -> None:
        """Add that a step is not taken."""
        if skip.frees_slot:
            item.cursor.came_to_nothing(item.step)
        if skip.lacks_token:
            self.limited.append(item.step.decision)
        self.put_off(item.step, skip.reason, skip.message)

    def add_unexpected(self, step: QueueStep) -> None:
        """Add a step at which our own code failed, unless it is known what came of it."""
        if step.pod.uid not in self.decisions:
            reason = Reason.EVICTION_ERROR if step.is_eviction else Reason.RESIZE_ERROR
            self.put_off(step, reason, "internal error: see the log of the updater")

    def put_off(self, step: QueueStep, reason: Reason, message: str) -> None:
        """Add that nothing came of a step."""
        self.decisions[step.pod.uid] = step.decision.put_off(reason, message)

    def add_rest(self, cursor: QueueCursor, why: Why | None = None) -> None:
        """Add the steps of a cursor that were never next."""
        for step, usual in cursor.rest():
            if step.pod.uid not in self.decisions:
                self.put_off(step, *(why or usual))


class _Run:
    """A batch that is carried out, shared by its workers."""

    def __init__(self, batch: Batch, context: UpdaterContext) -> None:
        self.batch = batch
        self.result = BatchResult()
        self.end: Skip | None = None  # why what is left is not even tried
        self._context = context
        self.work = WorkQueue(batch.queues, context.clock, self.is_over)

    def is_over(self) -> bool:
        """Whether what is left is not even tried; once it is over it stays so."""
        if self.end is None and not self._context.may_act():
            self.end = _STOPPED
        elif self.end is None and self._context.clock.monotonic() > self.batch.until:
            self.end = _OVER
        return self.end is not None


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
        self._calls = PodCalls(context.cluster_for_calls)
        self.unconfirmed = UnconfirmedCalls(self._calls, state, reporter, context, rules)
        self._evictions = RateLimiter(limits, self._clock)
        self._resizes = RateLimiter(limits, self._clock)

    def carry_out(self, batch: Batch) -> BatchResult:
        """Do what is possible; return what was done."""
        run = _Run(batch, self._context)
        workers = min(batch.workers, len(batch.queues))
        if workers <= 1:
            self._work(run)
        else:
            with ThreadPoolExecutor(workers, "updates") as pool:
                for _ in range(workers):
                    pool.submit(self._work, run)
        for cursor in run.work.cursors:
            run.result.add_rest(cursor)
        return run.result

    def forget(self) -> None:
        """Begin again, because another process led meanwhile."""
        self.unconfirmed.clear()
        self._state.forget()

    def _work(self, run: _Run) -> None:
        while (item := run.work.take()) is not None:
            try:
                self._step(run, item)
            except Exception:
                log.exception("a step failed unexpectedly", extra={"pod": item.step.decision.pod})
                run.result.add_unexpected(item.step)
                run.work.put_back(item)

    def _step(self, run: _Run, item: WorkItem) -> None:
        """Take a step if it may be taken now, unless it has to wait for a token."""
        skip = self._why_not_now(run, item)
        if skip is _OVER and item.has_waited:
            skip = _NO_TOKEN_BEFORE_END
        if skip is None and (wait := self._take_token(item.step, item.cursor.queue.namespace)):
            not_before = self._clock.monotonic() + max(wait.seconds, _MOMENT_SECONDS)
            if not_before < run.batch.until:
                run.work.wait(item, (item.step.is_eviction, wait.namespace), not_before)
                return
            skip = _NO_TOKEN
        skip = skip or self._act(run, item)
        if skip is not None:
            run.result.skip(item, skip)
        if skip is _OWNER_CHANGED:  # the rest of its queue was planned for the owner as it was
            run.result.add_rest(item.cursor, (skip.reason, skip.message))
        else:
            run.work.put_back(item)

    def _take_token(self, step: QueueStep, namespace: str) -> TokenWait | None:
        """Take a token, or return how long there is none; annotations alone need none."""
        change = step.decision.change
        if step.is_eviction:
            return self._evictions.take(namespace)
        return self._resizes.take(namespace) if change and change.is_resize else None

    def _act(self, run: _Run, item: WorkItem) -> Skip | None:
        """Claim the pod, look a last time and make the call; return why it was not made."""
        step, queue, plan_version = item.step, item.cursor.queue, run.batch.plan_version
        claim = self._state.claim(step, queue, plan_version)
        if claim is not ClaimResult.GRANTED:
            return _OWNER_CHANGED if claim is ClaimResult.OWNER_CHANGED else _POD_TAKEN
        took_slot = step.needs_slot
        try:
            skip = self._trial(item) or self._usage(item.step) or self._last_look(run, item)
            took_slot = skip is None and self._call(run, item)
        except NotSent as error:  # nor would the rest be
            took_slot = False
            run.end = run.end or replace(_STOPPED, message=f"not sent: {error.message}")
            return run.end
        else:
            return skip
        finally:
            self._state.release(step, queue, plan_version, took_slot=took_slot)

    # --- before a call

    def _trial(self, item: WorkItem) -> Skip | None:
        """Create a pod on trial where needed; if evicting would not help, pause that and say so."""
        step, queue = item.step, item.cursor.queue
        if not needs_trial(step, self._rules):
            return None
        created = dry_run_pod(self._context.cluster_for_calls(), queue.owner, step.pod)
        if not came_back_unchanged(step, created):
            return None
        now = self._clock.now()

        def pause(memory: Memory) -> Memory:
            return after_useless_trial(memory, queue, step, self._rules, now)

        self._state.change(pause, self._state.boot_time())
        item.cursor.stop_evicting(step.decision.vpa, (_USELESS.reason, _USELESS.message))
        return _USELESS

    def _usage(self, step: QueueStep) -> Skip | None:
        """Return that a former leader may still use more than it would get.

        Where usage may not be read, or is not measured, nothing speaks against it.
        """
        if not lowers(step):
            return None
        pod = Ref(POD_METRICS, step.pod.namespace, step.pod.name)
        try:
            why = used_beyond(step, self._context.cluster_for_calls().get(pod))
        except NotSent:
            raise
        except (Unavailable, TooMany) as error:
            message = f"it follows, and what it uses is not known: {error}"
            return Skip(Reason.ROLE_SETTLING, message)
        except (ClusterError, BadObject) as error:
            log.debug("usage not read", extra={"pod": step.pod.name, "error": str(error)})
            return None
        return Skip(*why) if why is not None else None

    def _last_look(self, run: _Run, item: WorkItem) -> Skip | None:
        """Return why a step is not taken after all the time that its claim and a trial took."""
        if skip := self._why_not_now(run, item):
            return skip
        before, now = self._views(run, item)
        if now is before:
            return None
        item.cursor.recount(now.pods)
        lost = item.cursor.why_slot_is_lost(item.step)
        return Skip(*lost) if lost is not None else None

    def _why_not_now(self, run: _Run, item: WorkItem) -> Skip | None:
        """Return why a step is not taken, None if it is."""
        if run.is_over():
            return run.end
        if skip := self._changed(run, item):
            return skip
        if item.step.is_eviction and not self._lease.is_fresh():
            return _WITHOUT_WEBHOOK
        return None

    def _changed(self, run: _Run, item: WorkItem) -> Skip | None:
        """Return what changed since the plan was made so that a step is no longer right."""
        step, (before, now) = item.step, self._views(run, item)
        pod = now.pods.get(step.pod.name)
        if pod is None or pod.uid != step.pod.uid or pod.deleted is not None:
            return _GONE
        was, vpa = before.vpas.get(step.decision.vpa), now.vpas.get(step.decision.vpa)
        if vpa is not None and step.decision.action is not Action.UNBOOST:
            paused = why_paused(vpa, self._context.snapshot().paused_namespaces)
            if paused is not None:
                return Skip(*paused)
        is_same = vpa is was or (
            vpa is not None
            and was is not None
            and (vpa.uid, vpa.generation, vpa.deleted) == (was.uid, was.generation, was.deleted)
        )
        return None if is_same and keeps_role(step.pod, pod) else _CHANGED

    def _views(self, run: _Run, item: WorkItem) -> tuple[NamespaceView, NamespaceView]:
        """Return the namespace of a step as it was planned upon and as it is."""
        namespace = item.cursor.queue.namespace
        return run.batch.snapshot.of(namespace), self._context.snapshot().of(namespace)

    # --- the call

    def _call(self, run: _Run, item: WorkItem) -> bool:
        """Make the call; return whether its slot stays taken."""
        step = item.step
        now, boot_time = self._clock.now(), self._state.boot_time()
        change = step.decision.change
        with self.unconfirmed.replaced(step.pod):
            if step.is_eviction:
                found = self._calls.evict(step.pod)
            elif change is None:
                raise ValueError(f"nothing to write: {step.decision.message}")
            else:
                found = self._calls.resize(step.pod, change, step.decision.action)
        outcome = Outcome(
            item.cursor.queue,
            step,
            now,
            found.error,
            found.generation,
            is_unanswered=found.is_unconfirmed,
        )
        self._state.record(outcome, boot_time)
        if found.is_unconfirmed:
            self.unconfirmed.add(outcome, boot_time)
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
    if eviction_refusal(error) is RefusalKind.PDB:
        cursor.close(step.pdbs)
        if not step.pdbs:  # one that the watch does not show
            cursor.stop_evicting(step.decision.vpa, _HIDDEN_PDB)
