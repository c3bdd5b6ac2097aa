"""Pods: their containers, resources, conditions and terminations.

Strategy: native sidecars (init containers that run on) are containers like the others, and stand
behind them; other init containers are kept apart, because they are never changed. Values that
many pods share are kept in memory once: short words, owners, places of containers, and whole
resources, which are looked up by their text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from operator import attrgetter
from typing import NamedTuple

import orjson

from app.model.errors import BadObject
from app.model.fields import (
    Object,
    as_object,
    int64_at,
    integer_at,
    items_at,
    labels_at,
    object_at,
    optional_object,
    quantities_at,
    shared_text,
    text_at,
    time_at,
)
from app.model.kinds import (
    Condition,
    OwnerReference,
    controller_of,
    read_conditions,
    read_owners,
    shared_owners,
)
from app.model.quantity import SIZED, Quantities, Quantity
from app.model.role_leases import PodRole

# Keys of annotations that end with the name of a container. The first one has its own resources as
# the value (`boost_annotation_value`), the other one since when it is brought back from its boost.
BOOST_KEY_PREFIX = "vpaCpuStartupBoost/"
UNBOOST_KEY_PREFIX = "vpaCpuUnboostPending/"
BOOST_KEY_PREFIXES = (BOOST_KEY_PREFIX, UNBOOST_KEY_PREFIX)
OBSERVED_ANNOTATION = "vpaObservedContainers"
UPDATES_ANNOTATION = "vpaUpdates"
IN_PLACE_ANNOTATION = "vpaInPlaceUpdated"


@dataclass(frozen=True, slots=True)
class Resources:
    """Requests and limits; None is a missing map, which differs from an empty one."""

    requests: Quantities | None = None
    limits: Quantities | None = None
    has_other: bool = False  # there are other members, such as claims

    def request(self, resource: str) -> Quantity | None:
        """Return one request, None if there is none."""
        return self.requests.get(resource) if self.requests else None

    def limit(self, resource: str) -> Quantity | None:
        """Return one limit, None if there is none."""
        return self.limits.get(resource) if self.limits else None


NO_RESOURCES = Resources()

_MOST_KNOWN = 16_384
_LONGEST_KNOWN = 512  # characters; longer ones could fill the memory
_MOST_AMOUNTS = 8  # of which each is an object
_known: dict[str, Resources] = {}  # by how they are written; emptied when it is full


CONTAINERS, INIT_CONTAINERS = "containers", "initContainers"
SIDECAR = "Always"  # the restart policy that makes one of an init container


class ContainerPlace(NamedTuple):
    """Where a container stands in the spec of its pod."""

    section: str
    position: int

    @property
    def is_init(self) -> bool:
        """Whether it is an init container, be it a native sidecar."""
        return self.section == INIT_CONTAINERS

    def __str__(self) -> str:
        return f"{'init ' if self.is_init else ''}container {self.position}"


_FIRST = ContainerPlace(CONTAINERS, 0)


@dataclass(frozen=True, slots=True)
class Container:
    """A container of the spec."""

    name: str
    resources: Resources
    resize_policy: tuple[tuple[str, str], ...] = ()  # (resource, restart policy)
    restart_policy: str = ""
    place: ContainerPlace = _FIRST

    @property
    def is_sidecar(self) -> bool:
        """Whether it is an init container that runs as long as its pod."""
        return self.place.is_init and self.restart_policy == SIDECAR


@dataclass(frozen=True, slots=True)
class Termination:
    """The end of a container."""

    reason: str
    started_at: datetime | None
    finished_at: datetime | None


@dataclass(frozen=True, slots=True)
class ContainerStatus:
    """The status of a container, as the kubelet reports it."""

    name: str
    restart_count: int
    is_running: bool
    terminated: Termination | None
    last_terminated: Termination | None
    resources: Resources | None  # None where the kubelet does not report them


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod, with the fields that are read here."""

    namespace: str
    name: str
    uid: str
    resource_version: str
    generation: int
    created: datetime | None
    deleted: datetime | None  # when deletion was asked for
    labels: Mapping[str, str]
    annotations: Mapping[str, str] | None  # None: the member is missing
    owners: tuple[OwnerReference, ...]
    containers: tuple[Container, ...]  # native sidecars behind the others
    init_containers: tuple[Container, ...]  # that are never changed
    pod_resources: Resources | None  # spec.resources, for the pod as a whole
    node: str
    phase: str
    started: datetime | None
    observed_generation: int | None  # the latest that the kubelet has seen
    conditions: tuple[Condition, ...]
    statuses: tuple[ContainerStatus, ...]  # of `containers`
    hostname: str = ""  # what its processes call their host, where that is not its name
    roles: tuple[PodRole, ...] = ()  # whose labels are among `labels`

    def without_sidecars(self) -> Pod:
        """Return the pod with its native sidecars among the containers that are not changed."""
        sidecars = [one for one in self.containers if one.is_sidecar]
        if not sidecars:
            return self
        names = {one.name for one in sidecars}
        return replace(
            self,
            containers=tuple(one for one in self.containers if one.name not in names),
            init_containers=tuple(
                sorted((*self.init_containers, *sidecars), key=attrgetter("place"))
            ),
            statuses=tuple(one for one in self.statuses if one.name not in names),
        )

    @property
    def controller(self) -> OwnerReference | None:
        """The owner that controls this pod."""
        return controller_of(self.owners)

    def annotation(self, key: str) -> str | None:
        """Return an annotation's value, None if absent."""
        return self.annotations.get(key) if self.annotations else None

    def condition(self, kind: str) -> Condition | None:
        """Return the condition of a type, None if absent."""
        return next((condition for condition in self.conditions if condition.type == kind), None)

    @property
    def ready(self) -> Condition | None:
        """The condition Ready if it holds, else None."""
        ready = self.condition("Ready")
        return ready if ready is not None and ready.status == "True" else None

    def status(self, container: str) -> ContainerStatus | None:
        """Return the status of a container, None if absent."""
        return next((status for status in self.statuses if status.name == container), None)

    @property
    def current_resources(self) -> dict[str, Resources]:
        """What each container has: from its status if reported, else from the spec."""
        reported = {status.name: status.resources for status in self.statuses}
        return {one.name: reported.get(one.name) or one.resources for one in self.containers}

    @property
    def is_boosted(self) -> bool:
        """Whether the pod has an annotation of a boost, or of one that is being taken back."""
        return any(key.startswith(BOOST_KEY_PREFIXES) for key in self.annotations or ())

    @property
    def boosted_containers(self) -> frozenset[str]:
        """The containers that the webhook annotated as boosted."""
        return self._named_after(BOOST_KEY_PREFIX)

    @property
    def returning_containers(self) -> frozenset[str]:
        """The containers that are being brought back from their boost."""
        return self._named_after(UNBOOST_KEY_PREFIX)

    def _named_after(self, prefix: str) -> frozenset[str]:
        return frozenset(
            key.removeprefix(prefix) for key in self.annotations or () if key.startswith(prefix)
        )


def read_pod(item: Object, namespace: str = "") -> Pod:
    """Read a pod; a given `namespace` outranks the one that it claims."""
    metadata = object_at(item, "metadata", "")
    spec = object_at(item, "spec", "")
    status = object_at(item, "status", "")
    containers, init_containers = read_pod_containers(spec, "spec")
    is_annotated = metadata.get("annotations") is not None
    host = "nodeName" if spec.get("hostNetwork") is True else "hostname"
    return Pod(
        namespace=shared_text(namespace or text_at(metadata, "namespace", "metadata")),
        name=text_at(metadata, "name", "metadata"),
        uid=text_at(metadata, "uid", "metadata"),
        resource_version=text_at(metadata, "resourceVersion", "metadata"),
        generation=int64_at(metadata, "generation", "metadata") or 0,
        created=time_at(metadata, "creationTimestamp", "metadata"),
        deleted=time_at(metadata, "deletionTimestamp", "metadata"),
        labels=labels_at(metadata, "labels", "metadata"),
        annotations=labels_at(metadata, "annotations", "metadata") if is_annotated else None,
        owners=shared_owners(read_owners(metadata)),
        containers=containers,
        init_containers=init_containers,
        pod_resources=None if spec.get("resources") is None else _resources(spec, "spec"),
        node=shared_text(text_at(spec, "nodeName", "spec")),
        phase=shared_text(text_at(status, "phase", "status")),
        started=time_at(status, "startTime", "status"),
        observed_generation=int64_at(status, "observedGeneration", "status"),
        conditions=read_conditions(status),
        statuses=_statuses(status, containers),
        hostname=shared_text(text_at(spec, host, "spec")),
    )


def read_pod_without_sidecars(item: Object) -> Pod:
    """Read a pod whose native sidecars are not changed."""
    return read_pod(item).without_sidecars()


def read_pod_containers(
    spec: Object, path: str
) -> tuple[tuple[Container, ...], tuple[Container, ...]]:
    """Read the containers that run as long as their pod, and the other init containers."""
    containers = read_containers(spec, CONTAINERS, path)
    if spec.get(INIT_CONTAINERS) is None:
        return containers, ()
    found = read_containers(spec, INIT_CONTAINERS, path)
    sidecars = tuple([one for one in found if one.is_sidecar])
    return containers + sidecars, tuple([one for one in found if not one.is_sidecar])


def read_containers(spec: Object, key: str, path: str) -> tuple[Container, ...]:
    """Read a list of containers of a pod spec."""
    if spec.get(key) is None:
        return ()
    return tuple(
        Container(
            name=shared_text(text_at(item, "name", at)),
            resources=_resources(item, at),
            resize_policy=() if item.get("resizePolicy") is None else _resize_policy(item, at),
            restart_policy=shared_text(text_at(item, "restartPolicy", at)),
            place=_place(key, index),
        )
        for index, (item, at) in enumerate(items_at(spec, key, path))
    )


@cache
def _place(key: str, index: int) -> ContainerPlace:
    return ContainerPlace(key, index)


def _resize_policy(container: Object, path: str) -> tuple[tuple[str, str], ...]:
    return tuple(
        (text_at(entry, "resourceName", at), text_at(entry, "restartPolicy", at))
        for entry, at in items_at(container, "resizePolicy", path)
    )


def _resources(parent: Object, path: str) -> Resources:
    written = object_at(parent, "resources", path)
    if not written:
        return NO_RESOURCES
    text = repr(written)
    resources = _known.get(text)
    if resources is None:
        resources = _new_resources(written, f"{path}.resources")
        if len(_known) >= _MOST_KNOWN:
            _known.clear()
        amounts = len(resources.requests or ()) + len(resources.limits or ())
        if amounts <= _MOST_AMOUNTS and len(text) <= _LONGEST_KNOWN:
            _known[text] = resources
    return resources


def _new_resources(written: Object, at: str) -> Resources:
    return Resources(
        requests=quantities_at(written, "requests", at),
        limits=quantities_at(written, "limits", at),
        has_other=any(key not in ("requests", "limits") for key in written),
    )


def _statuses(status: Object, containers: Sequence[Container]) -> tuple[ContainerStatus, ...]:
    entries = items_at(status, "containerStatuses", "status")
    found = [_status(item, path) for item, path in entries]
    if sidecars := {one.name for one in containers if one.place.is_init}:
        others = items_at(status, "initContainerStatuses", "status")
        found += [one for item, path in others if (one := _status(item, path)).name in sidecars]
    return tuple(found)


def _status(item: Object, path: str) -> ContainerStatus:
    state = object_at(item, "state", path)
    return ContainerStatus(
        name=shared_text(text_at(item, "name", path)),
        restart_count=integer_at(item, "restartCount", path) or 0,
        is_running=state.get("running") is not None,
        terminated=_termination(state, f"{path}.state"),
        last_terminated=_termination(object_at(item, "lastState", path), f"{path}.lastState"),
        resources=None if item.get("resources") is None else _resources(item, path),
    )


def _termination(state: Object, path: str) -> Termination | None:
    terminated = optional_object(state, "terminated", path)
    if terminated is None:
        return None
    at = f"{path}.terminated"
    return Termination(
        reason=text_at(terminated, "reason", at),
        started_at=time_at(terminated, "startedAt", at),
        finished_at=time_at(terminated, "finishedAt", at),
    )


_UPDATED_BY = "Pod resources updated by "


def updates_annotation(vpa: str, updates: Sequence[str]) -> str:
    """Return what the webhook's annotation says of the updates of a new pod."""
    return f"{_UPDATED_BY}{vpa}: {'; '.join(updates)}"


def vpa_at_creation(pod: Pod) -> str:
    """Return the VPA that sized a pod when it was created, empty if none did."""
    text = pod.annotation(UPDATES_ANNOTATION) or ""
    return text.removeprefix(_UPDATED_BY).partition(":")[0] if text.startswith(_UPDATED_BY) else ""


def boost_annotation_value(container: Container) -> str:
    """Return the value of a boost's annotation: what the container's author asked for."""
    spec = container.resources
    return orjson.dumps(
        {
            "requests": {name: str(amount) for name in SIZED if (amount := spec.request(name))},
            "limits": {name: str(amount) for name in SIZED if (amount := spec.limit(name))},
        }
    ).decode()


def original_resources(pod: Pod, container: str) -> Resources | None:
    """Return what a container asked for before its boost, None if the annotation is unreadable."""
    text = pod.annotation(BOOST_KEY_PREFIX + container)
    try:
        parts = as_object(orjson.loads(text or ""), "")
        if not parts:
            return None
        return Resources(quantities_at(parts, "requests", ""), quantities_at(parts, "limits", ""))
    except (orjson.JSONDecodeError, BadObject):
        return None
