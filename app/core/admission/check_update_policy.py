"""Rules for the update policy of a VPA.

Strategy: eviction requirements that can never hold all at once would look like a VPA that simply
does nothing, so they are refused: a resource may be named only once in the whole list.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from app.core.admission.allowance import RESOURCES, Allowance, closed, per_vpa_findings
from app.core.admission.problems import (
    STORED_TOO,
    Caution,
    Findings,
    Problem,
    duplicate,
    invalid,
    not_supported,
    quoted,
    required,
)
from app.model.gates import Gate
from app.model.vpa import ChangeRequirement, EvictionRequirement, UpdateMode, UpdatePolicy

_PATH: Final = "spec.updatePolicy"
_REQUIREMENTS: Final = f"{_PATH}.evictionRequirements"
_EXPLICIT_MODES: Final = sorted(set(UpdateMode) - {UpdateMode.AUTO})


def update_policy_findings(
    policy: UpdatePolicy | None, stored: UpdatePolicy | None, allowed: Allowance
) -> Findings:
    """Judge an update policy, beside the stored one."""
    if policy is None:
        return
    yield from _mode(policy.mode, allowed)
    if policy.min_replicas is not None and policy.min_replicas < 1:
        yield invalid(f"{_PATH}.minReplicas", policy.min_replicas, "must be at least 1")
    seconds = policy.evict_after_oom_seconds
    yield from per_vpa_findings(f"{_PATH}.evictAfterOOMSeconds", seconds, 1, allowed)
    requirements = policy.eviction_requirements
    is_stored = stored is not None and stored.eviction_requirements == requirements
    for problem in _requirements(requirements):
        yield Caution.of(problem, STORED_TOO) if is_stored else problem
    if policy.mode == UpdateMode.UPSCALE_ONLY:
        yield from _never_lower(requirements)


def _mode(mode: str | None, allowed: Allowance) -> Findings:
    path = f"{_PATH}.updateMode"
    match mode:
        case None:
            yield required(path, "an updatePolicy must say its updateMode")
        case UpdateMode.AUTO:
            words = " ".join(_EXPLICIT_MODES)
            yield Caution(
                _PATH,
                f'updateMode "Auto" is deprecated and will be removed; it means Recreate. '
                f"Name one of [{words}] instead, see kubernetes/autoscaler#8424",
            )
        case UpdateMode.IN_PLACE if not allowed.in_place:
            yield closed(path, f"updateMode {quoted(mode)}", Gate.IN_PLACE)
        case _ if mode not in _EXPLICIT_MODES:
            yield not_supported(path, mode, _EXPLICIT_MODES)


def _requirements(requirements: Sequence[EvictionRequirement]) -> Iterator[Problem]:
    first: dict[str, str] = {}  # where each resource stands
    for index, requirement in enumerate(requirements):
        at = f"{_REQUIREMENTS}[{index}]"
        if not requirement.resources:
            yield required(f"{at}.resources", "name cpu, memory or both")
        for position, resource in enumerate(requirement.resources):
            path, name = f"{at}.resources[{position}]", resource.lower()
            if name not in RESOURCES:
                yield not_supported(path, resource, RESOURCES)
            elif name in first:
                text = f"it stands at {first[name]}, and a resource may be named only once"
                yield duplicate(path, resource, text)
            first.setdefault(name, f"evictionRequirements[{index}].resources[{position}]")
        if not requirement.change:
            yield required(f"{at}.changeRequirement", " or ".join(sorted(ChangeRequirement)))
        elif requirement.change not in list(ChangeRequirement):
            yield not_supported(f"{at}.changeRequirement", requirement.change, ChangeRequirement)


def _never_lower(requirements: Sequence[EvictionRequirement]) -> Findings:
    for index, requirement in enumerate(requirements):
        if requirement.change == ChangeRequirement.LOWER:
            yield Caution(
                f"{_REQUIREMENTS}[{index}].changeRequirement",
                "updateMode UpscaleOnly never evicts for less, so TargetLowerThanRequests "
                "keeps pods from being evicted at all",
            )
