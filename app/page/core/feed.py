"""What happened last, and what waits now, of the namespaces that a viewer may see."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from app.diagnosis.core.attention import Attention, attention_of
from app.diagnosis.core.outlook import UPDATES
from app.page.core.picture import Picture
from app.page.core.rows import is_alive, last_kill
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


def feed_view(picture: Picture, may_see: Callable[[str], bool]) -> FeedView:
    """Return what a viewer may see."""
    seen = {name for name in picture.told_of if may_see(name)}
    found = sorted(_entries(picture, seen), key=lambda one: one.at, reverse=True)
    return FeedView(
        found[:_MOST], max(len(found) - _MOST, 0), list(_waiting(picture, seen))[:_MOST]
    )


def _entries(picture: Picture, seen: set[str]) -> Iterator[FeedEntry]:
    for one in picture.events:
        if one.namespace in seen:
            yield FeedEntry(one.at, one.namespace, one.pod, one.reason, one.message, one.count)
    for name in seen:
        view = picture.snapshot.of(name)
        for pod in view.pods.values() if view.vpas else ():
            killed_at = last_kill([pod]) if is_alive(pod) else None
            if killed_at is not None:
                told = "a container ran out of memory"
                yield FeedEntry(killed_at, name, pod.name, OUT_OF_MEMORY, told)


def _waiting(picture: Picture, seen: set[str]) -> Iterator[WaitingPods]:
    """Yield what waits, first what waits for a person."""
    groups: dict[tuple[str, str, str], Decision] = {}
    counts: Counter[tuple[str, str, str]] = Counter()
    for name in sorted(seen):
        part = picture.plan.namespaces.get(name)
        for one in part.decisions if part is not None else ():
            if attention_of(one) in (Attention.BLOCKED, Attention.WAITING):
                key = (name, one.vpa, str(one.reason))
                groups.setdefault(key, one)
                counts[key] += 1
    found = sorted(groups.items(), key=lambda item: (attention_of(item[1]), item[0]))
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
