"""What counts of a pod when it is created, taken from its JSON in one pass.

Strategy: thousands of pods differ in their names and images and in nothing that matters here.
What does matter is picked out before anything is parsed: the labels and owners that matching
looks at, and a signature of all that sizing looks at. Nothing else of the object is ever read,
so two pods with equal signatures cannot get different sizes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from app.model.fields import Object, labels_at, object_at, objects_at, text_at
from app.model.kinds import OwnerReference, controller_of, read_owners
from app.model.pods import Pod, read_pod

_OF_METADATA = ("name", "generateName", "labels", "annotations", "ownerReferences")
_OF_CONTAINERS = ("name", "resources", "restartPolicy")


@dataclass(frozen=True, slots=True)
class Applicant:
    """A pod before it exists."""

    namespace: str
    labels: Mapping[str, str]
    controller: OwnerReference | None
    signature: bytes  # of everything that its sizes and its patch depend on
    _parts: Object

    @property
    def title(self) -> str:
        """How people find the pod in logs; `%` stands for what an API server will add."""
        metadata = self._parts["metadata"]
        return metadata.get("name") or f"{metadata.get('generateName') or ''}%"

    def pod(self) -> Pod:
        """Return the pod with all that sizing reads."""
        return read_pod(self._parts, self.namespace)


def read_applicant(item: Object, namespace: str) -> Applicant:
    """Pick out what counts.

    Raises:
        BadObject: something that counts does not have the right type.
    """
    metadata = object_at(item, "metadata", "")
    spec = object_at(item, "spec", "")
    text_at(metadata, "name", "metadata")
    text_at(metadata, "generateName", "metadata")
    annotations = metadata.get("annotations")
    if annotations is not None:
        labels_at(metadata, "annotations", "metadata")
    sized: dict[str, Any] = {
        key: [
            {word: found[word] for word in _OF_CONTAINERS if word in found}
            for found in objects_at(spec, key, "spec")
        ]
        for key in ("containers", "initContainers")
        if spec.get(key) is not None
    }
    sized["resources"] = spec.get("resources")
    return Applicant(
        namespace=namespace,
        labels=labels_at(metadata, "labels", "metadata"),
        controller=controller_of(read_owners(metadata)),
        signature=_signature((annotations is None, sized)),
        _parts={
            "metadata": {key: metadata[key] for key in _OF_METADATA if key in metadata},
            "spec": sized,
        },
    )


def _signature(parts: object) -> bytes:
    try:
        return orjson.dumps(parts)
    except TypeError:  # numbers that no JSON of an API server holds
        return repr(parts).encode()
