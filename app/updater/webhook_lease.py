"""Check whether the admission webhook is alive, by the Lease that it renews.

Strategy: an eviction relies on the webhook to size the next pod, so a Lease that is stale, absent
or cannot be read holds evictions back. One missed answer of the API server does not. A heartbeat
from a clock ahead of ours is fresh for the timeout after it was first seen.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from math import inf
from typing import Final, NamedTuple

from app.model.errors import BadObject, ClusterError, TooMany, Unavailable
from app.model.fields import object_at, time_at
from app.model.times import later
from app.ports import LEASES, Clock, Cluster, Json, Ref
from app.updater.core.proof import Outage
from app.updater.core.rules import is_fresh
from app.updater.flags import AdmissionCheck
from app.updater.metrics import LeaseTrouble

log = logging.getLogger("updater.webhook_lease")

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
    why = f": {times.problem}" if times.problem else f" was not renewed for {rules.timeout}"
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
                log.info("the webhook is alive", extra={"reason": ""})
            else:
                log.warning("the webhook gives no sign", extra={"reason": health.message})
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
