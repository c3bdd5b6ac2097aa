"""A pod as its owner would create it now: without what a VPA wrote into the one that runs.

Strategy: what a workload's template says of a container's resources outranks what the running
pod has. A pod whose owner has no template that is known stays as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from app.model.fields import Json, Object, labels_at, object_at, objects_at
from app.model.pods import (
    BOOST_ANNOTATION,
    IN_PLACE_ANNOTATION,
    OBSERVED_ANNOTATION,
    UPDATES_ANNOTATION,
    Container,
    Resources,
)
from app.model.review import AdmissionRequest, GroupVersionWord

_KIND: Final = GroupVersionWord("", "v1", "Pod")
_RESOURCE: Final = GroupVersionWord("", "v1", "pods")
_OURS: Final = (OBSERVED_ANNOTATION, UPDATES_ANNOTATION, IN_PLACE_ANNOTATION)


def created_again(pod: Object, template: Sequence[Container]) -> Json:
    """Return a pod as it would be created again.

    Raises:
        BadObject: the pod cannot be read.
    """
    metadata, spec = object_at(pod, "metadata", ""), object_at(pod, "spec", "")
    annotations = {
        key: value
        for key, value in labels_at(metadata, "annotations", "metadata").items()
        if key not in _OURS and not key.startswith(BOOST_ANNOTATION)
    }
    resources = {container.name: _written(container.resources) for container in template}
    containers = [
        {**item, "resources": resources.get(str(item.get("name")), item.get("resources"))}
        for item in objects_at(spec, "containers", "spec")
    ]
    return {
        **pod,
        "metadata": {**metadata, "annotations": annotations},
        "spec": {**spec, "containers": containers},
    }


def creation_request(pod: Object) -> AdmissionRequest:
    """Return what an API server would ask about a pod that is created, without creating it.

    Raises:
        BadObject: the pod cannot be read.
    """
    metadata = object_at(pod, "metadata", "")
    return AdmissionRequest(
        uid="",
        kind=_KIND,
        resource=_RESOURCE,
        subresource="",
        operation="CREATE",
        namespace=metadata.get("namespace", ""),
        name=metadata.get("name", ""),
        dry_run=True,
        new=pod,
        old=None,
    )


def _written(resources: Resources) -> Json:
    parts = {"requests": resources.requests, "limits": resources.limits}
    return {
        word: {name: str(amount) for name, amount in amounts.items()}
        for word, amounts in parts.items()
        if amounts is not None
    }
