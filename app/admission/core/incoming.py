"""What is read of a review before it is decided: how much work it is, and the keys of a pod.

Strategy: bytes tell little. A pod of 30 KB may have three containers with long environments, or
two thousand that are to be sized one by one. So the parts that cost something are counted; one
unit is about what sizing a container costs, 50 us.

Thousands of pods differ only in names and images. Before anything is parsed, two keys are picked
out: all that matching reads, and all that sizing reads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

import orjson

from app.model.errors import BadObject
from app.model.fields import Json, Object, labels_at, object_at, objects_at, text_at
from app.model.kinds import OwnerReference, controller_of, read_owners
from app.model.pods import BOOST_KEY_PREFIXES, Pod, read_pod
from app.model.review import AdmissionRequest

_BYTES: Final = 4096  # that cost about a unit to read
_OWNERS: Final = 16
_NODES: Final = 4  # fields and items of a VPA
_MOST_NODES: Final = 10_000


def effort(request: AdmissionRequest, size_bytes: int) -> int:
    """Return about how much work a review is that takes so many bytes."""
    spec = _at(request.new, "spec")
    if request.resource.word != "pods":
        nodes = _nodes([spec, _at(request.old, "spec")])
        return size_bytes // _BYTES + nodes // _NODES
    containers = _length(_at(spec, "containers")) + _length(_at(spec, "initContainers"))
    owners = _length(_at(request.new, "metadata", "ownerReferences"))
    return size_bytes // _BYTES + containers + owners // _OWNERS


def _at(value: object, *keys: str) -> object:
    for key in keys:
        if not isinstance(value, dict):
            return None
        value = value.get(key)
    return value


def _length(value: object) -> int:
    return len(value) if isinstance(value, list) else 0


def _nodes(values: list[object]) -> int:
    """Count what is in some values, up to a number from which on it is a lot."""
    waiting, count = [iter(values)], 0
    while waiting and count < _MOST_NODES:
        for value in waiting.pop():
            count += 1
            children = _children(value)
            if children is not None:
                waiting.append(children)
            if count >= _MOST_NODES:
                break
    return count


def _children(value: object) -> Iterator[object] | None:
    if isinstance(value, dict):
        return iter(value.values())
    return iter(value) if isinstance(value, list) else None


class IncomingPod(NamedTuple):
    """A pod that is being created."""

    namespace: str
    match_key: bytes  # all that decides which VPA controls it
    size_key: bytes  # all that its sizes and its patch depend on
    metadata: Object
    spec: Object  # the part that sizing looks at
    boost_keys: tuple[str, ...] = ()  # annotations as of a boost, though it has none yet
    native_sidecars: bool = True  # whether they are sized

    @property
    def labels(self) -> Mapping[str, str]:
        """What selectors look at."""
        return labels_at(self.metadata, "labels", "metadata")

    @property
    def controller(self) -> OwnerReference | None:
        """The owner that controls it."""
        return controller_of(read_owners(self.metadata))

    @property
    def title(self) -> str:
        """The name of the pod in logs; `%` stands for the suffix that an API server adds."""
        return self.metadata.get("name") or f"{self.metadata.get('generateName') or ''}%"

    def pod(self) -> Pod:
        """Return the pod with what `size_key` holds, which is all that sizing reads."""
        metadata = _picked(self.metadata, _OF_METADATA)
        pod = read_pod({"metadata": metadata, "spec": self.spec}, self.namespace)
        return pod if self.native_sidecars else pod.without_sidecars()


_OF_METADATA = ("annotations",)  # whether there are any, and which are of a boost
_OF_SPEC = ("containers", "initContainers")
_OF_CONTAINERS = ("name", "resources", "restartPolicy")


def read_incoming_pod(item: Object, namespace: str, *, native_sidecars: bool = True) -> IncomingPod:
    """Pick out what matching and sizing read.

    Raises:
        BadObject: a field that they read does not have the right type.
    """
    metadata = object_at(item, "metadata", "")
    spec = object_at(item, "spec", "")
    text_at(metadata, "name", "metadata")
    text_at(metadata, "generateName", "metadata")
    has_no_annotations = metadata.get("annotations") is None
    boost_keys: tuple[str, ...] = ()
    if not has_no_annotations:
        annotations = labels_at(metadata, "annotations", "metadata")
        boost_keys = tuple([key for key in annotations if key.startswith(BOOST_KEY_PREFIXES)])
    picked: Json = {"resources": spec.get("resources")}
    for key in _OF_SPEC:
        if spec.get(key) is not None:
            containers = objects_at(spec, key, "spec")
            picked[key] = [_picked(container, _OF_CONTAINERS) for container in containers]
    matched = (namespace, metadata.get("labels"), metadata.get("ownerReferences"))
    sized = (has_no_annotations, picked, *([boost_keys] if boost_keys else ()))
    keys = _key(matched), _key(sized)
    return IncomingPod(namespace, *keys, metadata, picked, boost_keys, native_sidecars)


def _picked(item: Object, keys: tuple[str, ...]) -> Json:
    return {key: item[key] for key in keys if key in item}


def _key(parts: object) -> bytes:
    try:
        return orjson.dumps(parts)
    except TypeError:  # numbers or depths that no JSON of an API server holds
        pass
    try:
        return repr(parts).encode()
    except RecursionError:
        raise BadObject("", "it is nested too deeply") from None
