"""Rules for the container policies and startup boosts of a VPA.

Strategy: a feature whose gate is off is refused, but what the stored object uses already stays
allowed, so that objects remain editable after a gate was closed. Rules that need the pod, above
all that a boost never lowers a request, are applied when the pod is created; here only values
that never make sense are refused. Stored objects may hold some of these, so they are ratcheted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from app.admission.core.field_errors import (
    FieldError,
    FieldWarning,
    Findings,
    Ratcheted,
    forbidden,
    invalid,
    not_supported,
    quoted,
    required,
)
from app.model.errors import BadObject
from app.model.gates import NEEDED_BY, STAGES, FeatureGate, FeatureGates
from app.model.quantity import CPU, MAX_INT64, MEMORY, SIZED, Quantities, Quantity
from app.model.times import parse_duration
from app.model.update_modes import MODES
from app.model.vpa import (
    BoostType,
    ContainerPolicy,
    ControlledValues,
    CpuBoost,
    ScalingMode,
    StartupBoost,
    Vpa,
)

RESOURCES: Final = frozenset(SIZED)
_NANO_PER_MILLI: Final = 10**6
_NANO_PER_UNIT: Final = 10**9


@dataclass(frozen=True, slots=True)
class Allowance:
    """What a VPA may use."""

    gated_modes: frozenset[str] = frozenset()  # update modes that need a feature gate
    startup_boost: bool = False
    per_vpa_config: bool = False
    odd_resources: frozenset[str] = frozenset()  # tolerated in controlledResources


def allowance(gates: FeatureGates, old: Vpa | None) -> Allowance:
    """Return what the next version of a VPA may use."""
    policies = (old.policies if old else None) or ()
    named = {name for policy in policies for name in policy.controlled_resources or ()}
    return Allowance(
        gated_modes=_gated_modes(gates, old.mode if old else ""),
        startup_boost=FeatureGate.CPU_STARTUP_BOOST in gates or _uses_boost(old),
        per_vpa_config=FeatureGate.PER_VPA_CONFIG in gates or _uses_per_vpa_config(old),
        odd_resources=frozenset(named) - RESOURCES,
    )


def _gated_modes(gates: FeatureGates, stored: str) -> frozenset[str]:
    """Return the modes behind a gate that may be used: it is on, or the mode is the stored one."""
    return frozenset(
        name
        for name, mode in MODES.items()
        if mode.gate is not None and (mode.gate in gates or name == stored)
    )


def gate_is_off(path: str, subject: str, gate: FeatureGate) -> FieldError:
    """Refuse a field whose gate is off."""
    *others, last = (f"the {process}" for process in NEEDED_BY[gate])
    return forbidden(
        path,
        f"{subject} needs feature gate {gate} ({STAGES[gate].lower()}), which is off; "
        f"--feature-gates={gate}=true of {', '.join(others)} and {last} turns it on",
    )


def per_vpa_findings(path: str, value: float | None, least: int, allowed: Allowance) -> Findings:
    """Judge a number that only gate PerVPAConfig lets a VPA set."""
    if value is None:
        return
    if not allowed.per_vpa_config:
        yield gate_is_off(path, path.rpartition(".")[2], FeatureGate.PER_VPA_CONFIG)
    elif value < least:
        yield invalid(path, value, f"must be at least {least}")


def _uses_boost(vpa: Vpa | None) -> bool:
    if vpa is None:
        return False
    alone = vpa.startup_boost is not None and vpa.startup_boost.cpu is not None
    return alone or any(policy.startup_boost is not None for policy in vpa.policies or ())


def _uses_per_vpa_config(vpa: Vpa | None) -> bool:
    if vpa is None:
        return False
    update = vpa.update_policy
    alone = update is not None and update.evict_after_oom_seconds is not None
    return alone or any(
        value is not None
        for policy in vpa.policies or ()
        for value in (
            policy.oom_bump_up_ratio,
            policy.oom_min_bump_up,
            policy.memory_interval_seconds,
            policy.memory_interval_count,
        )
    )


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
        yield FieldWarning(
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
    if resource == CPU:
        yield from whole_millicores(amount, path)
    elif resource == MEMORY and amount.nano % _NANO_PER_UNIT:
        yield invalid(path, str(amount), "must be a whole number of bytes")
    if amount.nano < 0:
        yield Ratcheted(invalid(path, str(amount), "must not be negative"))


def _controlled(policy: ContainerPolicy, path: str, allowed: Allowance) -> Findings:
    values = policy.controlled_values
    if policy.is_off and values == ControlledValues.REQUESTS_AND_LIMITS:
        text = "must not be RequestsAndLimits where mode is Off"
        yield forbidden(f"{path}.controlledValues", text)
    if values is not None and values not in list(ControlledValues):
        error = not_supported(f"{path}.controlledValues", values, ControlledValues)
        yield Ratcheted(error)
    for index, resource in enumerate(policy.controlled_resources or ()):
        at = f"{path}.controlledResources[{index}]"
        if resource in allowed.odd_resources:
            text = f"unsupported value {quoted(resource)} tolerated, the stored object has it too"
            yield FieldWarning(at, text)
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


def boost_findings(boost: StartupBoost | None, path: str, allowed: Allowance) -> Findings:
    """Judge a boost at the path of its parent."""
    path = f"{path}.startupBoost"
    if boost is None:
        return
    if not allowed.startup_boost:
        yield gate_is_off(path, "startupBoost", FeatureGate.CPU_STARTUP_BOOST)
    elif boost.cpu is not None:  # without it: no boost here
        yield from _cpu(boost.cpu, f"{path}.cpu")


def whole_millicores(amount: Quantity, path: str) -> Findings:
    """Refuse CPU that no kubelet could count."""
    if amount.nano % _NANO_PER_MILLI:
        yield invalid(path, str(amount), "must be a whole number of millicores")


def _cpu(boost: CpuBoost, path: str) -> Findings:
    match boost.type:
        case "":
            yield required(f"{path}.type", "Factor or Quantity")
            return
        case BoostType.FACTOR:
            yield from _factor(boost, path)
        case BoostType.QUANTITY:
            yield from _quantity(boost, path)
        case unknown:
            yield not_supported(f"{path}.type", unknown, BoostType)
    yield from map(Ratcheted, _duration_errors(boost, path))


def _factor(boost: CpuBoost, path: str) -> Findings:
    if boost.factor is None:
        yield required(f"{path}.factor", "type Factor needs it")
    elif boost.factor < 1:
        yield invalid(f"{path}.factor", boost.factor, "must be at least 1, which boosts nothing")
    if boost.quantity is not None:
        yield Ratcheted(forbidden(f"{path}.quantity", "it belongs to type Quantity"))


def _quantity(boost: CpuBoost, path: str) -> Findings:
    if boost.quantity is None:
        yield required(f"{path}.quantity", "type Quantity needs it")
    else:
        yield from whole_millicores(boost.quantity, f"{path}.quantity")
        if boost.quantity.nano < 0:
            text = "must not be negative: a boost never lowers a request"
            yield Ratcheted(invalid(f"{path}.quantity", str(boost.quantity), text))
    if boost.factor is not None:
        yield Ratcheted(forbidden(f"{path}.factor", "it belongs to type Factor"))


def _duration_errors(boost: CpuBoost, path: str) -> list[FieldError]:
    errors = []
    if boost.duration is not None:
        errors += _duration_text_errors(boost.duration, f"{path}.duration")
    if boost.duration_seconds is not None and boost.duration_seconds < 0:
        at = f"{path}.durationSeconds"
        errors.append(invalid(at, boost.duration_seconds, "must not be negative"))
    if boost.duration is not None and boost.duration_seconds is not None:
        text = "duration says the same; set only one of them"
        errors.append(forbidden(f"{path}.durationSeconds", text))
    return errors


def _duration_text_errors(duration: str, path: str) -> list[FieldError]:
    try:
        lasts = parse_duration(duration)
    except BadObject as error:
        return [invalid(path, duration, error.message)]
    return [invalid(path, duration, "must not be negative")] if lasts.total_seconds() < 0 else []
