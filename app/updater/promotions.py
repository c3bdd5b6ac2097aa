"""Resize the pod that begins to lead at once: driven by changes of Leases, not by rounds.

Strategy: when a Lease changes hands, a plan is made for the pod that leads by it alone, and what it
resizes in place is carried out; whatever cannot be done within seconds is left to the rounds. VPAs
are told who leads now, at most once a minute.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from datetime import datetime
from typing import Final

from app.kube.watch_cache import Transition
from app.model.pod_roles import leads
from app.model.snapshot import Snapshot
from app.ports import LEASES
from app.updater.core.decisions import Action
from app.updater.core.memory import NamespacedName
from app.updater.core.role_changes import promotions, role_events
from app.updater.reporter import Reporter
from app.updater.state import UpdaterContext
from app.updater.updater import HastyPlans

_PAUSE_SECONDS: Final = 0.25  # how late a change may be noticed
_TRIED_SECONDS: Final = 30.0  # then it is left to the rounds
_TOLD_SECONDS: Final = 60.0  # between two events about one Lease


class PromotionLoop:
    """Resizes leaders; `add` may be called from any thread, `tick` is for a loop."""

    def __init__(
        self,
        context: UpdaterContext,
        plans: HastyPlans,
        reporter: Reporter,
    ) -> None:
        self._context, self._clock = context, context.clock
        self._plans, self._reporter = plans, reporter
        self._lock = threading.Lock()
        self._changed: set[NamespacedName] = set()  # Leases
        self._leaders: dict[NamespacedName, str] = {}  # uids, by Lease
        self._untold: set[NamespacedName] = set()  # Leases whose VPAs were not told who leads
        self._told_at: dict[NamespacedName, float] = {}
        self._promoted: dict[NamespacedName, float] = {}  # pods, each with when it is given up

    def add(self, changes: Iterable[Transition]) -> None:
        """Note the Leases that changed."""
        found = {(one.namespace, one.name) for one in changes if one.resource == LEASES}
        if found:
            with self._lock:
                self._changed |= found

    def tick(self, now: datetime) -> float:
        """Resize what began to lead; return the seconds until the next look."""
        with self._lock:
            changed, self._changed = self._changed, set()
        if not (changed or self._untold or self._promoted):
            return _PAUSE_SECONDS
        snapshot, moment = self._context.snapshot(), self._clock.monotonic()
        for lease in changed:
            self._note(lease, snapshot, moment)
        if not (self._context.may_act() and self._context.is_known()):
            self._untold.clear()  # another process tells
            return _PAUSE_SECONDS
        self._tell(snapshot, now, moment)
        self._promoted = {key: until for key, until in self._promoted.items() if moment < until}
        if self._promoted:
            self._resize(snapshot, now)
        return _PAUSE_SECONDS

    def _note(self, lease: NamespacedName, snapshot: Snapshot, moment: float) -> None:
        """Note who leads by a Lease now."""
        namespace, name = lease
        view = snapshot.of(namespace)
        leader = view.roles.leaders.get(name)
        if leader is None:
            for kept in (self._leaders, self._told_at):
                kept.pop(lease, None)
            self._untold.discard(lease)
        if leader is None or leader.problem is not None:
            return  # what is not known has not changed
        leaders = [pod for pod in view.pods_by_lease(name) if leads(pod)]
        uid = leaders[0].uid if leaders else ""
        if self._leaders.setdefault(lease, uid) != uid:
            self._leaders[lease] = uid
            self._untold.add(lease)
            if self._context.leads():
                self._context.metrics.role_changed()
        for pod in leaders:
            self._promoted[namespace, pod.name] = moment + _TRIED_SECONDS

    def _tell(self, snapshot: Snapshot, now: datetime, moment: float) -> None:
        for lease in sorted(self._untold):
            if moment - self._told_at.get(lease, float("-inf")) < _TOLD_SECONDS:
                continue
            self._untold.discard(lease)
            self._told_at[lease] = moment
            namespace, name = lease
            events = role_events(snapshot.of(namespace), namespace, name)
            self._reporter.report_roles(events, snapshot, now)

    def _resize(self, snapshot: Snapshot, now: datetime) -> None:
        made = self._plans.plan(self._promoted, snapshot, now)
        waiting = {(one.namespace, one.pod) for one in made.decisions if one.action is Action.WAIT}
        queues = tuple(promotions(made.queues))
        tried = {(queue.namespace, step.pod.name) for queue in queues for step in queue.steps}
        again = waiting | (tried - self._plans.carry_out(queues, len(queues)).accepted)
        self._promoted = {key: end for key, end in self._promoted.items() if key in again}
