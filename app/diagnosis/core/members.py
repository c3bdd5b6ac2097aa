"""Which pods each VPA is for, and a pod as its owner would create it now.

Strategy: what a workload's template says of a container's resources outranks what the running
pod has, so that what a VPA wrote is gone. A pod whose owner has no template that is known stays
as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from app.model.fields import Json, Object, labels_at, object_at, objects_at
from app.model.kinds import ObjectKey
from app.model.pods import (
    BOOST_KEY_PREFIXES,
    CONTAINERS,
    IN_PLACE_ANNOTATION,
    INIT_CONTAINERS,
    OBSERVED_ANNOTATION,
    UPDATES_ANNOTATION,
    Container,
    Pod,
    Resources,
)
from app.model.review import AdmissionRequest, GroupVersionWord
from app.model.snapshot import Snapshot
from app.model.workloads import NOTHING_LOOKED_UP, Lookup, LookupResult
from app.sizing.matching import LookupNeeded, match_pod

VpaKey = tuple[str, str]  # namespace and name
FoundByNamespace = Mapping[str, Mapping[ObjectKey, LookupResult]]

_ENDED = ("Succeeded", "Failed")

_KIND: Final = GroupVersionWord("", "v1", "Pod")
_RESOURCE: Final = GroupVersionWord("", "v1", "pods")
_OURS: Final = (OBSERVED_ANNOTATION, UPDATES_ANNOTATION, IN_PLACE_ANNOTATION)


def members(
    snapshot: Snapshot, looked_up: FoundByNamespace
) -> tuple[Mapping[VpaKey, Sequence[Pod]], Sequence[Lookup]]:
    """Return the live pods of all VPAs, and the owners that would have to be known for more."""
    found: dict[VpaKey, list[Pod]] = {}
    lookups: dict[Lookup, None] = {}
    for namespace, view in snapshot.namespaces.items():
        known = looked_up.get(namespace, NOTHING_LOOKED_UP)
        for pod in view.pods.values() if view.vpas else ():
            if pod.phase in _ENDED or pod.deleted is not None:
                continue
            match = match_pod(pod, view, known, boosts=True, with_off=True)
            if isinstance(match, LookupNeeded):
                lookups[match.lookup] = None
            elif match.vpa is not None:
                found.setdefault((match.vpa.namespace, match.vpa.name), []).append(pod)
    return found, tuple(lookups)


def targets(snapshot: Snapshot) -> Iterator[Lookup]:
    """Yield the targets of VPAs that a snapshot does not hold; of built-in kinds it holds all."""
    for namespace, view in snapshot.namespaces.items():
        for vpa in view.vpas.values():
            target = vpa.target
            if target is not None and not target.key.is_built_in:
                version, kind = target.api_version, target.kind
                yield Lookup(namespace, version, kind, target.name, target.key)


def created_again(pod: Object, template: Sequence[Container]) -> Json:
    """Return a pod as it would be created again.

    Raises:
        BadObject: the pod cannot be read.
    """
    metadata, spec = object_at(pod, "metadata", ""), object_at(pod, "spec", "")
    annotations = {
        key: value
        for key, value in labels_at(metadata, "annotations", "metadata").items()
        if key not in _OURS and not key.startswith(BOOST_KEY_PREFIXES)
    }
    resources = {container.name: _written(container.resources) for container in template}
    sized = {
        key: [
            {**item, "resources": resources.get(str(item.get("name")), item.get("resources"))}
            for item in objects_at(spec, key, "spec")
        ]
        for key in (CONTAINERS, INIT_CONTAINERS)
        if key in spec
    }
    return {
        **pod,
        "metadata": {**metadata, "annotations": annotations},
        "spec": {**spec, **sized},
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
