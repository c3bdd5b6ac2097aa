"""The recommender's rounds: see what changed, read usage, publish, store, tidy.

Strategy: one thread owns the model. A round begins every interval, from start to start, the
first one at once; in between, OOM kills are counted and published as soon as they are heard of.
Usage is read every interval, also while writes of a round take longer than that. A step whose
calls fail costs itself alone; a defect of ours outside of a guarded object ends the round.
Checkpoints are deleted only after complete lists of checkpoints, then of VPAs.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any, Final, Protocol

from app.model.errors import BadObject, ClusterError
from app.model.fields import Object
from app.ports import Cluster
from app.recommender.checkpoint_store import checkpoint_names, name_of
from app.recommender.cluster_feed import ClusterFeed
from app.recommender.configuration import RecommenderContext, RoundRules
from app.recommender.core.checkpoints import Checkpoint, CheckpointName, read_checkpoint
from app.recommender.core.oom import reduced
from app.recommender.core.status import Publication
from app.recommender.core.targets import VpaKey
from app.recommender.metrics import RoundPhase
from app.recommender.publishing import Publisher
from app.recommender.report import SkippedReport
from app.recommender.usage_feed import UsageFeed

log = logging.getLogger("recommender.rounds")

_HEARING_SECONDS: Final = 0.2  # how long a kill may wait
_MOST_HEARD: Final = 10_000
_WRONG_CLOCK: Final = timedelta(minutes=1)
_FEW_NAMESPACES: Final = 10  # whose checkpoints are read alone
_ROW_MINUTES: Final = 60  # in which every row may be written once


class RoundWriter(Protocol):
    """Where a recommender's statuses and checkpoints go."""

    @property
    def wants_checkpoints(self) -> bool:
        """Whether checkpoints of this round are to be written."""

    def publish(self, publications: Sequence[Publication]) -> None:
        """Queue statuses."""

    def publish_urgent(self, publications: Sequence[Publication]) -> None:
        """Queue statuses before all other writes."""

    def store(self, checkpoints: Sequence[Checkpoint]) -> None:
        """Queue checkpoints."""

    def drop(
        self, names: Iterable[CheckpointName], kept: Callable[[CheckpointName], object]
    ) -> None:
        """Queue deletions of checkpoints; `kept` is called with those that were not deleted."""

    def write(self, *, until_ended: bool) -> Iterable[None]:
        """Make writes until all have begun, or ended; yield where urgent ones may be queued."""

    def flush(
        self, checkpoints: Sequence[Checkpoint], seconds: float, may_finish: Callable[[], bool]
    ) -> int:
        """Write checkpoints and nothing else; return how many were written."""

    def take_counts(self) -> dict[str, int]:
        """Return, once, how many statuses and checkpoints were written, and how many were not."""


class RecentChanges:
    """What changed between rounds, as far as it is heard of; from any thread."""

    def __init__(self) -> None:
        self.pods: deque[tuple[str, str]] = deque(maxlen=_MOST_HEARD)
        self.events: deque[Object] = deque(maxlen=_MOST_HEARD)

    def __bool__(self) -> bool:
        return bool(self.pods or self.events)

    def note_event(self, event: Object) -> bool:
        """Note an eviction's event; return whether it is one that a kubelet can have written."""
        kept = reduced(event)
        if kept is not None:
            self.events.append(kept)
        return kept is not None


class Recommender:
    """One model, from its start on checkpoints to its end."""

    def __init__(
        self,
        rules: RoundRules,
        context: RecommenderContext,
        recent: RecentChanges,
        feed: ClusterFeed,
        writer: RoundWriter,
        may_continue: Callable[[], bool] = lambda: True,  # we still lead, and are not stopping
    ) -> None:
        self.model = feed.model
        self._rules = rules
        self._context = context
        self._recent = recent
        self._may_continue = may_continue
        clock = context.clock
        self._variant = variant = rules.variant
        self._feed = feed
        self._usage = UsageFeed(self.model, feed.vpas, context.usage, context.metrics, context.past)
        self._writer = writer
        self._skipped = SkippedReport(context.metrics)
        self._has_looked = self._is_restored = False
        self._refused: dict[str, set[str]] = {}  # sentences about checkpoints, by namespace
        self._took: dict[RoundPhase, float] = {}  # seconds, in the last round
        self._samples = 0  # of the last round
        self._due = self._sampled = self._tidied = clock.monotonic()
        if not variant.begins_at_once:
            self._due += rules.interval_seconds
        self.finished: float | None = None  # when a round last ended

    def tick(self, now: datetime) -> float:
        """Do what is due; return the seconds until the next look."""
        clock, past = self._context.clock, self._context.past
        if past is not None and not (self._variant.begins_at_once or past.is_settled()):
            self._due = clock.monotonic() + self._rules.interval_seconds
            self.finished = clock.monotonic()
        elif clock.monotonic() >= self._due:
            began = clock.monotonic()
            self.round(now)
            self._due = max(began + self._rules.interval_seconds, clock.monotonic())
        elif not self._has_looked:
            self.look(now)  # so that kills are heard of while the first round waits
        elif self._recent and self._is_restored:
            self.publish_urgent()
        return min(max(self._due - clock.monotonic(), 0.0), _HEARING_SECONDS)

    def round(self, now: datetime) -> None:
        """Go through one round."""
        clock, began = self._context.clock, self._context.clock.monotonic()
        self.look(now)
        self._usage.learn_past(now)
        self._samples = self._sample(now)
        with self._timed(RoundPhase.UPDATE_VPAS):
            server_now = self._server_now(now)
            self._writer.publish(self.model.tick(now, expiry_now=server_now))
            self._write(until_ended=False)
        self._context.report.show(self.model)
        if self._rules.keeps_checkpoints:
            with self._timed(RoundPhase.MAINTAIN_CHECKPOINTS):
                self._store(now)
                self._write(until_ended=True)
            with self._timed(RoundPhase.GARBAGE_COLLECT):
                self._drop_abandoned()
                self._drop_orphans()
        self._write(until_ended=True)
        self._context.report.count(self.model, (one.vpa for one in self._feed.vpas.values()))
        self._skipped.log(self.model.skipped)
        self.finished = clock.monotonic()
        self._context.metrics.step(RoundPhase.TOTAL, self.finished - began)
        extra = {
            "vpas": len(self._feed.vpas),
            "histories": self.model.row_count,
            "samples": self._samples,
            **self._writer.take_counts(),
            "seconds": round(self.finished - began, 3),
            "steps": {str(step): round(seconds, 3) for step, seconds in self._took.items()},
            "tally": self.model.tally.counts(),
        }
        log.info("round finished", extra=extra)

    def flush(self, now: datetime, seconds: float, may_finish: Callable[[], bool]) -> None:
        """Store all that changed, as long as there is time."""
        keeps = self._rules.keeps_checkpoints and self._variant.flushes_checkpoints
        if not (keeps and self._is_restored):
            return
        due = self.model.checkpoints(now, None)
        stored = self._writer.flush(due, seconds, may_finish)
        log.info("history flushed", extra={"stored": stored, "not_stored": len(due) - stored})

    # --- hearing

    def publish_urgent(self) -> None:
        """Count and publish what was heard of between rounds."""
        self._writer.publish_urgent(self._news())
        self._write(until_ended=True)
        self._context.report.show(self.model)
        self._skipped.log(self.model.skipped)

    def look(self, now: datetime) -> None:
        """Tell the model all that there is."""
        self._has_looked = True
        snapshot = self._context.snapshot()
        with self._timed(RoundPhase.LOAD_VPAS):
            self._feed.tell_vpas(snapshot, now)
            self._feed.tell_gone_vpas(snapshot, now)
        with self._timed(RoundPhase.DELETE_REMOVED_PODS):
            self._feed.tell_gone_pods(snapshot)
        with self._timed(RoundPhase.LOAD_PODS):
            self._feed.tell_pods(snapshot, now)
            self.restore(now)
            self._catch_up(now)

    def _catch_up(self, now: datetime) -> None:
        """Tell the model what was heard of; nothing is published with that."""
        if not self._recent:
            return
        pods = dict.fromkeys(_drained(self._recent.pods))
        self._feed.tell_some_pods(self._context.snapshot(), pods, now)
        for event in list(_drained(self._recent.events)):
            self._count_eviction(event, now)

    def _count_eviction(self, event: Object, now: datetime) -> None:
        with self.model.skipped.guard("event", event, name=_shown):
            self.model.killed(self._variant.evicted(event), now)

    def _server_now(self, now: datetime) -> datetime:
        """Return the time by the API server's clock, or ours while that is not known."""
        server_now = self._context.server_now() or now
        ahead = now - server_now
        if abs(ahead) > _WRONG_CLOCK:
            extra = {"ahead_seconds": round(ahead.total_seconds())}
            log.warning("our clock differs from the API server's", extra=extra)
        return server_now

    def restore(self, now: datetime) -> None:
        """Read checkpoints for VPAs that came; what cannot be read now is read in a later round.

        They are from the future only by both clocks, ours and the API server's.
        """
        waiting = set(self.model.awaited())
        if self._is_restored and not waiting:
            return
        found, lost = list[Checkpoint](), set[VpaKey]()
        if self._rules.keeps_checkpoints:
            namespaces = {namespace for namespace, _ in waiting}
            is_some = self._is_restored and len(namespaces) <= _FEW_NAMESPACES
            try:
                found = self._readable(namespaces if is_some else None, lost)
            except ClusterError as error:
                log.warning("checkpoints not read", extra={"error": str(error)})
                return
        now = max(now, self._context.server_now() or now)
        if self._is_restored:
            mine = [one for one in found if one.vpa_key in waiting]
            problems = self.model.restore(mine, now, only=waiting, lost=lost & waiting)
        else:
            problems = self.model.restore(found, now, lost=lost)
            self._is_restored = True
        self._usage.want_past_of(waiting)
        for problem in problems:
            self._context.report.refuse(problem)

    def _readable(self, namespaces: Collection[str] | None, lost: set[VpaKey]) -> list[Checkpoint]:
        """Return the checkpoints that can be read; note whose the others are.

        Raises:
            ClusterError: not all of them could be read.
        """
        found, refused = list[Checkpoint](), dict[str, set[str]]()
        for item in self._context.checkpoints.items(namespaces, self._may_continue):
            with self.model.skipped.guard("checkpoint", item, name=_shown):
                found += self._read(item, lost, refused)
        kept = {} if namespaces is None else self._refused
        others = {key: one for key, one in kept.items() if key not in (namespaces or ())}
        self._refused = others | refused  # nothing of checkpoints that are gone
        return found

    def _read(
        self, item: Object, lost: set[VpaKey], refused: dict[str, set[str]]
    ) -> Sequence[Checkpoint]:
        try:
            return (read_checkpoint(item),)
        except Exception as error:
            lost.update(one.vpa_key for one in checkpoint_names([item]))
            if not isinstance(error, BadObject):
                raise
            problem = f"checkpoint {_shown(item)}: {error}"
        namespace = _shown(item).partition("/")[0]
        refused.setdefault(namespace, set()).add(problem)
        if problem not in self._refused.get(namespace, ()):  # else it was reported
            self._context.report.refuse(problem)
        return ()

    def _sample(self, now: datetime) -> int:
        """Read usage; return of how many containers."""
        self._sampled = self._context.clock.monotonic()
        with self._timed(RoundPhase.LOAD_METRICS):
            return self._usage.read(self._context.snapshot(), self._may_continue, now)

    # --- writing

    def _store(self, now: datetime) -> None:
        """Queue the most urgent checkpoints, or all of them as time allows."""
        if not (self._is_restored and self._writer.wants_checkpoints):
            return
        budget = None
        if self._variant.budgets_checkpoints:
            least = self._rules.checkpoints_per_minute
            per_minute = max(least, self.model.row_count // _ROW_MINUTES)
            budget = max(int(per_minute * self._rules.interval_seconds / 60), self._rules.threads)
        self._writer.store(self.model.checkpoints(now, budget))

    def _write(self, *, until_ended: bool) -> None:
        """Make writes until all have begun, or ended; usage that is due and kills come between."""
        for _ in self._writer.write(until_ended=until_ended):
            self._sample_meanwhile()
            if self._recent and self._is_restored:
                self._writer.publish_urgent(self._news())

    def _news(self) -> Sequence[Publication]:
        """Catch up; return the statuses that kills made urgent."""
        now = self._context.clock.now()
        self._catch_up(now)
        return self.model.urgent(now)

    def _sample_meanwhile(self) -> None:
        """Read usage that is due, so that writes to a slow server do not delay it."""
        clock = self._context.clock
        if not self._variant.samples_meanwhile:
            return
        is_due = clock.monotonic() - self._sampled >= self._rules.interval_seconds
        if is_due and self._is_restored and self._may_continue():
            self._samples += self._sample(clock.now())

    def _drop_abandoned(self) -> None:
        if names := [CheckpointName(*one) for one in self.model.abandoned()]:
            self._writer.drop(names, lambda one: self.model.not_dropped(one.namespace, one.name))
            self._write(until_ended=True)

    def _drop_orphans(self) -> None:
        """Delete checkpoints of VPAs that do not exist; a list that fails deletes nothing."""
        clock = self._context.clock
        if clock.monotonic() - self._tidied < self._rules.orphans_seconds:
            return
        try:
            names = self._context.checkpoints.orphans(
                self._rules.ignored_namespaces, self._may_continue
            )
        except (ClusterError, BadObject) as error:
            log.warning("orphaned checkpoints not looked for", extra={"error": str(error)})
            return
        kept = list[CheckpointName]()
        self._writer.drop(names, kept.append)
        self._write(until_ended=True)
        if not kept:
            self._tidied = clock.monotonic()

    # --- inside

    @contextmanager
    def _timed(self, step: RoundPhase) -> Iterator[None]:
        began = self._context.clock.monotonic()
        yield
        self._took[step] = self._context.clock.monotonic() - began
        self._context.metrics.step(step, self._took[step])


def begin_term(
    cluster_for_writes: Callable[[], Cluster],  # calls end before another may lead
    rules: RoundRules,
    context: RecommenderContext,
    recent: RecentChanges,
    may_continue: Callable[[], bool] = lambda: True,
) -> Recommender:
    """Return a recommender with a new model, which writes into a cluster."""
    variant, model = rules.variant, rules.variant.make_model(rules.model_rules)
    feed = ClusterFeed(model, context.owners, context.clock, rules.ignored_namespaces, variant)
    writer = Publisher(cluster_for_writes, context, rules, model, feed.vpas, may_continue)
    return Recommender(rules, context, recent, feed, writer, may_continue)


def _drained(queue: deque[Any]) -> Iterator[Any]:
    while queue:
        yield queue.popleft()


def _shown(item: Object) -> str:
    try:
        return "/".join(name_of(item))
    except BadObject:
        return "?"
