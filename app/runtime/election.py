"""One leader among replicas, by a Lease that client-go's election understands.

Strategy: times in the Lease are for people. Whether it is still held is judged by our own
clock alone: it is held while it keeps changing within its duration. A leader stops before
another candidate may take the Lease, also when its own renewal hangs, and its last calls end
before that. Candidates look often, and step in a little early if the holder says in an annotation
when it stops: with the usual retry period there is a leader again within the duration of the
Lease. Of a holder that does not say so, such as upstream's, they wait for the whole duration.
"""

from __future__ import annotations

import logging
import socket
import uuid
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from math import ceil, inf
from typing import Protocol

from app.flags.shared import LeaderElection
from app.model.errors import ClusterError, NotFound, NotSent
from app.ports import LEASES, Clock, Cluster, Json, Ref
from app.runtime.live import Connection

log = logging.getLogger("runtime.election")

_SPREAD = 1.2  # of the retry period, at most, added so that candidates do not come at once
_OFTEN = 0.5  # of the retry period, at least, between two looks at the Lease of another leader
_OFTEN_SPREAD = 0.25
_LEAST_SECONDS = 0.05  # between two looks
# On the Lease: its holder, and so many seconds after a renewal it has stopped.
HELD_ANNOTATION = "vpaLeaseHeldSeconds"
# Between the end of a leader's time and the end of its Lease: the retry period, but no more.
_MOST_SPARE_SECONDS = 2.0
_LAST_SHARE = 0.5  # of that, and once more, for requests that are under way when time is over
LEAST_CALL_SECONDS = 1.0  # for less a leader begins no call


@dataclass(frozen=True, slots=True)
class ElectionRules:
    """Which Lease to hold, and the three periods."""

    namespace: str
    name: str
    lease_seconds: float = 15.0  # for which the Lease is said to be held
    renew_seconds: float = 10.0  # a leader that cannot renew for so long steps down
    retry_seconds: float = 2.0

    @property
    def held_seconds(self) -> float:
        """How long after its last renewal a leader is sure to be alone; then others step in."""
        return max(self.lease_seconds - self._spare_seconds, self.renew_seconds)

    @property
    def last_seconds(self) -> float:
        """How long after its last renewal a leader may still end what it began."""
        return self.held_seconds - self._spare_seconds * _LAST_SHARE

    @property
    def acting_share(self) -> float:
        """In which part of the time a leader that renews in time may begin calls."""
        return min((self.last_seconds - LEAST_CALL_SECONDS) / self.retry_seconds, 1.0)

    @property
    def _spare_seconds(self) -> float:
        return min(self.retry_seconds, _MOST_SPARE_SECONDS)


class Leadership(Protocol):
    """Who leads; may be asked from any thread."""

    @property
    def term(self) -> int:
        """A number that changes when another candidate may have led in between."""
        ...

    @property
    def calls_end_at(self) -> float:
        """The moment of the clock by which calls must be over, before another one may lead."""
        ...

    def is_leading(self) -> bool:
        """Say whether no other candidate can lead now."""
        ...

    def may_finish(self) -> bool:
        """Say whether no other candidate can have led since we did."""
        ...


class Unopposed:
    """Leadership without an election."""

    term = 0
    calls_end_at = inf

    def is_leading(self) -> bool:
        """Say yes."""
        return True

    def may_finish(self) -> bool:
        """Say yes."""
        return True


@dataclass(frozen=True, slots=True)
class Standing:
    """How an election stands after a step."""

    leading: bool
    leader: str  # empty while there is none
    wait_seconds: float
    reason: str = ""  # why we could not acquire or renew


class Election:
    """One candidate; a step tries to acquire the Lease, or to renew it."""

    def __init__(self, cluster: Cluster, rules: ElectionRules, identity: str, clock: Clock) -> None:
        self._cluster = cluster
        self._rules = rules
        self._identity = identity
        self._clock = clock
        self._seen: Json = {}  # the Lease as last read or written
        self._seen_at = 0.0
        self._renewed_at = float("-inf")  # the last renewal that was answered
        self._steps = 0
        self.term = 0

    def is_leading(self) -> bool:
        """Say whether no other candidate can lead now; may be asked from any thread."""
        return self._clock.monotonic() < self._renewed_at + self._rules.renew_seconds

    def may_finish(self) -> bool:
        """Say whether no other candidate can have led since we did; from any thread."""
        return self._clock.monotonic() < self.calls_end_at

    @property
    def calls_end_at(self) -> float:
        """The moment of the clock by which calls must be over, before another one may lead."""
        return self._renewed_at + self._rules.last_seconds

    def step(self, now: datetime) -> Standing:
        """Try once; a failure is told in the standing."""
        began = self._clock.monotonic()
        failure: ClusterError | None = None
        try:
            reason = self._try(now)
        except ClusterError as err:
            reason, failure = str(err) or type(err).__name__, err
        if not reason:
            # From before the request: the Lease may have been renewed as early as that.
            self._renewed_at = began
        leading = self.is_leading()
        leader = str(lease_spec(self._seen).get("holderIdentity") or "")
        pause = self._pause_seconds(leading, failure)
        return Standing(leading, leader, pause, reason)

    def release(self, now: datetime) -> None:
        """Let the next candidate step in at once; silent when we do not lead."""
        if not self.is_leading():
            return
        self._renewed_at = float("-inf")
        given_up = {
            "holderIdentity": "",
            "leaseDurationSeconds": 1,
            "renewTime": micro_time(now),
            "acquireTime": micro_time(now),
        }
        try:
            self._replace({**lease_spec(self._seen), **given_up})
        except ClusterError as err:
            log.warning("lease was not released", extra={"error": str(err)})

    def _try(self, now: datetime) -> str:
        rules = self._rules
        try:
            found = self._cluster.get(Ref(LEASES, rules.namespace, rules.name))
        except NotFound:
            body = lease(rules.namespace, rules.name, self._claim({}, now))
            body = self._with_promise(body)
            self._see(self._cluster.create(Ref(LEASES, rules.namespace), body))
            self.term += 1
            return ""
        if lease_spec(found) != lease_spec(self._seen):
            self._see(found)
        self._seen = found
        holder = lease_spec(found).get("holderIdentity") or ""
        if holder not in ("", self._identity) and self._alive_seconds() > 0:
            self._renewed_at = float("-inf")
            return f"{holder} holds the lease"
        self._replace(self._claim(lease_spec(found), now))
        self.term += holder != self._identity
        return ""

    def _claim(self, spec: Json, now: datetime) -> Json:
        fresh = {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": ceil(self._rules.lease_seconds),
            "renewTime": micro_time(now),
        }
        if spec.get("holderIdentity") == self._identity:
            return {**spec, **fresh}
        transitions = spec.get("leaseTransitions")
        count = transitions + 1 if isinstance(transitions, int) else int(bool(spec))
        return {**spec, **fresh, "acquireTime": micro_time(now), "leaseTransitions": count}

    def _replace(self, spec: Json) -> None:
        rules = self._rules
        body = self._with_promise({**self._seen, "spec": spec})
        self._see(self._cluster.replace(Ref(LEASES, rules.namespace, rules.name), body))

    def _with_promise(self, found: Json) -> Json:
        """Return the Lease with the annotation that says when we stop."""
        return annotated(found, HELD_ANNOTATION, f"{self._identity} {self._rules.held_seconds:g}")

    def _see(self, found: Json) -> None:
        self._seen = found
        self._seen_at = self._clock.monotonic()

    def _alive_seconds(self) -> float:
        """Return for how long we must believe that the Lease as last seen is held."""
        since = self._clock.monotonic() - self._seen_at
        return self._held_seconds() - since

    def _held_seconds(self) -> float:
        """Return how long the holder may lead after a renewal: as it says, or the duration."""
        spec = lease_spec(self._seen)
        seconds = spec.get("leaseDurationSeconds")
        longest = float(seconds) if isinstance(seconds, int) else self._rules.lease_seconds
        annotations = self._seen.get("metadata", {}).get("annotations") or {}
        # The annotation of a former holder stays when others write the Lease.
        holder, _, told = str(annotations.get(HELD_ANNOTATION, "")).rpartition(" ")
        if not holder or holder != spec.get("holderIdentity"):
            return longest
        try:
            return min(max(float(told), 0.0), longest)
        except ValueError:
            return longest

    def _pause_seconds(self, leading: bool, failure: ClusterError | None) -> float:
        if leading:
            return self._rules.retry_seconds
        self._steps += 1
        share = zlib.crc32(f"{self._identity}/{self._steps}".encode()) / 2**32
        pause = self._rules.retry_seconds * (_OFTEN + _OFTEN_SPREAD * share)
        if isinstance(failure, NotSent):  # there is no server to be spared
            return pause
        if failure is not None:
            return self._rules.retry_seconds * (1 + _SPREAD * share)
        return min(pause, max(self._alive_seconds(), _LEAST_SECONDS))


class Campaign:
    """Calls back when leadership comes and goes; `tick` and `close` are for a loop."""

    def __init__(
        self,
        election: Election,
        on_started: Callable[[], None] = lambda: None,
        on_stopped: Callable[[], None] = lambda: None,
    ) -> None:
        self._election = election
        self._on_started = on_started
        self._on_stopped = on_stopped
        self._leading = False
        self._term = 0

    def tick(self, now: datetime) -> float:
        """Take a step; the callbacks must return soon, for the Lease waits for them.

        A term that ended and another one of ours that began within one step are told as well.
        """
        standing = self._election.step(now)
        term = self._election.term
        if self._leading and standing.leading and term != self._term:
            self._on_stopped()
            self._leading = False
        if standing.leading != self._leading:
            log.info(
                "leadership changed",
                extra={
                    "leading": standing.leading,
                    "leader": standing.leader,
                    "reason": standing.reason,
                },
            )
            # A callback that fails is called again with the next step.
            (self._on_started if standing.leading else self._on_stopped)()
            self._leading, self._term = standing.leading, term
        return standing.wait_seconds

    def close(self, now: datetime) -> None:
        """Stop what leadership started, then let go of it."""
        if self._leading:
            self._leading = False
            self._on_stopped()
        self._election.release(now)


def election(told: LeaderElection, cluster: Connection, clock: Clock) -> Election:
    """Return how this process stands for the Lease that the flags name."""
    rules = ElectionRules(
        told.resource_namespace,
        told.resource_name,
        told.lease_duration.total_seconds(),
        told.renew_deadline.total_seconds(),
        told.retry_period.total_seconds(),
    )
    if told.is_on and rules.acting_share < 1:
        flags = "--leader-elect-lease-duration, -renew-deadline, -retry-period"
        extra = {"share": round(rules.acting_share, 2), "flags": flags}
        log.warning("a leader may act only part of the time", extra=extra)
    # A call that hangs must not outlive the leadership that it is to renew.
    return Election(cluster.within(rules.renew_seconds), rules, candidate(), clock)


def candidate() -> str:
    """Return the name under which this process, and no other one, stands for election."""
    return f"{socket.gethostname()}_{uuid.uuid4()}"


# The Lease object as client-go writes it: times in microseconds, fields under `spec`.


def micro_time(moment: datetime) -> str:
    """Return a moment as Kubernetes writes a MicroTime."""
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def lease(namespace: str, name: str, spec: Json) -> Json:
    """Return a new Lease."""
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"namespace": namespace, "name": name},
        "spec": spec,
    }


def annotated(found: Json, key: str, value: str) -> Json:
    """Return a Lease with an annotation beside those that it has."""
    metadata = found.get("metadata") or {}
    annotations = {**(metadata.get("annotations") or {}), key: value}
    return {**found, "metadata": {**metadata, "annotations": annotations}}


def lease_spec(found: Json) -> Json:
    """Return a Lease's spec, empty when there is none."""
    spec = found.get("spec")
    return spec if isinstance(spec, dict) else {}
