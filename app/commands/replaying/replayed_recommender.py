"""A recommender beside recorded objects: hears of each change at its moment, and writes values.

Strategy: it is the process's own `Recommender` on a clock that is set. What it writes goes into
the store at once, without threads or JSON, and is told to it as a change. What depends on
controllers is resolved again before the clock moves on, so that all that happens in one moment is
seen together.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import cast

from prometheus_client import CollectorRegistry

from app.commands.replaying.changes import RecordedChange, RecordedKind
from app.commands.replaying.recorded_objects import RecordedObjects
from app.model.fields import Object
from app.model.pods import ContainerStatus
from app.ports import Cluster
from app.recommender.checkpoint_store import CheckpointName
from app.recommender.cluster_feed import ClusterFeed
from app.recommender.configuration import RecommenderContext, RoundRules
from app.recommender.core.checkpoints import Checkpoint, to_json
from app.recommender.core.history import orphans
from app.recommender.core.model import RecommenderModel
from app.recommender.core.oom import OomRecord
from app.recommender.core.rules import RecommenderLimit
from app.recommender.core.status import Publication
from app.recommender.core.usage import Metrics, UsageBatch
from app.recommender.metrics import RecommenderMetrics
from app.recommender.recommender import RecentChanges, Recommender
from app.recommender.usage_feed import UsageRequest
from app.runtime.limit_report import LimitReport

_NO_LIMIT = 10**12  # of checkpoints in a minute; nothing here takes time
_ABOVE_SECONDS = 1e-6  # orphans are looked for after more than the interval


class ReplayClock:
    """A clock that is set."""

    def __init__(self, now: datetime) -> None:
        self._start = self._now = now

    def now(self) -> datetime:
        """Return the time of the replay."""
        return self._now

    def monotonic(self) -> float:
        """Return the seconds since the recommender began."""
        return (self._now - self._start).total_seconds()

    def wait(self, seconds: float) -> None:
        """Do nothing: nothing here takes time."""

    def set(self, now: datetime) -> None:
        """Move on."""
        self._now = now


class RecordedSource:
    """Usage that was recorded, as one batch a round."""

    def __init__(self) -> None:
        self.batch = UsageBatch.of([])

    def read(self, request: UsageRequest) -> Iterator[Metrics]:
        """Yield the batch if there is anything in it."""
        del request
        if len(self.batch):
            yield Metrics(self.batch, [])


class ValueWriter:
    """Writes values into the store at once, and tells the feed of statuses that it wrote."""

    def __init__(
        self,
        objects: RecordedObjects,
        model: RecommenderModel,
        feed: ClusterFeed,
        clock: ReplayClock,
        *,
        overwrites: bool,
    ) -> None:
        self._objects = objects
        self._model = model
        self._feed = feed
        self._clock = clock
        self._overwrites = overwrites  # checkpoints by name alone, whosever they are

    def publish(self, publications: Sequence[Publication]) -> None:
        """Write statuses."""
        for one in publications:
            self._feed.tell_status(self._objects.publish(one), self._clock.now())

    def store(self, checkpoints: Sequence[Checkpoint]) -> None:
        """Write checkpoints."""
        for one in checkpoints:
            if not self._objects.store(one, by_name=self._overwrites):
                self._model.not_stored(one)

    def drop(self, names: Iterable[CheckpointName]) -> list[CheckpointName]:
        """Delete checkpoints."""
        self._objects.drop_checkpoints((one.namespace, one.name) for one in names)
        return []

    def finish(self) -> None:
        """Do nothing: no write takes time, and nothing is heard of meanwhile."""

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


class ReplayedRecommender(Recommender):
    """One term of a recommender, from its start on checkpoints to its end."""

    def __init__(self, objects: RecordedObjects, rules: RoundRules, now: datetime) -> None:
        self.problems: list[str] = []  # sentences about checkpoints that cannot be used
        self._objects = objects
        self._clock = ReplayClock(now)
        self._source = RecordedSource()
        context = RecommenderContext(
            cluster=cast("Cluster", objects),
            cluster_for_writes=lambda: cast("Cluster", objects),
            snapshot=lambda: objects.snapshot(rules.namespace),
            owners=objects,
            usage=self._source,
            clock=self._clock,
            metrics=RecommenderMetrics(CollectorRegistry()),
            reached=LimitReport(None, RecommenderLimit, self._clock.monotonic).reached,
        )
        super().__init__(_replayed(rules), context, RecentChanges())
        self._overwrites = not rules.variant.budgets_checkpoints
        self._is_watched = True  # whether anything sees what this round stores
        self._publisher = ValueWriter(
            objects, self.model, self._feed, self._clock, overwrites=self._overwrites
        )
        self._start(now)

    def hear(self, change: RecordedChange, now: datetime, *, is_new: bool) -> None:
        """Hear of a change that the store has made already."""
        self._advance(now)
        match change.subject:
            case RecordedKind.VPA:
                key = (change.namespace, change.key)
                self._feed.tell_some_vpas(self._context.snapshot(), [key], now)
                self._restore(now)
            case RecordedKind.POD:
                if change.value is not None and any(map(_ended, change.value.statuses)):
                    self._settle()  # a kill counts for the VPAs that have the pod
                self._hear_of_pod(change.namespace, change.key, now)
                if change.value is not None:
                    self._publish_urgent(now)
            case RecordedKind.EVENT if is_new:
                self._settle()
                self._count_eviction(change.value, now)
                self._publish_urgent(now)
            case _:
                pass

    def kill(self, records: Sequence[OomRecord], now: datetime) -> None:
        """Hear of OOM kills."""
        self._advance(now)
        self._settle()
        self.model.killed(records, now)
        self._publish_urgent(now)

    def play_round(self, usage: UsageBatch, now: datetime, *, is_watched: bool = True) -> None:
        """Go through one round; whether anything sees its checkpoints before the next one's."""
        self._advance(now)
        self._source.batch, self._is_watched = usage, is_watched
        self.round(now)

    def end(self, now: datetime) -> None:
        """End, as when asked to."""
        self._advance(now)
        self._settle()
        self.flush(now, 0.0, lambda: True)

    def _start(self, now: datetime) -> None:
        self._objects.changed.clear()
        self._feed.tell_vpas(self._context.snapshot(), now)
        self._restore(now)
        for namespace, view in list(self._objects.views.items()):
            for name in view.pods:
                self._hear_of_pod(namespace, name, now)
                self._publish_urgent(now)
        for event in list(self._objects.events(now)):
            self._count_eviction(event, now)
            self._publish_urgent(now)

    def _advance(self, now: datetime) -> None:
        if now > self._clock.now():
            self._settle()
            self._clock.set(now)

    def _settle(self) -> None:
        """Resolve again what depends on controllers that changed."""
        if self._objects.changed:
            self.look(self._clock.now())

    def _hear_of_pod(self, namespace: str, name: str, now: datetime) -> None:
        snapshot = self._context.snapshot()
        self._feed.tell_some_pods(snapshot, [(namespace, name)], now, anywhere=True)

    def _publish_urgent(self, now: datetime) -> None:
        self._publisher.publish(self.model.urgent(now))
        self._skipped.tell(self.model.skipped)

    # --- what is done differently

    def _changed_namespaces(self) -> Collection[str]:
        changed = list(self._objects.changed)
        self._objects.changed.clear()
        return changed

    def _stored(self, _namespaces: Collection[str] | None) -> Iterable[Object]:
        return map(to_json, self._objects.checkpoints.values())

    def _orphans(self) -> list[CheckpointName]:
        vpas = {(one.namespace, one.name) for one in self._objects.vpas()}
        stored, ignored = self._objects.checkpoints.values(), self._rules.ignored_namespaces
        return [
            CheckpointName(one.namespace, one.name)
            for one in orphans(stored, vpas, kept_namespaces=ignored)
            if self._rules.namespace in ("", one.namespace)
        ]

    def _store(self, now: datetime) -> None:
        """Write checkpoints, unless the next round overwrites them unseen."""
        if self._is_watched or not self._overwrites:
            super()._store(now)

    def _refuse(self, problem: str) -> None:
        self.problems.append(problem)

    def _count(self) -> None:
        """Do nothing: no metric is looked at."""


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
