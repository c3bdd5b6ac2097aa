"""Report calls and rounds: to metrics, events, annotations, the log and `/v1/decisions`.

Strategy: what was reported of a namespace stays as long as its part of the plan is the same, so
a quiet cluster costs nothing.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Final, NamedTuple

from app.model.quantity import Quantity
from app.model.snapshot import Snapshot
from app.ports import VPAS
from app.updater.core.action_queue import QueueStep
from app.updater.core.decisions import Action, Decision, Reason
from app.updater.core.events import Severity, UpdateEvent, decision_events, outcome_events
from app.updater.core.memory import NamespacedName
from app.updater.core.outcomes import Outcome, RefusalKind, refusal_reason, resize_refusal
from app.updater.core.owners import Overlap
from app.updater.core.plan import NamespacePlan, Plan
from app.updater.core.proof import Breakers
from app.updater.metrics import (
    BreakerScope,
    EvictionFailure,
    PerRound,
    ResizeFailure,
    Round,
    UpdaterMetrics,
    VpaLabels,
)
from app.updater.notifications import EventRecorder, SummaryWriter

log = logging.getLogger("updater.report")

_NAMED: Final = 10  # namespaces in a log line
_KEPT: Final = timedelta(hours=1)  # the last action for a pod that is gone
MOST_GONE: Final = 20_000  # pods that are gone, of which the last action is kept
_LONGEST_TEXT: Final = 1024  # characters of what is kept of an action
_MOST_REQUESTS: Final = 50


class RequestChange(NamedTuple):
    """What an action changes of one request."""

    container: str
    resource: str
    old: Quantity | None  # None: there was none
    new: Quantity


@dataclass(frozen=True, slots=True)
class LastAction:
    """The last thing that was done to a pod, or tried."""

    namespace: str
    pod: str
    vpa: str
    action: Action
    at: datetime
    reason: Reason  # what became of it
    cause: Reason | None
    message: str  # the cause in a sentence
    requests: tuple[RequestChange, ...] = ()
    error: str = ""  # empty: it was accepted


def request_changes(step: QueueStep) -> tuple[RequestChange, ...]:
    """Return what a step changes: what a resize writes, or what the next pod is to have."""
    decision = step.decision
    if decision.change is not None:
        resources = [container.resources for container in step.pod.containers]
        return tuple(
            RequestChange(one.container, resource, resources[one.index].request(resource), new)
            for one in decision.change.containers
            for resource, new in one.requests.items()
        )
    pairs = decision.numbers.pairs if decision.numbers is not None else ()
    return tuple(
        RequestChange(pair.container, pair.resource, pair.current, pair.target)
        for pair in pairs
        if pair.current != pair.target
    )


@dataclass(frozen=True, slots=True)
class _NamespaceDecisions:
    """The decisions about the pods of a namespace, as they came out."""

    plan: NamespacePlan
    decisions: tuple[Decision, ...]
    reasons: Mapping[Reason, int]


class DecisionLog:
    """The decisions of the latest round and the last actions; safe to use from many threads."""

    def __init__(self) -> None:
        self.round_at: datetime | None = None  # None before the first round
        self._namespaces: Mapping[str, _NamespaceDecisions] = {}
        self._actions: dict[str, LastAction] = {}
        self._lock = threading.Lock()

    def record(self, outcome: Outcome) -> None:
        """Keep what was done to a pod, or tried."""
        decision, error = outcome.step.decision, outcome.error
        reason = refusal_reason(outcome.action, error)[0] if error else decision.done().reason
        action = LastAction(
            decision.namespace,
            decision.pod,
            decision.vpa,
            outcome.action,
            outcome.at,
            reason,
            decision.cause,
            decision.message[:_LONGEST_TEXT],
            request_changes(outcome.step)[:_MOST_REQUESTS],
            error.message[:_LONGEST_TEXT] if error is not None else "",
        )
        with self._lock:
            self._actions.pop(decision.uid, None)  # so that the latest one is last
            self._actions[decision.uid] = action

    def end_round(
        self, made: Plan, came_out: Mapping[str, Decision]
    ) -> Iterator[tuple[str, tuple[Decision, ...]]]:
        """Take over a round; return the decisions of each namespace for which they are others.

        Args:
            made: the plan of the round.
            came_out: the decisions that were tried, by uid.
        """
        before, found = self._namespaces, dict[str, _NamespaceDecisions]()
        for namespace, part in made.namespaces.items():
            known = before.get(namespace)
            if known is None or known.plan is not part:  # one with queues is new in each round
                known = _namespace_decisions(part, came_out)
            found[namespace] = known
        self._namespaces, self.round_at = found, made.now
        living = {decision.uid for decision in made.decisions}
        with self._lock:
            gone = [uid for uid in self._actions if uid not in living]
            for uid in gone[:-MOST_GONE]:
                del self._actions[uid]
            for uid in gone[-MOST_GONE:]:
                if made.now - self._actions[uid].at >= _KEPT:
                    del self._actions[uid]
        return _changed(before, found)

    def clear(self) -> None:
        """Forget the decisions: from now on another process makes them."""
        self._namespaces, self.round_at = {}, None

    def decisions(self, namespace: str = "") -> Iterator[Decision]:
        """Yield all decisions, or those of one namespace."""
        known = self._namespaces
        for found in [known.get(namespace)] if namespace else known.values():
            yield from found.decisions if found is not None else ()

    def last_actions(self) -> Mapping[str, LastAction]:
        """Return the last action for each pod, by uid."""
        with self._lock:
            return dict(self._actions)

    def reasons(self) -> Counter[str]:
        """Return how many pods each reason stands for."""
        counts: Counter[str] = Counter()
        for found in self._namespaces.values():
            counts.update(found.reasons)
        return counts


def _namespace_decisions(
    part: NamespacePlan, came_out: Mapping[str, Decision]
) -> _NamespaceDecisions:
    decisions = part.decisions
    if part.queues and came_out:
        decisions = tuple(came_out.get(decision.uid, decision) for decision in decisions)
    return _NamespaceDecisions(part, decisions, Counter(found.reason for found in decisions))


def _changed(
    before: Mapping[str, _NamespaceDecisions], now: Mapping[str, _NamespaceDecisions]
) -> Iterator[tuple[str, tuple[Decision, ...]]]:
    for namespace, found in now.items():
        if before.get(namespace) is not found:
            yield namespace, found.decisions
    for namespace in sorted(before.keys() - now.keys()):
        yield namespace, ()


class Reporter:
    """Reports; without a recorder and summaries nothing is written to the cluster."""

    def __init__(
        self,
        metrics: UpdaterMetrics,
        decision_log: DecisionLog,
        recorder: EventRecorder | None,
        summaries: SummaryWriter | None,
    ) -> None:
        self._counts = _RoundCounts(metrics)
        self._metrics = metrics
        self._log = decision_log
        self._recorder = recorder
        self._summaries = summaries
        self._waiting: Mapping[str, Reason] = {}  # of the round before
        self._overlaps: frozenset[Overlap] = frozenset()
        self._stopped: tuple[str, ...] = ()  # namespaces, or "" for the whole cluster

    def report_call(self, outcome: Outcome, snapshot: Snapshot) -> None:
        """Report a call as soon as it was made; from any thread."""
        self._counts.count_call(outcome)
        self._log.record(outcome)
        self._send(outcome_events(outcome), snapshot, outcome.at)
        decision, error = outcome.step.decision, outcome.error
        extra = {
            "action": str(outcome.action),
            "pod": f"{decision.namespace}/{decision.pod}",
            "workload": str(outcome.queue.owner),
            "vpa": decision.vpa,
            "cause": str(decision.cause),
            "reason": decision.message,
        }
        if error is None:
            log.info("pod updated", extra=extra)
        else:
            log.warning("pod not updated", extra={**extra, "error": error.message})

    def report_roles(
        self, events: Iterable[UpdateEvent], snapshot: Snapshot, now: datetime
    ) -> None:
        """Report which pods lead now."""
        for event in (events := list(events)):
            vpa = f"{event.namespace}/{event.name}"
            log.info("role changed", extra={"vpa": vpa, "reason": event.message})
        self._send(events, snapshot, now)

    def begin_round(self, made: Plan, snapshot: Snapshot) -> None:
        """Report a plan before it is carried out."""
        self._counts.begin(made, snapshot)
        self._send(self._troubles(made), snapshot, made.now)
        self._report_breakers(made.memory.breakers)

    def end_round(
        self,
        made: Plan,
        came_out: Mapping[str, Decision],
        limited: Iterable[Decision],
        snapshot: Snapshot,
    ) -> Collection[str]:
        """Report a round that is over; return the reasons that now stand for any pod.

        Args:
            made: its plan.
            came_out: the decisions that were tried, by uid.
            limited: those of them that found no token.
            snapshot: what it was planned upon.
        """
        changed = self._log.end_round(made, came_out)
        self._counts.count_limited(limited)
        self._counts.end(self._log)
        if self._summaries is not None:
            for namespace, decisions in changed:
                self._summaries.offer(snapshot.of(namespace).vpas, decisions)
        return self._log.reasons().keys()

    def stand_by(self) -> None:
        """Report nothing any more, because another process leads."""
        self._log.clear()
        self._metrics.publish(Round())
        self._metrics.decided({})

    def _report_breakers(self, breakers: Breakers) -> None:
        """Publish where evictions stop; tell of it when that changes."""
        stopped = tuple(sorted(breakers.stopped()))
        cluster = stopped.count("")
        self._metrics.opened(BreakerScope.CLUSTER, cluster)
        self._metrics.opened(BreakerScope.NAMESPACE, len(stopped) - cluster)
        if stopped != self._stopped:
            self._stopped = stopped
            extra = {"cluster": bool(cluster), "namespaces": stopped[cluster:][:_NAMED]}
            if stopped:
                log.warning("evictions stopped, too many pods came back unchanged", extra=extra)
            else:
                log.info("evictions resumed", extra=extra)

    def _send(self, events: Iterable[UpdateEvent], snapshot: Snapshot, now: datetime) -> None:
        if self._recorder is not None:
            self._recorder.record(events, snapshot, now)

    def _troubles(self, made: Plan) -> Iterator[UpdateEvent]:
        """Yield an event for each trouble that begins."""
        yield from decision_events(made.decisions, self._waiting)
        self._waiting = {
            found.uid: found.reason for found in made.decisions if found.action is Action.WAIT
        }
        overlaps = frozenset(made.overlaps)
        order = attrgetter("namespace", "weaker", "stronger")
        for found in sorted(overlaps - self._overlaps, key=order):
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


class _RoundCounts:
    """Counts what is done, under the labels of the VPAs as they were planned for last."""

    def __init__(self, metrics: UpdaterMetrics) -> None:
        self._metrics = metrics
        self._labels: Mapping[NamespacedName, VpaLabels] = {}
        self._round = Round()
        self._acted: set[tuple[PerRound, NamespacedName]] = set()  # how, and for which VPA

    def begin(self, made: Plan, snapshot: Snapshot) -> None:
        """Begin a round with its plan; the series of VPAs that are gone are removed."""
        labels: dict[NamespacedName, VpaLabels] = {}
        found = Round()
        for total in made.totals:
            place = (total.namespace, total.vpa)
            vpa = labels[place] = VpaLabels(total.pods, total.mode, total.vpa, total.namespace)
            seen = snapshot.of(total.namespace).vpas.get(total.vpa)
            self._metrics.show(
                vpa,
                has_selector=seen is not None and seen.selector is not None,
                has_boost=seen is not None and seen.mentions_boost,
            )
            found.add(PerRound.CONTROLLED_PODS, vpa, total.pods)
            if total.evictable:
                found.add(PerRound.EVICTABLE_PODS, vpa, total.evictable)
                found.add(PerRound.VPAS_WITH_EVICTABLE_PODS, vpa)
            if total.resizable:
                found.add(PerRound.IN_PLACE_UPDATABLE_PODS, vpa, total.resizable)
                found.add(PerRound.VPAS_WITH_IN_PLACE_UPDATABLE_PODS, vpa)
        self._labels, self._round, self._acted = labels, found, set()
        self._metrics.forget_gone(snapshot)

    def end(self, decided: DecisionLog) -> None:
        """Publish what a round found."""
        for what, place in tuple(self._acted):  # ends of boosts may be counted meanwhile
            self._round.add(what, self._vpa(place))
        self._metrics.publish(self._round)
        self._metrics.decided(decided.reasons())
        for decision in decided.decisions():
            if decision.reason is Reason.INFEASIBLE_REMEMBERED:
                self._metrics.skipped_infeasible(self._vpa((decision.namespace, decision.vpa)))

    def count_call(self, outcome: Outcome) -> None:
        """Count a call."""
        decision, error = outcome.step.decision, outcome.error
        place = (decision.namespace, decision.vpa)
        vpa = self._vpa(place, len(outcome.queue.pods))
        if outcome.action is Action.EVICT:
            if error is None:
                self._metrics.evicted(vpa)
                self._acted.add((PerRound.VPAS_WITH_EVICTED_PODS, place))
            else:
                self._metrics.eviction_failed(vpa, EvictionFailure.ERROR)
        elif error is not None:
            self._metrics.resize_failed(vpa, _resize_failure(outcome))
        elif decision.change is not None and decision.change.is_resize:
            self._metrics.resized(vpa)
            self._acted.add((PerRound.VPAS_WITH_IN_PLACE_UPDATED_PODS, place))

    def count_limited(self, decisions: Iterable[Decision]) -> None:
        """Count what found no token."""
        for decision in decisions:
            vpa = self._vpa((decision.namespace, decision.vpa))
            if decision.action is Action.EVICT:
                self._metrics.eviction_failed(vpa, EvictionFailure.RATE_LIMIT)
            else:
                self._metrics.resize_failed(vpa, ResizeFailure.RATE_LIMIT)

    def _vpa(self, place: NamespacedName, pods: int = 0) -> VpaLabels:
        """Return the labels of a VPA; before the first round at least the pods are known."""
        return self._labels.get(place) or VpaLabels(pods, "", place[1], place[0])


def _resize_failure(outcome: Outcome) -> ResizeFailure:
    if outcome.action is Action.UNBOOST:
        return ResizeFailure.UNBOOST
    if outcome.error is not None and resize_refusal(outcome.error) is RefusalKind.INFEASIBLE:
        return ResizeFailure.INFEASIBLE
    return ResizeFailure.ERROR
