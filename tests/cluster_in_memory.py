"""An API server's manners in memory: versions, names, conflicts; nothing more.

It offers plain objects without subresources, selectors, watches and pages.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from datetime import datetime

from app.model.errors import ClusterError, Conflict, NotFound, Refused, Unavailable
from app.ports import Cluster, Json, Page, PatchKind, Resource, WatchEvent

_Key = tuple[str, str, str]  # collection, namespace, name


class ClusterInMemory(Cluster):
    """Objects by collection, namespace and name."""

    def __init__(self, clock: Callable[[], datetime]) -> None:
        self._clock = clock
        self._objects: dict[_Key, Json] = {}
        self._version = 0
        self._lock = threading.RLock()
        self.failures: list[ClusterError | None] = []  # raised by the next calls, one each
        self.before_write: Callable[[], object] = lambda: None  # somebody else is faster, once
        self.forbidden: set[str] = set()  # kinds that may not be written
        self.prune: Callable[[Json], object] = lambda _body: None  # takes out unknown fields

    def fail_after(self, calls: int | None) -> None:
        """Let so many calls pass and fail the next; with None, let all pass."""
        self.failures = [] if calls is None else [*[None] * calls, *outage(1)]

    def get(self, resource: Resource, namespace: str, name: str, subresource: str = "") -> Json:
        """Return a copy of one object."""
        with self._lock:
            self._enter(subresource)
            return deepcopy(self._found(_key(resource, namespace, name)))

    def list(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 0,
        continue_token: str = "",
        resource_version: str = "",
    ) -> Page:
        """Return all objects of a collection, in one page."""
        with self._lock:
            self._enter(
                label_selector or field_selector or limit or continue_token or resource_version
            )
            items = [
                deepcopy(found)
                for key, found in self._objects.items()
                if key[0] == resource.path() and namespace in ("", key[1])
            ]
            return Page(items, str(self._version))

    def create(
        self,
        resource: Resource,
        namespace: str,
        body: Json,
        *,
        name: str = "",
        subresource: str = "",
        dry_run: bool = False,
    ) -> Json:
        """Store a new object."""
        with self._lock:
            self._enter(name or subresource or dry_run, resource)
            key = _key(resource, namespace, body["metadata"]["name"])
            if key in self._objects:
                raise Conflict(f"{key[2]} exists", status=409, reason="AlreadyExists")
            fresh = deepcopy(body)
            fresh["metadata"] |= {
                "uid": f"uid-{self._version + 1}",
                "creationTimestamp": f"{self._clock():%Y-%m-%dT%H:%M:%SZ}",
            }
            return self._stored(key, fresh)

    def replace(self, resource: Resource, namespace: str, name: str, body: Json) -> Json:
        """Put an object, if it is at the version that the new one carries."""
        with self._lock:
            self._enter(False, resource)
            key = _key(resource, namespace, name)
            metadata = self._found(key)["metadata"]
            if body["metadata"].get("resourceVersion", "") not in ("", metadata["resourceVersion"]):
                raise Conflict(f"{name} changed", status=409, reason="Conflict")
            fixed = {field: metadata[field] for field in ("uid", "creationTimestamp")}
            return self._stored(key, {**deepcopy(body), "metadata": body["metadata"] | fixed})

    def patch(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        body: object,
        *,
        kind: PatchKind = PatchKind.JSON,
        subresource: str = "",
        dry_run: bool = False,
    ) -> Json:
        """Not offered."""
        raise NotImplementedError

    def delete(self, resource: Resource, namespace: str, name: str, *, uid: str = "") -> None:
        """Forget an object."""
        with self._lock:
            self._enter(uid)
            self._found(_key(resource, namespace, name))
            del self._objects[_key(resource, namespace, name)]

    def watch(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        resource_version: str,
        label_selector: str = "",
        field_selector: str = "",
        timeout_seconds: int = 300,
    ) -> Iterator[WatchEvent]:
        """Not offered."""
        raise NotImplementedError

    def evict(self, namespace: str, name: str, *, uid: str = "", dry_run: bool = False) -> None:
        """Not offered."""
        raise NotImplementedError

    def request(self, method: str, path: str, query: Mapping[str, str] | None = None) -> Json:
        """Not offered."""
        raise NotImplementedError

    def _enter(
        self,
        unoffered: object,
        resource: Resource | None = None,
    ) -> None:
        if unoffered:
            raise NotImplementedError
        failure = self.failures.pop(0) if self.failures else None
        if failure:
            raise failure
        if resource is not None:
            meanwhile, self.before_write = self.before_write, lambda: None
            meanwhile()
            if resource.kind in self.forbidden:
                raise Refused(f"{resource.plural} is forbidden", status=403, reason="Forbidden")

    def _found(self, key: _Key) -> Json:
        if key not in self._objects:
            raise NotFound(f"{key[2]} not found", status=404, reason="NotFound")
        return self._objects[key]

    def _stored(self, key: _Key, fresh: Json) -> Json:
        self.prune(fresh)
        self._version += 1
        fresh["metadata"]["resourceVersion"] = str(self._version)
        self._objects[key] = fresh
        return deepcopy(fresh)


def outage(calls: int) -> list[ClusterError | None]:
    """What an API server that is away says to so many calls."""
    return [Unavailable("connection refused") for _ in range(calls)]


def _key(resource: Resource, namespace: str, name: str) -> _Key:
    return (resource.path(), namespace if resource.namespaced else "", name)
