"""A cluster that is read and never written: what would be written is told instead.

Strategy: a write is answered with what an API server would have stored, so that whoever writes
goes on as if it had been; nothing is sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from app.model import patches
from app.model.errors import Refused
from app.ports import PODS, Json, Page, PatchKind, Resource, WatchEvent
from app.wiring.place import Connection


@dataclass(frozen=True, slots=True)
class Unsent:
    """A write that was not sent."""

    verb: str
    resource: Resource
    namespace: str
    name: str
    item: Json | None = None  # as it would be, where it would be


Told = Callable[[Unsent], None]


class Unwritten:
    """Hands reads on, and tells writes."""

    def __init__(self, cluster: Connection, told: Told) -> None:
        self._cluster = cluster
        self._told = told

    def within(self, seconds: float, /) -> Connection:
        """Return the same, its calls given up after so many seconds."""
        return Unwritten(self._cluster.within(seconds), self._told)

    def close(self) -> None:
        """End all watches and close all that is open."""
        self._cluster.close()

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
        """Read a page."""
        return self._cluster.list(
            resource,
            namespace,
            label_selector=label_selector,
            field_selector=field_selector,
            limit=limit,
            continue_token=continue_token,
            resource_version=resource_version,
        )

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
        """Watch."""
        return self._cluster.watch(
            resource,
            namespace,
            resource_version=resource_version,
            label_selector=label_selector,
            field_selector=field_selector,
            timeout_seconds=timeout_seconds,
        )

    def get(self, resource: Resource, namespace: str, name: str, subresource: str = "") -> Json:
        """Read an object."""
        return self._cluster.get(resource, namespace, name, subresource)

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
        """Tell of a creation; return the object that was handed in."""
        del dry_run  # not even that is sent
        metadata = body.get("metadata") or {}
        verb, named = f"create {subresource}".strip(), name or str(metadata.get("name", ""))
        self._told(Unsent(verb, resource, namespace, named, body))
        return body

    def replace(self, resource: Resource, namespace: str, name: str, body: Json) -> Json:
        """Tell of a replacement; return what was handed in."""
        self._told(Unsent("replace", resource, namespace, name, body))
        return body

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
        """Tell of a change; return the object as it would be."""
        del dry_run
        found = self._cluster.get(resource, namespace, name)
        if kind is PatchKind.JSON:
            changed = patches.apply(found, body if isinstance(body, list) else [])
        else:
            changed = patches.merge(found, body if isinstance(body, dict) else {})
        verb = f"patch {subresource}".strip()
        self._told(Unsent(verb, resource, namespace, name, changed))
        return changed

    def delete(self, resource: Resource, namespace: str, name: str, *, uid: str = "") -> None:
        """Tell of a deletion."""
        del uid
        self._told(Unsent("delete", resource, namespace, name))

    def evict(self, namespace: str, name: str, *, uid: str = "", dry_run: bool = False) -> None:
        """Tell of an eviction."""
        del uid, dry_run
        self._told(Unsent("evict", PODS, namespace, name))

    def request(self, method: str, path: str, query: Mapping[str, str] | None = None) -> Json:
        """Ask for what is no resource; only reading is let through."""
        if method != "GET":
            raise Refused(f"{method} {path}: a dry run sends nothing but reads")
        return self._cluster.request(method, path, query)
