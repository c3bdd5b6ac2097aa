"""What a VPA may use: what a feature gate opens, or what the stored object uses already.

Strategy: when a gate is closed again, objects that used it stay editable; only those that did
not may no longer start to.
"""

from __future__ import annotations

from dataclasses import dataclass

from app.core.admission.problems import Findings, Problem, forbidden, invalid
from app.model.gates import STAGES, Gate, Gates
from app.model.vpa import ContainerPolicy, UpdateMode, Vpa

RESOURCES = frozenset({"cpu", "memory"})


@dataclass(frozen=True, slots=True)
class Allowance:
    """What a VPA may use."""

    in_place: bool = False
    startup_boost: bool = False
    per_vpa_config: bool = False
    odd_resources: frozenset[str] = frozenset()  # tolerated in controlledResources


def allowance(gates: Gates, old: Vpa | None) -> Allowance:
    """Return what the next version of a VPA may use."""
    if old is None:
        return Allowance(
            Gate.IN_PLACE in gates, Gate.CPU_STARTUP_BOOST in gates, Gate.PER_VPA_CONFIG in gates
        )
    policies = old.policies or ()
    named = {name for policy in policies for name in policy.controlled_resources or ()}
    return Allowance(
        in_place=Gate.IN_PLACE in gates or old.mode == UpdateMode.IN_PLACE,
        startup_boost=Gate.CPU_STARTUP_BOOST in gates or _uses_boost(old),
        per_vpa_config=Gate.PER_VPA_CONFIG in gates or _uses_per_vpa_config(old),
        odd_resources=frozenset(named) - RESOURCES,
    )


def closed(path: str, subject: str, gate: Gate) -> Problem:
    """Refuse a field whose gate is off."""
    return forbidden(
        path,
        f"{subject} needs feature gate {gate} ({STAGES[gate].lower()}), which is off; "
        f"--feature-gates={gate}=true of the admission controller turns it on",
    )


def per_vpa_findings(path: str, value: float | None, least: int, allowed: Allowance) -> Findings:
    """Judge a number that only gate PerVPAConfig lets a VPA set."""
    if value is None:
        return
    if not allowed.per_vpa_config:
        yield closed(path, path.rpartition(".")[2], Gate.PER_VPA_CONFIG)
    elif value < least:
        yield invalid(path, value, f"must be at least {least}")


def _uses_boost(vpa: Vpa) -> bool:
    alone = vpa.startup_boost is not None and vpa.startup_boost.cpu is not None
    return alone or any(policy.startup_boost is not None for policy in vpa.policies or ())


def _uses_per_vpa_config(vpa: Vpa) -> bool:
    update = vpa.update_policy
    alone = update is not None and update.evict_after_oom_seconds is not None
    return alone or any(_has_per_vpa_config(policy) for policy in vpa.policies or ())


def _has_per_vpa_config(policy: ContainerPolicy) -> bool:
    fields = (
        policy.oom_bump_up_ratio,
        policy.oom_min_bump_up,
        policy.memory_interval_seconds,
        policy.memory_interval_count,
    )
    return any(value is not None for value in fields)
