"""What counts of a pod when it is created, taken from its JSON in one pass.

Strategy: thousands of pods differ in their names and images and in nothing that matters here.
What does matter is picked out before anything is parsed: the origin, which is all that matching
looks at, and a signature of all that sizing looks at. Nothing else of the object is ever read,
so two pods with equal signatures cannot get different sizes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import orjson

from app.model.errors import BadObject
from app.model.fields import Json, Object, labels_at, object_at, objects_at, text_at
from app.model.kinds import OwnerReference, controller_of, read_owners
from app.model.pods import Pod, read_pod

_OF_METADATA = ("name", "generateName", "labels", "annotations", "ownerReferences")
_OF_SPEC = ("containers", "initContainers")
_OF_CONTAINERS = ("name", "resources", "restartPolicy")


class Applicant(NamedTuple):
    """A pod before it exists."""

    namespace: str
    origin: bytes  # all that decides which VPA controls it
    signature: bytes  # all that its sizes and its patch depend on
    metadata: Object
    sized: Object  # the part of the spec that sizing looks at

    @property
    def labels(self) -> Mapping[str, str]:
        """What selectors look at."""
        return labels_at(self.metadata, "labels", "metadata")

    @property
    def controller(self) -> OwnerReference | None:
        """Who owns and controls it."""
        return controller_of(read_owners(self.metadata))

    @property
    def title(self) -> str:
        """How people find the pod in logs; `%` stands for what an API server will add."""
        metadata = self.metadata
        return metadata.get("name") or f"{metadata.get('generateName') or ''}%"

    def pod(self) -> Pod:
        """Return the pod with all that sizing reads."""
        metadata = _picked(self.metadata, _OF_METADATA)
        return read_pod({"metadata": metadata, "spec": self.sized}, self.namespace)


def read_applicant(item: Object, namespace: str) -> Applicant:
    """Pick out what counts.

    Raises:
        BadObject: something that counts does not have the right type.
    """
    metadata = object_at(item, "metadata", "")
    spec = object_at(item, "spec", "")
    text_at(metadata, "name", "metadata")
    text_at(metadata, "generateName", "metadata")
    is_bare = metadata.get("annotations") is None
    if not is_bare:
        labels_at(metadata, "annotations", "metadata")
    sized: Json = {"resources": spec.get("resources")}
    for key in _OF_SPEC:
        if spec.get(key) is not None:
            containers = objects_at(spec, key, "spec")
            sized[key] = [_picked(container, _OF_CONTAINERS) for container in containers]
    origin = (namespace, metadata.get("labels"), metadata.get("ownerReferences"))
    return Applicant(namespace, _bytes(origin), _bytes((is_bare, sized)), metadata, sized)


def _picked(found: Object, keys: tuple[str, ...]) -> Json:
    return {key: found[key] for key in keys if key in found}


def _bytes(parts: object) -> bytes:
    try:
        return orjson.dumps(parts)
    except TypeError:  # numbers or depths that no JSON of an API server holds
        return _spelled(parts)


def _spelled(parts: object) -> bytes:
    try:
        return repr(parts).encode()
    except RecursionError:
        raise BadObject("", "it is nested too deeply") from None
