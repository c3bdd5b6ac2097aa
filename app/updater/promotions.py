"""Resize the pod that begins to lead at once: driven by who leads, not by rounds.

Strategy: when another pod leads by a Lease, which may be one that took the name of the last, a plan
is made for it alone, and what it resizes in place is carried out; whatever cannot be done within
seconds is left to the rounds. VPAs are told who leads now, at most once a minute.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Final

from app.model.pod_roles import NO_ROLES, Roles, leads
from app.model.snapshot import Snapshot
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
    """Resizes leaders; `tick` is for a loop."""

    def __init__(
        self,
        context: UpdaterContext,
        plans: HastyPlans,
        reporter: Reporter,
    ) -> None:
        self._context, self._clock = context, context.clock
        self._plans, self._reporter = plans, reporter
        self._seen = Snapshot()
        self._roles: Mapping[str, Roles] = {}  # as they were, by namespace
        self._leaders: dict[NamespacedName, str] = {}  # uids, by Lease
        self._untold: set[NamespacedName] = set()  # Leases whose VPAs were not told who leads
        self._told_at: dict[NamespacedName, float] = {}
        self._promoted: dict[NamespacedName, float] = {}  # pods, each with when it is given up

    def tick(self, now: datetime) -> float:
        """Resize what began to lead; return the seconds until the next look."""
        snapshot, moment = self._context.snapshot(), self._clock.monotonic()
        for lease in self._changed(snapshot):
            self._note(lease, snapshot, moment)
        if not (self._untold or self._promoted):
            return _PAUSE_SECONDS
        if not (self._context.may_act() and self._context.is_known()):
            self._untold.clear()  # another process tells
            return _PAUSE_SECONDS
        self._tell(snapshot, now, moment)
        self._promoted = {key: until for key, until in self._promoted.items() if moment < until}
        if self._promoted:
            self._resize(snapshot, now)
        return _PAUSE_SECONDS

    def _changed(self, snapshot: Snapshot) -> Iterator[NamespacedName]:
        """Yield the Leases by which something else is known of who leads than in the last look."""
        if snapshot is self._seen:
            return
        views = snapshot.namespaces.items()
        roles = {name: view.roles for name, view in views if view.roles is not NO_ROLES}
        before, self._roles, self._seen = self._roles, roles, snapshot
        for namespace in before.keys() | roles.keys():
            was, now = (one.get(namespace, NO_ROLES).leaders for one in (before, roles))
            if was is not now:
                leases = was.keys() | now.keys()
                yield from ((namespace, one) for one in leases if was.get(one) != now.get(one))

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
