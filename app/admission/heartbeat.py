"""Tell the updater, by a Lease, that reviews are being answered.

Strategy: no beat without a reason to believe. The updater evicts only while the beat is fresh,
so a beat from a webhook that cannot answer would let pods be recreated unpatched. All replicas
share one Lease, and a beat that another replica was faster with is as good as ours.
A webhook configuration that was put back between two beats is told too, by the replica that did it,
and until when the certificate is valid, for those who may not read the Secret that holds it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from math import inf

from app.admission.core.rotation import EXPIRY_ANNOTATION
from app.model.errors import BadObject, Conflict, NotFound, TooMany, Unavailable
from app.model.fields import time_at
from app.ports import LEASES, Clock, Cluster, Json, Ref
from app.runtime.election import annotated, lease, lease_spec, micro_time

log = logging.getLogger("admission.heartbeat")

_RETRY_SECONDS = (0.1, 0.3)
_RECHECK_SECONDS = 1.0  # how soon a webhook that becomes ready is told of
# Each repair that is told ends pauses, which must not become useless evictions without end where
# another client changes the configuration again and again. A first pause is as long.
_REPAIR_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class HeartbeatRules:
    """Which Lease to renew, as whom, and how often."""

    namespace: str
    name: str
    holder: str
    interval_seconds: float


class Heartbeat:
    """Renews the Lease while `ready` gives no reason against it."""

    def __init__(
        self,
        cluster: Cluster,
        rules: HeartbeatRules,
        ready: Callable[[], str],
        clock: Clock,
        repairs: Callable[[], int] = lambda: 0,
        expiry: Callable[[], str] = lambda: "",
    ) -> None:
        """Begin.

        Args:
            cluster: where the Lease is.
            rules: which one, and how often it is renewed.
            ready: returns why reviews are not answered, nothing if they are.
            clock: measures the time between two beats.
            repairs: counts how often this replica put the registration back.
            expiry: returns until when the certificate is valid, as text.
        """
        self._cluster = cluster
        self._rules = rules
        self._ready = ready
        self._clock = clock
        self._withheld: str | None = "not started"
        self._repairs = repairs
        self._expiry = expiry
        self._was_away = False  # since the last beat
        self._repaired = (0, -inf)  # as of the last beat, and when one was told

    def tick(self, now: datetime) -> float:
        """Beat if ready; return the seconds until the next beat is due.

        Raises:
            ClusterError: the API server did not take the beat.
        """
        reason = self._ready()
        if self._is_repaired() or (reason and self._withheld == ""):
            self._was_away = True
        if reason != self._withheld:
            log.info("heartbeat withheld" if reason else "heartbeat sent", extra={"reason": reason})
            self._withheld = reason
        if reason:
            return min(_RECHECK_SECONDS, self._rules.interval_seconds)
        began = self._clock.monotonic()
        self._beat(now, began + self._rules.interval_seconds)
        return max(began + self._rules.interval_seconds - self._clock.monotonic(), 0.0)

    def _is_repaired(self) -> bool:
        """Whether the registration was put back since the last beat, and that is to be told."""
        (before, told), seconds = self._repaired, self._clock.monotonic()
        count = self._repairs()
        is_told = count > before and seconds - told >= _REPAIR_SECONDS
        self._repaired = (count, seconds if is_told else told)
        return is_told

    def _beat(self, now: datetime, deadline: float) -> None:
        for wait_seconds in _RETRY_SECONDS:
            try:
                return self._renew(now)
            except (Unavailable, TooMany, NotFound):
                if self._clock.monotonic() + wait_seconds >= deadline:
                    raise
                self._clock.wait(wait_seconds)
        return self._renew(now)

    def _renew(self, now: datetime) -> None:
        rules = self._rules
        fresh = {"holderIdentity": rules.holder, "renewTime": micro_time(now)}
        try:
            found = self._cluster.get(Ref(LEASES, rules.namespace, rules.name))
        except NotFound:
            return self._create(fresh)
        before = lease_spec(found)
        if self._was_away or self._is_late(before, now):
            fresh["acquireTime"] = fresh["renewTime"]  # evictions before it prove nothing
        found = self._with_expiry(found | {"spec": {**before, **fresh}})
        try:
            self._cluster.replace(Ref(LEASES, rules.namespace, rules.name), found)
            self._was_away = False
        except Conflict:
            log.debug("another replica renewed the heartbeat")

    def _is_late(self, spec: Json, now: datetime) -> bool:
        """Whether beats were missed before this one."""
        try:
            renewed = time_at(spec, "renewTime", "spec")
        except BadObject:
            return False
        seconds = 2 * self._rules.interval_seconds
        return renewed is not None and (now - renewed).total_seconds() > seconds

    def _create(self, fresh: Json) -> None:
        rules = self._rules
        # An API server takes whole seconds, and not zero.
        seconds = max(int(rules.interval_seconds), 1)
        body = lease(rules.namespace, rules.name, {**fresh, "leaseDurationSeconds": seconds})
        try:
            self._cluster.create(Ref(LEASES, rules.namespace), self._with_expiry(body))
        except Conflict:
            log.debug("another replica created the heartbeat")

    def _with_expiry(self, item: Json) -> Json:
        """Return the Lease with until when the certificate is valid, if that is known."""
        expiry = self._expiry()
        return annotated(item, EXPIRY_ANNOTATION, expiry) if expiry else item
