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
from app.commands.replaying.objects import RecordedObjects
from app.model.fields import Object
from app.model.pods import ContainerStatus
from app.model.snapshot import Snapshot
from app.ports import Cluster
from app.recommender.checkpoint_reader import CheckpointName
from app.recommender.configuration import RoundRules
from app.recommender.core.checkpoints import Checkpoint, to_json
from app.recommender.core.history import orphans
from app.recommender.core.model import RecommenderModel
from app.recommender.core.oom import OomRecord
from app.recommender.core.skipped import SkippedObjects
from app.recommender.core.status import Publication
from app.recommender.core.targets import ObservedVpa
from app.recommender.core.usage import Metrics, UsageBatch
from app.recommender.metrics import RecommenderMetrics
from app.recommender.publishing import PublishingContext, PublishingRules
from app.recommender.recommender import RecentChanges, Recommender, RecommenderContext

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

    def read(
        self,
        vpas: Iterable[ObservedVpa],
        snapshot: Snapshot,
        may_ask: Callable[[], bool],
        skipped: SkippedObjects,
    ) -> Iterator[Metrics]:
        """Yield the batch if there is anything in it."""
        del vpas, snapshot, may_ask, skipped
        if len(self.batch):
            yield Metrics(self.batch, [])


class RecordedCheckpoints:
    """The checkpoints that a recommender sees."""

    def __init__(self, objects: RecordedObjects, namespace: str) -> None:
        self._objects = objects
        self._namespace = namespace

    def items(self) -> Iterator[Object]:
        """Yield checkpoints as an API server lists them."""
        return map(to_json, self._objects.checkpoints.values())

    def orphans(self, kept_namespaces: Collection[str]) -> list[CheckpointName]:
        """Return the checkpoints whose VPA does not exist, but those in some namespaces."""
        vpas = {(one.namespace, one.name) for one in self._objects.vpas()}
        stored = self._objects.checkpoints.values()
        found = orphans(stored, vpas, kept_namespaces=kept_namespaces)
        seen = (one for one in found if self._namespace in ("", one.namespace))
        return [(one.namespace, one.name, "") for one in seen]


class ValueWriter:
    """Writes values into the store, and tells the recommender what it sees of that."""

    is_watched = True  # whether anything sees this round's checkpoints before the next one's

    def __init__(
        self,
        objects: RecordedObjects,
        desk: PublishingContext,
        rules: RoundRules,
    ) -> None:
        self._objects = objects
        self._desk = desk
        self._overwrites = not rules.variant.checkpoints.is_budgeted  # all of them, by name alone

    def publish(self, publications: Sequence[Publication]) -> None:
        """Write statuses."""
        for one in publications:
            self._desk.written(self._objects.publish(one))

    def store(self, asked: Callable[[], Sequence[Checkpoint]]) -> None:
        """Write checkpoints, unless the next round overwrites them unseen."""
        if self.is_watched or not self._overwrites:
            self._store(asked())

    def drop(self, names: Iterable[CheckpointName]) -> list[CheckpointName]:
        """Delete checkpoints."""
        self._objects.drop_checkpoints(name[:2] for name in names)
        return []

    def finish(self) -> None:
        """Write what is urgent."""
        self.publish(self._desk.urgent())

    def flush(
        self, checkpoints: Sequence[Checkpoint], seconds: float, may: Callable[[], bool]
    ) -> tuple[int, int]:
        """Write the last checkpoints."""
        del seconds, may
        self._store(checkpoints)
        return len(checkpoints), len(checkpoints)

    def told(self) -> dict[str, int]:
        """Return nothing: writes are not counted."""
        return {}

    def _store(self, checkpoints: Iterable[Checkpoint]) -> None:
        for one in checkpoints:
            if not self._objects.store(one, by_name=self._overwrites):
                self._desk.model.not_stored(one)


class ReplayedRecommender:
    """One term of a recommender, from its start on checkpoints to its end."""

    def __init__(self, objects: RecordedObjects, rules: RoundRules, now: datetime) -> None:
        self.problems: list[str] = []  # sentences about checkpoints that cannot be used
        self._objects = objects
        self._clock = ReplayClock(now)
        self._usage = RecordedSource()
        self._heard = RecentChanges()
        self._recommender = Recommender(replayed(rules), self._around(rules), self._heard)
        self._start(now)

    @property
    def model(self) -> RecommenderModel:
        """What it knows."""
        return self._recommender.model

    def hear(self, change: RecordedChange, now: datetime, *, is_new: bool) -> None:
        """Hear of a change that the store has made already."""
        self._advance(now)
        key = (change.namespace, change.key)
        match change.subject:
            case RecordedKind.VPA:
                self._heard.vpas.append(key)
                self._recommender.catch_up(now)
                return
            case RecordedKind.POD if change.value is None:
                self._heard.pods.append(key)
                self._recommender.catch_up(now)
                return
            case RecordedKind.POD:
                if any(map(_ended, change.value.statuses)):
                    self._settle()  # a kill counts for the VPAs that have the pod
                self._heard.pods.append(key)
            case RecordedKind.EVENT if is_new:
                self._settle()
                self._heard.events.append(change.value)
            case _:
                return
        self._recommender.hear()

    def kill(self, records: Sequence[OomRecord], now: datetime) -> None:
        """Hear of OOM kills."""
        self._advance(now)
        self._settle()
        self._heard.kills.extend(records)
        self._recommender.hear()

    def round(self, usage: UsageBatch, now: datetime, *, is_watched: bool = True) -> None:
        """Go through one round."""
        self._advance(now)
        self._usage.batch, self._writer.is_watched = usage, is_watched
        self._recommender.round(now)

    def end(self, now: datetime) -> None:
        """End, as when asked to."""
        self._advance(now)
        self._settle()
        self._recommender.flush(now, 0.0, lambda: True)

    def _around(self, rules: RoundRules) -> RecommenderContext:
        def writer(desk: PublishingContext, _rules: PublishingRules) -> ValueWriter:
            self._writer = ValueWriter(self._objects, desk, rules)
            return self._writer

        return RecommenderContext(
            cluster=cast("Cluster", self._objects),
            snapshot=lambda: self._objects.snapshot(rules.namespace),
            owners=self._objects,
            usage=self._usage,
            clock=self._clock,
            metrics=RecommenderMetrics(CollectorRegistry()),
            changed=self._changed,
            writer=writer,
            reader=RecordedCheckpoints(self._objects, rules.namespace),
            refuse=self.problems.append,
        )

    def _start(self, now: datetime) -> None:
        self._objects.changed.clear()
        self._recommender.begin(now)
        for namespace, view in list(self._objects.views.items()):
            for name in view.pods:
                self._heard.pods.append((namespace, name))
                self._recommender.hear()
        for event in list(self._objects.events(now)):
            self._heard.events.append(event)
            self._recommender.hear()

    def _advance(self, now: datetime) -> None:
        if now > self._clock.now():
            self._settle()
            self._clock.set(now)

    def _settle(self) -> None:
        """Resolve again what depends on controllers that changed."""
        if self._objects.changed:
            self._recommender.look(self._clock.now())

    def _changed(self) -> Collection[str]:
        changed = list(self._objects.changed)
        self._objects.changed.clear()
        return changed


def replayed(rules: RoundRules) -> RoundRules:
    """Return the rules of rounds that take no time and are watched by nothing."""
    return replace(
        rules,
        model=replace(rules.model, gathers_quality=False, expects_past=False),
        variant=replace(rules.variant, samples_meanwhile=False),
        orphans_seconds=rules.orphans_seconds + _ABOVE_SECONDS,
        checkpoints_per_minute=_NO_LIMIT,
        counts_vpas=False,
    )


def _ended(status: ContainerStatus) -> bool:
    return status.terminated is not None or status.last_terminated is not None
