"""What the page saw of each VPA's workload: how its levels changed, and what happened to its pods.

Strategy: the API server has only the present, so each picture is compared with the last one. What
is kept is bounded: changes of a day, marks of a fortnight, the newest of both. Bounds move all the
time, so they are not kept. Events of the updater come from the API server and are not noted here.
A pod of one name that comes from another VPA has another role now.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from app.diagnosis.core.pod_events import PodEvent
from app.model.pods import Pod
from app.model.quantity import MEMORY
from app.model.text import size
from app.model.vpa import Vpa
from app.page.core.charts import ChartLevel, LevelKind, Mark, MarkKind
from app.page.core.levels import Amounts, changed, current_levels
from app.page.core.usage_series import SeriesKey

_NEW: Final = timedelta(minutes=1)
_KEPT: Final = timedelta(days=14)
_MOST_MARKS: Final = 40  # of a workload
_MOST_AWAY: Final = 100  # pods of roles in a namespace
_LOGGED: Final = (LevelKind.REQUEST, LevelKind.LIMIT, LevelKind.TARGET)
_HASHES: Final = ("pod-template-hash", "controller-revision-hash")  # labels
_OOM_KILLED: Final = "OOMKilled"
_EVENTS: Final = {"EvictedByVPA": MarkKind.EVICTION, "InPlaceResizedByVPA": MarkKind.RESIZE}

Changes = Mapping[LevelKind, list[tuple[datetime, int]]]


_Holders = Mapping[str, tuple[str, datetime | None]]  # pods: by which VPA, since when if it moved


@dataclass(slots=True)
class _Story:
    """What was seen of one workload."""

    changes: Mapping[SeriesKey, Changes] = field(default_factory=dict)
    marks: Mapping[tuple[str, ...], Mark] = field(default_factory=dict)  # by what tells them apart
    hashes: frozenset[str] = frozenset()  # of the templates of its pods, ever


class WorkloadLog:
    """Stories of all workloads; one thread notes, any may ask."""

    def __init__(self) -> None:
        self._namespaces: dict[str, dict[str, _Story]] = {}
        self._roles: dict[str, _Holders] = {}  # by namespace

    def note(
        self, namespace: str, found: Iterable[tuple[Vpa, Sequence[Pod]]], now: datetime
    ) -> None:
        """Note the VPAs of a namespace with their pods; those that went are forgotten."""
        before, roles = self._namespaces.get(namespace, {}), self._roles.get(namespace, {})
        known = list(found)
        self._roles[namespace] = held = _held(roles, known, now)
        self._namespaces[namespace] = {
            vpa.name: _continued(before.get(vpa.name), vpa, pods, now, held) for vpa, pods in known
        }

    def keep(self, namespaces: Collection[str]) -> None:
        """Forget all other namespaces."""
        for gone in self._namespaces.keys() - set(namespaces):
            del self._namespaces[gone], self._roles[gone]

    def role_since(self, vpa: Vpa, pods: Iterable[Pod]) -> datetime | None:
        """Return since when all of some pods have the role of a VPA, None if none came to it."""
        held = self._roles.get(vpa.namespace, {})
        found = (held.get(pod.name, ("", None)) for pod in pods)
        times = (since for name, since in found if name == vpa.name)
        return max(filter(None, times), default=None)

    def levels(
        self, vpa: Vpa, pods: Sequence[Pod], now: datetime
    ) -> dict[SeriesKey, dict[LevelKind, ChartLevel]]:
        """Return the levels of a VPA as they are now, and how they came to that.

        What was seen for the first time just now tells nothing of before.
        """
        known = self._story(vpa).changes
        return {
            key: {
                kind: ChartLevel(amount, _told(known.get(key, {}).get(kind, ()), now))
                for kind, amount in amounts.items()
            }
            for key, amounts in current_levels(vpa, pods).items()
        }

    def marks(self, vpa: Vpa) -> list[Mark]:
        """Return what happened to the pods of a VPA."""
        return list(self._story(vpa).marks.values())

    def kills(self) -> list[tuple[str, Mark]]:
        """Return which containers ran out of memory, by namespace, also of pods that are gone."""
        return [
            (namespace, mark)
            for namespace, stories in self._namespaces.items()
            for story in stories.values()
            for mark in story.marks.values()
            if mark.kind is MarkKind.KILL
        ]

    def _story(self, vpa: Vpa) -> _Story:
        return self._namespaces.get(vpa.namespace, {}).get(vpa.name) or _Story()


def _told(
    changes: Sequence[tuple[datetime, int]], now: datetime
) -> tuple[tuple[datetime, int], ...]:
    is_new = len(changes) == 1 and now - changes[0][0] < _NEW
    return () if is_new else tuple(changes)


def event_marks(events: Iterable[PodEvent]) -> Iterator[Mark]:
    """Yield what the updater did, as its events tell."""
    for one in events:
        kind = _EVENTS.get(one.reason)
        if kind is not None:
            yield Mark(one.at, kind, f"{one.pod}: {one.message}")


def _held(before: _Holders, found: Iterable[tuple[Vpa, Sequence[Pod]]], now: datetime) -> _Holders:
    """Return which pods have the role of which VPA; what is away may come back with it."""
    held: dict[str, tuple[str, datetime | None]] = {}
    for vpa, pods in found:
        for pod in pods if vpa.selector is not None else ():
            name, since = before.get(pod.name, (vpa.name, None))
            held[pod.name] = (vpa.name, since if name == vpa.name else now)
    away = [one for one in before.items() if one[0] not in held]
    return dict(away[-_MOST_AWAY:]) | held


def _continued(
    before: _Story | None, vpa: Vpa, pods: Sequence[Pod], now: datetime, held: _Holders
) -> _Story:
    story = before or _Story()
    hashes = story.hashes | {found for pod in pods if (found := _hash(pod))}
    marks = dict(story.marks)
    for pod in pods:
        marks.update(_pod_marks(pod))
        name, since = held.get(pod.name, ("", None))
        if name == vpa.name and since is not None:
            key = ("role", pod.name, str(since))
            marks.setdefault(key, Mark(since, MarkKind.ROLE, f"{pod.name} has it since then"))
    if before is not None and before.hashes:
        for pod in sorted(pods, key=lambda one: one.created or now):
            if _hash(pod) not in {"", *before.hashes}:
                mark = Mark(
                    pod.created or now, MarkKind.ROLLOUT, f"{pod.name} is the first pod of it"
                )
                marks.setdefault(("rollout", _hash(pod)), mark)
    return _Story(
        _changes(story.changes, current_levels(vpa, pods), now), _newest(marks, now), hashes
    )


def pod_marks(pod: Pod) -> list[Mark]:
    """Return what a pod itself tells: boosts and kills."""
    return [mark for _, mark in _pod_marks(pod)]


def _changes(
    before: Mapping[SeriesKey, Changes], levels: Mapping[SeriesKey, Amounts], now: datetime
) -> dict[SeriesKey, Changes]:
    return {
        key: {
            kind: changed(before.get(key, {}).get(kind, []), amount, now)
            for kind, amount in amounts.items()
            if kind in _LOGGED
        }
        for key, amounts in levels.items()
    }


def _newest(marks: Mapping[tuple[str, ...], Mark], now: datetime) -> dict[tuple[str, ...], Mark]:
    kept = [(key, mark) for key, mark in marks.items() if mark.at > now - _KEPT]
    return dict(sorted(kept, key=lambda one: one[1].at)[-_MOST_MARKS:])


def _pod_marks(pod: Pod) -> Iterator[tuple[tuple[str, ...], Mark]]:
    """Yield what a pod itself tells."""
    if pod.boosted_containers and pod.created is not None:
        names = ", ".join(sorted(pod.boosted_containers))
        yield ("boost", pod.uid), Mark(pod.created, MarkKind.BOOST, f"{pod.name}: {names}")
    limits = {name: found.limit(MEMORY) for name, found in pod.current_resources.items()}
    for status in pod.statuses:
        for end in (status.terminated, status.last_terminated):
            if end is not None and end.reason == _OOM_KILLED and end.finished_at is not None:
                limit = limits.get(status.name)
                at = f", limit {size(limit.units)}" if limit is not None else ""
                key = ("kill", pod.uid, status.name, str(end.finished_at))
                told = f"{pod.name}: {status.name}{at}"
                yield key, Mark(end.finished_at, MarkKind.KILL, told, pod.name)


def _hash(pod: Pod) -> str:
    return next((found for label in _HASHES if (found := pod.labels.get(label))), "")
