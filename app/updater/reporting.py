"""What is told of rounds and calls: numbers, decisions, last deeds.

Strategy: what was told of a namespace stays as long as its part of the plan is the same, so a
quiet cluster costs nothing.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from app.model.snapshot import Snapshot
from app.updater.core.decisions import Action, Decision, Reason
from app.updater.core.outcomes import Outcome, RefusalKind, resize_refusal
from app.updater.core.plan import NamespacePlan, Plan
from app.updater.metrics import (
    EvictionFailure,
    PerRound,
    ResizeFailure,
    Round,
    UpdaterMetrics,
    VpaLabels,
)

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
