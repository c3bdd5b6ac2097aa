"""Resizes that a node can never grant, so that they are not asked for again and again.

Strategy: what was asked for is kept per container and resource, with the node's size at that
time. It is worth asking again when something that was too much has become clearly less, when the
node changed, or after a while.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from app.model.quantity import SIZED, Quantity
from app.updater.core.decisions import Pair
from app.updater.core.rules import UpdateRules

Wanted = Mapping[tuple[str, str], Quantity]  # by container and resource

_CLEARLY_LESS: Final = 99  # percent
_IN_TEXT: Final = ("{}, requested", "resource: {}", "resources: {}", "enough {}")


@dataclass(frozen=True, slots=True)
class Infeasible:
    """What was too much for which node."""

    wanted: Wanted
    blamed: frozenset[str]  # resources that the refusal named, empty for any
    at: datetime
    allocatable: Mapping[str, Quantity] | None  # of the node, None if not known


def targets(pairs: Iterable[Pair]) -> Wanted:
    """Return what a resize asks for."""
    return {
        (pair.container, pair.resource): pair.target for pair in pairs if pair.resource in SIZED
    }


def blamed_resources(message: str) -> frozenset[str]:
    """Return the resources that a refusal names as missing."""
    return frozenset(
        resource for resource in SIZED if any(text.format(resource) in message for text in _IN_TEXT)
    )


def is_remembered(
    past: Infeasible,
    wanted: Wanted,
    allocatable: Mapping[str, Quantity] | None,
    rules: UpdateRules,
    now: datetime,
) -> bool:
    """Whether asking for `wanted` would be refused again, as far as we know."""
    if now - past.at >= rules.infeasible_expiry or allocatable != past.allocatable:
        return False
    return not any(
        wanted[key].nano * 100 < past.wanted[key].nano * _CLEARLY_LESS
        for key in past.wanted
        if key in wanted and (not past.blamed or key[1] in past.blamed)
    )
