"""Custom resources that can be scaled: where their definition says the numbers stand.

Strategy: without an API server nobody answers for the scale subresource, so it is read from the
custom object itself by the paths that its CustomResourceDefinition names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from app.model.errors import BadObject
from app.model.fields import Object, object_at, objects_at, optional_object, text_at
from app.model.workloads import Workload, scaled_workload


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
    versions = objects_at(spec, "versions", "spec")
    return CustomKind(
        group=text_at(spec, "group", "spec"),
        kind=text_at(object_at(spec, "names", "spec"), "kind", "spec.names"),
        is_namespaced=text_at(spec, "scope", "spec") != "Cluster",
        scales={
            text_at(version, "name", f"spec.versions[{index}]"): _scale_paths(
                version, f"spec.versions[{index}]"
            )
            for index, version in enumerate(versions)
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
    found = item if path else None
    for key in path.strip(".").split("."):
        found = found.get(key) if isinstance(found, dict) else None
    return found
