"""Conditions: what the status of an object tells, type by type."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from app.model.fields import Object, integer_at, objects_at, text_at, time_at
from app.model.sharing import shared_text

_INT64 = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition of a pod or a VPA."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition: datetime | None = None
    observed_generation: int | None = None


def read_conditions(status: Object) -> tuple[Condition, ...]:
    """Read the conditions of an object's status, in their order."""
    return tuple(
        _condition(item, f"status.conditions[{index}]")
        for index, item in enumerate(objects_at(status, "conditions", "status"))
    )


def _condition(item: Object, path: str) -> Condition:
    return Condition(
        type=shared_text(text_at(item, "type", path)),
        status=shared_text(text_at(item, "status", path)),
        reason=shared_text(text_at(item, "reason", path)),
        message=text_at(item, "message", path),
        last_transition=time_at(item, "lastTransitionTime", path),
        observed_generation=integer_at(item, "observedGeneration", path, most=_INT64),
    )
