"""The verdict on a pod that is being created.

Strategy: match, size, boost, and tell what was done. A pod is never refused; whatever cannot be
decided leaves it as its author wrote it, with a reason. Only the spec is read: what a client
claims in the status is not trusted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from app.core.admission.patching import PatchedContainer, pod_patch
from app.core.boost import Boosted, Refusal, Unboosted, boosts
from app.core.matching import LookedUp, Match, Unknown, match_pod
from app.core.scaling import CPU
from app.core.sizing import NO_SIZES, Amounts, Sizes, capped, sizes
from app.model.errors import BadObject
from app.model.fields import as_object
from app.model.gates import Gate, Gates
from app.model.limits import NamespaceLimits
from app.model.pods import Container, Pod, read_pod
from app.model.quantity import ZERO, Quantity
from app.model.review import Request
from app.model.snapshot import NamespaceView
from app.model.vpa import Vpa


@dataclass(frozen=True, slots=True)
class PodRules:
    """What decides about pods beside the cluster's objects."""

    gates: Gates = field(default_factory=Gates)
    max_cpu_boost: Quantity | None = None


@dataclass(frozen=True, slots=True)
class ContainerVerdict:
    """What one container gets, from which recommendation, and why it is that much."""

    container: str
    amounts: Amounts | None  # None: nothing was recommended, or it does not count here
    sizes: Sizes
    boost: Boosted | None
    boost_refusal: Refusal | None


@dataclass(frozen=True, slots=True)
class PodVerdict:
    """What a pod gets; an empty patch leaves it as it is."""

    reason: str
    message: str
    pod: Pod | None = None
    match: Match | None = None
    containers: tuple[ContainerVerdict, ...] = ()
    patch: Sequence[Mapping[str, Any]] = ()

    @property
    def is_matched(self) -> bool:
        """Whether a VPA controls the pod."""
        return self.match is not None and self.match.vpa is not None


SIZED = "Sized"
NO_RECOMMENDATION = "NoRecommendation"
NOT_A_CREATION = "NotACreation"
UNKNOWN_VERSION = "UnknownVersion"
UNREADABLE = "UnreadablePod"


def admit_pod(
    request: Request, view: NamespaceView, looked_up: LookedUp, rules: PodRules
) -> PodVerdict | Unknown:
    """Decide what a pod gets, or name what must be looked up before."""
    if request.operation not in ("CREATE", "") or request.subresource:
        return PodVerdict(NOT_A_CREATION, "only the creation of a pod is changed")
    if request.resource.version != "v1":
        return PodVerdict(UNKNOWN_VERSION, f"pods of version {request.resource.version!r}")
    try:
        pod = read_pod(as_object(request.new, "request.object"), request.namespace)
    except BadObject as error:
        return PodVerdict(UNREADABLE, str(error))
    match = match_pod(pod, view, looked_up, boosts=Gate.CPU_STARTUP_BOOST in rules.gates)
    if isinstance(match, Unknown):
        return match
    if match.vpa is None:
        return PodVerdict(match.reason, match.message, pod, match)
    return _sized(pod, match, match.vpa, view.limits, rules)


def _sized(
    pod: Pod, match: Match, vpa: Vpa, limits: NamespaceLimits, rules: PodRules
) -> PodVerdict:
    containers = size_containers(pod, vpa, limits, rules)
    patch = pod_patch(
        pod,
        vpa.name,
        [PatchedContainer(verdict.sizes, verdict.boost) for verdict in containers],
    )
    is_sized = any(
        verdict.sizes.requests or verdict.sizes.limits or verdict.boost for verdict in containers
    )
    reason = SIZED if is_sized else NO_RECOMMENDATION
    return PodVerdict(reason, match.message, pod, match, containers, patch)


def size_containers(
    pod: Pod, vpa: Vpa, limits: NamespaceLimits, rules: PodRules
) -> tuple[ContainerVerdict, ...]:
    """Return what each container of a pod gets from the VPA that controls it."""
    amounts: Mapping[str, Amounts] = {}
    if not vpa.is_off and vpa.recommendation is not None:
        current = {container.name: container.resources for container in pod.containers}
        amounts = capped(pod, vpa, limits, current, with_bounds=False)
    plain = {
        container.name: sizes(found, container.resources, vpa, limits)
        if (found := amounts.get(container.name))
        else NO_SIZES
        for container in pod.containers
    }
    boosted: Mapping[str, Boosted] = {}
    refused: Mapping[str, Refusal] = {}
    if Gate.CPU_STARTUP_BOOST in rules.gates and vpa.mentions_boost:
        unboosted = [_unboosted(container, plain) for container in pod.containers]
        boosted, refused = boosts(pod, vpa, limits, unboosted, rules.max_cpu_boost)
    return tuple(
        ContainerVerdict(
            container.name,
            amounts.get(container.name),
            plain[container.name],
            boosted.get(container.name),
            refused.get(container.name),
        )
        for container in pod.containers
    )


def _unboosted(container: Container, plain: Mapping[str, Sizes]) -> Unboosted:
    found = plain[container.name]
    request = found.requests.get(CPU, ZERO)
    if request.is_zero:
        request = container.resources.request(CPU) or ZERO
    limit = found.limits.get(CPU) or container.resources.limit(CPU) or ZERO
    return Unboosted(container, request, limit)
