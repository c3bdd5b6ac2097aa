"""Tell by Kubernetes Events what was done, without holding up who does it.

Strategy: events wait in a queue of limited length and go out over a connection of their own. Of
one object only so many are told in a while, for a large workload would drown all others; nor does
a namespace in which none can be created hold up the others.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict, deque
from collections.abc import Iterable
from datetime import datetime
from typing import Final, NamedTuple

from app.model.errors import ClusterError, TooMany, Unavailable
from app.model.snapshot import Snapshot
from app.model.times import rfc3339
from app.model.token_bucket import TokenBucket
from app.ports import EVENTS, PODS, VPAS, Clock, Cluster, Json, Ref
from app.updater.core.events import UpdateEvent
from app.updater.resting import Resting

log = logging.getLogger("updater.events")

COMPONENT: Final = "vpa-updater"

_MOST_WAITING: Final = 10_000
_MOST_OBJECTS: Final = 4096
_AT_ONCE: Final = 25  # events of one object
_PER_SECOND: Final = 1 / 300  # and from then on
_PAUSE_SECONDS: Final = 0.5
_LONGEST_MESSAGE: Final = 1024
_LONGEST_NAME: Final = 230
_NO_ENDS: Final = "-."  # of a part of a name


class _Waiting(NamedTuple):
    """An event that was not sent yet."""

    notice: UpdateEvent
    uid: str
    at: datetime


class Journal:
    """Sends events; `tell` may be called from any thread, `tick` is for a loop."""

    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock
        self._waiting: deque[_Waiting] = deque(maxlen=_MOST_WAITING)
        self._buckets: OrderedDict[tuple[str, str, str], TokenBucket] = OrderedDict()
        self._lock = threading.Lock()
        self._number = 0
        self._resting = Resting()

    def tell(self, notices: Iterable[UpdateEvent], snapshot: Snapshot, now: datetime) -> None:
        """Have some events sent soon."""
        for notice in notices:
            uid = notice.uid or _uid(notice, snapshot)
            with self._lock:
                if uid and self._may_tell(notice):
                    self._waiting.append(_Waiting(notice, uid, now))

    def tick(self, now: datetime) -> float:
        """Send what waits; return the seconds until the next look.

        Raises:
            ClusterError: the API server is in trouble; what waits is sent later.
        """
        for _ in range(len(self._waiting)):
            waiting = self._waiting.popleft()
            namespace = waiting.notice.namespace
            if self._resting.holds(namespace, now):
                self._waiting.append(waiting)
                continue
            try:
                self._send(waiting, now)
            except (Unavailable, TooMany) as error:
                if not self._resting.begin(namespace, error, now):
                    self._waiting.appendleft(waiting)
                    raise
                # The event that failed is given up.
                log.debug("events not sent", extra={"namespace": namespace, "error": str(error)})
            except ClusterError as error:  # its namespace is going, or we have no right
                log.debug("event not sent", extra={"error": str(error)})
        return _PAUSE_SECONDS

    def _send(self, waiting: _Waiting, now: datetime) -> None:
        self._number += 1
        number = int(now.timestamp() * 1_000_000) * 1000 + self._number % 1000
        body = event(waiting.notice, waiting.uid, waiting.at, f"{number:x}")
        self._cluster.create(Ref(EVENTS, waiting.notice.namespace), body)

    def _may_tell(self, notice: UpdateEvent) -> bool:
        moment = self._clock.monotonic()
        place = (notice.kind, notice.namespace, notice.name)
        bucket = self._buckets.get(place) or TokenBucket.full(_PER_SECOND, _AT_ONCE)
        if bucket.wait_for_one(moment):
            return False
        self._buckets[place] = bucket.less_one(moment)
        self._buckets.move_to_end(place)
        if len(self._buckets) > _MOST_OBJECTS:
            self._buckets.popitem(last=False)
        return True


def event(notice: UpdateEvent, uid: str, at: datetime, suffix: str) -> Json:
    """Return an event as recorders write it."""
    resource = PODS if notice.kind == PODS.kind else VPAS
    moment = rfc3339(at)
    return {
        "apiVersion": EVENTS.api_version,
        "kind": EVENTS.kind,
        "metadata": {
            "name": f"{notice.name[:_LONGEST_NAME].rstrip(_NO_ENDS)}.{suffix}",
            "namespace": notice.namespace,
        },
        "involvedObject": {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "namespace": notice.namespace,
            "name": notice.name,
            "uid": uid,
        },
        "type": str(notice.severity),
        "reason": notice.reason,
        "message": notice.message[:_LONGEST_MESSAGE],
        "source": {"component": COMPONENT},
        "reportingComponent": COMPONENT,
        "reportingInstance": "",
        "firstTimestamp": moment,
        "lastTimestamp": moment,
        "count": 1,
    }


def _uid(notice: UpdateEvent, snapshot: Snapshot) -> str:
    vpa = snapshot.of(notice.namespace).vpas.get(notice.name)
    return vpa.uid if vpa is not None and notice.kind == VPAS.kind else ""
