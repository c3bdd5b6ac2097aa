"""What Kubernetes Events tell of the past of a pod, also of one that is gone.

Strategy: a pod's own events, and those about evictions on VPAs, whose messages name the pod. An
API server keeps events for an hour unless it is told otherwise, and longer than their pods.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from app.diagnosis.core.comparisons import without_gaps
from app.model.errors import BadObject
from app.model.fields import Json, Object, integer_at, object_at, text_at, time_at
from app.model.pods import Pod
from app.model.times import rfc3339

EVICTED_POD: Final = "EvictedPod"  # on VPAs
_UPDATER: Final = "vpa-updater"


@dataclass(frozen=True, slots=True)
class PodEvent:
    """An event about a pod."""

    at: datetime
    namespace: str
    pod: str  # empty if the message tells it
    uid: str
    reason: str
    message: str
    component: str  # which reported it
    count: int
    on: str  # such as `pod/web-0`

    @property
    def is_of_updater(self) -> bool:
        """Whether the updater of this autoscaler, or of upstream's, reported it."""
        return self.component == _UPDATER

    def is_about(self, pod: str) -> bool:
        """Whether it is about a pod of this name."""
        return pod == self.pod if self.pod else pod in self.message.split()


class PodEvents:
    """The events that were found, by pod."""

    def __init__(self, items: Iterable[Object]) -> None:
        read = dict.fromkeys(_read_all(items))  # what was asked for twice counts once
        self._events = sorted(read, key=lambda event: event.at)

    @classmethod
    def of_events(cls, events: Iterable[PodEvent]) -> PodEvents:
        """Return events that were read before."""
        found = cls(())
        found._events = sorted(events, key=lambda event: event.at)
        return found

    def of(self, namespace: str, pod: str) -> list[PodEvent]:
        """Return those about the pods of a name, in the order of time.

        What a VPA tells of an eviction counts only where the pod's own event is missing.
        """
        found = [one for one in self._events if one.namespace == namespace and one.is_about(pod)]
        is_told = any(one.pod and one.is_of_updater and "Evicted" in one.reason for one in found)
        return [one for one in found if one.pod or not is_told]

    def latest(self) -> list[PodEvent]:
        """Return what the updater reported about pods, the latest first."""
        return [one for one in reversed(self._events) if one.pod and one.is_of_updater]

    def namespaces(self, pod: str) -> list[str]:
        """Return the namespaces in which there was a pod of a name."""
        return sorted({one.namespace for one in self._events if one.is_about(pod)})


def _read_all(items: Iterable[Object]) -> Iterator[PodEvent]:
    yield from filter(None, map(read_event, items))


def read_event(item: Object) -> PodEvent | None:
    """Read an event; None if it is about something else, or of others and cannot be read."""
    try:
        return _read(item)
    except BadObject:
        return None


def _read(item: Object) -> PodEvent | None:
    about, metadata = object_at(item, "involvedObject", ""), object_at(item, "metadata", "")
    kind, name = text_at(about, "kind", "involvedObject"), text_at(about, "name", "involvedObject")
    reason = text_at(item, "reason", "")
    is_pod = kind == "Pod"
    if not is_pod and (kind, reason) != ("VerticalPodAutoscaler", EVICTED_POD):
        return None
    moments = (
        time_at(item, "lastTimestamp", ""),
        time_at(item, "eventTime", ""),
        time_at(metadata, "creationTimestamp", "metadata"),
    )
    at = next(filter(None, moments), None)
    if at is None:
        return None
    source = text_at(object_at(item, "source", ""), "component", "source")
    return PodEvent(
        at=at,
        namespace=text_at(about, "namespace", "") or text_at(metadata, "namespace", ""),
        pod=name if is_pod else "",
        uid=text_at(about, "uid", "involvedObject") if is_pod else "",
        reason=reason,
        message=text_at(item, "message", ""),
        component=source or text_at(item, "reportingComponent", ""),
        count=integer_at(item, "count", "") or 1,
        on=f"{'pod' if is_pod else 'vpa'}/{name}",
    )


def event_json(event: PodEvent, uid: str = "") -> Json:
    """Return an event; `uid` is that of the pod that has the name now."""
    is_earlier = bool(uid and event.uid and event.uid != uid)
    return without_gaps(
        {
            "at": rfc3339(event.at),
            "on": event.on,
            "reason": event.reason,
            "message": event.message,
            "component": event.component or None,
            "count": event.count if event.count > 1 else None,
            "earlierPod": is_earlier or None,
        }
    )


def past_json(past: PodEvents, namespace: str, name: str, pod: Pod | None) -> list[Json]:
    """Return what happened to a pod that is gone, or what the updater did to one that exists."""
    events = past.of(namespace, name)
    if pod is None:
        return [event_json(event) for event in events]
    return [event_json(event, pod.uid) for event in events if event.is_of_updater]
