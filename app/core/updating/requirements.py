"""Eviction requirements: what a change must be before a pod may be evicted for it.

Strategy: each requirement must be met by some container that the VPA controls; different
containers may meet different ones. A missing request counts as nothing, a resource without a
target meets nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

from app.core.scaling import CPU, MEMORY
from app.core.sizing import Amounts
from app.core.updating.decisions import Pair
from app.model.pods import Pod, Resources
from app.model.vpa import ChangeRequirement, EvictionRequirement


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
    request = pair.current.milli if pair.current is not None else 0
    return _compares(pair.target.milli, request, requirement.change)


def _compares(target: int, request: int, change: str) -> bool:
    match change:
        case ChangeRequirement.HIGHER:
            return target > request
        case ChangeRequirement.LOWER:
            return target < request
        case _:
            return False


def one_container_meets_all(
    requirements: tuple[EvictionRequirement, ...],
    pod: Pod,
    amounts: Mapping[str, Amounts],
    current: Mapping[str, Resources],
) -> bool:
    """Tell whether upstream admits the pod: one container has to meet all requirements."""
    return any(
        _meets_all(amounts[container.name], current[container.name], requirements)
        for container in pod.containers
        if container.name in amounts
    )


def _meets_all(
    amounts: Amounts, current: Resources, requirements: tuple[EvictionRequirement, ...]
) -> bool:
    if current.request(CPU) is None or current.request(MEMORY) is None:
        return True
    return all(_meets_one(amounts, current, requirement) for requirement in requirements)


def _meets_one(amounts: Amounts, current: Resources, requirement: EvictionRequirement) -> bool:
    for resource in requirement.resources:
        target, request = amounts.target.get(resource), current.request(resource)
        milli = target.milli if target is not None else 0
        if _compares(milli, request.milli if request else 0, requirement.change):
            return True
    return False


def told(requirement: EvictionRequirement) -> str:
    """Write a requirement for people."""
    return f"{requirement.change} of {' or '.join(requirement.resources) or 'nothing'}"
