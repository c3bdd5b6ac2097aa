"""Tell of calls and rounds: to counters, to events, to the log, to the VPAs."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from app.model.snapshot import Snapshot
from app.ports import VPAS
from app.updater.core.decisions import Action, Decision, Reason
from app.updater.core.events import Severity, UpdateEvent, decision_events, outcome_events
from app.updater.core.outcomes import Outcome, RefusalKind, resize_refusal
from app.updater.core.owners import Overlap
from app.updater.core.plan import NamespacePlan, Plan
from app.updater.executor import Done
from app.updater.metrics import (
    EvictionFailure,
    PerRound,
    ResizeFailure,
    Round,
    UpdaterMetrics,
    VpaLabels,
)
from app.updater.notifications import Journal, Summaries

log = logging.getLogger("updater.report")


class Teller:
    """Tells; without a journal or summaries the cluster is told nothing.

    Args:
        counts: what counts.
        snapshot: returns what the watch shows.
        journal: takes events, None to send none.
        summaries: take what is written to VPAs, None to write nothing.
    """

    def __init__(
        self,
        counts: Counts,
        snapshot: Callable[[], Snapshot],
        *,
        journal: Journal | None = None,
        summaries: Summaries | None = None,
    ) -> None:
        self._counts = counts
        self._snapshot = snapshot
        self._journal = journal
        self._summaries = summaries
        self._waiting: Mapping[str, Reason] = {}
        self._overlaps: frozenset[Overlap] = frozenset()

    def tried(self, outcome: Outcome) -> None:
        """Tell of a call as soon as it was made; from any thread."""
        self._counts.tried(outcome)
        self._write(outcome_events(outcome), self._snapshot(), outcome.at)
        decision, error = outcome.step.decision, outcome.error
        extra = {
            "action": str(outcome.action),
            "pod": f"{decision.namespace}/{decision.pod}",
            "vpa": decision.vpa,
            "reason": decision.message,
        }
        if error is None:
            log.info("pod updated", extra=extra)
        else:
            log.warning("pod not updated", extra={**extra, "error": error.message})

    def decided(self, made: Plan, snapshot: Snapshot) -> None:
        """Tell of a plan before it is carried out."""
        self._counts.begin(made, snapshot)
        self._write(self._troubles(made), snapshot, made.now)

    def ended(self, book: Book, before: Book, done: Done, snapshot: Snapshot) -> None:
        """Tell of a round that is over."""
        self._counts.limited(done.limited)
        self._counts.end(book)
        if self._summaries is not None:
            for namespace, decisions in book.news(before):
                self._summaries.offer(snapshot.of(namespace).vpas, decisions)

    def stand_by(self) -> None:
        """Tell of nothing that is going on, for others know better."""
        self._counts.clear()

    def _write(self, notices: Iterable[UpdateEvent], snapshot: Snapshot, now: datetime) -> None:
        if self._journal is not None:
            self._journal.tell(notices, snapshot, now)

    def _troubles(self, made: Plan) -> Iterator[UpdateEvent]:
        """Yield what is told of troubles that begin."""
        yield from decision_events(made.decisions, self._waiting)
        self._waiting = waiting(made.decisions)
        overlaps = frozenset(made.overlaps)
        for found in sorted(overlaps - self._overlaps, key=_place):
            yield UpdateEvent(
                VPAS.kind,
                found.namespace,
                found.weaker,
                "",
                Severity.WARNING,
                "SelectorOverlap",
                f"VPA {found.stronger} claims the same pods and comes first",
            )
        self._overlaps = overlaps


def _place(overlap: Overlap) -> tuple[str, str, str]:
    return overlap.namespace, overlap.weaker, overlap.stronger


VpaPlace = tuple[str, str]  # namespace and name


@dataclass(frozen=True, slots=True)
class Told:
    """The decisions about the pods of a namespace, as they came out."""

    plan: NamespacePlan
    decisions: tuple[Decision, ...]
    reasons: Mapping[Reason, int]


@dataclass(frozen=True, slots=True)
class Book:
    """The decisions about all pods in the latest round."""

    namespaces: Mapping[str, Told] = field(default_factory=dict)

    def after(self, made: Plan, came_out: Mapping[str, Decision]) -> Book:
        """Return the book after a round; `came_out` are the decisions that were tried, by uid."""
        found: dict[str, Told] = {}
        for namespace, part in made.namespaces.items():
            told = self.namespaces.get(namespace)
            if told is None or told.plan is not part:  # one with queues is made anew each round
                told = _told(part, came_out)
            found[namespace] = told
        return Book(found)

    def reasons(self) -> Counter[str]:
        """Return how many pods each reason stands for."""
        counts: Counter[str] = Counter()
        for told in self.namespaces.values():
            counts.update(told.reasons)
        return counts

    def news(self, before: Book) -> Iterator[tuple[str, tuple[Decision, ...]]]:
        """Yield the namespaces of which something else is told than before, with what is."""
        for namespace, told in self.namespaces.items():
            if before.namespaces.get(namespace) is not told:
                yield namespace, told.decisions
        for namespace in sorted(before.namespaces.keys() - self.namespaces.keys()):
            yield namespace, ()

    def decisions(self, namespace: str = "") -> Iterator[Decision]:
        """Yield all decisions, or those of one namespace."""
        if namespace:
            told = self.namespaces.get(namespace)
            yield from told.decisions if told is not None else ()
            return
        for told in self.namespaces.values():
            yield from told.decisions


def _told(part: NamespacePlan, came_out: Mapping[str, Decision]) -> Told:
    decisions = part.decisions
    if part.queues and came_out:
        decisions = tuple(came_out.get(decision.uid, decision) for decision in decisions)
    return Told(part, decisions, Counter(found.reason for found in decisions))


class Counts:
    """Counts what is done, under the labels of the VPAs as they were planned for last."""

    def __init__(self, metrics: UpdaterMetrics) -> None:
        self._metrics = metrics
        self._lock = threading.Lock()
        self._labels: Mapping[VpaPlace, VpaLabels] = {}
        self._round = Round()
        self._acted: tuple[set[VpaPlace], set[VpaPlace]] = (set(), set())

    def begin(self, made: Plan, snapshot: Snapshot) -> None:
        """Begin a round with its plan; VPAs that are gone are told of no more."""
        labels: dict[VpaPlace, VpaLabels] = {}
        found = Round()
        for total in made.totals:
            place = (total.namespace, total.vpa)
            vpa = labels[place] = VpaLabels(total.pods, total.mode, total.vpa, total.namespace)
            self._metrics.show(vpa)
            found.add(PerRound.CONTROLLED_PODS, vpa, total.pods)
            if total.evictable:
                found.add(PerRound.EVICTABLE_PODS, vpa, total.evictable)
                found.add(PerRound.VPAS_WITH_EVICTABLE_PODS, vpa)
            if total.resizable:
                found.add(PerRound.IN_PLACE_UPDATABLE_PODS, vpa, total.resizable)
                found.add(PerRound.VPAS_WITH_IN_PLACE_UPDATABLE_PODS, vpa)
        with self._lock:
            self._labels, self._round, self._acted = labels, found, (set(), set())
        known = self._metrics.known
        self._metrics.forget(
            {place for place in known if place[1] not in snapshot.of(place[0]).vpas}
        )

    def end(self, book: Book) -> None:
        """Publish what a round found."""
        with self._lock:
            evicted, resized = self._acted
            for places, what in (
                (evicted, PerRound.VPAS_WITH_EVICTED_PODS),
                (resized, PerRound.VPAS_WITH_IN_PLACE_UPDATED_PODS),
            ):
                for place in places:
                    self._round.add(what, self._vpa(place))
            self._metrics.publish(self._round)
        self._metrics.decided(book.reasons())
        for decision in book.decisions():
            if decision.reason is Reason.INFEASIBLE_REMEMBERED:
                self._metrics.skipped_infeasible(self._vpa((decision.namespace, decision.vpa)))

    def clear(self) -> None:
        """Publish that no round found anything."""
        self._metrics.publish(Round())
        self._metrics.decided({})

    def tried(self, outcome: Outcome) -> None:
        """Count a call."""
        decision, error = outcome.step.decision, outcome.error
        place = (decision.namespace, decision.vpa)
        vpa = self._vpa(place, len(outcome.queue.pods))
        if outcome.action is Action.EVICT:
            if error is None:
                self._metrics.evicted(vpa)
                self._acted[0].add(place)
            else:
                self._metrics.eviction_failed(vpa, EvictionFailure.ERROR)
        elif error is not None:
            self._metrics.resize_failed(vpa, _resize_failure(outcome))
        elif decision.change is not None and decision.change.containers:
            self._metrics.resized(vpa)
            self._acted[1].add(place)

    def limited(self, decisions: Iterable[Decision]) -> None:
        """Count what found no token."""
        for decision in decisions:
            vpa = self._vpa((decision.namespace, decision.vpa))
            if decision.action is Action.EVICT:
                self._metrics.eviction_failed(vpa, EvictionFailure.RATE_LIMIT)
            else:
                self._metrics.resize_failed(vpa, ResizeFailure.RATE_LIMIT)

    def _vpa(self, place: VpaPlace, pods: int = 0) -> VpaLabels:
        """Return the labels of a VPA; before the first round at least the pods are known."""
        return self._labels.get(place) or VpaLabels(pods, "", place[1], place[0])


def _resize_failure(outcome: Outcome) -> ResizeFailure:
    if outcome.action is Action.UNBOOST:
        return ResizeFailure.UNBOOST
    if outcome.error is not None and resize_refusal(outcome.error) is RefusalKind.INFEASIBLE:
        return ResizeFailure.INFEASIBLE
    return ResizeFailure.ERROR


def waiting(decisions: Sequence[Decision]) -> Mapping[str, Reason]:
    """Return the reasons of pods that wait, by uid, so that new troubles are known."""
    return {found.uid: found.reason for found in decisions if found.action is Action.WAIT}
