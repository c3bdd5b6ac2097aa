"""The resources that each container of a pod should receive.

Strategy: recommendations pass through the caps in a fixed order: the namespace's LimitRange for
pods, then per container its LimitRange, the VPA's policy, and for RequestsOnly the container's
own limit, at last the pod's own resources; what stands last wins. Limits then follow in
proportion. Targets and bounds take the same way, so that the updater compares like with like.

A container whose policy says Off keeps what it has, and so does a limit under RequestsOnly;
both still take their share of what a LimitRange allows the pod.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from app.model.limits import Limits, NamespaceLimits
from app.model.pods import Container, Pod, Resources
from app.model.quantity import SIZED, ZERO, Quantities, Quantity, in_order
from app.model.scalers import ScaledMetric
from app.model.vpa import Recommendation, Vpa
from app.sizing.capping import (
    AppliedCap,
    Draft,
    cap_container,
    fit_pod_limits,
    fit_pod_resources,
    limits_follow,
    proportional_limit,
)
from app.sizing.running_together import running_together

_UNLIMITED = Limits()


@dataclass(frozen=True, slots=True)
class CappedRecommendation:
    """A container's recommendation after all caps."""

    container: str
    target: Quantities
    lower_bound: Quantities
    upper_bound: Quantities
    recommended: Quantities  # the target before the caps
    caps: tuple[AppliedCap, ...]  # what changed the target, in order
    is_own: bool  # False: nothing was recommended; the container only makes room for others

    @property
    def notes(self) -> tuple[str, ...]:
        """What capped the target, in words."""
        return tuple(f"{cap.resource} {cap.by}" for cap in self.caps if cap.is_noted)


@dataclass(frozen=True, slots=True)
class Sizes:
    """What is written into a container, and why it is that much."""

    requests: Quantities
    limits: Quantities
    notes: tuple[str, ...]


NO_SIZES = Sizes({}, {}, ())


def capped(
    pod: Pod,
    vpa: Vpa,
    limits: NamespaceLimits,
    current: Mapping[str, Resources],
    *,
    with_bounds: bool = True,
) -> dict[str, CappedRecommendation]:
    """Return the recommendation of each container of a pod after all caps.

    Args:
        pod: the pod.
        vpa: the VPA that controls it.
        limits: what the LimitRanges of its namespace ask for.
        current: what each container has now, by name.
        with_bounds: whether lower and upper bounds are wanted beside the target.
    """
    if vpa.recommendation is None:
        return {}
    drafts = [
        _draft(container, vpa, current[container.name], with_bounds=with_bounds)
        for container in pod.containers
    ]
    if limits.pod is not None:
        fit_pod_limits(drafts, limits.pod, running_together(pod))
    for draft in drafts:
        cap_container(draft, limits.container)
    if pod.pod_resources is not None:
        usual = limits.container or _UNLIMITED
        fit_pod_resources(drafts, pod.pod_resources, usual, running_together(pod))
    if with_bounds:
        _order_bounds(drafts)
    return {draft.container.name: _amounts(draft) for draft in drafts if draft.amounts_by_bound}


def _draft(container: Container, vpa: Vpa, current: Resources, *, with_bounds: bool) -> Draft:
    policy = vpa.policy(container.name)
    if policy is not None and policy.is_off:
        return Draft(container, current, policy, None, {}, is_fixed=True)
    recommendation = vpa.recommended(container.name)
    if recommendation is None:
        return Draft(container, current, policy, None, {})
    lists = {"target": recommendation.target}
    if with_bounds:
        lists["lower"] = recommendation.lower_bound
        lists["upper"] = recommendation.upper_bound
    return Draft(
        container,
        current,
        policy,
        recommendation.target,
        {name: _changeable(vpa, container, amounts) for name, amounts in lists.items()},
    )


def _changeable(vpa: Vpa, container: Container, amounts: Quantities) -> dict[str, Quantity]:
    """Return amounts in order, without those by which replicas are scaled."""
    return {
        resource: amounts[resource]
        for resource in in_order(amounts)
        if vpa.held_by(container.name, resource) is None
    }


def _order_bounds(drafts: Sequence[Draft]) -> None:
    """Restore lower <= target <= upper, which caps per list may have broken."""
    for draft in drafts:
        lower, upper = draft.amounts_by_bound.get("lower"), draft.amounts_by_bound.get("upper")
        for resource, target in draft.amounts_by_bound.get("target", {}).items():
            if lower is not None and lower.get(resource, target) > target:
                lower[resource] = target
            if upper is not None and upper.get(resource, target) < target:
                upper[resource] = target


def _amounts(draft: Draft) -> CappedRecommendation:
    return CappedRecommendation(
        container=draft.container.name,
        target=draft.amounts_by_bound["target"],
        lower_bound=draft.amounts_by_bound.get("lower", {}),
        upper_bound=draft.amounts_by_bound.get("upper", {}),
        recommended=draft.recommended or {},
        caps=tuple(draft.caps),
        is_own=draft.recommended is not None,
    )


def sizes(
    amounts: CappedRecommendation, current: Resources, vpa: Vpa, limits: NamespaceLimits
) -> Sizes:
    """Return the requests and limits that a container receives."""
    if not amounts.is_own and all(
        current.request(resource) == amount for resource, amount in amounts.target.items()
    ):
        return NO_SIZES
    requests = amounts.target
    held = held_notes(amounts, vpa)
    if "" in requests:  # no API server would take a resource without a name
        requests = {name: amount for name, amount in requests.items() if name}
    if not limits_follow(vpa.policy(amounts.container)):
        return Sizes(requests, {}, (*amounts.notes, *held))
    new_limits: dict[str, Quantity] = {}
    notes: list[str] = []
    for resource in SIZED:
        amount, note = proportional_limit(
            resource,
            current.limit(resource),
            current.request(resource),
            requests.get(resource),
            limits.container.usual(resource) if limits.container is not None else ZERO,
        )
        if amount is not None:
            new_limits[resource] = amount
        if note:
            notes.append(note)
    notes = notes if new_limits else []
    return Sizes(requests, new_limits, (*amounts.notes, *notes, *held))


def holding_metrics(vpa: Vpa, recommendation: Recommendation) -> tuple[ScaledMetric, ...]:
    """Return the metrics because of which something that is recommended stays as it is."""
    return tuple(
        metric
        for metric in vpa.scaled_by
        if any(metric.covers(one.container, name) for one in recommendation for name in one.target)
    )


def held_notes(amounts: CappedRecommendation, vpa: Vpa) -> tuple[str, ...]:
    """Say which recommended resources stay as they are because replicas are scaled by them."""
    if not vpa.scaled_by:
        return ()
    held = ((name, vpa.held_by(amounts.container, name)) for name in in_order(amounts.recommended))
    return tuple(f"{name} held: {one.by} scales by it" for name, one in held if one is not None)
