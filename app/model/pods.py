"""Pods: their containers, resources, conditions and ends.

Strategy: the spec is read for every purpose; the status only where there is one. Init containers
are kept apart, for nothing here ever changes them. What many pods have in common is kept once:
short words, owners, and whole resources, which are looked up by how they are written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from app.model.fields import (
    Object,
    int64_at,
    integer_at,
    labels_at,
    object_at,
    objects_at,
    optional_object,
    quantities_at,
    shared,
    shared_text,
    text_at,
    time_at,
)
from app.model.kinds import Condition, OwnerReference, controller_of, read_conditions, read_owners
from app.model.quantity import Quantities, Quantity

PodCondition = Condition

BOOST_ANNOTATION = "vpaCpuStartupBoost/"
OBSERVED_ANNOTATION = "vpaObservedContainers"
UPDATES_ANNOTATION = "vpaUpdates"
IN_PLACE_ANNOTATION = "vpaInPlaceUpdated"


@dataclass(frozen=True, slots=True)
class Resources:
    """Requests and limits; None is a missing map, which differs from an empty one."""

    requests: Quantities | None = None
    limits: Quantities | None = None
    has_other: bool = False  # something beside requests and limits stands there, e.g. claims

    def request(self, resource: str) -> Quantity | None:
        """Return one request, None if there is none."""
        return self.requests.get(resource) if self.requests else None

    def limit(self, resource: str) -> Quantity | None:
        """Return one limit, None if there is none."""
        return self.limits.get(resource) if self.limits else None


NO_RESOURCES = Resources()

_MOST_KNOWN = 16_384
_LONGEST_KNOWN = 512  # characters; whoever writes more shall not fill the memory
_known: dict[str, Resources] = {}  # by how they are written; emptied when it is full


@dataclass(frozen=True, slots=True)
class Container:
    """A container of the spec."""

    name: str
    resources: Resources
    resize_policy: tuple[tuple[str, str], ...] = ()  # (resource, restart policy)
    restart_policy: str = ""  # only init containers have one; Always makes a sidecar


@dataclass(frozen=True, slots=True)
class Termination:
    """How a container ended."""

    reason: str
    started_at: datetime | None
    finished_at: datetime | None


@dataclass(frozen=True, slots=True)
class ContainerStatus:
    """What the kubelet says of a container."""

    name: str
    restart_count: int
    is_running: bool
    terminated: Termination | None
    last_terminated: Termination | None
    resources: Resources | None  # None where the kubelet does not report them


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod, as far as anything here looks at it."""

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
    containers: tuple[Container, ...]
    init_containers: tuple[Container, ...]
    pod_resources: Resources | None  # spec.resources, for the pod as a whole
    node: str
    phase: str
    started: datetime | None
    observed_generation: int | None  # the latest that the kubelet has seen
    conditions: tuple[Condition, ...]
    statuses: tuple[ContainerStatus, ...]

    @property
    def controller(self) -> OwnerReference | None:
        """The owner that controls this pod."""
        return controller_of(self.owners)

    def annotation(self, key: str) -> str | None:
        """Return an annotation's value, None if absent."""
        return self.annotations.get(key) if self.annotations else None

    def condition(self, kind: str) -> PodCondition | None:
        """Return the condition of a type, None if absent."""
        return next((found for found in self.conditions if found.type == kind), None)

    def status(self, container: str) -> ContainerStatus | None:
        """Return the status of a container, None if absent."""
        return next((found for found in self.statuses if found.name == container), None)

    def current_resources(self, container: Container) -> Resources:
        """Return what a container has now: the kubelet's word if given, else the spec's."""
        status = self.status(container.name)
        if status is not None and status.resources is not None:
            return status.resources
        return container.resources

    @property
    def is_boosted(self) -> bool:
        """Whether a start-up boost is in progress."""
        return any(key.startswith(BOOST_ANNOTATION) for key in self.annotations or ())


def read_pod(item: Object, namespace: str = "") -> Pod:
    """Read a pod; a given `namespace` outranks the one that it claims."""
    metadata = object_at(item, "metadata", "")
    spec = object_at(item, "spec", "")
    status = object_at(item, "status", "")
    phase, started, observed, conditions, statuses = _told(status) if status else _UNTOLD
    return Pod(
        namespace=shared_text(namespace or text_at(metadata, "namespace", "metadata")),
        name=text_at(metadata, "name", "metadata"),
        uid=text_at(metadata, "uid", "metadata"),
        resource_version=text_at(metadata, "resourceVersion", "metadata"),
        generation=int64_at(metadata, "generation", "metadata") or 0,
        created=time_at(metadata, "creationTimestamp", "metadata"),
        deleted=time_at(metadata, "deletionTimestamp", "metadata"),
        labels=labels_at(metadata, "labels", "metadata"),
        annotations=None
        if metadata.get("annotations") is None
        else labels_at(metadata, "annotations", "metadata"),
        owners=shared(read_owners(metadata)),
        containers=read_containers(spec, "containers", "spec"),
        init_containers=read_containers(spec, "initContainers", "spec"),
        pod_resources=None if spec.get("resources") is None else _resources(spec, "spec"),
        node=shared_text(text_at(spec, "nodeName", "spec")),
        phase=phase,
        started=started,
        observed_generation=observed,
        conditions=conditions,
        statuses=statuses,
    )


_Told = tuple[
    str,
    datetime | None,
    int | None,
    tuple[Condition, ...],
    tuple[ContainerStatus, ...],
]
_UNTOLD: _Told = ("", None, None, (), ())


def _told(status: Object) -> _Told:
    """Return what a status says, in the order of the fields of a pod."""
    return (
        shared_text(text_at(status, "phase", "status")),
        time_at(status, "startTime", "status"),
        int64_at(status, "observedGeneration", "status"),
        read_conditions(status),
        _statuses(status),
    )


def read_containers(spec: Object, key: str, path: str) -> tuple[Container, ...]:
    """Read a list of containers of a pod spec."""
    if spec.get(key) is None:
        return ()
    return tuple(
        _container(item, f"{path}.{key}[{index}]")
        for index, item in enumerate(objects_at(spec, key, path))
    )


def _container(item: Object, path: str) -> Container:
    return Container(
        name=shared_text(text_at(item, "name", path)),
        resources=_resources(item, path),
        resize_policy=()
        if item.get("resizePolicy") is None
        else _resize_policy(objects_at(item, "resizePolicy", path), f"{path}.resizePolicy"),
        restart_policy=text_at(item, "restartPolicy", path),
    )


def _resize_policy(entries: list[Object], path: str) -> tuple[tuple[str, str], ...]:
    return tuple(
        (
            text_at(entry, "resourceName", f"{path}[{index}]"),
            text_at(entry, "restartPolicy", f"{path}[{index}]"),
        )
        for index, entry in enumerate(entries)
    )


def _resources(parent: Object, path: str) -> Resources:
    written = object_at(parent, "resources", path)
    if not written:
        return NO_RESOURCES
    text = repr(written)
    found = _known.get(text)
    if found is None:
        found = _new_resources(written, f"{path}.resources")
        if len(_known) >= _MOST_KNOWN:
            _known.clear()
        if len(text) <= _LONGEST_KNOWN:
            _known[text] = found
    return found


def _new_resources(found: Object, at: str) -> Resources:
    return Resources(
        requests=quantities_at(found, "requests", at),
        limits=quantities_at(found, "limits", at),
        has_other=any(key not in ("requests", "limits") for key in found),
    )


def _statuses(status: Object) -> tuple[ContainerStatus, ...]:
    return tuple(
        _status(item, f"status.containerStatuses[{index}]")
        for index, item in enumerate(objects_at(status, "containerStatuses", "status"))
    )


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
    found = optional_object(state, "terminated", path)
    if found is None:
        return None
    at = f"{path}.terminated"
    return Termination(
        reason=text_at(found, "reason", at),
        started_at=time_at(found, "startedAt", at),
        finished_at=time_at(found, "finishedAt", at),
    )
