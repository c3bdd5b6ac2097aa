"""OOM kills: seen in pods and evictions, each counted once, turned into memory that is enough.

Strategy: a kill is a termination with reason OOMKilled that the newer pod reports and the older
one did not, or that is reported at first sight; each (pod, container, end) counts once, for the
rows its pod belonged to at the time. A kill counts when it is heard of, usage when it is read, so
usage from before a kill may come after it. The newest kill is then judged again by that usage, and
the peak is raised if this asks for more; earlier kills do not build up on late usage.

Kills within one interval build on each other, so a container that is far too small is not killed
once for each step. But the next kill of one that got no more memory says nothing new, so together
they ask for no more than one kill does, or twice what it requested or was seen to use if that is
more: a crash loop of a night must not ask for terabytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np

from app.model.errors import BadObject, BadQuantity
from app.model.fields import Object, labels_at, object_at, text_at, time_at
from app.model.pods import ContainerStatus, Pod, Termination
from app.model.quantity import Quantity
from app.recommender.core.estimation import MOST
from app.recommender.core.intake import Intake
from app.recommender.core.membership import Membership
from app.recommender.core.moments import AHEAD, EARLIEST, SECOND, UNSET, nanoseconds
from app.recommender.core.rules import MEMORY
from app.recommender.core.tables import MEMORY_OFFSET, TARGET
from app.recommender.core.tracked import TrackedPod

_OOM_KILLED: Final = "OOMKilled"
_CONTAINERS: Final = "offending_containers"
_USAGE: Final = "offending_containers_usage"
_STARVED: Final = "starved_resource"

_MOST_OF_EVENT: Final = 8192  # characters; names of fifty containers are 3,000
_MOST_GROWTH: Final = 2  # by kills alone, within one interval
_REPORTED_AGAIN = 3  # kills of one container, at most: two by its status, and an eviction
_Container = tuple[str, str, str]  # namespace, pod, container


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


def memory_after_kill(
    record_bytes: int, usage_bytes: int, killed_bytes: int, *, ratio: float, bump_bytes: float
) -> int:
    """Return the memory that a kill asks for, beside the peaks of usage and kills so far."""
    bump = partial(needed_memory, record_bytes, ratio=ratio, bump_bytes=bump_bytes)
    most = _MOST_GROWTH * max(record_bytes, usage_bytes)
    return max(bump(usage_bytes), min(bump(max(usage_bytes, killed_bytes)), most))


def is_repeated(needed_bytes: int, made_bytes: int, target_bytes: int) -> bool:
    """Whether this very peak was made before, and the target last computed still covers it.

    That target is the one before caps: a container that is held at its maxAllowed is killed again
    and again for the same reason.
    """
    return needed_bytes <= min(made_bytes, target_bytes)


def new_kills(before: Pod | None, after: Pod) -> list[OomRecord]:
    """Return the kills that a pod reports and did not report before."""
    return [
        kill_record(after, status.name, end, _requesting(before, after, status, end))
        for status in after.statuses
        for end in _ends(status)
        if not _was_reported(before, status, end)
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
        return []  # not an event of the kubelet


def reduced(event: Object) -> Object | None:
    """Return what `evicted` reads of an event; None for one that is larger than a kubelet's.

    Anybody who may create events can make them of any size.
    """
    involved, metadata = event.get("involvedObject"), event.get("metadata")
    if not (isinstance(involved, dict) and isinstance(metadata, dict)):
        return None
    annotations = metadata.get("annotations")
    annotations = annotations if isinstance(annotations, dict) else {}
    about = _some(metadata, "namespace", "name", "creationTimestamp")
    about["annotations"] = _some(annotations, _CONTAINERS, _USAGE, _STARVED)
    kept: Object = {
        "reason": event.get("reason"),
        "metadata": about,
        "involvedObject": _some(involved, "kind", "namespace", "name", "uid"),
    }
    return kept if len(repr(kept)) <= _MOST_OF_EVENT else None


def _some(item: Object, *keys: str) -> dict[str, Any]:
    return {key: item[key] for key in keys if key in item}


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
    """Return the kills that a status reports, the older first."""
    ends = (status.last_terminated, status.terminated)
    return [end for end in ends if end is not None and end.reason == _OOM_KILLED]


def _was_reported(before: Pod | None, status: ContainerStatus, end: Termination) -> bool:
    old = before.status(status.name) if before is not None else None
    if old is None:
        return False
    same = any(known.finished_at == end.finished_at for known in _ends(old))
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


class OomKills:
    """The kills that were counted, and counting more."""

    def __init__(self, members: Membership, intake: Intake) -> None:
        self._members = members
        self._intake = intake
        self._counted: dict[_Container, set[int]] = {}  # seconds
        self._held: list[OomRecord] = []  # until it is known which kills history holds already
        self._newest: dict[int, OomRecord] = {}  # by instance

    def newest(self) -> list[tuple[_Container, int]]:
        """Return containers and the seconds of counted kills, the newest first."""
        found = [
            (container, second) for container, all_of in self._counted.items() for second in all_of
        ]
        return sorted(found, key=lambda kill: -kill[1])

    def remember(self, container: _Container, second: int) -> None:
        """Note a kill that history holds already."""
        seconds = {second, *self._counted.get(container, ())}
        self._counted[container] = set(sorted(seconds)[-_REPORTED_AGAIN:])

    def forget_missing(self) -> None:
        """Forget the kills of containers that are gone."""
        for container in [one for one in self._counted if one not in self._members.instances]:
            del self._counted[container]
        for instance in [one for one in self._newest if one not in self._members.pod_of_instance]:
            del self._newest[instance]

    def count(self, records: Iterable[OomRecord], now_ns: int, *, holds: bool = True) -> None:
        """Count kills, the VPAs concerned become urgent; hold those that history may hold."""
        for record in records:
            with self._members.skipped.guard("kill", record, name=_name):
                self._count(record, now_ns, holds=holds)

    def count_held(self, now_ns: int) -> None:
        """Count what was held back."""
        held, self._held = self._held, []
        self.count(held, now_ns, holds=False)

    def _count(self, record: OomRecord, now_ns: int, *, holds: bool) -> None:
        tally = self._intake.tally
        container = (record.namespace, record.pod, record.container)
        instance = self._members.instances.get(container)
        pod = self._members.pods.get(container[:2])
        if instance is None or pod is None or record.uid not in {"", pod.pod.uid}:
            tally.kills_unknown += 1
        elif record.time_ns // SECOND in self._counted.get(container, ()):
            tally.kills_repeated += 1
        elif record.time_ns > now_ns + AHEAD:
            tally.kills_late += 1
        elif holds and self._awaits_history(pod):
            self._held.append(record)
        elif self._file(record, pod, instance, now_ns):
            self.remember(container, record.time_ns // SECOND)
            tally.kills += 1

    def _awaits_history(self, pod: TrackedPod) -> bool:
        return any(self._members.by_line[line].awaits_history for line in pod.vpas)

    def amend(self, instances: Iterable[int]) -> None:
        """Judge the newest kill of some instances again, as usage from before it has come."""
        found = [(self._newest[instance], instance) for instance in instances]
        for record, instance in found:
            with self._members.skipped.guard("kill", record, name=_name):
                self._amend(record, instance)

    def _amend(self, record: OomRecord, instance: int) -> None:
        windows = self._members.routes.streams
        pod = self._members.pod_of_instance[instance]
        for stream in self._members.streams_at(pod, instance, record.time_ns):
            ratio, bump_bytes = self._bump(int(windows.row[stream]))
            usage = int(windows.usage[stream])
            needed = needed_memory(record.memory_bytes, usage, ratio=ratio, bump_bytes=bump_bytes)
            if needed > windows.oom[stream]:
                self._ask(record, instance, stream, needed)

    def _file(self, record: OomRecord, pod: TrackedPod, instance: int, now_ns: int) -> bool:
        """Turn a kill into memory observations; tell whether it counted."""
        table, windows = self._members.routes.instances, self._members.routes.streams
        intervals = self._members.rows.interval_ns
        last = int(table.last_memory[instance])
        youngest = now_ns if last == UNSET else last
        counted = False
        for stream in self._members.streams_at(pod, instance, record.time_ns):
            row = int(self._members.routes.streams.row[stream])
            if record.time_ns < youngest - int(intervals[row]):
                self._intake.tally.kills_late += 1
                continue
            counted = True
            usage, runs = int(windows.usage[stream]), record.time_ns < windows.ends[stream]
            killed = int(windows.oom[stream]) if runs else 0
            ratio, bump_bytes = self._bump(row)
            needed = memory_after_kill(
                record.memory_bytes, usage, killed, ratio=ratio, bump_bytes=bump_bytes
            )
            if not self._ask(record, instance, stream, needed):
                self._intake.tally.kills_equal += 1
        if counted and record.time_ns > table.killed[instance]:
            table.killed[instance] = min(record.time_ns, now_ns)
            self._newest[instance] = record
        return counted

    def _ask(self, record: OomRecord, instance: int, stream: int, needed: int) -> bool:
        """Add the peak that a kill asks for; tell whether it is no mere repetition."""
        row = int(self._members.routes.streams.row[stream])
        if self._is_repetition(instance, row, needed):
            return False
        self._members.routes.instances.synthetic[instance] = needed
        at, times = np.array([stream]), np.array([record.time_ns])
        self._intake.learn_memory(at, np.array([needed]), times, is_oom=True)
        self._members.vpa_table.is_urgent[self._members.rows.vpa[row]] = True
        return True

    def _bump(self, row: int) -> tuple[float, float]:
        """Return by which ratio, and at least by how many bytes, a kill raises memory."""
        rows = self._members.rows
        return float(rows.bump_up_ratio[row]), float(rows.min_bump_up_bytes[row])

    def _is_repetition(self, instance: int, row: int, needed: int) -> bool:
        made = int(self._members.routes.instances.synthetic[instance])
        target = int(self._members.rows.estimated[row, MEMORY_OFFSET + TARGET])
        return is_repeated(needed, made, target)


def _name(record: OomRecord) -> str:
    return f"{record.namespace}/{record.pod}/{record.container}"
