"""What will be decided about a pod, now and later, if nothing else changes.

Strategy: the updater's own plan is asked for now, and again for each moment at which it says
that its answer may change. So nothing about time is worked out a second way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from app.diagnosis.core.advice import UPDATES
from app.diagnosis.core.comparisons import without_gaps
from app.model.fields import Json
from app.model.pods import Pod
from app.updater.core.decisions import Action, Decision, decision_json
from app.updater.core.plan import Plan

_MOST_TURNS: Final = 5
_DONE: Final = (Action.EVICT, Action.RESIZE, Action.UNBOOST)


@dataclass(frozen=True, slots=True)
class UpcomingDecision:
    """A decision, and since when it would be made."""

    at: datetime
    decision: Decision
    until: datetime | None  # when it may change by itself, None if never


def outlook(
    plan_at: Callable[[datetime], Plan], pod: Pod, now: datetime
) -> Iterator[UpcomingDecision]:
    """Yield what is decided now, then what later, up to the first action; none if uncontrolled.

    Who looks only at the first one has no plan made for later.
    """
    at: datetime | None = now
    turns = 0
    while at is not None and turns < _MOST_TURNS:
        found = _decision_at(plan_at(at), pod, at)
        if found is None:
            return
        yield found
        turns += 1
        at = None if found.decision.action in _DONE else found.until


def _decision_at(plan: Plan, pod: Pod, at: datetime) -> UpcomingDecision | None:
    found = plan.namespaces.get(pod.namespace)
    made = found.decisions if found is not None else ()
    decision = next((one for one in made if one.pod == pod.name), None)
    if found is None or decision is None:
        return None
    lasting = found.lasting.get(pod.uid)
    until = lasting.until if lasting is not None else None
    return UpcomingDecision(at, decision, until if until is not None and until > at else None)


def upcoming_json(turn: UpcomingDecision) -> Json:
    """Return a decision with its time and with what helps."""
    told = decision_json(turn.decision)
    words = {word: told[word] for word in ("action", "reason", "message")}
    advice = UPDATES[turn.decision.reason]
    until = turn.until.isoformat() if turn.until else None
    return without_gaps(
        {"at": turn.at.isoformat(), **words, "advice": advice or None, "until": until}
    )
