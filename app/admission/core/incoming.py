"""The pod under admission, read in one pass, and a cache of results for equal pods.

Strategy: thousands of pods differ only in names and images. Before anything is parsed, two keys
are picked out: the origin, which is all that matching reads, and a signature of all that sizing
reads. Nothing else of the object is ever read, so pods with equal signatures get equal sizes. A
match is valid for one state of its namespace, sizes for one version of a VPA and of the
namespace's limits, so a cached result is never stale. A full cache is emptied.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Generic, NamedTuple, TypeVar

import orjson

from app.model.errors import BadObject
from app.model.fields import Json, Object, labels_at, object_at, objects_at, text_at
from app.model.kinds import OwnerReference, controller_of, read_owners
from app.model.limits import NamespaceLimits
from app.model.pods import Pod, read_pod
from app.model.snapshot import NamespaceView
from app.model.vpa import Vpa
from app.model.workloads import LookedUp
from app.sizing.matching import LookupNeeded, Match, match_pod

_OF_METADATA = ("name", "generateName", "labels", "annotations", "ownerReferences")
_OF_SPEC = ("containers", "initContainers")
_OF_CONTAINERS = ("name", "resources", "restartPolicy")


class IncomingPod(NamedTuple):
    """A pod that is being created."""

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
        """The owner that controls it."""
        return controller_of(read_owners(self.metadata))

    @property
    def title(self) -> str:
        """The name of the pod in logs; `%` stands for the suffix that an API server adds."""
        metadata = self.metadata
        return metadata.get("name") or f"{metadata.get('generateName') or ''}%"

    def pod(self) -> Pod:
        """Return the pod with the fields that sizing reads."""
        metadata = _picked(self.metadata, _OF_METADATA)
        return read_pod({"metadata": metadata, "spec": self.sized}, self.namespace)


def read_incoming_pod(item: Object, namespace: str) -> IncomingPod:
    """Pick out what matching and sizing read.

    Raises:
        BadObject: a field that they read does not have the right type.
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
    return IncomingPod(namespace, _bytes(origin), _bytes((is_bare, sized)), metadata, sized)


def _picked(item: Object, keys: tuple[str, ...]) -> Json:
    return {key: item[key] for key in keys if key in item}


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


T = TypeVar("T")

_LONGEST = 8_192  # bytes of a key; the keys of very large pods would fill the memory


class MatchCache:
    """Matches by origin; several threads may use it."""

    def __init__(self, *, boosts: bool, most: int) -> None:
        self._boosts = boosts
        self._most = most
        self._kept: dict[bytes, tuple[object, Match]] = {}

    def find(
        self, incoming: IncomingPod, view: NamespaceView, looked_up: LookedUp
    ) -> Match | LookupNeeded:
        """Return the match of a pod, from the cache if an equal pod was matched before."""
        kept = self._kept.get(incoming.origin)
        if kept is not None and kept[0] is view.moment:
            return kept[1]
        match = match_pod(incoming, view, looked_up, boosts=self._boosts)
        if isinstance(match, Match) and not looked_up and len(incoming.origin) <= _LONGEST:
            if len(self._kept) >= self._most:
                self._kept = {}
            self._kept[incoming.origin] = view.moment, match
        return match


class SizeCache(Generic[T]):
    """Sizes by VPA, limits and signature; several threads may use it."""

    def __init__(
        self, size_pod: Callable[[IncomingPod, Vpa, NamespaceLimits], T], most: int
    ) -> None:
        self._size_pod = size_pod
        self._most = most
        self._kept: dict[tuple[int, int, bytes], tuple[Vpa, NamespaceLimits, T]] = {}

    def find(self, incoming: IncomingPod, vpa: Vpa, limits: NamespaceLimits) -> T:
        """Return the sizes of a pod, from the cache if an equal pod was sized before."""
        if len(incoming.signature) > _LONGEST:
            return self._size_pod(incoming, vpa, limits)
        key = (id(vpa), id(limits), incoming.signature)
        kept = self._kept.get(key)
        if kept is None:
            if len(self._kept) >= self._most:
                self._kept = {}
            # Keeping VPA and limits alive keeps their ids from being given to others.
            kept = self._kept[key] = vpa, limits, self._size_pod(incoming, vpa, limits)
        return kept[2]
