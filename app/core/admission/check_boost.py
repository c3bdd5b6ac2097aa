"""Rules for a startup boost, be it of a VPA or of a container policy.

Strategy: what needs the pod, above all that a boost never lowers a request, is seen to when the
pod comes; here only what can never be meant is refused. Part of that older objects may hold
without having been refused, so it is ratcheted.
"""

from __future__ import annotations

from app.core.admission.allowance import Allowance, closed
from app.core.admission.problems import (
    Findings,
    Problem,
    Ratcheted,
    forbidden,
    invalid,
    not_supported,
    required,
)
from app.model.durations import parse_duration
from app.model.errors import BadObject
from app.model.gates import Gate
from app.model.quantity import Quantity
from app.model.vpa import BoostType, CpuBoost, StartupBoost

_NANO_PER_MILLI = 10**6


def boost_findings(boost: StartupBoost | None, path: str, allowed: Allowance) -> Findings:
    """Judge a boost at the path of its parent."""
    path = f"{path}.startupBoost"
    if boost is None:
        return
    if not allowed.startup_boost:
        yield closed(path, "startupBoost", Gate.CPU_STARTUP_BOOST)
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
    yield from map(Ratcheted, _duration_problems(boost, path))


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


def _duration_problems(boost: CpuBoost, path: str) -> list[Problem]:
    found = []
    if boost.duration is not None:
        found += _text_problems(boost.duration, f"{path}.duration")
    if boost.duration_seconds is not None and boost.duration_seconds < 0:
        at = f"{path}.durationSeconds"
        found.append(invalid(at, boost.duration_seconds, "must not be negative"))
    if boost.duration is not None and boost.duration_seconds is not None:
        text = "duration says the same; set only one of them"
        found.append(forbidden(f"{path}.durationSeconds", text))
    return found


def _text_problems(duration: str, path: str) -> list[Problem]:
    try:
        lasts = parse_duration(duration)
    except BadObject as error:
        return [invalid(path, duration, error.message)]
    return [invalid(path, duration, "must not be negative")] if lasts.total_seconds() < 0 else []
