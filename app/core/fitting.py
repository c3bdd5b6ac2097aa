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

from app.core.capping import Draft, SizingRules
from app.core.scaling import SIZED, proportional_limit, scale
from app.model.limits import Limits
from app.model.pods import Resources
from app.model.quantity import ZERO, Quantity

_OURS = SizingRules()


def fit_pod_limits(
    drafts: Sequence[Draft], limits: Limits, sidecars: Sequence[Resources], rules: SizingRules
) -> None:
    """Scale recommendations so that their sums meet the LimitRange for pods."""
    _let_others_make_room(drafts, rules)
    words = {word: None for draft in drafts for word in draft.lists}
    for word in words:
        for resource in SIZED:
            shares = [_share(draft, word, resource, limits, rules) for draft in drafts]
            if rules.spares_off_containers:
                shares += [_fixed(current, resource) for current in sidecars]
            _fit(resource, shares, limits)


def _let_others_make_room(drafts: Sequence[Draft], rules: SizingRules) -> None:
    for draft in drafts:
        requests = draft.current.requests
        if draft.lists or draft.is_fixed or not requests:
            continue
        draft.lists["target"] = {
            name: amount
            for name, amount in requests.items()
            if name in SIZED or not rules.spares_off_containers
        }


class Share(NamedTuple):
    """One container's part of the sums; `write` is None for what may not change."""

    request: Quantity
    limit: Quantity
    write: Callable[[Quantity], None] | None
    keeps_limit: bool


def _share(draft: Draft, word: str, resource: str, limits: Limits, rules: SizingRules) -> Share:
    amounts = draft.lists.get(word)
    if draft.is_fixed or amounts is None:
        return _fixed(draft.current, resource)
    request = amounts.get(resource, ZERO)
    keeps_limit = rules.keeps_fixed_limits and draft.requests_only
    limit = draft.current.limit(resource)
    if not keeps_limit:
        before = draft.current.request(resource)
        usual = limits.usual(resource)
        limit = proportional_limit(resource, limit, before, request, usual).amount
    write = partial(amounts.__setitem__, resource) if resource in amounts else None
    return Share(request, limit or ZERO, write, keeps_limit)


def _fixed(current: Resources, resource: str) -> Share:
    limit = current.limit(resource) or ZERO
    return Share(current.request(resource) or ZERO, limit, None, keeps_limit=True)


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
    fixed = _sum(share.limit for share in shares if share.write is None or share.keeps_limit)
    movable = [share for share in shares if share.write is not None and not share.keeps_limit]
    base = _sum(share.limit for share in movable)
    room = Quantity(wanted.nano - fixed.nano)
    if room.nano <= 0 or base.is_zero:
        return
    for share in movable:
        if share.write is not None:
            share.write(scale(resource, share.request, base, room))


def fit_pod_resources(
    drafts: Sequence[Draft], pod: Resources, sidecars: Sequence[Resources]
) -> None:
    """Keep each limit below the pod's, and all requests together within the pod's."""
    words = {word: None for draft in drafts for word in draft.lists}
    for word, resource in product(words, SIZED):
        before = [draft.lists.get(word, {}).get(resource) for draft in drafts]
        if (most := pod.limit(resource)) is not None:
            for draft in drafts:
                _keep_below(draft, word, resource, most)
        if (wanted := pod.request(resource)) is not None:
            shares = [_share(draft, word, resource, Limits(), _OURS) for draft in drafts]
            shares += [_fixed(current, resource) for current in sidecars]
            if _sum(share.request for share in shares) > wanted:
                _scale_requests(resource, shares, wanted)
        if word == "target":
            _note_changes(drafts, before, resource)


def _keep_below(draft: Draft, word: str, resource: str, most: Quantity) -> None:
    amounts = draft.lists.get(word, {})
    target = amounts.get(resource)
    if target is None:
        return
    limit, request = draft.current.limit(resource), draft.current.request(resource)
    follows = None if draft.requests_only else proportional_limit(resource, limit, request, target)
    if follows is not None and follows.amount is not None and follows.amount > most:
        amounts[resource] = scale(resource, target, follows.amount, most)
    elif target > most:
        amounts[resource] = most


def _note_changes(
    drafts: Sequence[Draft], before: Sequence[Quantity | None], resource: str
) -> None:
    for draft, amount in zip(drafts, before, strict=True):
        if amount is not None and draft.lists["target"][resource] != amount:
            draft.notes.append(f"{resource} capped to fit the pod's own resources")


def _sum(amounts: Iterable[Quantity]) -> Quantity:
    return Quantity(sum(amount.nano for amount in amounts))
