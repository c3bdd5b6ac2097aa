"""Namespaces in which writes fail for their own reasons, and which hold up no other meanwhile."""

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
from app.ports import EVENTS, PODS, VPAS, Clock, Cluster, Json, PatchKind, Ref
from app.updater.core.decisions import Decision
from app.updater.core.events import UpdateEvent, summary

_FAILED: Final = 500  # also where a webhook of one namespace fails for good
_LASTS: Final = timedelta(seconds=30)


class Resting:
    """Remembers which namespaces rest; for one thread."""

    def __init__(self) -> None:
        self._since: dict[str, datetime] = {}

    def holds(self, namespace: str, now: datetime) -> bool:
        """Whether nothing is written into a namespace now."""
        since = self._since.get(namespace)
        return since is not None and abs(now - since) < _LASTS

    def begin(self, namespace: str, error: ClusterError, now: datetime) -> bool:
        """Let a namespace rest if an error may be its own; tell whether it does."""
        if error.status != _FAILED:
            return False
        self._since = {name: at for name, at in self._since.items() if self.holds(name, now)}
        self._since[namespace] = now
        return True


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


summary_log = logging.getLogger("updater.summaries")

ANNOTATION: Final = "vpaUpdaterActing"

_SUMMARY_PAUSE_SECONDS: Final = 1.0
_WITHOUT_RIGHT: Final = timedelta(minutes=10)
_LONGEST_LAG: Final = timedelta(minutes=2)  # of the watch


@dataclass(frozen=True, slots=True)
class _Words:
    """What is to be written, or was, on a VPA that showed other words."""

    uid: str
    text: str
    before: str | None


class Summaries:
    """Writes the annotation; `offer` may be called from any thread, `tick` is for a loop."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._lock = threading.Lock()
        self._waiting: dict[tuple[str, str], _Words] = {}
        self._written: dict[tuple[str, str], tuple[_Words, datetime]] = {}  # lately
        self._until: datetime | None = None  # nothing is written before
        self._resting = Resting()

    def offer(self, vpas: Mapping[str, Vpa], decisions: Iterable[Decision]) -> None:
        """Have written what changed for the VPAs of a namespace."""
        by_vpa: dict[str, list[Decision]] = {name: [] for name in vpas}
        for decision in decisions:
            if decision.vpa in by_vpa:
                by_vpa[decision.vpa].append(decision)
        for name, found in by_vpa.items():
            self._offer(vpas[name], found)

    def _offer(self, vpa: Vpa, decisions: list[Decision]) -> None:
        shown, place = vpa.annotations.get(ANNOTATION), (vpa.namespace, vpa.name)
        text = text_of(decisions)
        with self._lock:
            written, _ = self._written.get(place, (None, None))
            is_lag = written is not None and (written.uid, written.before) == (vpa.uid, shown)
            stands = written.text if written is not None and is_lag else shown
            if text == stands or (stands is None and not decisions):
                self._waiting.pop(place, None)
            else:
                self._waiting[place] = _Words(vpa.uid, text, shown)

    def tick(self, now: datetime) -> float:
        """Write what waits; return the seconds until the next look.

        Raises:
            ClusterError: the API server is in trouble; what waits is written later.
        """
        with self._lock:
            self._written = {
                place: (words, at)
                for place, (words, at) in self._written.items()
                if abs(now - at) < _LONGEST_LAG
            }
            places = list(self._waiting)
        for place in places:
            if self._until is not None and now < self._until:
                break
            with self._lock:
                is_held = self._resting.holds(place[0], now)
                words = None if is_held else self._waiting.pop(place, None)
            if words is None:
                continue
            try:
                self._write(place, words, now)
            except Refused as error:
                summary_log.warning(
                    "VPAs not annotated, for want of a right", extra={"error": str(error)}
                )
                self._until = now + _WITHOUT_RIGHT
            except (Unavailable, TooMany) as error:
                with self._lock:
                    self._waiting.setdefault(place, words)
                if not self._resting.begin(place[0], error, now):
                    raise
                summary_log.debug(
                    "VPAs not annotated", extra={"vpa": "/".join(place), "error": str(error)}
                )
            except ClusterError as error:
                if not isinstance(error, NotFound):
                    extra = {"vpa": "/".join(place), "error": str(error)}
                    summary_log.warning("VPA not annotated", extra=extra)
        return _SUMMARY_PAUSE_SECONDS

    def _write(self, place: tuple[str, str], words: _Words, now: datetime) -> None:
        metadata = {"uid": words.uid, "annotations": {ANNOTATION: words.text}}
        body = {"metadata": metadata}
        self._cluster.patch(Ref(VPAS, *place), body, kind=PatchKind.MERGE)
        with self._lock:
            self._written[place] = words, now


def text_of(decisions: Iterable[Decision]) -> str:
    """Return the words for the pods of one VPA; the same decisions give the same words."""
    found = summary(decisions)
    return f"{found.status}, {found.reason}: {found.message}"
