"""What the threads that update pods share: memory, and claims on pods and owners.

Strategy: a plan is made from the memory of one moment while calls go on; what those calls teach
is applied on top of the plan's memory afterwards, so nothing is lost. A call needs a claim: no
other thread acts on its pod, and no other loop disturbed its owner since the plan was made.
When the clock is set, what is remembered moves along.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import groupby
from typing import Final, NamedTuple

from app.model.kinds import ObjectKey
from app.model.snapshot import Snapshot
from app.ports import Clock, Cluster, LimitReached, Owners
from app.updater.core.action_queue import ActionQueue, QueueStep
from app.updater.core.memory import Memory, after_absence, shifted
from app.updater.core.outcomes import Outcome, learn
from app.updater.core.rules import UpdateRules
from app.updater.metrics import UpdaterMetrics

log = logging.getLogger("updater.state")

_UNNOTICED: Final = timedelta(seconds=2)  # clocks are set by so much all the time


@dataclass(frozen=True, slots=True)
class UpdaterContext:
    """What every part of the updater is handed: the cluster, and whether it may act in it."""

    snapshot: Callable[[], Snapshot]  # what the watch shows now
    is_known: Callable[[], bool]  # whether the snapshot is whole
    may_act: Callable[[], bool]  # we lead, watches are not stale, and we are not stopping
    leads: Callable[[], bool]
    owners: Owners
    cluster_for_calls: Callable[[], Cluster]  # they end before another may lead
    reporting: Cluster  # where events and annotations are written
    clock: Clock
    metrics: UpdaterMetrics
    reached: LimitReached


@dataclass(frozen=True, slots=True)
class PlanVersion:
    """Which loop made a plan, in which term, and how many calls were over when it was begun."""

    loop: str
    calls: int
    term: int = 0


class _Learnt(NamedTuple):
    """An outcome to be remembered."""

    boot_time: datetime  # as it was when its moment was read
    outcome: Outcome


class _Change(NamedTuple):
    """A plain change of the memory."""

    boot_time: datetime  # as it was when its moments were read
    apply: Callable[[Memory], Memory]


class _LastCall(NamedTuple):
    """The last call for a pod."""

    loop: str
    number: int  # in the order in which calls ended


class ClaimResult(StrEnum):
    """Whether a call may begin."""

    GRANTED = "granted"
    POD_TAKEN = "pod taken"  # another call acts on the pod, or did since the plan was made
    # Another loop, or another process that led meanwhile, may have disturbed its owner.
    OWNER_CHANGED = "owner changed"


class UpdaterState:
    """Memory and order among threads; every method may be called from any of them."""

    def __init__(self, rules: UpdateRules, clock: Clock) -> None:
        self._rules = rules
        self._clock = clock
        self._changed = threading.Condition()
        self._boot_time = self._begun_boot_time = self._memory_boot_time = _boot_time(clock)
        self._term = self._begun_term = 0  # now, and when the last plan of everything was begun
        self._memory = after_absence(Memory())
        self._updates: list[_Learnt | _Change] = []  # since the last plan of everything began
        self._applied = 0  # how many of them are in the memory
        self._calls = 0  # that are over
        self._calls_before = 0  # the last plan of everything
        self._last_on_pod: dict[str, _LastCall] = {}  # by uid
        # The number of the last call of each loop that took a slot of an owner.
        self._last_on_owner: dict[tuple[str, ObjectKey], dict[str, int]] = {}
        self._busy_pods: set[str] = set()
        self._busy_owners: set[tuple[str, ObjectKey]] = set()

    # --- memory

    def forget(self) -> None:
        """Begin again, because another process led meanwhile, with `after_absence`.

        A plan that was begun before claims nothing any more, and teaches nothing.
        """
        with self._changed:
            self._term += 1
            self._memory = after_absence(self._remembered())
            self._updates, self._applied = [], 0

    def read(self, loop: str) -> tuple[Memory, PlanVersion]:
        """Return the memory now, for a plan about some pods, and the version of that plan."""
        with self._changed:
            return self._remembered(), PlanVersion(loop, self._calls, self._term)

    def begin_plan(self, loop: str) -> tuple[Memory, PlanVersion]:
        """Return the same for a plan about everything; `finish_plan` takes what it learns."""
        with self._changed:
            memory = self._remembered()
            self._begun_boot_time = self._boot_time
            self._updates, self._applied = [], 0
            self._drop_calls(self._calls_before)
            self._calls_before = self._calls
            self._begun_term = self._term
            return memory, PlanVersion(loop, self._calls, self._term)

    def finish_plan(self, memory: Memory) -> None:
        """Take over the memory of a plan; what was recorded since it began comes on top."""
        with self._changed:
            if self._begun_term == self._term:
                self._memory, self._memory_boot_time, self._applied = (
                    memory,
                    self._begun_boot_time,
                    0,
                )

    def record(self, outcome: Outcome, boot_time: datetime) -> None:
        """Remember an outcome; `boot_time` is what it was when `outcome.at` was read."""
        with self._changed:
            self._updates.append(_Learnt(boot_time, outcome))

    def change(self, apply: Callable[[Memory], Memory], boot_time: datetime) -> None:
        """Change the memory; `boot_time` is what it was when the moments in it were read."""
        with self._changed:
            self._updates.append(_Change(boot_time, apply))

    def boot_time(self) -> datetime:
        """Return the wall clock less the monotonic one: another time once the clock is set.

        What was read before that is shifted by the difference.
        """
        with self._changed:
            self._check_clock()
            return self._boot_time

    def _remembered(self) -> Memory:
        self._check_clock()
        fresh = self._updates[self._applied :]
        self._applied = len(self._updates)
        for (boot_time, _), updates in groupby(fresh, key=_batch):
            self._memory = _updated(self._shifted_to(boot_time), list(updates), self._rules)
        self._memory = self._shifted_to(self._boot_time)
        return self._memory

    def _shifted_to(self, boot_time: datetime) -> Memory:
        """Return the memory with its moments by a clock with this boot time."""
        memory = shifted(self._memory, boot_time - self._memory_boot_time)
        self._memory_boot_time = boot_time
        return memory

    def _check_clock(self) -> None:
        boot_time = _boot_time(self._clock)
        if abs(boot_time - self._boot_time) > _UNNOTICED:
            seconds = (boot_time - self._boot_time).total_seconds()
            log.warning("the clock was set", extra={"seconds": seconds})
            self._boot_time = boot_time

    # --- claims

    def claim(self, step: QueueStep, queue: ActionQueue, plan_version: PlanVersion) -> ClaimResult:
        """Claim a pod, and its owner if a slot is taken; unless granted nothing is claimed."""
        owner, uid = (queue.namespace, queue.owner), step.pod.uid
        with self._changed:
            if step.needs_slot:
                self._changed.wait_for(lambda: owner not in self._busy_owners)
            if plan_version.term != self._term:
                return ClaimResult.OWNER_CHANGED
            last = self._last_on_pod.get(uid)
            if uid in self._busy_pods or (
                last is not None
                and last.loop != plan_version.loop
                and last.number > plan_version.calls
            ):
                return ClaimResult.POD_TAKEN
            if step.needs_slot and any(
                number > plan_version.calls
                for loop, number in self._last_on_owner.get(owner, {}).items()
                if loop != plan_version.loop
            ):
                return ClaimResult.OWNER_CHANGED
            self._busy_pods.add(uid)
            if step.needs_slot:
                self._busy_owners.add(owner)
            return ClaimResult.GRANTED

    def release(
        self, step: QueueStep, queue: ActionQueue, plan_version: PlanVersion, *, took_slot: bool
    ) -> None:
        """Let others act on the pod and its owner again; call it after `record`."""
        owner = (queue.namespace, queue.owner)
        with self._changed:
            self._calls += 1
            self._last_on_pod[step.pod.uid] = _LastCall(plan_version.loop, self._calls)
            if took_slot:
                self._last_on_owner.setdefault(owner, {})[plan_version.loop] = self._calls
            self._busy_pods.discard(step.pod.uid)
            if step.needs_slot:
                self._busy_owners.discard(owner)
            self._changed.notify_all()

    def _drop_calls(self, until: int) -> None:
        """Forget calls that were over before every plan that is still carried out."""
        self._last_on_pod = {
            uid: last for uid, last in self._last_on_pod.items() if last.number > until
        }
        self._last_on_owner = {
            owner: last for owner, last in self._last_on_owner.items() if max(last.values()) > until
        }


def _boot_time(clock: Clock) -> datetime:
    """Return the time of day at which the monotonic clock began."""
    return clock.now() - timedelta(seconds=clock.monotonic())


def _batch(update: _Learnt | _Change) -> tuple[datetime, int]:
    """Return what is equal for outcomes that are learnt together; a change stands alone."""
    return update.boot_time, 0 if isinstance(update, _Learnt) else id(update)


def _updated(memory: Memory, batch: Sequence[_Learnt | _Change], rules: UpdateRules) -> Memory:
    match batch[0]:
        case _Change(_, apply):
            return apply(memory)
        case _Learnt():
            outcomes = [update.outcome for update in batch if isinstance(update, _Learnt)]
            return learn(memory, outcomes, rules)
