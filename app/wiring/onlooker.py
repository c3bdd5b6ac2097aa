"""Watches what the three do, and turns it into what is shown.

Strategy: everything comes from where others could look too: objects, usage, the updater's
decisions, events. So the same screen serves a cluster in memory and a real one.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from threading import Lock
from typing import Final

from app.adapters.ledger import Delta
from app.adapters.mirror import Transition
from app.core.recommendation.oom import kills
from app.core.recommendation.usage import read_metrics
from app.core.updating.decisions import Action, Decision, Reason
from app.core.updating.unboost import boosted_containers
from app.model.amounts import amount, size
from app.model.errors import BadObject, ClusterError
from app.model.fields import Object, integer_at, object_at, text_at
from app.model.pods import UPDATES_ANNOTATION, Pod
from app.model.quantity import Quantity
from app.model.vpa import ContainerRecommendation, Vpa
from app.ports import EVENTS, POD_METRICS, Cluster
from app.web.decisions import Archive
from app.wiring.lodge import Reviewed
from app.wiring.place import Place
from app.wiring.screen.rows import CPU, MEMORY, Usage, Used, rows, sums, template_of
from app.wiring.screen.view import Happening, Totals, View, What
from app.wiring.updater_knowledge import sources

_KEPT: Final = 100  # happenings that may be shown again
_RATE: Final = timedelta(minutes=10)
_MEASURED_SECONDS: Final = 15.0
_NEWS: Final = 0.1  # by so much a target has to change to be told
_DEEDS: Final = {
    Action.EVICT: What.EVICT,
    Action.RESIZE: What.RESIZE,
    Action.UNBOOST: What.UNBOOST,
}
_EVENTS: Final = {
    "EvictedByVPA": What.EVICT,
    "InPlaceResizedByVPA": What.RESIZE,
    "BadLoad": What.REFUSE,  # by a kubelet of the cluster in memory
}


@dataclass(frozen=True, slots=True)
class Sights:
    """Where to look."""

    place: Place
    cluster: Cluster
    archive: Archive
    reviewed: Callable[[], Reviewed]
    namespace: str = ""
    is_dry: bool = False  # nothing is done, so what would be is told


class Onlooker:
    """Gathers what happened since the start."""

    def __init__(self, sights: Sights) -> None:
        self._sights = sights
        self._began = sights.place.clock.now()
        self._mirror = sights.place.mirror(sights.cluster, sources(sights.namespace))
        self._mirror.listen(self._changed)
        self._events = sights.place.follow(
            sights.cluster, EVENTS, sights.namespace, "", self._told_events
        )
        self._fresh: deque[Happening] = deque(maxlen=10_000)  # not handed out yet
        self._kept: deque[Happening] = deque(maxlen=_KEPT)
        self._lock = Lock()
        self._counts: Counter[What] = Counter()
        self._refusals: Counter[str] = Counter()
        self._event_counts: dict[tuple[str, str], int] = {}
        self._targets: dict[tuple[str, str, str], Mapping[str, Quantity]] = {}
        self._last: dict[str, Decision] = {}  # of the latest round, by uid
        self._round_at: datetime | None = None
        self._reviews: deque[tuple[datetime, int]] = deque()
        self._usage: Usage = {}
        self._measured_at = float("-inf")

    def start(self) -> None:
        """Begin to look."""
        self._mirror.start()
        if not self._sights.is_dry:
            self._events.start()

    def stop(self) -> None:
        """Look no more."""
        self._mirror.stop()
        self._events.stop()

    def note(self, what: What, who: str, why: str, namespace: str = "") -> None:
        """Take in something that happened."""
        with self._lock:
            self._counts[what] += 1
        found = Happening(self._sights.place.clock.now(), what, who, why, namespace)
        self._kept.append(found)
        self._fresh.append(found)

    def news(self) -> Iterator[Happening]:
        """Yield what happened since this was asked last."""
        self._look_at_decisions()
        while self._fresh:
            yield self._fresh.popleft()

    @property
    def lasted(self) -> timedelta:
        """How long it has looked on, in the time of the place."""
        return self._sights.place.clock.now() - self._began

    def view(self, title: str, speed: str) -> View:
        """Return everything as it is now."""
        now, reviewed = self._sights.place.clock.now(), self._sights.reviewed()
        decisions = list(self._sights.archive.decisions(self._sights.namespace))
        snapshot = self._mirror.snapshot
        before, after = sums(snapshot, decisions)
        return View(
            title=title,
            now=now,
            lasted=self.lasted,
            speed=speed,
            reviews_per_minute=self._rate(now, reviewed.reviews),
            rows=rows(snapshot, decisions, self._sights.archive.told_at(), self._measured()),
            happenings=tuple(self._kept),
            totals=Totals(
                reviews=reviewed.reviews,
                pods_changed=reviewed.pods_changed,
                vpas_refused=reviewed.vpas_refused,
                evictions=self._counts[What.EVICT],
                resizes=self._counts[What.RESIZE],
                unboosts=self._counts[What.UNBOOST],
                kills=self._counts[What.KILL],
                refusals=dict(self._refusals),
                troubles=self._counts[What.TROUBLE],
                before=before,
                after=after,
            ),
            is_dry=self._sights.is_dry,
        )

    # --- objects

    def _changed(self, transitions: Sequence[Transition]) -> None:
        for found in transitions:
            match found.before, found.after:
                case Vpa() | None as before, Vpa() as after:
                    self._recommended(before, after)
                case None, Pod() as after:
                    self._created(after)
                case Pod() as before, Pod() as after:
                    for one in kills(before, after):
                        had = size(one.memory_bytes)
                        told = f"{one.container} ran out of {had}"
                        self.note(What.KILL, after.name, told, after.namespace)

    def _recommended(self, before: Vpa | None, after: Vpa) -> None:
        for one in after.recommendation or ():
            key = (after.namespace, after.name, one.container)
            told = self._targets.get(key, {})
            if told and not _differs(told, one.target):
                continue
            self._targets[key] = one.target
            if before is not None:
                self.note(What.RECOMMEND, after.name, _target(one), after.namespace)

    def _created(self, pod: Pod) -> None:
        if pod.created is None or pod.created < self._began - timedelta(seconds=1):
            return
        if pod.annotation(UPDATES_ANNOTATION) is None:
            return
        template = {
            one.name: one for one in template_of(self._mirror.snapshot.of(pod.namespace), pod)
        }
        changes = []
        for container in pod.containers:
            former = template.get(container.name)
            for name in (CPU, MEMORY):
                new = container.resources.request(name)
                old = former.resources.request(name) if former is not None else None
                if new is not None and new != old:
                    had = amount(name, old) if old is not None else "nothing"
                    changes.append(f"{name} {had} → {amount(name, new)}")
        what = What.BOOST if boosted_containers(pod) else What.CREATE
        self.note(what, pod.name, ", ".join(changes) or "as it was", pod.namespace)

    # --- deeds and decisions

    def _told_events(self, changes: Sequence[Delta], *, whole: bool) -> None:
        del whole  # each event stands for itself
        for one in changes:
            key = (one.namespace, one.name)
            if one.object is None:
                self._event_counts.pop(key, None)
                continue
            with suppress(BadObject):
                self._event(key, one.object)

    def _event(self, key: tuple[str, str], event: Object) -> None:
        what = _EVENTS.get(text_at(event, "reason", ""))
        about = object_at(event, "involvedObject", "")
        if what is None or text_at(about, "kind", "involvedObject") != "Pod":
            return
        count = integer_at(event, "count", "") or 1
        if self._event_counts.get(key) == count:
            return
        self._event_counts[key] = count
        deed = self._sights.archive.deeds().get(text_at(about, "uid", "involvedObject"))
        if deed is not None:
            what = _DEEDS.get(Action(deed.action), what)
        why = text_at(event, "message", "").partition(": ")[2]
        self.note(what, text_at(about, "name", "involvedObject"), why, key[0])

    def _look_at_decisions(self) -> None:
        archive = self._sights.archive
        if archive.told_at() == self._round_at:
            return
        self._round_at = archive.told_at()
        before, self._last = self._last, {}
        known = {(one.vpa, one.reason) for one in before.values()}
        for one in archive.decisions(self._sights.namespace):
            self._last[one.uid] = one
            is_waiting = one.action is Action.WAIT and one.reason is not Reason.BOOST_RUNNING
            is_planned = self._sights.is_dry and one.action in _DEEDS
            former = before.get(one.uid)
            if former is not None and former.reason is one.reason and former.action is one.action:
                continue
            if is_waiting:
                self._refusals[str(one.reason)] += 1
                if (one.vpa, one.reason) not in known:
                    known.add((one.vpa, one.reason))
                    hindrance = one.message.rpartition("; ")[2]
                    self.note(What.WAIT, one.pod, f"{one.reason}: {hindrance}", one.namespace)
            elif is_planned:
                why = f"would be done: {one.message}"
                self.note(_DEEDS[one.action], one.pod, why, one.namespace)

    # --- numbers

    def _rate(self, now: datetime, reviews: int) -> float:
        """Return how many reviews came in a minute, of late."""
        self._reviews.append((now, reviews))
        while now - self._reviews[0][0] > _RATE and len(self._reviews) > 1:
            self._reviews.popleft()
        began, first = self._reviews[0]
        minutes = max((now - began) / timedelta(minutes=1), 1.0)
        return (reviews - first) / minutes

    def _measured(self) -> Usage:
        """Return what pods use, read again every so often; the old numbers if that fails."""
        now = self._sights.place.clock.monotonic()
        if now - self._measured_at >= _MEASURED_SECONDS:
            self._measured_at = now
            with suppress(ClusterError):
                found = self._sights.cluster.list(POD_METRICS, self._sights.namespace).items
                self._usage = _used(found)
        return self._usage


def _used(items: Sequence[Object]) -> Usage:
    """Return what pods use; a container of which nothing can be read uses nothing."""
    batch = read_metrics({"items": items}).batch
    found: dict[tuple[str, str], Used] = {}
    amounts = zip(batch.cpu_millicores.tolist(), batch.memory_bytes.tolist(), strict=True)
    for (namespace, pod, _), (cpu, memory) in zip(batch.containers, amounts, strict=True):
        former = found.get((namespace, pod), Used(0, 0))
        found[namespace, pod] = Used(
            former.cpu_millicores + max(cpu, 0), former.memory_bytes + max(memory, 0)
        )
    return found


def recommended(vpa: Vpa) -> str:
    """Say what a VPA recommends."""
    return "; ".join(map(_target, vpa.recommendation or ())) or "no recommendation"


def _target(found: ContainerRecommendation) -> str:
    shown = ", ".join(f"{amount(name, found.target[name])} {name}" for name in found.target)
    return f"{shown} for {found.container}"


def _differs(old: Mapping[str, Quantity], new: Mapping[str, Quantity]) -> bool:
    """Whether a target changed so much that people want to know."""
    if old.keys() != new.keys():
        return True
    return any(abs(new[name].nano - old[name].nano) > _NEWS * old[name].nano for name in new)
