"""The verdict on a pod that is being created, and the patch that carries it out.

Strategy: match, size, boost, patch. A pod is never refused; when no decision is possible it
stays as its author wrote it, with a reason. Only the spec is read: the status that a client
claims is not trusted. Patch operations are built by path and never by comparing objects, so
unknown fields cannot be lost. Maps are created only where they are missing; an existing
`resources` object is never replaced, because it may hold more than requests and limits.
Annotations of a boost that a pod brings along are removed: updater and recommender believe them.

Pods with equal keys get equal results. A match is valid for one state of its namespace, sizes for
one version of a VPA and of the limits, so they are kept by weak references to these and go with
them. What is kept in all is bounded by its bytes, roughly; when that is reached everything is
forgotten, which costs one computation for each kind of pod.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final, Generic, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

import orjson

from app.admission.core.incoming import IncomingPod, read_incoming_pod
from app.model.errors import BadObject
from app.model.fields import Object, as_object
from app.model.gates import FeatureGate, FeatureGates
from app.model.kinds import CacheKey
from app.model.limits import NamespaceLimits
from app.model.patches import Operation, add, pointer, remove
from app.model.pods import (
    OBSERVED_ANNOTATION,
    UPDATES_ANNOTATION,
    Container,
    Pod,
    updates_annotation,
)
from app.model.quantity import CPU, ZERO, Quantities, Quantity, in_order
from app.model.review import AdmissionRequest
from app.model.snapshot import NamespaceView
from app.model.vpa import Vpa, VpaIndex
from app.model.workloads import LookedUp, Lookup, LookupResult
from app.sizing.boost import Boosted, BoostOutcome, CpuBeforeBoost, pod_boosts
from app.sizing.matching import LookupNeeded, Match, MatchReason, match_pod
from app.sizing.sizing import NO_SIZES, CappedRecommendation, Sizes, capped, held_notes, sizes


class PodReason(StrEnum):
    """The outcomes of a pod's review that are decided here; a MatchReason gives the others."""

    SIZED = "Sized"
    NO_RECOMMENDATION = "NoRecommendation"
    SCALED_HORIZONTALLY = "ScaledHorizontally"
    NOT_A_CREATION = "NotACreation"
    UNKNOWN_VERSION = "UnknownVersion"
    UNREADABLE = "UnreadablePod"
    NOT_READ = "NotRead"
    TIME_OVER = "TimeOver"
    INTERNAL_ERROR = "InternalError"


# A pod that ends here was not decided about; every other reason is a decision.
FAILED_OPEN: Final = frozenset(
    {
        MatchReason.OWNER_UNKNOWN,
        MatchReason.OWNERSHIP_CYCLE,
        PodReason.UNREADABLE,
        PodReason.NOT_READ,
        PodReason.TIME_OVER,
        PodReason.UNKNOWN_VERSION,
        PodReason.INTERNAL_ERROR,
    }
)


@dataclass(frozen=True, slots=True)
class PodRules:
    """What decides about pods beside the cluster's objects."""

    gates: FeatureGates = field(default_factory=FeatureGates)
    max_cpu_boost: Quantity | None = None
    native_sidecars: bool = True  # else they stay as they are


@dataclass(frozen=True, slots=True)
class ContainerVerdict:
    """What one container gets, from which recommendation, and why it is that much."""

    container: str
    recommendation: CappedRecommendation | None  # None: there is none, or it does not count here
    sizes: Sizes  # without a boost
    boost_outcome: BoostOutcome | None = None  # None: not asked for, or its gate is off

    @property
    def boost(self) -> Boosted | None:
        """The boost, if there is one."""
        return self.boost_outcome if isinstance(self.boost_outcome, Boosted) else None

    @property
    def requests(self) -> Quantities:
        """What is written as requests, the boost included."""
        boost = self.boost
        return {**self.sizes.requests, CPU: boost.request} if boost else self.sizes.requests

    @property
    def limits(self) -> Quantities:
        """What is written as limits, the boost included."""
        limit = self.boost.limit if self.boost else None
        return {**self.sizes.limits, CPU: limit} if limit is not None else self.sizes.limits


@dataclass(frozen=True, slots=True)
class PodSizes:
    """What a pod gets from the VPA that controls it."""

    reason: PodReason
    containers: tuple[ContainerVerdict, ...]
    patch: Sequence[Object]
    encoded: str  # the patch as it goes over the wire
    changes: Object  # values by path, without our own marks


class PodVerdict(NamedTuple):
    """What a pod gets, and why; without sizes it stays as it is."""

    reason: MatchReason | PodReason
    message: str
    incoming: IncomingPod | None = None
    match: Match | None = None
    sizes: PodSizes | None = None
    unmarking: Sequence[Operation] = ()  # for a pod without sizes

    @property
    def containers(self) -> tuple[ContainerVerdict, ...]:
        """What each container gets."""
        return self.sizes.containers if self.sizes else ()

    @property
    def patch(self) -> Sequence[Object]:
        """The operations that bring it about."""
        return self.sizes.patch if self.sizes else self.unmarking

    @property
    def encoded(self) -> str:
        """The operations as they go over the wire; empty if there are none."""
        if self.sizes is not None:
            return self.sizes.encoded
        return _encoded(self.unmarking) if self.unmarking else ""


_MOST_KEPT_BYTES: Final = 32 * 1024 * 1024  # roughly, of sizes; of matches a quarter
_MOST_OF_ALL: Final = 16  # what takes more than this part of it is not kept

T = TypeVar("T")
K = TypeVar("K", bound=object)


class Remembered(Generic[K, T]):
    """Results that are kept for equal pods, by version and key; several threads may use it."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._bytes = 0  # what versions that are gone had counts on until all is forgotten
        self._kept: WeakKeyDictionary[K, tuple[object, dict[bytes, T]]] = WeakKeyDictionary()

    def get(self, version: K, valid_with: object, key: bytes) -> T | None:
        """Return a result, if it was kept for this version and the same object beside it."""
        kept = self._kept.get(version)
        return kept[1].get(key) if kept is not None and kept[0] is valid_with else None

    def keep(self, version: K, valid_with: object, key: bytes, result: T, size_bytes: int) -> None:
        """Keep a result, unless it is a good part of all that may be kept."""
        if size_bytes > self._most_bytes // _MOST_OF_ALL:
            return
        self._bytes += size_bytes
        if self._bytes > self._most_bytes:
            self._kept, self._bytes = WeakKeyDictionary(), size_bytes
        kept = self._kept.get(version)
        if kept is None or kept[0] is not valid_with:
            kept = self._kept[version] = valid_with, {}
        kept[1][memoryview(key).tobytes()] = result  # bytes from orjson take 4 KB, however few


class PodAdmission:
    """Decides about pods by the same rules; keeps results for equal pods.

    Several threads may use it.
    """

    def __init__(self, rules: PodRules, most_kept_bytes: int = _MOST_KEPT_BYTES) -> None:
        self._rules = rules
        self._boosts = FeatureGate.CPU_STARTUP_BOOST in rules.gates
        self._matches: Remembered[CacheKey, Match] = Remembered(most_kept_bytes // 4)
        self._sizes: Remembered[VpaIndex, PodSizes] = Remembered(most_kept_bytes)

    def admit(
        self, request: AdmissionRequest, view: NamespaceView, looked_up: LookedUp
    ) -> PodVerdict | LookupNeeded:
        """Decide what a pod gets, or name what must be looked up before."""
        if request.operation not in ("CREATE", "") or request.subresource:
            return PodVerdict(PodReason.NOT_A_CREATION, "only the creation of a pod is changed")
        if (version := request.resource.version) != "v1":
            return PodVerdict(PodReason.UNKNOWN_VERSION, f"pods of version {version!r}")
        if request.new is None:
            return PodVerdict(PodReason.UNREADABLE, "request.object: is missing")
        try:
            item = as_object(request.new, "request.object")
            sidecars = self._rules.native_sidecars
            incoming = read_incoming_pod(item, request.namespace, native_sidecars=sidecars)
            match = self._match(incoming, view, looked_up)
            if isinstance(match, LookupNeeded):
                return match
            if match.vpa is None:
                removal = _removal(incoming.boost_keys) if self._boosts else ()
                return PodVerdict(match.reason, match.message, incoming, match, None, removal)
            sized = self._size(incoming, match.vpa, view.limits)
        except BadObject as error:
            return PodVerdict(PodReason.UNREADABLE, str(error))
        return PodVerdict(sized.reason, match.message, incoming, match, sized)

    def _match(
        self, incoming: IncomingPod, view: NamespaceView, looked_up: LookedUp
    ) -> Match | LookupNeeded:
        kept = self._matches.get(view.cache_key, None, incoming.match_key)
        if kept is not None:
            return kept
        match = match_pod(incoming, view, looked_up, boosts=self._boosts, is_new=True)
        if isinstance(match, Match) and not looked_up:
            key = incoming.match_key
            size_bytes = 500 + len(key) + 2 * len(match.message) + 8 * len(match.weaker)
            self._matches.keep(view.cache_key, None, key, match, size_bytes)
        return match

    def _size(self, incoming: IncomingPod, vpa: Vpa, limits: NamespaceLimits) -> PodSizes:
        kept = self._sizes.get(vpa.index, limits, incoming.size_key)
        if kept is None:
            boost_keys = incoming.boost_keys if self._boosts else ()
            kept = size_pod(incoming.pod(), vpa, limits, self._rules, boost_keys)
            # The values behind a patch take several times as much as its text.
            size_bytes = 1_000 + 4 * len(incoming.size_key) + 8 * len(kept.encoded)
            self._sizes.keep(vpa.index, limits, incoming.size_key, kept, size_bytes)
        return kept


_MOST_OWNERS: Final = 10


def admit_with_lookups(
    admit: Callable[[LookedUp], PodVerdict | LookupNeeded],
    find: Callable[[Lookup], LookupResult],
    first: LookupNeeded | None = None,
) -> PodVerdict:
    """Ask for a decision, and look up what it needs; `first` is what it is known to need."""
    needed, looked_up = first, {}
    for _ in range(_MOST_OWNERS):
        if needed is not None:
            looked_up[needed.lookup.key] = find(needed.lookup)
        verdict = admit(looked_up)
        if isinstance(verdict, PodVerdict):
            return verdict
        needed = verdict
    return PodVerdict(MatchReason.OWNER_UNKNOWN, f"more than {_MOST_OWNERS} owners to look up")


def size_pod(
    pod: Pod, vpa: Vpa, limits: NamespaceLimits, rules: PodRules, brought: Sequence[str] = ()
) -> PodSizes:
    """Work out what a pod gets from its VPA; boost annotations that it `brought` are removed.

    Raises:
        BadObject: the pod's resources cannot be read.
    """
    containers = _container_verdicts(pod, vpa, limits, rules)
    patch = pod_patch(pod, vpa.name, containers)
    ours = {one.boost.annotation_key for one in containers if one.boost}
    patch += _removal([key for key in brought if key not in ours])
    is_sized = any(one.requests or one.limits for one in containers)
    is_held = any(one.recommendation and held_notes(one.recommendation, vpa) for one in containers)
    unsized = PodReason.SCALED_HORIZONTALLY if is_held else PodReason.NO_RECOMMENDATION
    of_spec = (one for one in patch if one["path"].startswith("/spec/"))
    changes = {one["path"]: one["value"] for one in of_spec}
    return PodSizes(
        PodReason.SIZED if is_sized else unsized, containers, patch, _encoded(patch), changes
    )


def _encoded(patch: Sequence[Operation]) -> str:
    return b64encode(orjson.dumps(patch)).decode()


def _removal(keys: Sequence[str]) -> tuple[Operation, ...]:
    return tuple([remove(("metadata", "annotations", key)) for key in keys])


def _container_verdicts(
    pod: Pod, vpa: Vpa, limits: NamespaceLimits, rules: PodRules
) -> tuple[ContainerVerdict, ...]:
    recommendations: Mapping[str, CappedRecommendation] = {}
    if not vpa.is_off:
        current = {container.name: container.resources for container in pod.containers}
        recommendations = capped(pod, vpa, limits, current, with_bounds=False)
    plain = []
    for container in pod.containers:
        found = recommendations.get(container.name)
        granted = sizes(found, container.resources, vpa, limits) if found else NO_SIZES
        plain.append(ContainerVerdict(container.name, found, granted))
    if not vpa.mentions_boost or FeatureGate.CPU_STARTUP_BOOST not in rules.gates:
        return tuple(plain)
    before_boost = [_cpu_before_boost(*pair) for pair in zip(pod.containers, plain, strict=True)]
    boosts = pod_boosts(pod, vpa, limits, before_boost, rules.max_cpu_boost)
    return tuple(replace(one, boost_outcome=boosts.get(one.container)) for one in plain)


def _cpu_before_boost(container: Container, verdict: ContainerVerdict) -> CpuBeforeBoost:
    granted, spec = verdict.sizes, container.resources
    request = granted.requests.get(CPU)
    if request is None or request.is_zero:
        request = spec.request(CPU) or ZERO
    return CpuBeforeBoost(container, request, granted.limits.get(CPU) or spec.limit(CPU) or ZERO)


def pod_patch(pod: Pod, vpa: str, containers: Sequence[ContainerVerdict]) -> list[Operation]:
    """Return the operations for a pod that a VPA controls; containers in the pod's order."""
    operations: list[Operation] = []
    if pod.annotations is None:
        operations.append(add("/metadata/annotations", {}))
    updates: list[str] = []
    for container, patched in zip(pod.containers, containers, strict=True):
        if patched.boost is not None:
            path = pointer("metadata", "annotations", patched.boost.annotation_key)
            operations.append(add(path, patched.boost.annotation_value))
        changes, words = _container_patch(container, patched)
        operations += changes
        if changes:
            updates.append(f"{container.place}: {', '.join(words)}")
    if updates:
        told = updates_annotation(vpa, updates)
        operations.append(add(f"/metadata/annotations/{UPDATES_ANNOTATION}", told))
    observed = ", ".join(container.name for container in pod.containers)
    operations.append(add(f"/metadata/annotations/{OBSERVED_ANNOTATION}", observed))
    return operations


def _container_patch(
    container: Container, patched: ContainerVerdict
) -> tuple[list[Operation], list[str]]:
    requests, limits = patched.requests, patched.limits
    if not requests and not limits:
        return [], []
    path = pointer("spec", *container.place, "resources")
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
