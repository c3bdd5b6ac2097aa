"""Several containers within one pod: LimitRange for pods, and the pod's own resources.

Strategy: what does not fit is scaled by one factor for all containers that may change, so that
the sum just meets the bound. What may not change (mode Off, sidecars among the init containers,
limits under RequestsOnly) takes its share first. A container without a recommendation makes room
like the others: it starts from its own requests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import product
from typing import NamedTuple

from app.core.capping import Cap, Draft
from app.core.scaling import in_order, limits_follow, proportional_limit, scale
from app.model.limits import Limits
from app.model.pods import Resources
from app.model.quantity import SIZED, ZERO, Quantity


def fit_pod_limits(drafts: Sequence[Draft], limits: Limits, sidecars: Sequence[Resources]) -> None:
    """Scale recommendations so that their sums meet the LimitRange for pods."""
    _let_others_make_room(drafts)
    words = {word: None for draft in drafts for word in draft.lists}
    for word, resource in product(words, SIZED):
        shares = [_share(draft, word, resource, limits) for draft in drafts]
        shares += [_fixed(current, resource) for current in sidecars]
        before = _targets(drafts, resource)
        _fit(resource, shares, limits)
        # The annotation does not tell of it, as in upstream.
        by = "scaled to fit the LimitRange for pods"
        _tell_changes(drafts, before, resource, by, is_noted=False)


def _let_others_make_room(drafts: Sequence[Draft]) -> None:
    for draft in drafts:
        requests = draft.current.requests
        if draft.lists or draft.is_fixed or not requests:
            continue
        draft.lists["target"] = {
            name: requests[name] for name in in_order(requests) if name in SIZED
        }


class Share(NamedTuple):
    """One container's part of the sums."""

    request: Quantity
    limit: Quantity
    keeps_limit: bool
    write: Callable[[Quantity], None] | None = None  # None: the request may not change either


def _share(draft: Draft, word: str, resource: str, limits: Limits) -> Share:
    if draft.is_fixed:
        return _fixed(draft.current, resource)
    amounts = draft.lists.get(word)
    write: Callable[[Quantity], None] | None = None
    if amounts is not None:
        request = amounts.get(resource, ZERO)
        write = partial(amounts.__setitem__, resource) if resource in amounts else None
    else:
        request = draft.current.request(resource) or ZERO
        write = _forget if draft.lists else None  # gives way here as it does with its target
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
    drafts: Sequence[Draft], pod: Resources, limits: Limits, sidecars: Sequence[Resources]
) -> None:
    """Keep each limit below the pod's, and all requests together within the pod's."""
    words = {word: None for draft in drafts for word in draft.lists}
    for word, resource in product(words, SIZED):
        before = _targets(drafts, resource)
        if (most := pod.limit(resource)) is not None:
            for draft in drafts:
                _keep_below(draft, word, resource, most, limits.usual(resource))
        if (wanted := pod.request(resource)) is not None:
            shares = [_share(draft, word, resource, limits) for draft in drafts]
            shares += [_fixed(current, resource) for current in sidecars]
            if _sum(share.request for share in shares) > wanted:
                _scale_requests(resource, shares, wanted)
        _tell_changes(drafts, before, resource, "capped to fit the pod's own resources")


def _keep_below(draft: Draft, word: str, resource: str, most: Quantity, usual: Quantity) -> None:
    amounts = draft.lists.get(word, {})
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
    return [draft.lists.get("target", {}).get(resource) for draft in drafts]


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
            draft.caps.append(Cap(resource, by, now, is_noted))


def _sum(amounts: Iterable[Quantity]) -> Quantity:
    return Quantity(sum(amount.nano for amount in amounts))
