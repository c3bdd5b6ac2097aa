"""Rules for the container policies of a VPA."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from app.core.admission.allowance import RESOURCES, Allowance, per_vpa_findings
from app.core.admission.check_boost import boost_findings, whole_millicores
from app.core.admission.problems import (
    Caution,
    Findings,
    Ratcheted,
    forbidden,
    invalid,
    not_supported,
    quoted,
    required,
)
from app.model.quantity import MAX_INT64, Quantities, Quantity
from app.model.vpa import ContainerPolicy, ControlledValues, ScalingMode

_NANO_PER_UNIT: Final = 10**9


def policies_findings(policies: Sequence[ContainerPolicy], allowed: Allowance) -> Findings:
    """Judge all container policies, in their order."""
    first: dict[str, int] = {}
    for index, policy in enumerate(policies):
        path = f"spec.resourcePolicy.containerPolicies[{index}]"
        yield from _names(policy, path, first.setdefault(policy.container, index), index)
        yield from _bounds(policy, path)
        yield from _controlled(policy, path, allowed)
        yield from _history(policy, path, allowed)
        yield from boost_findings(policy.startup_boost, path, allowed)


def _names(policy: ContainerPolicy, path: str, first: int, index: int) -> Findings:
    if not policy.container:
        yield required(f"{path}.containerName")
    elif first != index:
        effect = "this one replaces it" if policy.container == "*" else "this one has no effect"
        name = quoted(policy.container)
        yield Caution(
            f"{path}.containerName", f"{name} is named by containerPolicies[{first}] too; {effect}"
        )
    if policy.mode is not None and policy.mode not in list(ScalingMode):
        yield not_supported(f"{path}.mode", policy.mode, ScalingMode)


def _bounds(policy: ContainerPolicy, path: str) -> Findings:
    least, most = policy.min_allowed or {}, policy.max_allowed or {}
    for resource, amount in least.items():
        yield from _amount(amount, resource, f"{path}.minAllowed[{resource}]")
        yield from _order(resource, amount, most, path)
    for resource, amount in most.items():
        yield from _amount(amount, resource, f"{path}.maxAllowed[{resource}]")


def _order(resource: str, least: Quantity, most: Quantities, path: str) -> Findings:
    if resource in most and most[resource] < least:
        text = f"maxAllowed is below minAllowed, which is {quoted(str(least))}"
        yield invalid(f"{path}.maxAllowed[{resource}]", str(most[resource]), text)


def _amount(amount: Quantity, resource: str, path: str) -> Findings:
    if resource == "cpu":
        yield from whole_millicores(amount, path)
    elif resource == "memory" and amount.nano % _NANO_PER_UNIT:
        yield invalid(path, str(amount), "must be a whole number of bytes")
    if amount.nano < 0:
        yield Ratcheted(invalid(path, str(amount), "must not be negative"))


def _controlled(policy: ContainerPolicy, path: str, allowed: Allowance) -> Findings:
    values = policy.controlled_values
    if policy.is_off and values == ControlledValues.REQUESTS_AND_LIMITS:
        text = "must not be RequestsAndLimits where mode is Off"
        yield forbidden(f"{path}.controlledValues", text)
    if values is not None and values not in list(ControlledValues):
        found = not_supported(f"{path}.controlledValues", values, ControlledValues)
        yield Ratcheted(found)
    for index, resource in enumerate(policy.controlled_resources or ()):
        at = f"{path}.controlledResources[{index}]"
        if resource in allowed.odd_resources:
            text = f"unsupported value {quoted(resource)} tolerated, the stored object has it too"
            yield Caution(at, text)
        elif resource not in RESOURCES:
            yield not_supported(at, resource, RESOURCES)


def _history(policy: ContainerPolicy, path: str, allowed: Allowance) -> Findings:
    ratio, least = policy.oom_bump_up_ratio, policy.oom_min_bump_up
    fields = (  # what they hold, and at least
        ("oomBumpUpRatio", None if ratio is None else _ratio(ratio), 1),
        ("oomMinBumpUp", None if least is None else least.units, 0),
        ("memoryAggregationIntervalSeconds", policy.memory_interval_seconds, 1),
        ("memoryAggregationIntervalCount", policy.memory_interval_count, 1),
    )
    for name, value, minimum in fields:
        yield from per_vpa_findings(f"{path}.{name}", value, minimum, allowed)


def _ratio(amount: Quantity) -> float:
    """Return a ratio in thousandths, as precise as the API is."""
    return max(-MAX_INT64, min(amount.milli, MAX_INT64)) / 1000
