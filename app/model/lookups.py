"""Objects that a decision needs and no snapshot holds, and what was found of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from app.model.kinds import ObjectKey
from app.model.workloads import Workload


@dataclass(frozen=True, slots=True)
class Lookup:
    """A controller to look for: a built-in one by itself, any other by its scale subresource."""

    namespace: str
    api_version: str
    kind: str
    name: str
    key: ObjectKey


@dataclass(frozen=True, slots=True)
class Absent:
    """What was looked for does not exist or cannot be scaled."""


@dataclass(frozen=True, slots=True)
class Failed:
    """A look-up that gave no answer, and why."""

    message: str


Found = Workload | Absent | Failed
LookedUp = Mapping[ObjectKey, Found]
NOTHING_LOOKED_UP: LookedUp = {}
