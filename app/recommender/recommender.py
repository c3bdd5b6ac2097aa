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
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from app.model.errors import BadObject, ClusterError
from app.model.fields import Object, object_at, text_at
from app.model.snapshot import Snapshot
from app.ports import CHECKPOINTS, VPAS, Clock, Cluster, Json, Owners, Resource
from app.recommender.backfill import PastReader
from app.recommender.cluster_feed import ClusterFeed
from app.recommender.core.checkpoints import Checkpoint, read_checkpoint
from app.recommender.core.history import orphans
from app.recommender.core.model import RecommenderModel
from app.recommender.core.status import Publication
from app.recommender.core.targets import VpaKey
from app.recommender.metrics import RecommenderMetrics, RoundStep, VpaState
from app.recommender.paging import leavable, listed
from app.recommender.publishing import Publisher, PublishingContext, PublishingRules
from app.recommender.report import SkippedReport, UnrecommendedVpas, state_of
from app.recommender.rules import RoundRules
from app.recommender.usage import UsageFeed, UsageSource

log = logging.getLogger("recommender.rounds")

_HEARING_SECONDS: Final = 0.2  # how long a kill may wait
_MOST_HEARD: Final = 10_000
_LEAST_PER_MINUTE: Final = 300  # checkpoints
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


class RecentChanges:
    """Pods and events that came between rounds; they may come from any thread."""

    def __init__(self) -> None:
        self.pods: deque[tuple[str, str]] = deque(maxlen=_MOST_HEARD)
        self.events: deque[Object] = deque(maxlen=_MOST_HEARD)

    def __bool__(self) -> bool:
        return bool(self.pods or self.events)


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
        self._usage = UsageFeed(
            self.model, self._feed.vpas, around.metrics, around.past, variant.usage
        )
        self._publisher = Publisher(
            PublishingContext(
                self.model,
                around.cluster,
                clock,
                around.metrics,
                may_write,
                self._urgent,
                self._born,
                variant.checkpoints.put,
            ),
            PublishingRules(
                rules.interval_seconds, rules.checkpoint_seconds, rules.threads, rules.threads
            ),
        )
        self._unrecommended = UnrecommendedVpas(clock)
        self._skipped = SkippedReport(around.metrics)
        self._has_looked = self._is_restored = False
        self._refused = set[str]()  # what was told of checkpoints
        self._took: dict[RoundStep, float] = {}  # seconds, in the last round
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
            self._look(now)  # so that kills are heard of while the first round waits
        elif self._heard and self._is_restored:
            self._publisher.finish()
            self._around.show(self.model)
            self._skipped.tell(self.model.skipped)
        return min(max(self._due - clock.monotonic(), 0.0), _HEARING_SECONDS)

    def round(self, now: datetime) -> None:
        """Go through one round."""
        clock, began = self._around.clock, self._around.clock.monotonic()
        self._look(now)
        self._usage.recall(now)
        self._samples = self._sample(now)
        with self._timed(RoundStep.UPDATE_VPAS):
            self._publisher.publish(self.model.tick(now))
        self._around.show(self.model)
        if self._rules.keeps_checkpoints:
            with self._timed(RoundStep.MAINTAIN_CHECKPOINTS):
                self._store(now)
            with self._timed(RoundStep.GARBAGE_COLLECT):
                self._drop_abandoned()
                self._drop_orphans()
        self._publisher.finish()
        self._count()
        self.finished = clock.monotonic()
        self._around.metrics.step(RoundStep.TOTAL, self.finished - began)
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

    def _look(self, now: datetime) -> None:
        """Tell the model all that there is."""
        self._has_looked = True
        snapshot = self._around.snapshot()
        with self._timed(RoundStep.LOAD_VPAS):
            self._feed.tell_vpas(snapshot, now)
        with self._timed(RoundStep.DELETE_REMOVED_PODS):
            self._feed.tell_gone_pods(snapshot)
        with self._timed(RoundStep.LOAD_PODS):
            self._feed.tell_pods(snapshot, now)
            self._restore(now)
            self._hear(now)

    def _hear(self, now: datetime) -> None:
        pods = list(dict.fromkeys(_drained(self._heard.pods)))
        self._feed.tell_some(self._around.snapshot(), pods, now)
        for event in list(_drained(self._heard.events)):
            with self.model.skipped.guard("event", event, name=_shown):
                self.model.killed(self._variant.evicted(event), now)

    def _restore(self, now: datetime) -> None:
        """Read checkpoints for VPAs that came; what cannot be read now is read in a later round."""
        waiting = set(self.model.awaited())
        if self._is_restored and not waiting:
            return
        found, lost = list[Checkpoint](), set[VpaKey]()
        if self._rules.keeps_checkpoints:
            try:
                items = list(self._items(CHECKPOINTS))
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
            lost.update((one.namespace, one.vpa) for one, _ in _identities([item]))
            if not isinstance(error, BadObject):
                raise
            problem = f"checkpoint {_shown(item)}: {error}"
        if problem not in self._refused:  # else it was told of
            self._refused.add(problem)
            self._refuse(problem)
        return ()

    def _refuse(self, problem: str) -> None:
        log.warning("checkpoint not used", extra={"problem": problem})
        self._around.metrics.checkpoint_refused()

    def _sample(self, now: datetime) -> int:
        """Read usage; return how many containers were told of."""
        self._sampled = self._around.clock.monotonic()
        with self._timed(RoundStep.LOAD_METRICS):
            return self._usage.read_usage(self._usage_pages(), now)

    def _usage_pages(self) -> Iterator[Sequence[Object]]:
        vpas, snapshot = self._feed.vpas.values(), self._around.snapshot()
        found = self._around.usage.pages(vpas, snapshot, self._may_write, self.model.skipped)
        return leavable(found, self._may_write)

    # --- writing

    def _store(self, now: datetime) -> None:
        """Write the most urgent checkpoints, or all of them as time allows."""
        if not self._is_restored:
            return
        if not self._variant.checkpoints.is_budgeted:
            self._publisher.store(self.model.checkpoints(now, None))
            return
        per_minute = max(_LEAST_PER_MINUTE, self.model.row_count // _ROW_MINUTES)
        budget = max(int(per_minute * self._rules.interval_seconds / 60), self._rules.threads)
        self._publisher.store(self.model.checkpoints(now, budget))

    def _urgent(self) -> Sequence[Publication]:
        """Read usage that is due; return what kills heard of just now made worth a write."""
        self._sample_meanwhile()
        if not (self._heard and self._is_restored):
            return ()
        now = self._around.clock.now()
        self._hear(now)
        return self.model.urgent(now)

    def _sample_meanwhile(self) -> None:
        """Read usage that is due, for whoever writes to a slow server shall not miss it."""
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
            # In this order: whose checkpoint is there already is in the second list.
            owned = list(_identities(self._items(CHECKPOINTS)))
            vpas = {_name(item) for item in self._items(VPAS)}
        except (ClusterError, BadObject) as error:
            log.warning("orphaned checkpoints not looked for", extra={"error": str(error)})
            return
        uids = {(one.namespace, one.name): uid for one, uid in owned}
        found = orphans(
            (one for one, _ in owned), vpas, kept_namespaces=self._rules.ignored_namespaces
        )
        names = [(one.namespace, one.name, uids[one.namespace, one.name]) for one in found]
        if not self._publisher.drop(names):
            self._tidied = clock.monotonic()

    # --- inside

    def _items(self, resource: Resource) -> Iterator[Json]:
        pages = listed(self._around.cluster, resource, self._rules.namespace, self._may_write)
        for page in leavable(pages, self._may_write):
            yield from page

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
        self._skipped.tell(self.model.skipped)

    @contextmanager
    def _timed(self, step: RoundStep) -> Iterator[None]:
        began = self._around.clock.monotonic()
        yield
        self._took[step] = self._around.clock.monotonic() - began
        self._around.metrics.step(step, self._took[step])


def _drained(heard: deque[Any]) -> Iterator[Any]:
    while heard:
        yield heard.popleft()


def _identities(items: Iterable[Object]) -> Iterator[tuple[Checkpoint, str]]:
    """Yield whose each checkpoint is, whatever else is in it, and its uid."""
    for item in items:
        with suppress(BadObject):  # nobody can say that it is an orphan's
            if vpa := text_at(object_at(item, "spec", ""), "vpaObjectName", "spec"):
                uid = text_at(object_at(item, "metadata", ""), "uid", "metadata")
                yield Checkpoint(*_name(item), vpa, ""), uid


def _shown(item: Object) -> str:
    try:
        return "/".join(_name(item))
    except BadObject:
        return "?"


def _name(item: Object) -> tuple[str, str]:
    metadata = object_at(item, "metadata", "")
    return text_at(metadata, "namespace", "metadata"), text_at(metadata, "name", "metadata")
