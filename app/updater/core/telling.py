"""Decisions as plain JSON values, for whoever asks what is done about a pod and why."""

from __future__ import annotations

from app.model.fields import Json
from app.model.quantity import Quantity
from app.updater.core.decisions import Decision, Pair, PodChange


def decision_json(decision: Decision) -> Json:
    """Return all that is known of a decision."""
    found: Json = {
        "namespace": decision.namespace,
        "pod": decision.pod,
        "uid": decision.uid,
        "vpa": decision.vpa,
        "action": str(decision.action),
        "reason": str(decision.reason),
        "message": decision.message,
    }
    numbers = decision.numbers
    if numbers is not None:
        found["difference"] = round(numbers.difference, 6)
        found["grossDifference"] = round(numbers.gross_difference, 6)
        found["outsideBounds"] = numbers.is_outside
        found["quickOOM"] = decision.quick_oom
    found["containers"] = _containers(numbers.pairs if numbers is not None else ())
    if decision.change is not None:
        found["change"] = _change(decision.change)
    return found


def _containers(pairs: tuple[Pair, ...]) -> Json:
    found: Json = {}
    for pair in pairs:
        found.setdefault(pair.container, {})[pair.resource] = _some(
            current=pair.current, target=pair.target, lowerBound=pair.lower, upperBound=pair.upper
        )
    return found


def _change(change: PodChange) -> Json:
    return {
        item.container: {
            "requests": _some(**item.requests),
            "limits": _some(**item.limits),
        }
        for item in change.containers
    }


def _some(**amounts: Quantity | None) -> dict[str, str]:
    return {name: str(amount) for name, amount in amounts.items() if amount is not None}
