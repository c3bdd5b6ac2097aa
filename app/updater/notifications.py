"""Write to the cluster what is done: Kubernetes Events, and an annotation on each VPA.

Strategy: both are written by loops of their own over a connection of their own, so they hold up
no update. A namespace in which writes fail for its own reasons holds up no other: it rests for
some seconds.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from app.model.errors import ClusterError, NotFound, Refused, TooMany, Unavailable
from app.model.snapshot import Snapshot
from app.model.times import rfc3339
from app.model.token_bucket import TokenBucket
from app.model.vpa import Vpa
from app.ports import EVENTS, PODS, VPAS, Clock, Cluster, Json, LimitReached, PatchKind, Ref
from app.updater.core.decisions import Decision
from app.updater.core.events import UpdateEvent, summary
from app.updater.core.memory import NamespacedName
from app.updater.metrics import UpdaterLimit

log = logging.getLogger("updater.events")
summary_log = logging.getLogger("updater.summaries")

COMPONENT: Final = "vpa-updater"
ANNOTATION: Final = "vpaUpdaterActing"

_FAILED: Final = 500  # also where a webhook of one namespace fails for good
_REST: Final = timedelta(seconds=30)

_MOST_WAITING: Final = 10_000
_MOST_OBJECTS: Final = 4096
_AT_ONCE: Final = 25  # events of one object
_PER_SECOND: Final = 1 / 300  # and from then on
_EVENT_PAUSE_SECONDS: Final = 0.5
_LONGEST_MESSAGE: Final = 1024  # bytes
_CUT: Final = " ..."
_LONGEST_NAME: Final = 230
_NO_ENDS: Final = "-."  # of a part of a name

_SUMMARY_PAUSE_SECONDS: Final = 1.0
_WITHOUT_RIGHT: Final = timedelta(minutes=10)
_LONGEST_LAG: Final = timedelta(minutes=2)  # of the watch


class RestingNamespaces:
    """Remembers in which namespaces writes failed a moment ago; for one thread."""

    def __init__(self) -> None:
        self._since: dict[str, datetime] = {}

    def rests(self, namespace: str, now: datetime) -> bool:
        """Whether nothing is written into a namespace now."""
        since = self._since.get(namespace)
        return since is not None and abs(now - since) < _REST

    def begin(self, namespace: str, error: ClusterError, now: datetime) -> bool:
        """Let a namespace rest if an error may be its own; return whether it does."""
        if error.status != _FAILED:
            return False
        self._since = {name: at for name, at in self._since.items() if self.rests(name, now)}
        self._since[namespace] = now
        return True


class _QueuedEvent(NamedTuple):
    """An event that was not sent yet."""

    event: UpdateEvent
    uid: str
    at: datetime


class EventRecorder:
    """Sends events; `record` may be called from any thread, `tick` is for a loop.

    The queue has a limit. Of one object only so many events are sent in a while, because those of
    a large workload would drown all others.
    """

    def __init__(self, cluster: Cluster, clock: Clock, reached: LimitReached) -> None:
        self._cluster = cluster
        self._clock = clock
        self._reached = reached
        self._queue: deque[_QueuedEvent] = deque(maxlen=_MOST_WAITING)
        self._buckets: OrderedDict[tuple[str, str, str], TokenBucket] = OrderedDict()
        self._lock = threading.Lock()
        self._number = 0
        self._resting = RestingNamespaces()

    def record(self, events: Iterable[UpdateEvent], snapshot: Snapshot, now: datetime) -> None:
        """Queue some events."""
        for event in events:
            uid = event.uid or _uid(event, snapshot)
            with self._lock:
                if uid and self._takes_token(event):
                    self._wait(_QueuedEvent(event, uid, now))

    def _wait(self, queued: _QueuedEvent) -> None:
        if len(self._queue) == _MOST_WAITING:  # the oldest one goes
            self._reached(UpdaterLimit.WAITING_EVENTS)
        self._queue.append(queued)

    def tick(self, now: datetime) -> float:
        """Send what waits; return the seconds until the next look.

        Raises:
            ClusterError: the API server is in trouble; what waits is sent later.
        """
        for _ in range(len(self._queue)):
            queued = self._queue.popleft()
            namespace = queued.event.namespace
            if self._resting.rests(namespace, now):
                self._queue.append(queued)
                continue
            try:
                self._send(queued, now)
            except (Unavailable, TooMany) as error:
                if not self._resting.begin(namespace, error, now):
                    self._queue.appendleft(queued)
                    raise
                # The event that failed is given up.
                log.debug("events not sent", extra={"namespace": namespace, "error": str(error)})
            except ClusterError as error:  # its namespace is going, or we have no right
                log.debug("event not sent", extra={"error": str(error)})
        return _EVENT_PAUSE_SECONDS

    def _send(self, queued: _QueuedEvent, now: datetime) -> None:
        self._number += 1
        number = int(now.timestamp() * 1_000_000) * 1000 + self._number % 1000
        body = _event(queued, f"{number:x}")
        self._cluster.create(Ref(EVENTS, queued.event.namespace), body)

    def _takes_token(self, event: UpdateEvent) -> bool:
        moment = self._clock.monotonic()
        place = (event.kind, event.namespace, event.name)
        bucket = self._buckets.get(place) or TokenBucket.full(_PER_SECOND, _AT_ONCE)
        if bucket.wait_for_one(moment):
            self._reached(UpdaterLimit.OBJECT_EVENTS, object="/".join(place))
            return False
        self._buckets[place] = bucket.less_one(moment)
        self._buckets.move_to_end(place)
        if len(self._buckets) > _MOST_OBJECTS:
            self._buckets.popitem(last=False)
        return True


def _event(queued: _QueuedEvent, suffix: str) -> Json:
    """Return an event as client-go's recorders write it."""
    event, moment = queued.event, rfc3339(queued.at)
    resource = PODS if event.kind == PODS.kind else VPAS
    return {
        "apiVersion": EVENTS.api_version,
        "kind": EVENTS.kind,
        "metadata": {
            "name": f"{event.name[:_LONGEST_NAME].rstrip(_NO_ENDS)}.{suffix}",
            "namespace": event.namespace,
        },
        "involvedObject": {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "namespace": event.namespace,
            "name": event.name,
            "uid": queued.uid,
        },
        "type": str(event.severity),
        "reason": event.reason,
        "message": _cut(event.message),
        "source": {"component": COMPONENT},
        "reportingComponent": COMPONENT,
        "reportingInstance": "",
        "firstTimestamp": moment,
        "lastTimestamp": moment,
        "count": 1,
    }


def _cut(message: str) -> str:
    """Return a message that an API server takes, and that says where it was cut."""
    body = message.encode()
    if len(body) <= _LONGEST_MESSAGE:
        return message
    return body[: _LONGEST_MESSAGE - len(_CUT)].decode(errors="ignore") + _CUT


def _uid(event: UpdateEvent, snapshot: Snapshot) -> str:
    vpa = snapshot.of(event.namespace).vpas.get(event.name)
    return vpa.uid if vpa is not None and event.kind == VPAS.kind else ""


@dataclass(frozen=True, slots=True)
class _Annotation:
    """What is to be written, or was, on a VPA that showed another text."""

    uid: str
    text: str
    before: str | None


class SummaryWriter:
    """Annotates each VPA with what is done; `offer` is for any thread, `tick` for a loop.

    An annotation, because the recommender writes the status as a whole. It is written only when
    its text changes; of several changes that wait only the latest is written. What was written is
    believed while the watch may not show it. Without the right nothing is written for a while.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._lock = threading.Lock()
        self._waiting: dict[NamespacedName, _Annotation] = {}
        self._written: dict[NamespacedName, tuple[_Annotation, datetime]] = {}  # lately
        self._until: datetime | None = None  # nothing is written before
        self._resting = RestingNamespaces()

    def offer(self, vpas: Mapping[str, Vpa], decisions: Iterable[Decision]) -> None:
        """Queue what changed for the VPAs of a namespace."""
        by_vpa: dict[str, list[Decision]] = {name: [] for name in vpas}
        for decision in decisions:
            if decision.vpa in by_vpa:
                by_vpa[decision.vpa].append(decision)
        for name, found in by_vpa.items():
            self._offer(vpas[name], found)

    def _offer(self, vpa: Vpa, decisions: list[Decision]) -> None:
        shown, place = vpa.annotations.get(ANNOTATION), (vpa.namespace, vpa.name)
        text = summary(decisions)
        with self._lock:
            written, _ = self._written.get(place, (None, None))
            is_lag = written is not None and (written.uid, written.before) == (vpa.uid, shown)
            stands = written.text if written is not None and is_lag else shown
            if text == stands or (stands is None and not decisions):
                self._waiting.pop(place, None)
            else:
                self._waiting[place] = _Annotation(vpa.uid, text, shown)

    def tick(self, now: datetime) -> float:
        """Write what waits; return the seconds until the next look.

        Raises:
            ClusterError: the API server is in trouble; what waits is written later.
        """
        with self._lock:
            self._written = {
                place: (annotation, at)
                for place, (annotation, at) in self._written.items()
                if abs(now - at) < _LONGEST_LAG
            }
            places = list(self._waiting)
        for place in places:
            if self._until is not None and now < self._until:
                break
            with self._lock:
                rests = self._resting.rests(place[0], now)
                annotation = None if rests else self._waiting.pop(place, None)
            if annotation is not None:
                self._write(place, annotation, now)
        return _SUMMARY_PAUSE_SECONDS

    def _write(self, place: NamespacedName, annotation: _Annotation, now: datetime) -> None:
        metadata = {"uid": annotation.uid, "annotations": {ANNOTATION: annotation.text}}
        try:
            self._cluster.patch(Ref(VPAS, *place), {"metadata": metadata}, kind=PatchKind.MERGE)
            with self._lock:
                self._written[place] = annotation, now
        except Refused as error:
            extra = {"error": str(error)}
            summary_log.warning("VPAs not annotated, because of missing RBAC", extra=extra)
            self._until = now + _WITHOUT_RIGHT
        except (Unavailable, TooMany) as error:
            with self._lock:
                self._waiting.setdefault(place, annotation)
            if not self._resting.begin(place[0], error, now):
                raise
            extra = {"vpa": "/".join(place), "error": str(error)}
            summary_log.debug("VPAs not annotated", extra=extra)
        except NotFound:
            pass
        except ClusterError as error:
            extra = {"vpa": "/".join(place), "error": str(error)}
            summary_log.warning("VPA not annotated", extra=extra)
