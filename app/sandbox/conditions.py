"""Conditions in the status of objects."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from app.model.times import rfc3339
from app.ports import Json


class Condition(NamedTuple):
    """What is to be said of an object."""

    type: str
    status: str
    reason: str = ""
    message: str = ""


def condition_of(item: Json, kind: str) -> Json | None:
    """Return a condition of an object's status."""
    conditions: Sequence[Json] = (item.get("status") or {}).get("conditions") or ()
    return next((found for found in conditions if found.get("type") == kind), None)


def is_ready(pod: Json) -> bool:
    """Whether a pod is Ready."""
    condition = condition_of(pod, "Ready")
    return condition is not None and condition.get("status") == "True"


def set_condition(item: Json, condition: Condition, now: datetime, **more: object) -> None:
    """Put a condition into the status of an object; its time changes only if it turns over."""
    conditions = item.setdefault("status", {}).setdefault("conditions", [])
    old = condition_of(item, condition.type)
    since = rfc3339(now)
    if old is not None and old.get("status") == condition.status:
        since = old.get("lastTransitionTime") or since
    new: Json = {"type": condition.type, "status": condition.status, "lastTransitionTime": since}
    new |= {key: text for key, text in condition._asdict().items() if text and key not in new}
    new |= more
    if old is None:
        conditions.append(new)
    else:
        conditions[conditions.index(old)] = new
