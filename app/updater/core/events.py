"""What users see: Kubernetes Events about pods, sums of decisions, and a VPA's annotation.

Strategy: reasons and messages of events are upstream's. An action has one event, and so has a new
problem; what goes on from round to round has one when it begins.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from app.updater.core.decisions import Action, Decision, Reason
from app.updater.core.outcomes import Outcome

_SKIPPED: Final = "InPlaceResizeSkipped"
_STUCK: Final = (
    Reason.UNBOOST_STUCK,
    Reason.RECREATED_WITHOUT_CHANGE,
    Reason.RESIZE_ERROR,
    Reason.RESIZE_INFEASIBLE,
    Reason.EVICTION_ERROR,
)


_WOULD: Final = {
    Action.EVICT: "would evict",
    Action.RESIZE: "would resize",
    Action.UNBOOST: "would end the boost of",
    Action.WAIT: "waiting",
    Action.NONE: "unchanged",
}


class Severity(StrEnum):
    """The types of events."""

    NORMAL = "Normal"
    WARNING = "Warning"


@dataclass(frozen=True, slots=True)
class UpdateEvent:
    """An event about a pod or, with kind VerticalPodAutoscaler, about its VPA."""

    kind: str
    namespace: str
    name: str
    uid: str  # empty if the recorder has to find it
    severity: Severity
    reason: str
    message: str


def outcome_events(outcome: Outcome) -> Iterator[UpdateEvent]:
    """Return what an accepted call tells; a refused one is reported with the next decision."""
    decision = outcome.step.decision
    if outcome.error is not None:
        return
    if outcome.action is Action.EVICT:
        message = f"evicted to apply the recommendation of VPA {decision.vpa}: {decision.message}"
        yield _pod(decision, Severity.NORMAL, "EvictedByVPA", f"Pod was {message}")
        yield _vpa(decision, Severity.NORMAL, "EvictedPod", f"Pod {decision.pod} was {message}")
    elif decision.change is not None and decision.change.is_resize:
        message = f"Pod was resized in place for VPA {decision.vpa}: {decision.message}"
        yield _pod(decision, Severity.NORMAL, "InPlaceResizedByVPA", message)


def decision_events(
    decisions: Iterable[Decision], before: Mapping[str, Reason]
) -> Iterator[UpdateEvent]:
    """Return what new troubles tell; `before` is the reason of each pod last time, by uid."""
    for decision in decisions:
        if before.get(decision.uid) is decision.reason:
            continue
        if decision.reason is Reason.INFEASIBLE_REMEMBERED:
            message = f"An earlier resize was not feasible: {decision.message}"
            yield _pod(decision, Severity.NORMAL, _SKIPPED, message)
        elif decision.reason in _STUCK:
            yield _pod(decision, Severity.WARNING, str(decision.reason), decision.message)


def _pod(decision: Decision, severity: Severity, reason: str, message: str) -> UpdateEvent:
    return UpdateEvent(
        "Pod", decision.namespace, decision.pod, decision.uid, severity, reason, message
    )


def _vpa(decision: Decision, severity: Severity, reason: str, message: str) -> UpdateEvent:
    kind = "VerticalPodAutoscaler"
    return UpdateEvent(kind, decision.namespace, decision.vpa, "", severity, reason, message)


def summary(decided: Sequence[Decision]) -> str:
    """Sum up the decisions about the pods of one VPA: whether something is done, or why not."""
    if not decided:
        return "False, NoPods: no pods"
    counts = Counter(decision.reason for decision in decided)
    acting = [item for item in decided if item.action not in (Action.WAIT, Action.NONE)]
    waiting = [item for item in decided if item.action is Action.WAIT]
    words = ", ".join(f"{count} {reason}" for reason, count in sorted(counts.items()))
    reason = _most(acting or waiting or decided)
    return f"{bool(acting)}, {reason}: {counted(len(decided))}: {words}"


def headline(decided: Iterable[tuple[str, str]]) -> str:
    """Sum up planned actions with their reasons: `would evict 1, waiting 3 (ProofPending)`."""
    found: dict[str, Counter[str]] = {}
    for action, reason in decided:
        found.setdefault(action, Counter())[reason] += 1
    words = (
        f"{_WOULD[action]} {found[action].total()}{_reasons(action, found[action])}"
        for action in _WOULD
        if action in found
    )
    return ", ".join(words)


def _reasons(action: Action, counts: Counter[str]) -> str:
    if action not in (Action.WAIT, Action.NONE):
        return ""
    if len(counts) == 1:
        return f" ({next(iter(counts))})"
    return f" ({', '.join(f'{count} {reason}' for reason, count in counts.most_common())})"


def _most(decisions: Sequence[Decision]) -> Reason:
    """Return the reason that most pods have, the first by name if several do."""
    counts = Counter(decision.reason for decision in decisions)
    return min(counts, key=lambda reason: (-counts[reason], reason))


def counted(pods: int) -> str:
    """Write a number of pods for people."""
    return "1 pod" if pods == 1 else f"{pods} pods"
