"""The verdict on a pod that is being created, and the patch that carries it out.

Strategy: match, size, boost, patch. A pod is never refused; when no decision is possible it
stays as its author wrote it, with a reason. Only the spec is read: the status that a client
claims is not trusted. Patch operations are built by path and never by comparing objects, so
unknown fields cannot be lost. Maps are created only where they are missing; an existing
`resources` object is never replaced, because it may hold more than requests and limits.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

import orjson

from app.admission.core.incoming import IncomingPod, MatchCache, SizeCache, read_incoming_pod
from app.model.errors import BadObject
from app.model.fields import Object, as_object
from app.model.gates import FeatureGate, FeatureGates
from app.model.limits import NamespaceLimits
from app.model.patches import Operation, add, pointer
from app.model.pods import OBSERVED_ANNOTATION, UPDATES_ANNOTATION, Container, Pod
from app.model.quantity import CPU, ZERO, Quantity
from app.model.review import AdmissionRequest
from app.model.snapshot import NamespaceView
from app.model.vpa import Vpa
from app.model.workloads import LookedUp
from app.sizing.boost import Boosted, BoostRefusal, Ceiling, Unboosted, pod_boosts
from app.sizing.matching import LookupNeeded, Match
from app.sizing.scaling import in_order
from app.sizing.sizing import NO_SIZES, CappedRecommendation, Sizes, capped, sizes


@dataclass(frozen=True, slots=True)
class PodRules:
    """What decides about pods beside the cluster's objects."""

    gates: FeatureGates = field(default_factory=FeatureGates)
    max_cpu_boost: Quantity | None = None


@dataclass(frozen=True, slots=True)
class ContainerVerdict:
    """What one container gets, from which recommendation, and why it is that much."""

    container: str
    amounts: CappedRecommendation | None  # None: nothing was recommended, or it does not count here
    sizes: Sizes
    boost: Boosted | None = None
    boost_refusal: BoostRefusal | Ceiling | None = None


@dataclass(frozen=True, slots=True)
class PodSizes:
    """What a pod gets from the VPA that controls it."""

    reason: str
    containers: tuple[ContainerVerdict, ...]
    patch: Sequence[Object]
    encoded: str  # the patch as it goes over the wire
    changes: Object  # values by path, without our own marks


class PodVerdict(NamedTuple):
    """What a pod gets, and why; without sizes it stays as it is."""

    reason: str
    message: str
    incoming: IncomingPod | None = None
    match: Match | None = None
    sizes: PodSizes | None = None

    @property
    def containers(self) -> tuple[ContainerVerdict, ...]:
        """What each container gets."""
        return self.sizes.containers if self.sizes else ()

    @property
    def patch(self) -> Sequence[Object]:
        """The operations that bring it about."""
        return self.sizes.patch if self.sizes else ()


SIZED = "Sized"
NO_RECOMMENDATION = "NoRecommendation"
NOT_A_CREATION = "NotACreation"
UNKNOWN_VERSION = "UnknownVersion"
UNREADABLE = "UnreadablePod"


def admit_pod(
    request: AdmissionRequest,
    view: NamespaceView,
    looked_up: LookedUp,
    rules: PodRules,
    cache: PodCache | None = None,
) -> PodVerdict | LookupNeeded:
    """Decide what a pod gets, or name what must be looked up before."""
    if request.operation not in ("CREATE", "") or request.subresource:
        return PodVerdict(NOT_A_CREATION, "only the creation of a pod is changed")
    if request.resource.version != "v1":
        return PodVerdict(UNKNOWN_VERSION, f"pods of version {request.resource.version!r}")
    if request.new is None:
        return PodVerdict(UNREADABLE, "request.object: is missing")
    cache = cache or pod_cache(rules)
    try:
        item = as_object(request.new, "request.object")
        incoming = read_incoming_pod(item, request.namespace)
        match = cache.matches.find(incoming, view, looked_up)
        if isinstance(match, LookupNeeded):
            return match
        if match.vpa is None:
            return PodVerdict(match.reason, match.message, incoming, match)
        sizes = cache.sizes.find(incoming, match.vpa, view.limits)
    except BadObject as error:
        return PodVerdict(UNREADABLE, str(error))
    return PodVerdict(sizes.reason, match.message, incoming, match, sizes)


class PodCache(NamedTuple):
    """Results for pods by the same rules."""

    matches: MatchCache
    sizes: SizeCache[PodSizes]


def pod_cache(rules: PodRules, most: int = 5_000) -> PodCache:
    """Return an empty cache for pods that are admitted by these rules."""
    pod_boosts = FeatureGate.CPU_STARTUP_BOOST in rules.gates
    return PodCache(
        MatchCache(boosts=pod_boosts, most=most), SizeCache(partial(_size_pod, rules), most)
    )


def _size_pod(
    rules: PodRules, incoming: IncomingPod, vpa: Vpa, limits: NamespaceLimits
) -> PodSizes:
    """Work out what a pod gets.

    Raises:
        BadObject: the pod's resources cannot be read.
    """
    pod = incoming.pod()
    containers = size_containers(pod, vpa, limits, rules)
    patch = pod_patch(pod, vpa.name, containers)
    is_sized = any(
        verdict.sizes.requests or verdict.sizes.limits or verdict.boost for verdict in containers
    )
    reason = SIZED if is_sized else NO_RECOMMENDATION
    changes = {
        operation["path"]: operation["value"]
        for operation in patch
        if operation["path"].startswith("/spec/")
    }
    return PodSizes(reason, containers, patch, b64encode(orjson.dumps(patch)).decode(), changes)


def size_containers(
    pod: Pod, vpa: Vpa, limits: NamespaceLimits, rules: PodRules
) -> tuple[ContainerVerdict, ...]:
    """Return what each container of a pod gets from the VPA that controls it."""
    amounts: Mapping[str, CappedRecommendation] = {}
    if not vpa.is_off:
        current = {container.name: container.resources for container in pod.containers}
        amounts = capped(pod, vpa, limits, current, with_bounds=False)
    plain = [_unboosted_verdict(container, amounts, vpa, limits) for container in pod.containers]
    if not vpa.mentions_boost or FeatureGate.CPU_STARTUP_BOOST not in rules.gates:
        return tuple(plain)
    unboosted = [_unboosted(*pair) for pair in zip(pod.containers, plain, strict=True)]
    boosted, refused = pod_boosts(pod, vpa, limits, unboosted, rules.max_cpu_boost)
    return tuple(
        replace(
            verdict,
            boost=boosted.get(verdict.container),
            boost_refusal=refused.get(verdict.container),
        )
        for verdict in plain
    )


def _unboosted_verdict(
    container: Container,
    amounts: Mapping[str, CappedRecommendation],
    vpa: Vpa,
    limits: NamespaceLimits,
) -> ContainerVerdict:
    recommendation = amounts.get(container.name)
    if recommendation is None:
        return ContainerVerdict(container.name, None, NO_SIZES)
    return ContainerVerdict(
        container.name, recommendation, sizes(recommendation, container.resources, vpa, limits)
    )


def _unboosted(container: Container, verdict: ContainerVerdict) -> Unboosted:
    granted, spec = verdict.sizes, container.resources
    request = granted.requests.get(CPU)
    if request is None or request.is_zero:
        request = spec.request(CPU) or ZERO
    return Unboosted(container, request, granted.limits.get(CPU) or spec.limit(CPU) or ZERO)


def pod_patch(pod: Pod, vpa: str, containers: Sequence[ContainerVerdict]) -> list[Operation]:
    """Return the operations for a pod that a VPA controls; containers in the pod's order."""
    operations: list[Operation] = []
    if pod.annotations is None:
        operations.append(add("/metadata/annotations", {}))
    updates: list[str] = []
    for index, (container, patched) in enumerate(zip(pod.containers, containers, strict=True)):
        if patched.boost is not None:
            path = pointer("metadata", "annotations", patched.boost.annotation)
            operations.append(add(path, patched.boost.original))
        changes, words = _container_patch(index, container, patched)
        operations += changes
        if changes:
            updates.append(f"container {index}: {', '.join(words)}")
    if updates:
        told = f"Pod resources updated by {vpa}: {'; '.join(updates)}"
        operations.append(add(f"/metadata/annotations/{UPDATES_ANNOTATION}", told))
    observed = ", ".join(container.name for container in pod.containers)
    operations.append(add(f"/metadata/annotations/{OBSERVED_ANNOTATION}", observed))
    return operations


def _container_patch(
    index: int, container: Container, patched: ContainerVerdict
) -> tuple[list[Operation], list[str]]:
    requests, limits = patched.sizes.requests, patched.sizes.limits
    if patched.boost is not None:
        requests = {**requests, CPU: patched.boost.request}
        if patched.boost.limit is not None:
            limits = {**limits, CPU: patched.boost.limit}
    if not requests and not limits:
        return [], []
    path = f"/spec/containers/{index}/resources"
    current = container.resources
    operations: list[Operation] = []
    if current.requests is None and current.limits is None and not current.has_other:
        operations.append(add(path, {}))
    words = list(patched.sizes.notes)
    for kind, present, amounts in (
        ("request", current.requests, requests),
        ("limit", current.limits, limits),
    ):
        if not amounts:
            continue
        at = f"{path}/{kind}s"
        if present is None:
            operations.append(add(at, {}))
        for resource in in_order(amounts):
            operations.append(add(at + pointer(resource), str(amounts[resource])))
            words.append(f"{resource} {kind}")
    return operations, words
