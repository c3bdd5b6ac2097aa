"""The recommender's rounds: see what changed, read usage, publish, store, tidy.

Strategy: one thread owns the model. A round begins every interval, from start to start, the
first one at once; in between, kills for memory are counted and published as soon as they are
heard of. Usage is read every interval, also while writes of a round go on that take longer. A
step that fails costs itself alone. Checkpoints are deleted only after complete lists
of checkpoints, then of VPAs.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from app.model.errors import BadObject, ClusterError
from app.model.fields import Object
from app.model.snapshot import Snapshot
from app.ports import Clock, Cluster, Owners
from app.recommender.checkpoint_reader import (
    CheckpointReader,
    ClusterCheckpoints,
    identities,
    name_of,
)
from app.recommender.cluster_feed import ClusterFeed
from app.recommender.configuration import RoundRules
from app.recommender.core.checkpoints import Checkpoint, read_checkpoint
from app.recommender.core.model import RecommenderModel
from app.recommender.core.oom import OomRecord
from app.recommender.core.status import Publication
from app.recommender.core.targets import VpaKey
from app.recommender.core.usage import Metrics
from app.recommender.metrics import RecommenderMetrics, RoundPhase, VpaState
from app.recommender.past_reader import PastReader
from app.recommender.publishing import Publisher, PublishingContext, PublishingRules, RoundWriter
from app.recommender.report import SkippedReport, UnrecommendedVpas, state_of
from app.recommender.usage_feed import UsageFeed, UsageSource

log = logging.getLogger("recommender.rounds")

_HEARING_SECONDS: Final = 0.2  # how long a kill may wait
_MOST_HEARD: Final = 10_000
_ROW_MINUTES: Final = 60  # in which every row may be written once


@dataclass(frozen=True, slots=True)
class RecommenderContext:
    """What a recommender works with."""

    cluster: Cluster
    snapshot: Callable[[], Snapshot]
    owners: Owners
    usage: UsageSource
    clock: Clock
    metrics: RecommenderMetrics
    show: Callable[[RecommenderModel], None] = lambda _model: None  # what became of the model
    past: PastReader | None = None  # instead of checkpoints
    changed: Callable[[], Collection[str]] | None = None  # namespaces; None: all may have
    writer: Callable[[PublishingContext, PublishingRules], RoundWriter] = Publisher
    reader: CheckpointReader | None = None  # of checkpoints; None: reads them from the cluster
    refuse: Callable[[str], None] | None = None  # a checkpoint that cannot be used


class RecentChanges:
    """What changed between rounds, as far as it is heard of; from any thread."""

    def __init__(self) -> None:
        self.vpas: deque[VpaKey] = deque(maxlen=_MOST_HEARD)
        self.pods: deque[tuple[str, str]] = deque(maxlen=_MOST_HEARD)
        self.events: deque[Object] = deque(maxlen=_MOST_HEARD)
        self.kills: deque[OomRecord] = deque(maxlen=_MOST_HEARD)

    def __bool__(self) -> bool:
        return bool(self.vpas or self.pods or self.events or self.kills)


class Recommender:
    """One model, from its start on checkpoints to its end."""

    def __init__(
        self,
        rules: RoundRules,
        around: RecommenderContext,
        heard: RecentChanges,
        may_write: Callable[[], bool] = lambda: True,
    ) -> None:
        self.model = rules.variant.model(rules.model)
        self._rules = rules
        self._around = around
        self._heard = heard
        self._may_write = may_write
        clock = around.clock
        self._variant = variant = rules.variant
        self._feed = ClusterFeed(
            self.model, around.owners, clock, rules.ignored_namespaces, variant
        )
        self._usage = UsageFeed(self.model, self._feed.vpas, around.metrics, around.past)
        self._publisher = around.writer(
            PublishingContext(
                self.model,
                around.cluster,
                clock,
                around.metrics,
                may_write,
                self._urgent,
                self._born,
                lambda vpa: self._feed.tell_status(vpa, clock.now()),
                variant.checkpoints.put,
            ),
            PublishingRules(
                rules.interval_seconds, rules.checkpoint_seconds, rules.threads, rules.threads
            ),
        )
        self._reader = around.reader or ClusterCheckpoints(
            around.cluster, rules.namespace, may_write
        )
        self._unrecommended = UnrecommendedVpas(clock)
        self._skipped = SkippedReport(around.metrics)
        self._has_looked = self._is_restored = False
        self._refused = set[str]()  # what was told of checkpoints
        self._took: dict[RoundPhase, float] = {}  # seconds, in the last round
        self._samples = 0  # of the last round
        self._due = self._sampled = self._tidied = clock.monotonic()
        if not variant.begins_at_once:
            self._due += rules.interval_seconds
        self.finished: float | None = None  # when a round last ended

    def tick(self, now: datetime) -> float:
        """Do what is due; return the seconds until the next look."""
        clock, past = self._around.clock, self._around.past
        if past is not None and not (self._variant.begins_at_once or past.is_settled()):
            self._due = clock.monotonic() + self._rules.interval_seconds
            self.finished = clock.monotonic()
        elif clock.monotonic() >= self._due:
            began = clock.monotonic()
            self.round(now)
            self._due = max(began + self._rules.interval_seconds, clock.monotonic())
        elif not self._has_looked:
            self.look(now)  # so that kills are heard of while the first round waits
        elif self._heard and self._is_restored:
            self.hear()
        return min(max(self._due - clock.monotonic(), 0.0), _HEARING_SECONDS)

    def round(self, now: datetime) -> None:
        """Go through one round."""
        clock, began = self._around.clock, self._around.clock.monotonic()
        self.look(now)
        self._usage.recall(now)
        self._samples = self._sample(now)
        with self._timed(RoundPhase.UPDATE_VPAS):
            self._publisher.publish(self.model.tick(now))
        self._around.show(self.model)
        if self._rules.keeps_checkpoints:
            with self._timed(RoundPhase.MAINTAIN_CHECKPOINTS):
                self._store(now)
            with self._timed(RoundPhase.GARBAGE_COLLECT):
                self._drop_abandoned()
                self._drop_orphans()
        self._publisher.finish()
        if self._rules.counts_vpas:
            self._count()
        self._skipped.tell(self.model.skipped)
        self.finished = clock.monotonic()
        self._around.metrics.step(RoundPhase.TOTAL, self.finished - began)
        extra = {
            "vpas": len(self._feed.vpas),
            "histories": self.model.row_count,
            "samples": self._samples,
            **self._publisher.told(),
            "seconds": round(self.finished - began, 3),
            "steps": {str(step): round(seconds, 3) for step, seconds in self._took.items()},
            "tally": self.model.tally.counts(),
        }
        log.info("round finished", extra=extra)

    def flush(self, now: datetime, seconds: float, may_write: Callable[[], bool]) -> None:
        """Store all that changed, as long as there is time."""
        keeps = self._rules.keeps_checkpoints and self._variant.checkpoints.is_flushed
        if not (keeps and self._is_restored):
            return
        stored, due = self._publisher.flush(self.model.checkpoints(now, None), seconds, may_write)
        log.info("history flushed", extra={"stored": stored, "not_stored": due - stored})

    # --- hearing

    def begin(self, now: datetime) -> None:
        """Tell of VPAs and restore their history, before the first look."""
        self._feed.tell_vpas(self._around.snapshot(), now)
        self._restore(now)

    def hear(self) -> None:
        """Count and publish what was heard of between rounds."""
        self._publisher.finish()
        self._around.show(self.model)
        self._skipped.tell(self.model.skipped)

    def look(self, now: datetime) -> None:
        """Tell the model all that there is."""
        self._has_looked = True
        snapshot, changed = self._around.snapshot(), self._around.changed
        only = changed() if changed is not None else None
        with self._timed(RoundPhase.LOAD_VPAS):
            self._feed.tell_vpas(snapshot, now, only)
        with self._timed(RoundPhase.DELETE_REMOVED_PODS):
            self._feed.tell_gone_pods(snapshot, only)
        with self._timed(RoundPhase.LOAD_PODS):
            self._feed.tell_pods(snapshot, now, only)
            self._restore(now)
            self.catch_up(now)

    def catch_up(self, now: datetime) -> None:
        """Tell the model what was heard of; nothing is published with that."""
        snapshot, heard = self._around.snapshot(), self._heard
        if heard.vpas:
            self._feed.tell_some_vpas(snapshot, dict.fromkeys(_drained(heard.vpas)), now)
            self._restore(now)
        pods, anywhere = dict.fromkeys(_drained(heard.pods)), self._around.changed is not None
        self._feed.tell_some_pods(snapshot, pods, now, anywhere=anywhere)
        for event in list(_drained(heard.events)):
            with self.model.skipped.guard("event", event, name=_shown):
                self.model.killed(self._variant.evicted(event), now)
        self.model.killed(_drained(heard.kills), now)

    def _restore(self, now: datetime) -> None:
        """Read checkpoints for VPAs that came; what cannot be read now is read in a later round."""
        waiting = set(self.model.awaited())
        if self._is_restored and not waiting:
            return
        found, lost = list[Checkpoint](), set[VpaKey]()
        if self._rules.keeps_checkpoints:
            try:
                items = list(self._reader.items())
            except ClusterError as error:
                log.warning("checkpoints not read", extra={"error": str(error)})
                return
            found = self._readable(items, lost)
        if self._is_restored:
            mine = [one for one in found if (one.namespace, one.vpa) in waiting]
            problems = self.model.restore(mine, now, only=waiting, lost=lost & waiting)
        else:
            problems = self.model.restore(found, now, lost=lost)
            self._is_restored = True
        self._usage.miss(waiting)
        for problem in problems:
            self._refuse(problem)

    def _readable(self, items: Iterable[Object], lost: set[VpaKey]) -> list[Checkpoint]:
        """Return the checkpoints that can be read; note whose the others are."""
        found = list[Checkpoint]()
        for item in items:
            with self.model.skipped.guard("checkpoint", item, name=_shown):
                found += self._read(item, lost)
        return found

    def _read(self, item: Object, lost: set[VpaKey]) -> Sequence[Checkpoint]:
        try:
            return (read_checkpoint(item),)
        except Exception as error:
            lost.update((one.namespace, one.vpa) for one, _ in identities([item]))
            if not isinstance(error, BadObject):
                raise
            problem = f"checkpoint {_shown(item)}: {error}"
        if problem not in self._refused:  # else it was told of
            self._refused.add(problem)
            self._refuse(problem)
        return ()

    def _refuse(self, problem: str) -> None:
        if self._around.refuse is not None:
            self._around.refuse(problem)
            return
        log.warning("checkpoint not used", extra={"problem": problem})
        self._around.metrics.checkpoint_refused()

    def _sample(self, now: datetime) -> int:
        """Read usage; return how many containers were told of."""
        self._sampled = self._around.clock.monotonic()
        with self._timed(RoundPhase.LOAD_METRICS):
            return self._usage.read_usage(self._usage_pages(), now)

    def _usage_pages(self) -> Iterator[Metrics]:
        vpas, snapshot = self._feed.vpas.values(), self._around.snapshot()
        return self._around.usage.read(vpas, snapshot, self._may_write, self.model.skipped)

    # --- writing

    def _store(self, now: datetime) -> None:
        """Write the most urgent checkpoints, or all of them as time allows."""
        if not self._is_restored:
            return
        budget = None
        if self._variant.checkpoints.is_budgeted:
            least = self._rules.checkpoints_per_minute
            per_minute = max(least, self.model.row_count // _ROW_MINUTES)
            budget = max(int(per_minute * self._rules.interval_seconds / 60), self._rules.threads)
        self._publisher.store(lambda: self.model.checkpoints(now, budget))

    def _urgent(self) -> Sequence[Publication]:
        """Read usage that is due; return what kills heard of just now made worth a write."""
        self._sample_meanwhile()
        if not (self._heard and self._is_restored):
            return ()
        now = self._around.clock.now()
        self.catch_up(now)
        return self.model.urgent(now)

    def _sample_meanwhile(self) -> None:
        """Read usage that is due, so that writes to a slow server do not delay it."""
        clock = self._around.clock
        if not self._variant.samples_meanwhile:
            return
        is_due = clock.monotonic() - self._sampled >= self._rules.interval_seconds
        if is_due and self._is_restored and self._may_write():
            self._samples += self._sample(clock.now())

    def _drop_abandoned(self) -> None:
        names = [(*one, "") for one in self.model.abandoned()]
        for namespace, name, _ in self._publisher.drop(names):
            self.model.not_dropped(namespace, name)

    def _drop_orphans(self) -> None:
        """Delete checkpoints of VPAs that do not exist; a list that fails deletes nothing."""
        clock = self._around.clock
        if clock.monotonic() - self._tidied < self._rules.orphans_seconds:
            return
        try:
            names = self._reader.orphans(self._rules.ignored_namespaces)
        except (ClusterError, BadObject) as error:
            log.warning("orphaned checkpoints not looked for", extra={"error": str(error)})
            return
        if not self._publisher.drop(names):
            self._tidied = clock.monotonic()

    # --- inside

    def _born(self, key: VpaKey) -> datetime | None:
        return self._feed.vpas[key].vpa.created

    def _count(self) -> None:
        self._around.metrics.aggregates(self.model.row_count)
        vpas = [one.vpa for one in self._feed.vpas.values()]
        states = list[VpaState]()
        for vpa in vpas:
            with self.model.skipped.guard("VPA", vpa.namespace, vpa.name):
                states.append(state_of(vpa))
        self._around.metrics.vpas(states)
        self._unrecommended.look(vpas)

    @contextmanager
    def _timed(self, step: RoundPhase) -> Iterator[None]:
        began = self._around.clock.monotonic()
        yield
        self._took[step] = self._around.clock.monotonic() - began
        self._around.metrics.step(step, self._took[step])


def _drained(heard: deque[Any]) -> Iterator[Any]:
    while heard:
        yield heard.popleft()


def _shown(item: Object) -> str:
    try:
        return "/".join(name_of(item))
    except BadObject:
        return "?"
