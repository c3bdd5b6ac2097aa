"""Caps on recommendations: of one container, and of all containers of a pod together.

Strategy: bounds of a LimitRange apply to limits, so they are converted into the request at which
the proportional limit just meets them. The VPA's policy comes after the LimitRange and wins; its
maximum comes after its minimum and wins. What does not fit the pod as a whole is scaled by one
factor for all containers that may change, so that the sum just meets the bound. What may not
change (mode Off, native sidecars where they are left alone, limits under RequestsOnly) takes its
share first. A container without a recommendation gives way to the LimitRange for pods like the
others, from its own requests, as in upstream; not to the pod's own resources, within which its
author gave it what it asks for. Init containers run before the others, but beside the sidecars in
front of them, which therefore may have to give way once more.

Limits follow requests in the ratio that the author gave them. Where there is no ratio (no
request, or request equals limit) the limit becomes the request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from typing import NamedTuple

from app.model.limits import Limits
from app.model.pods import Container, Resources
from app.model.quantity import (
    CPU,
    SIZED,
    ZERO,
    Quantities,
    Quantity,
    in_order,
    scale,
    scale_in_int64,
)
from app.model.vpa import ContainerPolicy, ControlledValues
from app.sizing.running_together import RunningTogether


class Limit(NamedTuple):
    """A limit for a new request, or None with the reason; a note may come with a limit too."""

    amount: Quantity | None
    note: str


class AppliedCap(NamedTuple):
    """A step that changed an amount."""

    resource: str
    by: str
    amount: Quantity  # after the step
    is_noted: bool = True  # in the pod's annotation


@dataclass(slots=True)
class Draft:
    """A container's recommendation on its way through the caps."""

    container: Container
    current: Resources
    policy: ContainerPolicy | None
    recommended: Quantities | None  # None: nothing was recommended
    amounts_by_bound: dict[str, dict[str, Quantity]]  # of target, lower, upper; in order
    is_fixed: bool = False  # never changed, though it takes its share
    caps: list[AppliedCap] = field(default_factory=list)  # of the target

    @property
    def requests_only(self) -> bool:
        """Whether the limit stays as it is."""
        return self.policy is not None and self.policy.requests_only


def limits_follow(policy: ContainerPolicy | None) -> bool:
    """Whether limits are written at all; an unknown value leaves them alone."""
    values = policy.controlled_values if policy is not None else None
    return values is None or values == ControlledValues.REQUESTS_AND_LIMITS


def proportional_limit(
    resource: str,
    limit: Quantity | None,
    request: Quantity | None,
    target: Quantity | None,
    default: Quantity = ZERO,
) -> Limit:
    """Return the limit that goes with a new request, from the limit and request of today."""
    if limit is None or limit.nano == 0:
        limit = default
    if limit.nano == 0:
        return Limit(None, f"{resource}: limit NOT set since originalLimit is nil or 0")
    if target is None or target.nano == 0:
        return Limit(None, f"{resource}: limit NOT set since recommendedRequest is nil or 0")
    if request is None or request.nano == 0 or request.milli == limit.milli:
        return Limit(target, "")
    scaled, is_cut = scale_in_int64(resource, limit, request, target)
    note = f"{resource}: failed to keep limit to request ratio; capping limit to int64"
    return Limit(scaled, note if is_cut else "")


def cap_container(draft: Draft, limits: Limits | None) -> None:
    """Apply all caps of one container to each of its lists."""
    if limits is None and draft.policy is None:
        return
    for word, amounts in draft.amounts_by_bound.items():
        caps = draft.caps if word == "target" else []
        if limits is not None:
            _cap_to_limit_range(draft, amounts, limits, caps)
        if draft.policy is not None:
            _cap_to_policy(draft.policy, amounts, caps)
            if draft.policy.requests_only:
                _cap_to_own_limit(draft.current, amounts, caps)


def _cap_to_limit_range(
    draft: Draft,
    amounts: dict[str, Quantity],
    limits: Limits,
    caps: list[AppliedCap],
) -> None:
    current, stays = draft.current, draft.requests_only
    for resource, amount in amounts.items():
        if resource not in SIZED:
            continue
        # Of equals the first is taken, and with it the way it is written.
        least = limits.least(resource)
        floor = max(request_at(resource, current, limits, least, stays=stays), least)
        if floor.nano > 0 and amount < floor:
            _cap(
                amounts,
                caps,
                AppliedCap(resource, "capped to fit Min in container LimitRange", floor),
            )
        if stays:
            _keep_ratio(resource, current, limits, amounts, caps)
        ceiling = request_at(resource, current, limits, limits.most(resource), stays=stays)
        if ceiling.nano > 0 and amounts[resource] > ceiling:
            _cap(
                amounts,
                caps,
                AppliedCap(resource, "capped to fit Max in container LimitRange", ceiling),
            )


def _keep_ratio(
    resource: str,
    current: Resources,
    limits: Limits,
    amounts: dict[str, Quantity],
    caps: list[AppliedCap],
) -> None:
    """Keep a request high enough beside a limit that does not go down with it."""
    ratio, limit = limits.max_limit_request_ratio(resource), _limit(resource, current, limits)
    if ratio.is_zero or limit.is_zero:
        return
    whole = 10**6 if resource == CPU else 10**9  # nano in a millicore, in a byte
    steps = -(-limit.nano * 10**9 // (ratio.nano * whole))
    floor = min(limit, Quantity(steps * whole, limit.format))
    if amounts[resource] < floor:
        by = "capped to fit maxLimitRequestRatio in container LimitRange"
        _cap(amounts, caps, AppliedCap(resource, by, floor))


def _limit(resource: str, current: Resources, limits: Limits) -> Quantity:
    """Return the limit of a container, the usual one if it has none."""
    limit = current.limit(resource)
    return limits.usual(resource) if limit is None or limit.is_zero else limit


def request_at(
    resource: str, current: Resources, limits: Limits, bound: Quantity, *, stays: bool = False
) -> Quantity:
    """Return the request whose limit just meets a bound, zero if no limit would follow.

    With a limit that stays, it is the bound itself that holds for the request.
    """
    limit = _limit(resource, current, limits)
    if limit.is_zero:
        return ZERO
    request = current.request(resource)
    if request is None or request.is_zero:
        return bound
    scaled = scale(resource, request, limit, bound)
    return max(scaled, bound) if stays else scaled


def _cap_to_policy(
    policy: ContainerPolicy, amounts: dict[str, Quantity], caps: list[AppliedCap]
) -> None:
    least, most = policy.min_allowed or {}, policy.max_allowed or {}
    for resource, amount in amounts.items():
        floor, ceiling = least.get(resource, ZERO), most.get(resource, ZERO)
        if floor.nano > 0 and amount < floor:
            _cap(amounts, caps, AppliedCap(resource, "capped to minAllowed", floor))
        if ceiling.nano > 0 and amounts[resource] > ceiling:
            _cap(amounts, caps, AppliedCap(resource, "capped to maxAllowed", ceiling))


def _cap_to_own_limit(
    current: Resources, amounts: dict[str, Quantity], caps: list[AppliedCap]
) -> None:
    for resource, amount in amounts.items():
        limit = current.limit(resource)
        if limit is not None and _milli64(amount) > _milli64(limit):
            _cap(amounts, caps, AppliedCap(resource, "capped to container limit", limit))


def _milli64(amount: Quantity) -> int:
    """Return thousandths in a signed 64-bit number, which wraps above 9.2e15 units.

    No container is that large; the wrap only keeps absurd values equal to upstream's.
    """
    return (amount.milli + 2**63) % 2**64 - 2**63


def _cap(amounts: dict[str, Quantity], caps: list[AppliedCap], cap: AppliedCap) -> None:
    amounts[cap.resource] = cap.amount
    caps.append(cap)


def fit_pod_limits(
    drafts: Sequence[Draft], limits: Limits, together: Sequence[RunningTogether]
) -> None:
    """Scale recommendations so that their sums meet the LimitRange for pods."""
    _let_others_make_room(drafts)
    words = {word: None for draft in drafts for word in draft.amounts_by_bound}
    for word, resource in product(words, SIZED):
        before, most = _targets(drafts, resource), limits.most(resource)
        _fit(resource, _shares(drafts, word, resource, limits, together[0]), limits)
        for starting in together[1:]:
            shares = _shares(drafts, word, resource, limits, starting)
            if not most.is_zero and _sum(share.limit for share in shares) > most:
                _scale_by_limits(resource, shares, most)
        # The annotation does not tell of it, as in upstream.
        by = "scaled to fit the LimitRange for pods"
        _tell_changes(drafts, before, resource, by, is_noted=False)


def _let_others_make_room(drafts: Sequence[Draft]) -> None:
    for draft in drafts:
        requests = draft.current.requests
        if draft.amounts_by_bound or draft.is_fixed or not requests:
            continue
        draft.amounts_by_bound["target"] = {
            name: requests[name] for name in in_order(requests) if name in SIZED
        }


class Share(NamedTuple):
    """One container's part of the sums."""

    request: Quantity
    limit: Quantity
    keeps_limit: bool
    write: Callable[[Quantity], None] | None = None  # None: the request may not change either


def _shares(
    drafts: Sequence[Draft], word: str, resource: str, limits: Limits, together: RunningTogether
) -> list[Share]:
    found = [one for one in drafts if one.container.name in together.names]
    shares = [_share(draft, word, resource, limits) for draft in found]
    return shares + [_fixed(current, resource) for current in together.others]


def _share(draft: Draft, word: str, resource: str, limits: Limits) -> Share:
    if draft.is_fixed:
        return _fixed(draft.current, resource)
    amounts = draft.amounts_by_bound.get(word)
    write: Callable[[Quantity], None] | None = None
    if amounts is not None:
        request = amounts.get(resource, ZERO)
        write = partial(amounts.__setitem__, resource) if resource in amounts else None
    else:
        request = draft.current.request(resource) or ZERO
        write = (
            _forget if draft.amounts_by_bound else None
        )  # gives way here as it does with its target
    limit = draft.current.limit(resource)
    keeps_limit = draft.requests_only and _is_some(limit)
    if not keeps_limit:
        before, usual = draft.current.request(resource), limits.usual(resource)
        limit = proportional_limit(resource, limit, before, request, usual).amount
    return Share(request, limit or ZERO, keeps_limit, write)


def _forget(_: Quantity) -> None:
    """Take an amount that is written nowhere."""


def _is_some(limit: Quantity | None) -> bool:
    return limit is not None and not limit.is_zero


def _fixed(current: Resources, resource: str) -> Share:
    request, limit = current.request(resource), current.limit(resource)
    return Share(request or ZERO, limit or ZERO, keeps_limit=True)


def _fit(resource: str, shares: Sequence[Share], limits: Limits) -> None:
    least, most = limits.least(resource), limits.most(resource)
    requests = _sum(share.request for share in shares)
    together = _sum(share.limit for share in shares)
    is_within = most.is_zero or together <= most
    if together.is_zero or (least <= together and least <= requests and is_within):
        return
    if requests < least:
        _scale_requests(resource, shares, least, round_up=True)
    else:
        _scale_by_limits(resource, shares, least if is_within else most)


def _scale_requests(
    resource: str, shares: Sequence[Share], wanted: Quantity, *, round_up: bool = False
) -> None:
    """Scale what may change so that all requests together are as wanted."""
    fixed = _sum(share.request for share in shares if share.write is None)
    base = _sum(share.request for share in shares if share.write is not None)
    room = Quantity(max(wanted.nano - fixed.nano, 0))
    for share in shares:
        if share.write is not None:
            share.write(scale(resource, share.request, base, room, round_up=round_up))


def _scale_by_limits(resource: str, shares: Sequence[Share], wanted: Quantity) -> None:
    """Scale what may change so that all limits together are as wanted; give up without room."""
    movable = [
        (share.request, share.limit, share.write)
        for share in shares
        if share.write is not None and not share.keeps_limit
    ]
    base = _sum(limit for _, limit, _ in movable)
    fixed = _sum(share.limit for share in shares).nano - base.nano
    room = Quantity(wanted.nano - fixed)
    if room.nano <= 0 or base.is_zero:
        return
    for request, _, write in movable:
        write(scale(resource, request, base, room))


def fit_pod_resources(
    drafts: Sequence[Draft], pod: Resources, limits: Limits, together: Sequence[RunningTogether]
) -> None:
    """Keep each limit below the pod's, and all requests together within the pod's."""
    words = {word: None for draft in drafts for word in draft.amounts_by_bound}
    for word, resource in product(words, SIZED):
        before = _targets(drafts, resource)
        if (most := pod.limit(resource)) is not None:
            for draft in drafts:
                _keep_below(draft, word, resource, most, limits.usual(resource))
        wanted = pod.request(resource)
        for found in together if wanted is not None else ():
            shares = _shares(drafts, word, resource, limits, found)
            if wanted is not None and _sum(share.request for share in shares) > wanted:
                _scale_requests(resource, shares, wanted)
        _tell_changes(drafts, before, resource, "capped to fit the pod's own resources")


def _keep_below(draft: Draft, word: str, resource: str, most: Quantity, usual: Quantity) -> None:
    amounts = draft.amounts_by_bound.get(word, {})
    target = amounts.get(resource)
    if target is None:
        return
    follows: Quantity | None = None
    if limits_follow(draft.policy):
        limit, request = draft.current.limit(resource), draft.current.request(resource)
        follows = proportional_limit(resource, limit, request, target, usual).amount
    if follows is not None and follows > most:
        amounts[resource] = scale(resource, target, follows, most)
    elif target > most:
        amounts[resource] = most


def _targets(drafts: Sequence[Draft], resource: str) -> list[Quantity | None]:
    return [draft.amounts_by_bound.get("target", {}).get(resource) for draft in drafts]


def _tell_changes(
    drafts: Sequence[Draft],
    before: Sequence[Quantity | None],
    resource: str,
    by: str,
    *,
    is_noted: bool = True,
) -> None:
    for draft, was, now in zip(drafts, before, _targets(drafts, resource), strict=True):
        if now is not None and now != was:
            draft.caps.append(AppliedCap(resource, by, now, is_noted))


def _sum(amounts: Iterable[Quantity]) -> Quantity:
    return Quantity(sum(amount.nano for amount in amounts))
