"""What the updater watches, how well it is known, and whether the admission webhook is alive.

Strategy: pods, VPAs and workloads are needed; what only helps is done without while there is no
right to read it, because the roles of others may not include it.

An eviction relies on the webhook to size the next pod, so a Lease that is stale, absent
or cannot be read holds evictions back. One missed answer of the API server does not. A heartbeat
from a clock ahead of ours is fresh for the timeout after it was first seen.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from math import inf
from typing import Final, NamedTuple

from app.flags.shared import Horizontal, Scope
from app.kube.watched_resources import (
    WatchedResource,
    watched_namespaces,
    watched_scalers,
    watched_vpas,
    watched_workloads,
)
from app.model.errors import BadObject, ClusterError, TooMany, Unavailable
from app.model.fields import object_at, time_at
from app.model.limits import read_disruption_budget, read_limit_range, read_node
from app.model.pods import read_pod, read_pod_without_sidecars
from app.model.snapshot import Collection
from app.model.text import span
from app.model.times import later
from app.ports import (
    LEASES,
    LIMIT_RANGES,
    NODES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    Clock,
    Cluster,
    Json,
    LimitReached,
    Ref,
    Resource,
)
from app.runtime.live import Connection, Runtime, WatchedCluster
from app.updater.core.proof import Outage
from app.updater.core.rules import is_fresh
from app.updater.flags import AdmissionCheck, Deciding
from app.updater.metrics import LeaseTrouble

log = logging.getLogger("updater.watches")
lease_log = logging.getLogger("updater.webhook_lease")

_LIVE_PODS: Final = "status.phase!=Succeeded,status.phase!=Failed"
_LOOKUP_SECONDS: Final = 3.0


class ClusterWatch(WatchedCluster):
    """The cluster as it is watched, and owners that are looked up."""

    def __init__(
        self,
        watched: Cluster,
        named: Cluster,
        asked: Connection,
        runtime: Runtime,
        reached: LimitReached,
        *,
        scope: Scope,
        deciding: Deciding,
    ) -> None:
        watches = sources(
            scope.namespace,
            native_sidecars=deciding.native_sidecars,
            horizontal=deciding.horizontal,
        )
        asked, is_on = asked.within(_LOOKUP_SECONDS), deciding.role_leases
        super().__init__(runtime, watched, named, asked, watches, reached, role_leases=is_on)
        self._told: set[Resource] = set()  # without which it is decided

    def is_known(self) -> bool:
        """Whether all that is needed was read, and what helps too, unless we have no right."""
        return not self.problem()

    def problem(self) -> str:
        """Return what is not known yet, empty if all is."""
        for found in self.standings():
            if not found.is_read:
                return found.unread
            if found.is_done_without and not found.missing and found.resource not in self._told:
                self._told.add(found.resource)
                extra = {"resource": found.resource.plural, "problem": found.problem}
                log.warning("resource cannot be read, decided without it", extra=extra)
        return "" if self._leases.is_read() else "leases that VPAs name are not read yet"

    def stale(self, longest_seconds: float) -> str:
        """Return what was not seen for too long to act upon it, empty if nothing."""
        for found in self.standings():
            # The API server itself counts budgets and nodes.
            may_be_old = found.is_optional and (
                found.resource in (POD_DISRUPTION_BUDGETS, NODES) or found.refused_seconds > 0
            )
            if found.missing or may_be_old or not found.is_awaited:
                continue
            if found.stale_seconds > longest_seconds:
                seen = f"{found.resource.plural} were last seen {found.stale_seconds:.0f} s ago"
                return f"{seen}: {found.problem}" if found.problem else seen
        return ""


def sources(
    namespace: str, *, native_sidecars: bool = True, horizontal: Horizontal = Horizontal.HOLD
) -> Iterator[WatchedResource]:
    """Yield what is watched, in one namespace or in all."""
    yield watched_vpas(namespace, log)
    read = read_pod if native_sidecars else read_pod_without_sidecars
    yield WatchedResource(
        PODS, Collection.PODS, read, namespace=namespace, field_selector=_LIVE_PODS
    )
    yield from watched_workloads(namespace)
    # Upstream's roles do not include all of these.
    for one, at, collection, read_one in (
        (LIMIT_RANGES, namespace, Collection.LIMIT_RANGES, read_limit_range),
        (POD_DISRUPTION_BUDGETS, namespace, Collection.BUDGETS, read_disruption_budget),
        (NODES, "", Collection.NODES, read_node),
    ):
        yield WatchedResource(one, collection, read_one, namespace=at, is_optional=True)
    yield watched_namespaces(namespace)
    if horizontal is Horizontal.HOLD:
        yield from watched_scalers(namespace)


_RETRY_SECONDS: Final = (0.1, 0.3)
_BELIEVED_SECONDS: Final = 10.0
_NEVER: Final = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class WebhookHealth:
    """Whether the webhook lives, and if not, what was found instead."""

    trouble: LeaseTrouble | None = None
    message: str = ""
    outage: Outage | None = None  # the latest that was seen to end

    @property
    def is_healthy(self) -> bool:
        """Whether pods may be evicted."""
        return self.trouble is None


HEALTHY: Final = WebhookHealth()


class _LeaseTimes(NamedTuple):
    """When a Lease was created, last renewed, and since when it is renewed without a gap."""

    created: datetime | None = None
    renewed: datetime | None = None
    acquired: datetime | None = None
    problem: str = ""  # why they cannot be read


def _lease_times(lease: Json) -> _LeaseTimes:
    try:
        spec = object_at(lease, "spec", "")
        return _LeaseTimes(
            time_at(object_at(lease, "metadata", ""), "creationTimestamp", "metadata"),
            time_at(spec, "renewTime", "spec"),
            time_at(spec, "acquireTime", "spec"),
        )
    except BadObject as error:
        return _LeaseTimes(problem=str(error))


def webhook_health(lease: Json, rules: AdmissionCheck, now: datetime) -> WebhookHealth:
    """Return what a Lease says of the webhook."""
    times = _lease_times(lease)
    if is_fresh(times.created, times.renewed, rules.timeout, now):
        return HEALTHY
    why = f": {times.problem}" if times.problem else f" was not renewed for {span(rules.timeout)}"
    return WebhookHealth(LeaseTrouble.INVALID, f"Lease {rules.namespace}/{rules.name}{why}")


class WebhookLease:
    """Reads the Lease."""

    def __init__(self, cluster: Callable[[], Cluster], rules: AdmissionCheck, clock: Clock) -> None:
        self._cluster = cluster
        self._rules = rules
        self._clock = clock
        self._said = ""
        self._lock = threading.Lock()
        self._checked = (HEALTHY, -inf)
        self._beat: tuple[datetime, float] | None = None  # the latest, and since when it is seen
        self._last = _LeaseTimes()  # when it was fresh
        self._away_since: datetime | None = None
        self._outage: Outage | None = None

    def is_fresh(self) -> bool:
        """Whether the webhook lives, as far as was seen within the last seconds."""
        with self._lock:
            health, at = self._checked
            if self._clock.monotonic() - at >= _BELIEVED_SECONDS:
                health = self.check(self._clock.now())
            return health.is_healthy

    def check(self, now: datetime) -> WebhookHealth:
        """Return what the Lease says now."""
        if not self._rules.is_on:
            return HEALTHY
        try:
            lease = self._read()
            health = webhook_health(lease, self._rules, max(now, self._by_its_clock(lease)))
            if health.is_healthy:
                self._note_beat(_lease_times(lease), now)
        except ClusterError as error:
            health = WebhookHealth(LeaseTrouble.ERROR, str(error))
        if not health.is_healthy:
            self._away_since = self._away_since or self._last.renewed or now
        health = replace(health, outage=self._outage)
        self._checked = (health, self._clock.monotonic())
        if health.message != self._said:
            self._said = health.message
            if health.is_healthy:
                lease_log.info("webhook Lease is fresh", extra={"reason": ""})
            else:
                lease_log.warning("webhook Lease is stale", extra={"reason": health.message})
        return health

    def _note_beat(self, times: _LeaseTimes, now: datetime) -> None:
        """Note an outage that is over, also a short one of which the webhook itself tells."""
        before, self._last = self._last, times
        if self._away_since is not None:
            self._outage, self._away_since = Outage(self._away_since, now), None
        elif before.renewed and times.acquired and times.acquired != before.acquired:
            self._outage = Outage(before.renewed, times.acquired)

    def _by_its_clock(self, lease: Json) -> datetime:
        """Return the time of day by the clock that renews the Lease, or earlier."""
        times, seconds = _lease_times(lease), self._clock.monotonic()
        beat = times.renewed or times.created or _NEVER
        if self._beat is None or self._beat[0] != beat:
            self._beat = (beat, seconds)
        return later(beat, timedelta(seconds=seconds - self._beat[1]))

    def _read(self) -> Json:
        rules = self._rules
        for wait_seconds in _RETRY_SECONDS:
            try:
                return self._cluster().get(Ref(LEASES, rules.namespace, rules.name))
            except (Unavailable, TooMany):
                self._clock.wait(wait_seconds)
        return self._cluster().get(Ref(LEASES, rules.namespace, rules.name))
