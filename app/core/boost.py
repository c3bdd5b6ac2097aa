"""Start-up boost of CPU: how much more a container gets until it is up, and what it had.

Strategy: the boost outranks every policy of the VPA but `controlledValues`. It only ever raises:
where nothing would rise, nothing is written and no boost is marked. What the API server would
refuse is not asked for: LimitRanges and the pod's own resources are the ceiling.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from app.core.capping import request_at
from app.core.scaling import CPU, SIZED, proportional_limit
from app.model.limits import Limits, NamespaceLimits
from app.model.pods import BOOST_ANNOTATION, Container, Pod
from app.model.quantity import ZERO, Quantity
from app.model.vpa import BoostType, ControlledValues, CpuBoost, Vpa


class Refusal(StrEnum):
    """Why a container gets no boost although one was asked for."""

    UNKNOWN_TYPE = "UnknownBoostType"
    NOTHING_TO_BOOST = "NoCpuRequest"
    NO_RISE = "BoostWouldNotRaise"


@dataclass(frozen=True, slots=True)
class Boosted:
    """The CPU of a boosted container, and what its author had asked for."""

    container: str
    base: Quantity  # without the boost
    request: Quantity
    limit: Quantity | None  # None: as it is
    original: str  # the annotation's value

    @property
    def annotation(self) -> str:
        """The key that marks the boost on the pod."""
        return BOOST_ANNOTATION + self.container


@dataclass(frozen=True, slots=True)
class Unboosted:
    """A container as it would be without a boost."""

    container: Container
    request: Quantity
    limit: Quantity


def boosts(
    pod: Pod,
    vpa: Vpa,
    limits: NamespaceLimits,
    unboosted: Sequence[Unboosted],
    most: Quantity | None,
) -> tuple[Mapping[str, Boosted], Mapping[str, Refusal]]:
    """Return the boost of each container that gets one, and why others do not.

    Args:
        pod: the pod.
        vpa: the VPA that controls it.
        limits: what the LimitRanges of its namespace ask for.
        unboosted: every container with the CPU it would have without a boost.
        most: the highest request that a boost may reach, None for any.
    """
    found: dict[str, Boosted] = {}
    refused: dict[str, Refusal] = {}
    for plain in unboosted:
        asked = vpa.boost(plain.container.name)
        if asked is None:
            continue
        outcome = _boost(plain, vpa, asked, _ceiling(plain, pod, limits, vpa, most))
        if isinstance(outcome, Boosted):
            found[plain.container.name] = outcome
        else:
            refused[plain.container.name] = outcome
    return _within_pod(pod, vpa, limits.pod, unboosted, found), refused


def _boost(
    plain: Unboosted, vpa: Vpa, asked: CpuBoost, ceiling: Quantity | None
) -> Boosted | Refusal:
    milli = _wanted_milli(plain.request, asked)
    if milli is None:
        return Refusal.UNKNOWN_TYPE
    if milli == 0 and plain.request.is_zero:
        return Refusal.NOTHING_TO_BOOST
    if ceiling is not None:
        milli = min(milli, ceiling.nano // 10**6)
    if milli <= plain.request.milli:
        return Refusal.NO_RISE
    return _with_limit(plain, vpa, Quantity.of_milli(milli))


def _wanted_milli(base: Quantity, asked: CpuBoost) -> int | None:
    """Return the boosted request in millicores; what is incomplete boosts nothing."""
    match asked.type:
        case BoostType.FACTOR | "":
            return base.milli * max(asked.factor or 1, 1)
        case BoostType.QUANTITY:
            return base.milli + (asked.quantity.milli if asked.quantity else 0)
        case _:
            return None


def _with_limit(plain: Unboosted, vpa: Vpa, request: Quantity) -> Boosted:
    container = plain.container
    policy = vpa.policy(container.name)
    values = policy.controlled_values if policy else None
    limit = None
    if values in (None, "", ControlledValues.REQUESTS_AND_LIMITS):
        spec = container.resources
        if (spec.limit(CPU) or ZERO).is_zero:
            base_limit, base = plain.limit, plain.request
        else:
            base_limit, base = spec.limit(CPU) or ZERO, spec.request(CPU) or ZERO
        follows = proportional_limit(CPU, base_limit, base, request).amount
        limit = None if follows is None else max(follows, plain.limit)
    return Boosted(container.name, plain.request, request, limit, original_resources(container))


def _ceiling(
    plain: Unboosted, pod: Pod, limits: NamespaceLimits, vpa: Vpa, most: Quantity | None
) -> Quantity | None:
    """Return the highest boosted request that one container may have, None for any."""
    policy = vpa.policy(plain.container.name)
    spec = plain.container.resources
    limit = spec.limit(CPU) or ZERO
    ceilings = [most] if most is not None and not most.is_zero else []
    if policy is not None and policy.requests_only:
        # One millicore below the limit, so that the pod stays Burstable.
        if not limit.is_zero:
            ceilings.append(Quantity.of_milli(max(limit.milli - 1, 1)))
        return min(ceilings, default=None)
    bounds = [limits.container.most(CPU)] if limits.container else []
    if pod.pod_resources is not None:
        bounds.append(pod.pod_resources.limit(CPU) or ZERO)
    for bound in bounds:
        if not bound.is_zero:
            follows = request_at(CPU, spec, limits.container or Limits(), bound)
            ceilings.append(bound if follows.is_zero else min(bound, follows))
    return min(ceilings, default=None)


def _within_pod(
    pod: Pod,
    vpa: Vpa,
    limits: Limits | None,
    unboosted: Sequence[Unboosted],
    found: dict[str, Boosted],
) -> dict[str, Boosted]:
    """Share what a pod as a whole may have: each boost gives up the same part of its rise."""
    most = limits.most(CPU) if limits else ZERO
    part = (1, 1)
    if found and not most.is_zero:
        used = sum(plain.limit.nano for plain in unboosted)
        rise = sum(
            (found[plain.container.name].limit or plain.limit).nano - plain.limit.nano
            for plain in unboosted
            if plain.container.name in found
        )
        part = _smaller(part, most.nano - used, rise)
    wanted = pod.pod_resources.request(CPU) if pod.pod_resources else None
    if found and wanted is not None:
        used = sum(plain.request.nano for plain in unboosted)
        rise = sum(boost.request.nano - boost.base.nano for boost in found.values())
        part = _smaller(part, wanted.nano - used, rise)
    if part == (1, 1):
        return found
    shared: dict[str, Boosted] = {}
    for plain in unboosted:
        boost = found.get(plain.container.name)
        if boost is None:
            continue
        rise = boost.request.milli - boost.base.milli
        milli = boost.base.milli + rise * part[0] // part[1]
        if milli > boost.base.milli:
            shared[boost.container] = _with_limit(plain, vpa, Quantity.of_milli(milli))
    return shared


def _smaller(part: tuple[int, int], room: int, rise: int) -> tuple[int, int]:
    """Return the smaller of a part and what room leaves of a rise, as numerator, denominator."""
    if rise <= 0 or rise <= room:
        return part
    room = max(room, 0)
    return (room, rise) if room * part[1] < part[0] * rise else part


def original_resources(container: Container) -> str:
    """Return what a container's author asked for, as the boost annotation keeps it."""
    spec = container.resources
    return json.dumps(
        {
            "requests": {name: str(found) for name in SIZED if (found := spec.request(name))},
            "limits": {name: str(found) for name in SIZED if (found := spec.limit(name))},
        },
        separators=(",", ":"),
    )
