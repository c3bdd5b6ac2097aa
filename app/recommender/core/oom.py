"""OOM kills: seen in pods and evictions, turned into the memory that would have been enough.

Strategy: a kill is a termination with reason OOMKilled that the newer pod tells of and the older
one did not, or that is told at first sight; whoever records kills counts each (pod, container,
end) once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from app.model.errors import BadObject, BadQuantity
from app.model.fields import Object, labels_at, object_at, text_at, time_at
from app.model.pods import ContainerStatus, Pod, Termination
from app.model.quantity import Quantity
from app.recommender.core.estimators import MOST
from app.recommender.core.moments import EARLIEST, nanoseconds
from app.recommender.core.policy import MEMORY

_OOM_KILLED: Final = "OOMKilled"
_CONTAINERS: Final = "offending_containers"
_USAGE: Final = "offending_containers_usage"
_STARVED: Final = "starved_resource"


@dataclass(frozen=True, slots=True)
class OomRecord:
    """A container ran out of memory."""

    namespace: str
    pod: str
    container: str
    time_ns: int
    memory_bytes: int  # what it had requested, or used when it was evicted
    uid: str = ""  # of the pod, where it is known


def needed_memory(record_bytes: int, peak_bytes: int, *, ratio: float, bump_bytes: float) -> int:
    """Return how much memory would have been enough, as far as one can tell."""
    used = max(record_bytes, peak_bytes)
    return max(used + int(min(bump_bytes, MOST)), int(min(max(used * ratio, 0.0), MOST)))


def kills(before: Pod | None, after: Pod) -> list[OomRecord]:
    """Return the kills that a pod tells of and did not tell of before."""
    return [
        kill_record(after, status.name, end, _requesting(before, after, status, end))
        for status in after.statuses
        for end in _ends(status)
        if not _told(before, status, end)
    ]


def evicted(event: Object, *, share_resource: bool) -> list[OomRecord]:
    """Return the containers that an eviction event blames for memory.

    The kubelet names the starved resource once however many containers it blames; with
    `share_resource` one name stands for all of them.
    """
    try:
        involved = object_at(event, "involvedObject", "")
        metadata = object_at(event, "metadata", "")
        annotations = labels_at(metadata, "annotations", "metadata")
        created = time_at(metadata, "creationTimestamp", "metadata")
        if text_at(event, "reason", "") != "Evicted" or text_at(involved, "kind", "") != "Pod":
            return []
        return [
            OomRecord(
                namespace=text_at(involved, "namespace", "involvedObject"),
                pod=text_at(involved, "name", "involvedObject"),
                container=container,
                time_ns=nanoseconds(created) if created is not None else EARLIEST,
                memory_bytes=usage,
                uid=text_at(involved, "uid", "involvedObject"),
            )
            for container, usage in _offenders(annotations, share_resource=share_resource)
        ]
    except BadObject:
        return []  # somebody else's event; there is nobody to tell


def _offenders(annotations: Object, *, share_resource: bool) -> Iterator[tuple[str, int]]:
    containers, usage, starved = (
        annotations[key].split(",") if key in annotations else []
        for key in (_CONTAINERS, _USAGE, _STARVED)
    )
    if share_resource and len(starved) == 1:
        starved = starved * len(containers)
    if not len(containers) == len(usage) == len(starved):
        return
    for container, text, resource in zip(containers, usage, starved, strict=True):
        try:
            amount = Quantity.parse(text).units
        except BadQuantity:
            continue
        if resource == MEMORY and amount <= MOST:
            yield container, amount


def memory_request(pod: Pod, container: str) -> int:
    """Return the bytes a container requests now, 0 if none."""
    spec = next((found for found in pod.containers if found.name == container), None)
    status = pod.status(container)
    resources = status.resources if status is not None else None
    if resources is None:
        if spec is None:
            return 0
        resources = spec.resources
    request = resources.request(MEMORY)
    return 0 if request is None else min(max(request.units, 0), MOST)


def was_killed(end: Termination | None) -> bool:
    """Whether a container ended for want of memory."""
    return end is not None and end.reason == _OOM_KILLED


def _ends(status: ContainerStatus) -> list[Termination]:
    """Return the kills a status tells of, the older first."""
    told = (status.last_terminated, status.terminated)
    return [end for end in told if end is not None and end.reason == _OOM_KILLED]


def _told(before: Pod | None, status: ContainerStatus, end: Termination) -> bool:
    old = before.status(status.name) if before is not None else None
    if old is None:
        return False
    same = any(told.finished_at == end.finished_at for told in _ends(old))
    return same and (end.finished_at is not None or status.restart_count == old.restart_count)


def _requesting(before: Pod | None, after: Pod, status: ContainerStatus, end: Termination) -> Pod:
    """Return the pod whose request was in force: a container that runs again may have a new one."""
    return before if before is not None and end is status.last_terminated else after


def kill_record(pod: Pod, container: str, end: Termination | None, requesting: Pod) -> OomRecord:
    """Return the record of a kill, with what the pod requested."""
    finished = end.finished_at if end is not None else None
    return OomRecord(
        namespace=pod.namespace,
        pod=pod.name,
        container=container,
        time_ns=nanoseconds(finished) if finished is not None else EARLIEST,
        memory_bytes=memory_request(requesting, container),
        uid=pod.uid,
    )
