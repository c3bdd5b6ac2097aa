"""A recommender beside recorded objects: hears of each change at its moment, and writes values.

Strategy: it is the process's own `Recommender` on a clock that is set; what it reads from and
writes into stands here. A write goes into the store at once, without threads or JSON, and a status
is told to the model as a change. What depends on controllers is resolved again before the clock
moves on, so that all that happens in one moment is seen together.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime

from prometheus_client import CollectorRegistry

from app.commands.replaying.changes import RecordedChange, RecordedKind
from app.commands.replaying.recorded_objects import RecordedObjects
from app.model.fields import Object
from app.model.pods import ContainerStatus
from app.model.snapshot import Snapshot
from app.model.vpa import Vpa
from app.recommender.cluster_feed import ClusterFeed
from app.recommender.configuration import RecommenderContext, RoundRules
from app.recommender.core.checkpoints import Checkpoint, CheckpointName, orphans, to_json
from app.recommender.core.model import RecommenderModel
from app.recommender.core.oom import OomRecord
from app.recommender.core.status import Publication
from app.recommender.core.targets import VpaKey
from app.recommender.core.tracked import PodKey
from app.recommender.core.usage import UsageBatch
from app.recommender.metrics import RecommenderMetrics
from app.recommender.recommender import RecentChanges, Recommender
from app.recommender.usage_feed import UsageRequest

_NO_LIMIT = 10**12  # of checkpoints in a minute; nothing here takes time
_ABOVE_SECONDS = 1e-6  # orphans are looked for after more than the interval


class ReplayClock:
    """A clock that is set."""

    def __init__(self, now: datetime) -> None:
        self._start = self._now = now
        self._seconds = 0.0

    def now(self) -> datetime:
        """Return the time of the replay."""
        return self._now

    def monotonic(self) -> float:
        """Return the seconds since the recommender began."""
        return self._seconds

    def wait(self, seconds: float) -> None:
        """Do nothing: nothing here takes time."""

    def set(self, now: datetime) -> None:
        """Move on."""
        self._now, self._seconds = now, (now - self._start).total_seconds()


class RecordedSource:
    """Usage that was recorded, as one batch a round."""

    def __init__(self) -> None:
        self.batch = UsageBatch.of([])

    def read(self, request: UsageRequest) -> Iterator[UsageBatch]:
        """Yield the batch if there is anything in it."""
        del request
        if len(self.batch):
            yield self.batch


class RecordedCheckpoints:
    """The checkpoints of the store, of all namespaces or of one."""

    def __init__(self, objects: RecordedObjects, namespace: str) -> None:
        self._objects = objects
        self._namespace = namespace

    def items(
        self, namespaces: Collection[str] | None, may_continue: Callable[[], bool]
    ) -> Iterable[Object]:
        """Yield all of them: some would be no faster to find."""
        del namespaces, may_continue
        return map(to_json, self._objects.checkpoints.values())

    def orphans(
        self, kept_namespaces: Collection[str], may_continue: Callable[[], bool]
    ) -> list[CheckpointName]:
        """Return the checkpoints whose VPA does not exist, but those in some namespaces."""
        del may_continue
        vpas = {(one.namespace, one.name) for one in self._objects.vpas()}
        names = (
            CheckpointName(one.namespace, one.name, one.vpa)
            for one in self._objects.checkpoints.values()
            if self._namespace in ("", one.namespace)
        )
        return orphans(names, vpas, kept_namespaces=kept_namespaces)


class RecordedFeed(ClusterFeed):
    """Tells of what is known to have changed: comparing all each time would take too long."""

    def __init__(
        self,
        model: RecommenderModel,
        objects: RecordedObjects,
        clock: ReplayClock,
        rules: RoundRules,
    ) -> None:
        super().__init__(model, objects, clock, rules.ignored_namespaces, rules.variant)
        self._objects = objects
        self._changed: list[str] = []  # namespaces in which workloads changed before this look

    def tell_vpas(self, snapshot: Snapshot, now: datetime) -> None:
        """Tell of VPAs where workloads changed."""
        self._changed = self._objects.take_changed()
        super().tell_vpas(self._where_changed(snapshot), now)

    def tell_gone_vpas(self, snapshot: Snapshot, now: datetime) -> None:
        """Do nothing: this was told at once."""

    def tell_gone_pods(self, snapshot: Snapshot) -> None:
        """Do nothing: this was told at once."""

    def tell_pods(self, snapshot: Snapshot, now: datetime) -> None:
        """Tell of pods where workloads changed."""
        super().tell_pods(self._where_changed(snapshot), now)

    def tell_vpa(self, snapshot: Snapshot, key: VpaKey, now: datetime) -> None:
        """Tell of a VPA that came, changed or went."""
        self._begin(self._seconds)
        view = snapshot.of(key[0])
        vpa = view.vpas.get(key[1])
        if vpa is not None and self._handles(vpa):
            self._guarded_vpa(vpa, view, now)
        elif key in self._vpas:
            self._lose_vpa(key, now)

    def tell_status(self, vpa: Vpa, now: datetime) -> None:
        """Tell of a known VPA whose status alone changed."""
        found = replace(self._vpas[vpa.namespace, vpa.name], vpa=vpa)
        self._vpas[found.key] = found
        self.model.vpa_seen(found, now)

    def tell_pod(self, snapshot: Snapshot, key: PodKey, now: datetime) -> None:
        """Tell of a pod that came, changed or went, also in a namespace that is new."""
        if key[0] not in self._places:
            self._place(key[0], snapshot.of(key[0]))
        self.tell_some_pods(snapshot, [key], now)

    def _where_changed(self, snapshot: Snapshot) -> Snapshot:
        return Snapshot({namespace: snapshot.of(namespace) for namespace in self._changed})


class ValueWriter:
    """Writes values into the store at once, and tells the feed of statuses that it wrote."""

    def __init__(
        self, objects: RecordedObjects, feed: RecordedFeed, clock: ReplayClock, rules: RoundRules
    ) -> None:
        self.is_watched = True  # whether anything sees what this round stores
        self._objects = objects
        self._feed = feed
        self._clock = clock
        self._variant = rules.variant

    @property
    def wants_checkpoints(self) -> bool:
        """Whether they are not just overwritten unseen, by the next round that writes all."""
        return self.is_watched or self._variant.budgets_checkpoints

    def publish(self, publications: Sequence[Publication]) -> None:
        """Write statuses."""
        for one in publications:
            self._feed.tell_status(self._objects.publish(one), self._clock.now())

    publish_urgent = publish

    def store(self, checkpoints: Sequence[Checkpoint]) -> None:
        """Write checkpoints."""
        for one in checkpoints:
            if not self._objects.store(one, by_name=self._variant.checkpoints_by_name):
                self._feed.model.not_stored(one)

    def drop(
        self, names: Iterable[CheckpointName], kept: Callable[[CheckpointName], object]
    ) -> None:
        """Delete checkpoints."""
        del kept
        self._objects.drop_checkpoints((one.namespace, one.name) for one in names)

    def write(self, *, until_ended: bool) -> Iterable[None]:
        """Do nothing: all is written, and nothing is heard of meanwhile."""
        del until_ended
        return ()

    def flush(
        self, checkpoints: Sequence[Checkpoint], seconds: float, may_finish: Callable[[], bool]
    ) -> int:
        """Write the last checkpoints."""
        del seconds, may_finish
        self.store(checkpoints)
        return len(checkpoints)

    def take_counts(self) -> dict[str, int]:
        """Return nothing: writes are not counted."""
        return {}


class ReplayReport:
    """Keeps what cannot be used; no metric is looked at."""

    def __init__(self) -> None:
        self.problems: list[str] = []  # sentences

    def show(self, model: RecommenderModel) -> None:
        """Do nothing."""

    def count(self, model: RecommenderModel, vpas: Iterable[Vpa]) -> None:
        """Do nothing."""

    def refuse(self, problem: str) -> None:
        """Keep a sentence about a checkpoint."""
        self.problems.append(problem)


class ReplayedRecommender:
    """One term of a recommender, from its start on checkpoints to its end."""

    def __init__(self, objects: RecordedObjects, rules: RoundRules, now: datetime) -> None:
        rules, report = _replayed(rules), ReplayReport()
        self.model = rules.variant.make_model(rules.model_rules)
        self.problems = report.problems
        self._objects = objects
        self._namespace = rules.namespace
        self._clock = clock = ReplayClock(now)
        self._source = RecordedSource()
        self._recent = RecentChanges()
        self._feed = RecordedFeed(self.model, objects, clock, rules)
        self._writer = ValueWriter(objects, self._feed, clock, rules)
        context = RecommenderContext(
            snapshot=self._snapshot,
            owners=objects,
            usage=self._source,
            checkpoints=RecordedCheckpoints(objects, rules.namespace),
            clock=clock,
            metrics=RecommenderMetrics(CollectorRegistry()),
            report=report,
        )
        self._recommender = Recommender(rules, context, self._recent, self._feed, self._writer)
        self._start(now)

    def hear(self, change: RecordedChange, now: datetime, *, is_new: bool) -> None:
        """Hear of a change that the store has made already."""
        self._advance(now)
        match change.subject:
            case RecordedKind.VPA:
                self._feed.tell_vpa(self._snapshot(), (change.namespace, change.key), now)
                self._recommender.restore(now)
            case RecordedKind.POD:
                if change.value is not None and any(map(_ended, change.value.statuses)):
                    self._settle()  # a kill counts for the VPAs that have the pod
                self._feed.tell_pod(self._snapshot(), (change.namespace, change.key), now)
                if change.value is not None:
                    self._recommender.publish_urgent()
            case RecordedKind.EVENT if is_new:
                self._settle()
                self._recent.events.append(change.value)
                self._recommender.publish_urgent()
            case _:
                pass

    def kill(self, records: Sequence[OomRecord], now: datetime) -> None:
        """Hear of OOM kills."""
        self._advance(now)
        self._settle()
        self.model.killed(records, now)
        self._recommender.publish_urgent()

    def play_round(self, usage: UsageBatch, now: datetime, *, is_watched: bool = True) -> None:
        """Go through one round; whether anything sees its checkpoints before the next one's."""
        self._advance(now)
        self._source.batch, self._writer.is_watched = usage, is_watched
        self._recommender.round(now)

    def end(self, now: datetime) -> None:
        """End, as when asked to."""
        self._advance(now)
        self._settle()
        self._recommender.flush(now, 0.0, lambda: True)

    def _start(self, now: datetime) -> None:
        snapshot, objects = self._snapshot(), self._objects
        objects.changed = dict.fromkeys(objects.views)
        self._feed.tell_vpas(snapshot, now)
        self._recommender.restore(now)
        for namespace, view in list(objects.views.items()):
            for name in view.pods:
                self._feed.tell_pod(snapshot, (namespace, name), now)
                self._recommender.publish_urgent()
        for event in list(objects.events(now)):
            self._recent.events.append(event)
            self._recommender.publish_urgent()

    def _advance(self, now: datetime) -> None:
        if now > self._clock.now():
            self._settle()
            self._clock.set(now)

    def _settle(self) -> None:
        """Resolve again what depends on controllers that changed."""
        if self._objects.changed:
            self._recommender.look(self._clock.now())

    def _snapshot(self) -> Snapshot:
        return self._objects.snapshot(self._namespace)


def _replayed(rules: RoundRules) -> RoundRules:
    """Return the rules of rounds that take no time and are watched by nothing."""
    return replace(
        rules,
        model_rules=replace(rules.model_rules, gathers_quality=False, expects_past=False),
        orphans_seconds=rules.orphans_seconds + _ABOVE_SECONDS,
        checkpoints_per_minute=_NO_LIMIT,
    )


def _ended(status: ContainerStatus) -> bool:
    return status.terminated is not None or status.last_terminated is not None
