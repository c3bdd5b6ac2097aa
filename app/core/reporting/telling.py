"""What was found as plain JSON values, with exact amounts; what is not there is left out."""

from __future__ import annotations

from app.core.reporting.advice import UPDATES
from app.core.reporting.outlook import Turn
from app.core.reporting.standings import Standing
from app.core.updating.telling import decision_json
from app.model.fields import Json
from app.model.kinds import Condition
from app.model.quantity import Quantity
from app.model.vpa import Vpa


def standing_json(one: Standing) -> Json:
    """Return a standing."""
    gap = one.gap
    word = "shortage" if one.is_short else "saving"
    told: Json = {
        "namespace": one.namespace,
        "vpa": one.vpa,
        "mode": one.mode,
        "workload": one.workload,
        "pods": one.pods,
        "container": one.container or None,
        "resource": one.resource or None,
        "lowestRequest": _exact(one.lowest),
        "highestRequest": _exact(one.highest),
        "target": _exact(one.target),
        "lowerBound": _exact(one.lower),
        "upperBound": _exact(one.upper),
        "uncappedTarget": _exact(one.uncapped),
        "cappedBy": one.capped_by or None,
        word: _exact(gap.size) if gap is not None else None,
        "share": None if gap is None or gap.share is None else round(abs(gap.share), 6),
        "confidence": None if one.confidence is None else round(one.confidence, 6),
        "samples": one.samples,
        "asOf": one.as_of and one.as_of.isoformat(),
        "problem": one.problem or None,
    }
    return _some(told)


def _exact(quantity: Quantity | None) -> str | None:
    return None if quantity is None else str(quantity)


def turn_json(turn: Turn) -> Json:
    """Return a decision with its time and with what helps."""
    told = decision_json(turn.decision)
    words = {word: told[word] for word in ("action", "reason", "message")}
    advice = UPDATES[turn.decision.reason]
    until = turn.until.isoformat() if turn.until else None
    return _some({"at": turn.at.isoformat(), **words, "advice": advice or None, "until": until})


def vpa_json(vpa: Vpa) -> Json:
    """Return what a VPA asks for, and what its conditions say."""
    return _some(
        {
            "kind": "VerticalPodAutoscaler",
            "namespace": vpa.namespace,
            "name": vpa.name,
            "mode": vpa.mode,
            "workload": str(vpa.target.key) if vpa.target is not None else None,
            "selector": str(vpa.selector) if vpa.selector is not None else None,
            "created": vpa.created.isoformat() if vpa.created is not None else None,
            "recommenders": list(vpa.recommenders) or None,
            "conditions": [_condition_json(one) for one in vpa.conditions],
        }
    )


def _condition_json(one: Condition) -> Json:
    words = {"type": one.type, "status": one.status, "reason": one.reason, "message": one.message}
    return {key: value for key, value in words.items() if value}


def _some(told: Json) -> Json:
    return {key: value for key, value in told.items() if value is not None}
