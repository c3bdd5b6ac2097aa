"""What happened last, and what waits now, of the namespaces that a viewer may see."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from app.diagnosis.core.attention import Attention, attention_of
from app.diagnosis.core.outlook import UPDATES
from app.page.core.charts import MarkKind
from app.page.core.picture import Picture
from app.page.core.rows import is_alive, last_kill
from app.page.core.workload_log import pod_marks
from app.updater.core.decisions import Decision

_MOST: Final = 200
OUT_OF_MEMORY: Final = "OOMKilled"


@dataclass(frozen=True, slots=True)
class FeedEntry:
    """Something that happened to a pod."""

    at: datetime
    namespace: str
    pod: str
    reason: str
    message: str
    count: int = 1


@dataclass(frozen=True, slots=True)
class WaitingPods:
    """The pods of a VPA of which something is wanted, and what stands in the way."""

    namespace: str
    vpa: str
    reason: str
    pods: int
    message: str  # of the first of them
    advice: str
    is_blocked: bool  # a person has to help


@dataclass(frozen=True, slots=True)
class FeedView:
    """What happened, the latest first, and what waits."""

    entries: Sequence[FeedEntry]
    left_out: int
    waiting: Sequence[WaitingPods]
    waiting_left_out: int = 0
    namespace: str = ""  # the only one that was asked for


def feed_view(picture: Picture, may_see: Callable[[str], bool], namespace: str = "") -> FeedView:
    """Return what a viewer may see, of all namespaces or of one."""
    seen = {name for name in picture.told_of if may_see(name) and namespace in ("", name)}
    found = sorted(_entries(picture, seen), key=lambda one: one.at, reverse=True)
    waiting = list(_waiting(picture, seen))
    return FeedView(
        found[:_MOST],
        max(len(found) - _MOST, 0),
        waiting[:_MOST],
        max(len(waiting) - _MOST, 0),
        namespace,
    )


def _entries(picture: Picture, seen: set[str]) -> Iterator[FeedEntry]:
    for one in picture.events:
        if one.namespace in seen:
            yield FeedEntry(one.at, one.namespace, one.pod, one.reason, one.message, one.count)
    kills = {one for one in picture.kills if one[0] in seen}
    for name in seen:
        view = picture.snapshot.of(name)
        for pod in view.pods.values() if view.vpas else ():
            if is_alive(pod) and last_kill([pod]) is not None:
                marks = (one for one in pod_marks(pod) if one.kind is MarkKind.KILL)
                kills.update((name, one) for one in marks)
    counts = Counter((name, one.pod, one.text) for name, one in kills)
    latest = dict(sorted((((name, one.pod, one.text), one.at) for name, one in kills), key=_at))
    for (name, killed, text), at in latest.items():
        told = f"{text.removeprefix(f'{killed}: ')} ran out of memory"
        yield FeedEntry(at, name, killed, OUT_OF_MEMORY, told, counts[name, killed, text])


def _at(found: tuple[object, datetime]) -> datetime:
    return found[1]


def _waiting(picture: Picture, seen: set[str]) -> Iterator[WaitingPods]:
    """Yield what waits, first what waits for a person, and of that the most pods."""
    groups: dict[tuple[str, str, str], Decision] = {}
    counts: Counter[tuple[str, str, str]] = Counter()
    for name in sorted(seen):
        part = picture.plan.namespaces.get(name)
        for one in part.decisions if part is not None else ():
            if attention_of(one) in (Attention.BLOCKED, Attention.WAITING):
                key = (name, one.vpa, str(one.reason))
                groups.setdefault(key, one)
                counts[key] += 1
    found = sorted(
        groups.items(), key=lambda item: (attention_of(item[1]), -counts[item[0]], item[0])
    )
    for (namespace, vpa, reason), first in found:
        yield WaitingPods(
            namespace,
            vpa,
            reason,
            counts[namespace, vpa, reason],
            first.message,
            UPDATES[first.reason],
            attention_of(first) is Attention.BLOCKED,
        )
