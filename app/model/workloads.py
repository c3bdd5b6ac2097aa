"""Controllers of pods: their owner, selector and replicas, and how they are looked up.

Strategy: built-in controllers are read from their own fields, all others from their scale
subresource. Where no API server answers for the scale, it is read from the custom object itself,
by the paths that its CustomResourceDefinition names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from app.model.errors import BadObject
from app.model.fields import (
    Object,
    int64_at,
    integer_at,
    items_at,
    labels_at,
    object_at,
    optional_object,
    shared_text,
    text_at,
)
from app.model.kinds import ObjectKey, OwnerReference, owner_key, read_owners
from app.model.pods import (
    CONTAINERS,
    INIT_CONTAINERS,
    SIDECAR,
    Container,
    read_pod_containers,
)
from app.model.selectors import NOTHING, Selector


@dataclass(frozen=True, slots=True)
class Rollout:
    """How far a controller has come with its latest template."""

    generation: int
    observed_generation: int
    replicas: int
    updated_replicas: int
    current_revision: str
    update_revision: str
    partition: int


@dataclass(frozen=True, slots=True)
class Workload:
    """A controller, built-in or known by its scale subresource alone."""

    namespace: str
    key: ObjectKey
    owner: OwnerReference | None
    selector: Selector
    replicas: int | None  # configured; None if the kind has no such number
    desired_scheduled: int | None = None  # DaemonSets only
    rollout: Rollout | None = None
    template: tuple[Container, ...] = ()
    template_labels: Mapping[str, str] | None = None  # None if not known
    unprobed: tuple[str, ...] = ()  # without readiness and startup probe, also native sidecars


def read_workload(
    item: Object, *, kind: str = "", api_version: str = "", with_template: bool = True
) -> Workload:
    """Read a built-in controller; lists of an API server do not repeat kind and apiVersion.

    Without its template it is equal for as long as nothing changes but its status.
    """
    kind = kind or text_at(item, "kind", "")
    api_version = api_version or text_at(item, "apiVersion", "")
    metadata = object_at(item, "metadata", "")
    spec = object_at(item, "spec", "")
    status = object_at(item, "status", "")
    template, template_path = _template(kind, spec)
    pod_spec, pod_path = object_at(template, "spec", template_path), f"{template_path}.spec"
    return Workload(
        namespace=text_at(metadata, "namespace", "metadata"),
        key=owner_key(api_version, kind, text_at(metadata, "name", "metadata")),
        owner=next((owner for owner in read_owners(metadata) if owner.controller), None),
        selector=_selector(kind, spec, template, template_path),
        replicas=integer_at(spec, "replicas", "spec"),
        desired_scheduled=integer_at(status, "desiredNumberScheduled", "status"),
        rollout=_rollout(metadata, spec, status) if with_template else None,
        template=read_pod_containers(pod_spec, pod_path)[0] if with_template else (),
        template_labels=_template_labels(template, template_path) if with_template else None,
        unprobed=tuple(
            shared_text(text_at(item, "name", at))
            for key in (CONTAINERS, INIT_CONTAINERS)
            for item, at in items_at(pod_spec, key, pod_path)
            if (key == CONTAINERS or item.get("restartPolicy") == SIDECAR)
            and item.get("readinessProbe") is None
            and item.get("startupProbe") is None
        ),
    )


def _template(kind: str, spec: Object) -> tuple[Object, str]:
    if kind == "CronJob":
        job = object_at(spec, "jobTemplate", "spec")
        job_spec = object_at(job, "spec", "spec.jobTemplate")
        path = "spec.jobTemplate.spec"
        return object_at(job_spec, "template", path), f"{path}.template"
    return object_at(spec, "template", "spec"), "spec.template"


def _template_labels(template: Object, path: str) -> Mapping[str, str] | None:
    metadata = object_at(template, "metadata", path)
    if metadata.get("labels") is None:
        return None
    return labels_at(metadata, "labels", f"{path}.metadata")


def _selector(kind: str, spec: Object, template: Object, template_path: str) -> Selector:
    if kind == "CronJob":
        labels = _template_labels(template, template_path)
        return NOTHING if labels is None else Selector.of_labels(labels)
    if kind == "ReplicationController":
        if spec.get("selector") is None:
            return NOTHING
        return Selector.of_labels(labels_at(spec, "selector", "spec"))
    return Selector.read(spec.get("selector"), "spec.selector")


def _rollout(metadata: Object, spec: Object, status: Object) -> Rollout:
    strategy = object_at(spec, "updateStrategy", "spec")
    rolling = object_at(strategy, "rollingUpdate", "spec.updateStrategy")

    def number(key: str) -> int:
        return int64_at(status, key, "status") or 0

    return Rollout(
        generation=int64_at(metadata, "generation", "metadata") or 0,
        observed_generation=number("observedGeneration"),
        replicas=number("replicas"),
        updated_replicas=number("updatedReplicas"),
        current_revision=text_at(status, "currentRevision", "status"),
        update_revision=text_at(status, "updateRevision", "status"),
        partition=integer_at(rolling, "partition", "spec.updateStrategy.rollingUpdate") or 0,
    )


def scaled_workload(namespace: str, api_version: str, kind: str, scale: Object) -> Workload:
    """Return a controller that is known by its scale subresource; a missing selector raises."""
    metadata = object_at(scale, "metadata", "")
    name = text_at(metadata, "name", "metadata")
    selector = text_at(object_at(scale, "status", ""), "selector", "status")
    return Workload(
        namespace=namespace,
        key=owner_key(api_version, kind, name),
        owner=next((owner for owner in read_owners(metadata) if owner.controller), None),
        selector=_scale_selector(selector),
        replicas=integer_at(object_at(scale, "spec", ""), "replicas", "spec"),
    )


def _scale_selector(text: str) -> Selector:
    if not text:
        return NOTHING
    try:
        return Selector.parse(text)
    except BadObject as error:
        raise BadObject("status.selector", error.message) from None


@dataclass(frozen=True, slots=True)
class Lookup:
    """A controller to look for: a built-in one by itself, any other by its scale subresource."""

    namespace: str
    api_version: str
    kind: str
    name: str
    key: ObjectKey


@dataclass(frozen=True, slots=True)
class Absent:
    """What was looked for does not exist or cannot be scaled."""


@dataclass(frozen=True, slots=True)
class Failed:
    """A look-up that gave no answer, and why."""

    message: str


LookupResult = Workload | Absent | Failed
LookedUp = Mapping[ObjectKey, LookupResult]
NOTHING_LOOKED_UP: LookedUp = {}


@dataclass(frozen=True, slots=True)
class CustomKind:
    """A kind that a CustomResourceDefinition brings; None where it cannot be scaled."""

    group: str
    kind: str
    is_namespaced: bool
    scales: Mapping[str, ScalePaths | None]  # by version, those that are served


@dataclass(frozen=True, slots=True)
class ScalePaths:
    """Where a custom object keeps what its scale subresource shows."""

    replicas: str
    selector: str  # empty if it shows none


def read_custom_kind(item: Object) -> CustomKind:
    """Read a CustomResourceDefinition."""
    spec = object_at(item, "spec", "")
    return CustomKind(
        group=text_at(spec, "group", "spec"),
        kind=text_at(object_at(spec, "names", "spec"), "kind", "spec.names"),
        is_namespaced=text_at(spec, "scope", "spec") != "Cluster",
        scales={
            text_at(version, "name", path): _scale_paths(version, path)
            for version, path in items_at(spec, "versions", "spec")
            if version.get("served") is not False
        },
    )


def _scale_paths(version: Object, path: str) -> ScalePaths | None:
    subresources = object_at(version, "subresources", path)
    scale = optional_object(subresources, "scale", f"{path}.subresources")
    if scale is None:
        return None
    at = f"{path}.subresources.scale"
    return ScalePaths(
        replicas=text_at(scale, "specReplicasPath", at),
        selector=text_at(scale, "labelSelectorPath", at),
    )


def scale_custom(item: Object, namespace: str, paths: ScalePaths) -> Workload:
    """Return a custom object as its scale subresource would show it.

    Raises:
        BadObject: it cannot be shown; without a number of replicas API servers refuse to.
    """
    replicas = _at(item, paths.replicas)
    if replicas is None:
        raise BadObject(paths.replicas.strip("."), "does not exist")
    scale = {
        # An API server does not copy owner references onto the scale of a custom object.
        "metadata": {"name": object_at(item, "metadata", "").get("name")},
        "spec": {"replicas": replicas},
        "status": {"selector": _at(item, paths.selector)},
    }
    api_version, kind = text_at(item, "apiVersion", ""), text_at(item, "kind", "")
    return scaled_workload(namespace, api_version, kind, scale)


def _at(item: object, path: str) -> object:
    """Follow a simple JSON path such as `.spec.replicas`."""
    value = item if path else None
    for key in path.strip(".").split("."):
        value = value.get(key) if isinstance(value, dict) else None
    return value
