"""The verdict on a pod that is being created.

Strategy: match, size, boost, and tell what was done. A pod is never refused; whatever cannot be
decided leaves it as its author wrote it, with a reason. Only the spec is read: what a client
claims in the status is not trusted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from app.core.admission.patching import pod_patch
from app.core.boost import Boosted, Ceiling, Refusal, Unboosted, boosts
from app.core.matching import Match, Unknown, match_pod
from app.core.scaling import CPU
from app.core.sizing import NO_SIZES, Amounts, Sizes, capped, sizes
from app.model.errors import BadObject
from app.model.fields import as_object
from app.model.gates import Gate, Gates
from app.model.limits import NamespaceLimits
from app.model.lookups import LookedUp
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
    boost: Boosted | None = None
    boost_refusal: Refusal | Ceiling | None = None


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
        item = as_object(request.new, "request.object")
        pod = read_pod(item, request.namespace, with_status=False)
    except BadObject as error:
        return PodVerdict(UNREADABLE, str(error))
    match = match_pod(pod, view, looked_up, boosts=Gate.CPU_STARTUP_BOOST in rules.gates)
    if isinstance(match, Unknown):
        return match
    if match.vpa is None:
        return PodVerdict(match.reason, match.message, pod, match)
    containers = size_containers(pod, match.vpa, view.limits, rules)
    patch = pod_patch(pod, match.vpa.name, containers)
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
    if not vpa.is_off:
        current = {container.name: container.resources for container in pod.containers}
        amounts = capped(pod, vpa, limits, current, with_bounds=False)
    plain = [_unboosted_verdict(container, amounts, vpa, limits) for container in pod.containers]
    if not vpa.mentions_boost or Gate.CPU_STARTUP_BOOST not in rules.gates:
        return tuple(plain)
    unboosted = [_unboosted(*pair) for pair in zip(pod.containers, plain, strict=True)]
    boosted, refused = boosts(pod, vpa, limits, unboosted, rules.max_cpu_boost)
    return tuple(
        replace(
            verdict,
            boost=boosted.get(verdict.container),
            boost_refusal=refused.get(verdict.container),
        )
        for verdict in plain
    )


def _unboosted_verdict(
    container: Container, amounts: Mapping[str, Amounts], vpa: Vpa, limits: NamespaceLimits
) -> ContainerVerdict:
    found = amounts.get(container.name)
    if found is None:
        return ContainerVerdict(container.name, None, NO_SIZES)
    return ContainerVerdict(container.name, found, sizes(found, container.resources, vpa, limits))


def _unboosted(container: Container, verdict: ContainerVerdict) -> Unboosted:
    found, spec = verdict.sizes, container.resources
    request = found.requests.get(CPU)
    if request is None or request.is_zero:
        request = spec.request(CPU) or ZERO
    return Unboosted(container, request, found.limits.get(CPU) or spec.limit(CPU) or ZERO)
