"""Eviction requirements: what a change must be before a pod may be evicted for it.

Strategy: each requirement must be met by some container that the VPA controls; different
containers may meet different ones. A missing request counts as nothing, a resource without a
target meets nothing.
"""

from __future__ import annotations

from app.model.vpa import ChangeRequirement, EvictionRequirement
from app.updater.core.decisions import Pair


def first_unmet(
    requirements: tuple[EvictionRequirement, ...], pairs: tuple[Pair, ...]
) -> EvictionRequirement | None:
    """Return the first requirement that no controlled container meets, None if all are met."""
    for requirement in requirements:
        if not any(_meets(pair, requirement) for pair in pairs if pair.is_controlled):
            return requirement
    return None


def _meets(pair: Pair, requirement: EvictionRequirement) -> bool:
    if pair.resource not in map(str.lower, requirement.resources):
        return False
    target, request = pair.target.milli, pair.current.milli if pair.current is not None else 0
    match requirement.change:
        case ChangeRequirement.HIGHER:
            return target > request
        case ChangeRequirement.LOWER:
            return target < request
        case _:
            return False


def told(requirement: EvictionRequirement) -> str:
    """Write a requirement for people."""
    return f"{requirement.change} of {' or '.join(requirement.resources) or 'nothing'}"
