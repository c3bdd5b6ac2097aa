"""The feed of activities: watches what the three processes do, and turns it into what is shown.

Strategy: everything comes from where others could look too: objects, usage, the updater's
decisions, events. So the same screen serves a cluster in memory and a real one.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from threading import Lock
from typing import Final

from app.diagnosis.core.attention import upcoming_text
from app.kube.watch_cache import Transition
from app.model.errors import BadObject, ClusterError
from app.model.fields import Object, integer_at, object_at, text_at
from app.model.pods import UPDATES_ANNOTATION, Container, Pod
from app.model.quantity import Quantity
from app.model.text import amount, printable, size
from app.model.vpa import ContainerRecommendation, Vpa
from app.ports import EVENTS, POD_METRICS, Cluster, Delta
from app.recommender.core.oom import new_kills
from app.recommender.core.usage import read_metrics
from app.run.view import (
    REAL_TIME,
    Activity,
    ActivityKind,
    ClusterSpeed,
    ReviewCounts,
    Totals,
    Upcoming,
    View,
)
from app.run.vpa_rows import CPU, MEMORY, Usage, Used, rows, sums, template_of, workload_of
from app.runtime.live import Runtime
from app.updater.core.decisions import Action, Decision, Reason
from app.updater.reporter import DecisionLog
from app.updater.watches import sources as watched_sources

_KEPT: Final = 100  # happenings that may be shown again
_MEASURED_SECONDS: Final = 15.0
_NEWS: Final = 0.1  # by so much a target has to change to be told
_ACTIONS: Final = {
    Action.EVICT: ActivityKind.EVICT,
    Action.RESIZE: ActivityKind.RESIZE,
    Action.UNBOOST: ActivityKind.UNBOOST,
}
_EVENTS: Final = {
    "EvictedByVPA": ActivityKind.EVICT,
    "InPlaceResizedByVPA": ActivityKind.RESIZE,
    "BadLoad": ActivityKind.REFUSE,  # by a kubelet of the cluster in memory
}


class ActivityFeed:
    """Gathers what happened since the start."""

    def __init__(
        self,
        runtime: Runtime,
        cluster: Cluster,
        decisions: DecisionLog,
        reviewed: Callable[[], ReviewCounts],
        namespace: str = "",
        *,
        is_dry: bool = False,
    ) -> None:
        self._clock = runtime.clock
        self._cluster = cluster
        self._decisions = decisions
        self._reviewed = reviewed
        self._namespace = namespace
        self._is_dry = is_dry  # nothing is done, so what would be is told
        self._began = self._clock.now()
        self._mirror = runtime.mirror(cluster, watched_sources(namespace))
        self._mirror.listen(self._objects_changed)
        self._events = runtime.follow(cluster, EVENTS, namespace, "", self._events_changed)
        self._fresh: deque[Activity] = deque(maxlen=10_000)  # not handed out yet
        self._kept: deque[Activity] = deque(maxlen=_KEPT)
        self._lock = Lock()
        self._counts: Counter[ActivityKind] = Counter()
        self._refusals: Counter[str] = Counter()
        self._event_counts: dict[tuple[str, str], int] = {}
        self._targets: dict[tuple[str, str, str], Mapping[str, Quantity]] = {}
        self._last: dict[str, Decision] = {}  # of the latest round, by uid
        self._round_at: datetime | None = None
        self._killed_at: datetime | None = None
        self._usage: Usage = {}
        self._measured_at = float("-inf")

    def start(self) -> None:
        """Begin to look."""
        self._mirror.start()
        if not self._is_dry:
            self._events.start()

    def stop(self) -> None:
        """Look no more."""
        self._mirror.stop()
        self._events.stop()

    def add(
        self, kind: ActivityKind, who: str, why: str, namespace: str = "", workload: str = ""
    ) -> None:
        """Take in something that happened."""
        with self._lock:
            self._counts[kind] += 1
        found = Activity(self._clock.now(), kind, who, printable(why), namespace, workload)
        self._kept.append(found)
        self._fresh.append(found)

    def _add_of_pod(self, kind: ActivityKind, namespace: str, pod: str, why: str) -> None:
        workload = workload_of(self._mirror.snapshot.of(namespace), pod)
        self.add(kind, pod, why, namespace, workload)

    def news(self) -> Iterator[Activity]:
        """Yield what happened since this was asked last."""
        self._compare_decisions()
        while self._fresh:
            yield self._fresh.popleft()

    @property
    def lasted(self) -> timedelta:
        """How long it has looked on, in the time of the runtime."""
        return self._clock.now() - self._began

    def view(
        self, title: str, pace: ClusterSpeed = REAL_TIME, planned: Iterable[Upcoming] = ()
    ) -> View:
        """Return everything as it is now; `planned` is what others know that will happen."""
        decisions = list(self._decisions.decisions(self._namespace))
        snapshot = self._mirror.snapshot
        before, after = sums(snapshot, decisions)
        return View(
            title=title,
            now=self._clock.now(),
            lasted=self.lasted,
            pace=pace,
            rows=rows(snapshot, decisions, self._decisions.round_at, self._current_usage()),
            activities=tuple(self._kept),
            totals=Totals(
                self._reviewed(),
                self._counts.copy(),
                self._refusals.copy(),
                before,
                after,
                self._killed_at,
            ),
            upcoming=self._upcoming([*planned, *map(_upcoming_of, decisions)]),
            is_dry=self._is_dry,
        )

    def _upcoming(self, found: Iterable[Upcoming | None]) -> Upcoming | None:
        now = self._clock.now()
        coming = (one for one in found if one is not None and one.at > now)
        return min(coming, key=lambda one: (one.at, one.what), default=None)

    # --- objects

    def _objects_changed(self, transitions: Sequence[Transition]) -> None:
        for found in transitions:
            match found.before, found.after:
                case Vpa() | None as before, Vpa() as after:
                    self._add_recommendation(before, after)
                case None, Pod() as after:
                    self._add_pod(after)
                case Pod() as before, Pod() as after:
                    for one in new_kills(before, after):
                        told = f"{one.container} OOM-killed at {size(one.memory_bytes)}"
                        self._killed_at = self._clock.now()
                        self._add_of_pod(ActivityKind.KILL, after.namespace, after.name, told)

    def _add_recommendation(self, before: Vpa | None, after: Vpa) -> None:
        for one in after.recommendation or ():
            key = (after.namespace, after.name, one.container)
            told = self._targets.get(key, {})
            if told and not _differs(told, one.target):
                continue
            self._targets[key] = one.target
            if before is not None:
                self.add(ActivityKind.RECOMMEND, after.name, _target_line(one), after.namespace)

    def _add_pod(self, pod: Pod) -> None:
        if pod.created is None or pod.created < self._began - timedelta(seconds=1):
            return
        if pod.annotation(UPDATES_ANNOTATION) is None:
            return
        template = template_of(self._mirror.snapshot.of(pod.namespace), pod)
        changes = _changed_requests(template, pod.containers)
        kind = ActivityKind.BOOST if pod.is_boosted else ActivityKind.CREATE
        self._add_of_pod(kind, pod.namespace, pod.name, changes or "as it was")

    # --- actions and decisions

    def _events_changed(self, changes: Sequence[Delta], _whole: bool) -> None:
        for one in changes:
            key = (one.namespace, one.name)
            if one.object is None:
                self._event_counts.pop(key, None)
                continue
            with suppress(BadObject):
                self._add_event(key, one.object)

    def _add_event(self, key: tuple[str, str], event: Object) -> None:
        kind = _EVENTS.get(text_at(event, "reason", ""))
        about = object_at(event, "involvedObject", "")
        if kind is None or text_at(about, "kind", "involvedObject") != "Pod":
            return
        count = integer_at(event, "count", "") or 1
        if self._event_counts.get(key) == count:
            return
        self._event_counts[key] = count
        uid = text_at(about, "uid", "involvedObject")
        last_action = self._decisions.last_actions().get(uid)
        if last_action is not None:
            kind = _ACTIONS.get(last_action.action, kind)
        why = text_at(event, "message", "").partition(": ")[2]
        self._add_of_pod(kind, key[0], text_at(about, "name", "involvedObject"), why)

    def _compare_decisions(self) -> None:
        if self._decisions.round_at == self._round_at:
            return
        self._round_at = self._decisions.round_at
        before, self._last = self._last, {}
        known = {(one.vpa, one.reason) for one in before.values()}
        for one in self._decisions.decisions(self._namespace):
            self._last[one.uid] = one
            is_waiting = one.action is Action.WAIT and one.reason is not Reason.BOOST_RUNNING
            is_planned = self._is_dry and one.action in _ACTIONS
            former = before.get(one.uid)
            if former is not None and former.reason is one.reason and former.action is one.action:
                continue
            if is_waiting:
                self._refusals[str(one.reason)] += 1
                if (one.vpa, one.reason) not in known:
                    known.add((one.vpa, one.reason))
                    why = f"{one.reason}: {one.message}"
                    self._add_of_pod(ActivityKind.WAIT, one.namespace, one.pod, why)
            elif is_planned:
                why = f"would be done: {one.message}"
                self._add_of_pod(_ACTIONS[one.action], one.namespace, one.pod, why)

    # --- numbers

    def _current_usage(self) -> Usage:
        """Return what pods use, read again every so often; the old numbers if that fails."""
        now = self._clock.monotonic()
        if now - self._measured_at >= _MEASURED_SECONDS:
            self._measured_at = now
            with suppress(ClusterError):
                found = self._cluster.list(POD_METRICS, self._namespace).items
                self._usage = _usage_by_container(found)
        return self._usage


def _usage_by_container(items: Sequence[Object]) -> Usage:
    """Return what containers use; one of which nothing can be read uses nothing."""
    batch = read_metrics({"items": items})
    amounts = zip(batch.cpu_millicores.tolist(), batch.memory_bytes.tolist(), strict=True)
    return {
        place: Used(max(cpu, 0), max(memory, 0))
        for place, (cpu, memory) in zip(batch.containers, amounts, strict=True)
    }


def _upcoming_of(decision: Decision) -> Upcoming | None:
    what = upcoming_text(decision)
    return Upcoming(decision.until, what) if what and decision.until is not None else None


def _changed_requests(before: Sequence[Container], after: Sequence[Container]) -> str:
    """Say which requests differ between two states of the containers of a pod."""
    former = {container.name: container for container in before}
    changes = []
    for container in after:
        known = former.get(container.name)
        of = f"{container.name} " if len(after) > 1 else ""
        for name in (CPU, MEMORY):
            new = container.resources.request(name)
            old = known.resources.request(name) if known is not None else None
            if new is not None and new != old:
                had = amount(name, old) if old is not None else "none"
                changes.append(f"{of}{name} {had} -> {amount(name, new)}")
    return ", ".join(changes)


def recommendation_line(vpa: Vpa) -> str:
    """Say what a VPA recommends."""
    return "; ".join(map(_target_line, vpa.recommendation or ())) or "no recommendation"


def _target_line(found: ContainerRecommendation) -> str:
    shown = ", ".join(f"{amount(name, found.target[name])} {name}" for name in found.target)
    return f"{shown} for {found.container}"


def _differs(old: Mapping[str, Quantity], new: Mapping[str, Quantity]) -> bool:
    """Whether a target changed so much that people want to know."""
    if old.keys() != new.keys():
        return True
    return any(abs(new[name].nano - old[name].nano) > _NEWS * old[name].nano for name in new)
