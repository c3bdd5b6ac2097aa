"""What a pod has, what it should have, and how far apart they are: once for pods that look alike.

Strategy: pods of one VPA mostly look alike, and recommendations are the same for all that do. So
the work is done for the first one and looked up for the others. Differences are relative changes
of the pod's totals, summed over resources, as upstream counts them; besides that number there is
one that does not let two containers cancel each other out, and one of what grows alone. A missing
request counts as the least amount there is.

Ratios of limits to requests come from the owner's template, as they will when the pod is
recreated; what a pod has been resized to would let them drift a little each time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from app.model.limits import NamespaceLimits
from app.model.pods import OBSERVED_ANNOTATION, Container, Pod, Resources
from app.model.quantity import CPU, SIZED, Quantity
from app.model.scalers import ScaledMetric, held_sentence
from app.model.vpa import Vpa
from app.model.workloads import Workload
from app.sizing.sizing import CappedRecommendation, Sizes, capped, sizes
from app.updater.core.decisions import ContainerChange, Pair, PodNumbers
from app.updater.core.need import Deviation, NeedCheck, no_need
from app.updater.core.owners import Role, role_of
from app.updater.core.patching import observed_containers
from app.updater.core.resize_state import are_same
from app.updater.core.rules import UpdateRules


def pairs_of(
    pod: Pod,
    amounts: Mapping[str, CappedRecommendation],
    current: Mapping[str, Resources],
    boosted: frozenset[str] = frozenset(),
) -> tuple[Pair, ...]:
    """Return every resource with a target, container by container.

    Args:
        pod: the pod.
        amounts: the recommendation of each container after caps.
        current: what each container has now.
        boosted: containers whose cpu is left out.
    """
    observed = observed_containers(pod)
    pairs: list[Pair] = []
    for container in pod.containers:
        name = container.name
        capped = amounts.get(name)
        if capped is None or (observed is not None and name not in observed):
            continue
        requests = current[name].requests or {}
        lower, upper = capped.lower_bound, capped.upper_bound
        for resource, target in capped.target.items():
            if resource == CPU and name in boosted:
                continue
            pairs.append(
                Pair(
                    name,
                    resource,
                    requests.get(resource),
                    target,
                    lower.get(resource),
                    upper.get(resource),
                    capped.is_own,
                )
            )
    return tuple(pairs)


def _held(pod: Pod, vpa: Vpa, current: Mapping[str, Resources]) -> str:
    """Say why requests that are not as recommended stay so; empty if nothing does."""
    if not vpa.scaled_by:
        return ""
    found: list[ScaledMetric] = []
    for container in pod.containers:
        recommended = vpa.recommended(container.name)
        for resource, target in recommended.target.items() if recommended is not None else ():
            metric = vpa.held_by(container.name, resource)
            request = current[container.name].request(resource)
            if metric is not None and not are_same(resource, request, target):
                found.append(metric)
    return held_sentence(found) if found else ""


def _share(part: int, whole: int) -> float:
    """Return a quotient; some quantities are larger than any float."""
    try:
        return part / whole
    except OverflowError:
        return math.inf


class _Sums:
    """The totals of one resource, in thousandths."""

    __slots__ = ("added", "requested", "taken", "wanted")

    def __init__(self) -> None:
        self.requested = self.wanted = self.added = self.taken = 0

    @property
    def base(self) -> int:
        return max(self.requested, 1)

    @property
    def difference(self) -> float:
        return _share(abs(self.base - self.wanted), self.base)

    @property
    def gross_difference(self) -> float:
        if self.added and self.taken:
            return _share(self.added + self.taken, self.base)
        return self.difference


def measure(pairs: tuple[Pair, ...]) -> PodNumbers:
    """Return how far the pairs together are from their targets."""
    sums: dict[str, _Sums] = {}
    is_outside = is_up = False
    for pair in pairs:
        total = sums.get(pair.resource)
        if total is None:
            total = sums[pair.resource] = _Sums()
        target = pair.target.milli
        total.wanted += target
        request = pair.current
        if request is None:
            is_up = is_outside = True
            total.added += target
            continue
        milli = request.milli
        total.requested += milli
        if target > milli:
            is_up = True
            total.added += target - milli
        else:
            total.taken += milli - target
        is_outside |= pair.is_outside
    return PodNumbers(
        pairs,
        sum(total.difference for total in sums.values()),
        sum(total.gross_difference for total in sums.values()),
        is_outside,
        is_up,
    )


def growth(pairs: tuple[Pair, ...]) -> Deviation:
    """Return the relative growth if nothing shrank, and whether some of it is below its bound."""
    sums: dict[str, _Sums] = {}
    rising: list[Pair] = []
    is_outside = False
    for pair in pairs:
        if not pair.is_controlled:
            continue
        total = sums.setdefault(pair.resource, _Sums())
        target, request = pair.target.milli, pair.current.milli if pair.current else 0
        total.requested += request
        if pair.current is None or target > request:
            total.added += target - request
            is_outside |= pair.current is None or pair.is_below
            rising.append(pair)
    difference = sum(_share(total.added, total.base) for total in sums.values())
    return Deviation(difference, is_outside, tuple(rising))


@dataclass(frozen=True, slots=True)
class PodTarget:
    """What pods that look alike should be, and how far they are from it."""

    boosted: frozenset[str]
    amounts: Mapping[str, CappedRecommendation]
    numbers: PodNumbers
    deviation: Deviation  # what of the numbers decides
    no_need: NeedCheck | None  # what keeps such pods from an update, unless one ran out of memory
    held: str  # why requests that are not as recommended stay so, empty if nothing is held


def _looks(pod: Pod, boosted: frozenset[str]) -> tuple[object, ...]:
    """Return all that decides about a pod's resources, beside its VPA."""
    return (
        pod.containers,
        boosted,
        [(status.name, status.resources) for status in pod.statuses],
        pod.init_containers,
        pod.pod_resources,
        pod.annotation(OBSERVED_ANNOTATION),
    )


class OwnerTargets:
    """What the pods of one owner should be under one VPA, once for those that look alike."""

    def __init__(
        self,
        vpa: Vpa,
        owner: Workload | None,
        limits: NamespaceLimits,
        rules: UpdateRules,
        rivals: tuple[Vpa, ...] = (),  # all VPAs that may control pods of the owner
    ) -> None:
        self.vpa, self.owner, self.limits, self.rules = vpa, owner, limits, rules
        self.rivals = rivals if any(one.selector is not None for one in rivals) else ()
        self._targets: list[tuple[tuple[object, ...], PodTarget]] = []  # by how pods look

    def role(self, pod: Pod) -> Role:
        """Return how a pod came by the labels for which the VPA selects it."""
        return role_of(pod, self.vpa, self.owner, self.rivals) if self.rivals else Role.ORIGINAL

    def of(self, pod: Pod, boosted: frozenset[str] = frozenset()) -> PodTarget:
        """Return what a pod should be; the cpu of boosted containers is left out of its numbers."""
        looks = _looks(pod, boosted)
        for known, target in self._targets:
            if known == looks:
                return target
        current = pod.current_resources
        bases = self.bases(pod)
        amounts = capped(pod, self.vpa, self.limits, bases)
        _let_stay(amounts, bases, current)
        pairs = pairs_of(pod, amounts, current, boosted)
        numbers = measure(pairs)
        deviation = Deviation(numbers.gross_difference, numbers.is_outside, pairs)
        if self.vpa.allows.only_upwards:
            deviation = growth(pairs)
        deviation = replace(deviation, has_several=len(pod.containers) > 1)
        need = no_need(deviation, self.rules)
        held = _held(pod, self.vpa, current)
        target = PodTarget(boosted, amounts, numbers, deviation, need, held)
        self._targets.append((looks, target))
        return target

    def bases(self, pod: Pod) -> dict[str, Resources]:
        """Return the resources from which each container's limits and caps follow."""
        template = self.template(pod)
        return {
            container.name: self._base(container, template.get(container.name))
            for container in pod.containers
        }

    def template(self, pod: Pod) -> dict[str, Resources]:
        """Return what the template says of each container, empty unless the pod is made from it."""
        owner = self.owner
        if owner is None or owner.key.kind == "DaemonSet":
            return {}
        rollout = owner.rollout if owner.key.kind == "StatefulSet" else None
        revision = rollout.update_revision if rollout is not None else ""
        if revision and pod.labels.get("controller-revision-hash") != revision:
            return {}
        return {container.name: container.resources for container in owner.template}

    def _base(self, container: Container, template: Resources | None) -> Resources:
        has = container.resources
        if template is None or template == has:
            return has
        requests, limits = dict(has.requests or {}), dict(has.limits or {})
        for resource in SIZED:
            request, limit = template.request(resource), template.limit(resource)
            is_given = limit is None and has.limit(resource) is not None
            if is_given and not self._has_usual_limit(resource):
                continue  # it got its limit from elsewhere
            if request is None and limit is None:
                continue
            _set(requests, resource, request or limit)
            _set(limits, resource, limit)
        return Resources(requests or None, limits or None)

    def _has_usual_limit(self, resource: str) -> bool:
        usual = self.limits.container
        return usual is not None and not usual.usual(resource).is_zero

    def changes(self, target: PodTarget, pod: Pod) -> tuple[ContainerChange, ...]:
        """Return what a resize has to write into a pod."""
        observed = observed_containers(pod)
        bases = self.bases(pod)
        changes: list[ContainerChange] = []
        for index, container in enumerate(pod.containers):
            amounts = target.amounts.get(container.name)
            if amounts is None or (observed is not None and container.name not in observed):
                continue
            wanted = sizes(amounts, bases[container.name], self.vpa, self.limits)
            resources = sized_resources(container.name, target.boosted)
            change = container_change(index, container, wanted, resources)
            if change.requests or change.limits:
                changes.append(change)
        return tuple(changes)


def _let_stay(
    amounts: dict[str, CappedRecommendation],
    bases: Mapping[str, Resources],
    current: Mapping[str, Resources],
) -> None:
    """Let containers without a recommendation be what they are unless they have to make room."""
    for name, found in amounts.items():
        if found.is_own:
            continue
        base, has = bases[name], current[name]
        target = {
            resource: has.request(resource) if amount == base.request(resource) else amount
            for resource, amount in found.target.items()
        }
        stays = {resource: amount for resource, amount in target.items() if amount is not None}
        amounts[name] = replace(found, target=stays)


def _set(amounts: dict[str, Quantity], resource: str, amount: Quantity | None) -> None:
    if amount is None:
        amounts.pop(resource, None)
    else:
        amounts[resource] = amount


def sized_resources(container: str, without_cpu: frozenset[str]) -> list[str]:
    """Return the resources of a container that may be changed; cpu is left out of some."""
    return [name for name in SIZED if not (name == CPU and container in without_cpu)]


def container_change(
    index: int, container: Container, wanted: Sizes, resources: Sequence[str]
) -> ContainerChange:
    """Return what differs between what a container asks for and what it should."""
    has = container.resources
    requests, limits = (
        {
            name: amounts[name]
            for name in resources
            if name in amounts and not are_same(name, asked(name), amounts[name])
        }
        for asked, amounts in ((has.request, wanted.requests), (has.limit, wanted.limits))
    )
    return ContainerChange(index, container.name, requests, limits)
