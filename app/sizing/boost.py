"""Startup boost of CPU: how much more a container gets until it is up, and what it had.

Strategy: the boost outranks every policy of the VPA but `controlledValues`. It only ever raises:
where nothing would rise, nothing is written and no boost is marked. A boosted container has at
least what its author asked for, also where far less is recommended, because a start costs more
than what was learned while it ran. What the API server would refuse is not asked for: LimitRanges
and the pod's own resources are the ceiling.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from fractions import Fraction
from typing import Final

from app.model.limits import Limits, NamespaceLimits
from app.model.pods import (
    BOOST_KEY_PREFIX,
    Container,
    Pod,
    boost_annotation_value,
)
from app.model.quantity import CPU, ZERO, Quantity, scale
from app.model.snapshot import NamespaceView
from app.model.times import LATEST, later
from app.model.vpa import BoostType, CpuBoost, Vpa
from app.sizing.capping import limits_follow, proportional_limit, request_at
from app.sizing.running_together import running_together

LONGEST_START: Final = timedelta(hours=6)  # until a pod is ready

_ONE_MILLI = Quantity.of_milli(1)
_UNLIMITED = Limits()


class BoostRefusal(StrEnum):
    """Why a container gets no boost although one was asked for."""

    UNKNOWN_TYPE = "UnknownBoostType"
    NOTHING_TO_BOOST = "NoCpuRequest"
    NO_RISE = "BoostWouldNotRaise"


class Ceiling(StrEnum):
    """What holds a boost down, or leaves no room for any."""

    FLAG = "MaxAllowedCpuBoost"
    OWN_LIMIT = "ContainerLimit"
    CONTAINER_LIMIT_RANGE = "ContainerLimitRange"
    POD_LIMIT_RANGE = "PodLimitRange"
    POD_RESOURCES = "PodResources"


@dataclass(frozen=True, slots=True)
class Boosted:
    """The CPU of a boosted container, and what its author had asked for."""

    container: str
    base: Quantity  # without the boost
    least: Quantity  # the base, or its author's request if that is more and there is room
    wanted: Quantity  # without ceilings
    request: Quantity
    limit: Quantity | None  # None: as it is
    ceiling: Ceiling | None  # what keeps it below `wanted`
    annotation_value: str

    @property
    def annotation_key(self) -> str:
        """The key of the annotation that marks the boost on the pod."""
        return BOOST_KEY_PREFIX + self.container


BoostOutcome = Boosted | BoostRefusal | Ceiling  # the boost, or why there is none


@dataclass(frozen=True, slots=True)
class CpuBeforeBoost:
    """A container as it would be without a boost."""

    container: Container
    request: Quantity
    limit: Quantity


def boost_overdue_at(pod: Pod, lasts: timedelta) -> datetime:
    """Return when a boost that lasts so long after Ready has lasted too long to be in order.

    By then it is stuck, its pod never gets ready, or its annotation is forged. It counts from the
    pod's start, which cannot be written as its annotations can.
    """
    start = pod.started or pod.created
    return LATEST if start is None else later(start, lasts + LONGEST_START)


def unprobed_boosts(vpa: Vpa, view: NamespaceView) -> tuple[str, ...]:
    """Return the containers of a VPA's target that it boosts and that no probe finds ready.

    Of a target that is not built in, the built-in controllers that it owns are looked at.
    """
    if vpa.target is None or not vpa.mentions_boost:
        return ()
    target, workloads = vpa.target.key, view.workloads
    found = [workloads[target]] if target in workloads else []
    if not target.is_built_in:
        found = [one for one in workloads.values() if one.owner and one.owner.key == target]
    names = dict.fromkeys(name for workload in found for name in workload.unprobed)
    return tuple(name for name in names if _raises(vpa.boost(name)))


def pod_boosts(
    pod: Pod,
    vpa: Vpa,
    limits: NamespaceLimits,
    before_boost: Sequence[CpuBeforeBoost],
    most: Quantity | None,
) -> Mapping[str, BoostOutcome]:
    """Return the boost of each container that asks for one, or why it gets none.

    Args:
        pod: the pod.
        vpa: the VPA that controls it.
        limits: what the LimitRanges of its namespace ask for.
        before_boost: every container with the CPU it would have without a boost.
        most: the highest request that a boost may reach, None for any.
    """
    bounds: list[tuple[Quantity, Ceiling]] = []
    if limits.container is not None:
        bounds.append((limits.container.most(CPU), Ceiling.CONTAINER_LIMIT_RANGE))
    if pod.pod_resources is not None:
        bounds.append((pod.pod_resources.limit(CPU) or ZERO, Ceiling.POD_RESOURCES))
    outcomes: dict[str, BoostOutcome] = {}
    for plain in before_boost:
        name = plain.container.name
        asked = vpa.boost(name)
        if asked is not None:
            outcomes[name] = _boost(plain, vpa, asked, most or ZERO, bounds)
    boosted = {name: one for name, one in outcomes.items() if isinstance(one, Boosted)}
    if boosted and (limits.pod is not None or pod.pod_resources is not None):
        outcomes |= _shared(pod, vpa, limits.pod or _UNLIMITED, before_boost, boosted)
    return outcomes


def _boost(
    plain: CpuBeforeBoost,
    vpa: Vpa,
    asked: CpuBoost,
    most: Quantity,
    bounds: Sequence[tuple[Quantity, Ceiling]],
) -> BoostOutcome:
    milli = _wanted_milli(plain.request, asked)
    if milli is None:
        return BoostRefusal.UNKNOWN_TYPE
    base = plain.request.milli
    if not base:  # no resize can remove a request, so nothing could end the boost
        return BoostRefusal.NOTHING_TO_BOOST
    if milli <= base:
        return BoostRefusal.NO_RISE
    own = _own_request(plain.container)
    wanted = max(Quantity.of_milli(milli), own)
    request, ceiling = _below_ceilings(wanted, plain, vpa, most, bounds)
    if ceiling is not None and request <= plain.request:
        return ceiling
    return Boosted(
        container=plain.container.name,
        base=plain.request,
        least=min(max(plain.request, own), request),
        wanted=wanted,
        request=request,
        limit=_limit(plain, vpa, request),
        ceiling=ceiling,
        annotation_value=boost_annotation_value(plain.container),
    )


def _raises(asked: CpuBoost | None) -> bool:
    """Whether a boost gives more to a container that has something."""
    return asked is not None and (_wanted_milli(_ONE_MILLI, asked) or 0) > _ONE_MILLI.milli


def _wanted_milli(base: Quantity, asked: CpuBoost) -> int | None:
    """Return the boosted request in millicores; what is incomplete boosts nothing."""
    match asked.type:
        case BoostType.FACTOR | "":
            return base.milli * max(asked.factor or 1, 1)
        case BoostType.QUANTITY:
            return base.milli + (asked.quantity.milli if asked.quantity else 0)
        case _:
            return None


def _own_request(container: Container) -> Quantity:
    """Return the cpu that a container's author asked for."""
    own = container.resources.request(CPU)
    return ZERO if own is None else Quantity.of_milli(own.milli)


def _below_ceilings(
    request: Quantity,
    plain: CpuBeforeBoost,
    vpa: Vpa,
    most: Quantity,
    bounds: Sequence[tuple[Quantity, Ceiling]],
) -> tuple[Quantity, Ceiling | None]:
    """Return the highest request up to a wanted one, and what keeps it from being that."""
    ceiling: Ceiling | None = None
    highest = max(most, _own_request(plain.container))
    if not most.is_zero and request > highest:
        request, ceiling = highest, Ceiling.FLAG
    policy = vpa.policy(plain.container.name)
    if policy is not None and policy.requests_only:
        limit = plain.container.resources.limit(CPU)
        if limit is not None and request.milli > limit.milli:
            # One millicore of distance, so that the pod stays Burstable.
            is_wide = limit > _ONE_MILLI
            request = replace(limit, nano=limit.nano - 10**6, spelling="") if is_wide else limit
            ceiling = Ceiling.OWN_LIMIT
        return request, ceiling
    for bound, name in bounds:
        highest = _highest(plain, bound) if limits_follow(policy) else bound
        if not bound.is_zero and request > highest:
            request, ceiling = highest, name
    return request, ceiling


def _highest(plain: CpuBeforeBoost, bound: Quantity) -> Quantity:
    """Return the highest request that stays, with the limit that follows, within a bound."""
    spec = plain.container.resources
    follows = request_at(CPU, spec, _UNLIMITED, bound)
    if not follows.is_zero:
        return Quantity.of_milli(min(follows, bound).nano // 10**6)
    if plain.limit.is_zero:
        return bound
    # A usual limit stays until the request would outgrow it.
    grown = scale(CPU, plain.request, plain.limit, bound)
    return Quantity.of_milli(min(max(grown, plain.limit), bound).nano // 10**6)


def _limit(plain: CpuBeforeBoost, vpa: Vpa, request: Quantity) -> Quantity | None:
    """Return the limit that goes with a boosted request, None if it stays; it never falls."""
    if not limits_follow(vpa.policy(plain.container.name)):
        return None
    spec = plain.container.resources
    follows = proportional_limit(CPU, spec.limit(CPU), spec.request(CPU), request).amount
    if follows is None and ZERO < plain.limit < request:
        follows = proportional_limit(CPU, plain.limit, plain.request, request).amount
    return None if follows is None else max(follows, plain.limit)


_Levels = tuple[CpuBeforeBoost, CpuBeforeBoost, CpuBeforeBoost]


def _shared(
    pod: Pod,
    vpa: Vpa,
    limits: Limits,
    before_boost: Sequence[CpuBeforeBoost],
    boosted: Mapping[str, Boosted],
) -> dict[str, BoostOutcome]:
    """Share what the pod as a whole may have: each boost gives up the same part of its rise.

    What is beyond its author's request is given up first.
    """
    levels = [_levels(plain, vpa, boosted.get(plain.container.name)) for plain in before_boost]
    rise, ceiling = min(_possible_rises(pod, limits, levels), default=(_WHOLE, None))
    if ceiling is None or rise >= _WHOLE:
        return {}
    shared: dict[str, BoostOutcome] = {}
    for plain in before_boost:
        boost = boosted.get(plain.container.name)
        if boost is None:
            continue
        request = min(Quantity.of_milli(_request_milli(boost, rise)), boost.request)
        if request <= boost.base:
            shared[boost.container] = ceiling
        elif request < boost.request:
            limit = _limit(plain, vpa, request)
            shared[boost.container] = replace(boost, request=request, limit=limit, ceiling=ceiling)
    return shared


def _levels(plain: CpuBeforeBoost, vpa: Vpa, boost: Boosted | None) -> _Levels:
    """Return a container without its boost, with what it should have at least, and with all."""
    if boost is None:
        return plain, plain, plain
    least = _limit(plain, vpa, boost.least) or plain.limit
    return (
        plain,
        replace(plain, request=boost.least, limit=least),
        replace(plain, request=boost.request, limit=boost.limit or plain.limit),
    )


_WHOLE: Final = Fraction(2)  # 1 is the rise to the second level


def _possible_rises(
    pod: Pod, limits: Limits, levels: Sequence[_Levels]
) -> Iterator[tuple[Fraction, Ceiling]]:
    """Yield how far boosts can rise together with what limits and requests there is room for."""
    most = limits.most(CPU)
    wanted = pod.pod_resources.request(CPU) if pod.pod_resources is not None else None
    for names, others in running_together(pod):
        found = [level for level in levels if level[0].container.name in names]
        if not most.is_zero:
            fixed = sum((other.limit(CPU) or ZERO).nano for other in others)
            sums = [sum(one.limit.nano for one in level) for level in zip(*found, strict=True)]
            yield _possible_rise(most.nano - fixed, sums), Ceiling.POD_LIMIT_RANGE
        if wanted is not None:
            fixed = sum((other.request(CPU) or ZERO).nano for other in others)
            sums = [sum(one.request.nano for one in level) for level in zip(*found, strict=True)]
            yield _possible_rise(wanted.nano - fixed, sums), Ceiling.POD_RESOURCES


def _possible_rise(room: int, sums: Sequence[int]) -> Fraction:
    base, least, whole = sums
    if whole <= max(room, base):
        return _WHOLE
    if least <= room:
        return 1 + Fraction(room - least, whole - least)
    return Fraction(max(room - base, 0), max(least - base, 1))


def _request_milli(boost: Boosted, rise: Fraction) -> int:
    """Return what a boost may reach, in millicores."""
    base, least, whole = (one.milli for one in (boost.base, boost.least, boost.request))
    if rise >= 1:
        return least + int((whole - least) * (rise - 1))
    return base + int((least - base) * rise)
