"""A cluster that is read and never written: what would be written is told instead.

Strategy: a write is answered with what an API server would have stored, so that whoever writes
goes on as if it had been; nothing is sent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from app.model import patches
from app.model.errors import Refused
from app.ports import CHECKPOINTS, PODS, Json, PatchKind, Resource
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
        self.list, self.watch, self.get = cluster.list, cluster.watch, cluster.get

    def within(self, seconds: float, /) -> Connection:
        """Return the same, its calls given up after so many seconds."""
        return Unwritten(self._cluster.within(seconds), self._told)

    def close(self) -> None:
        """End all watches and close all that is open."""
        self._cluster.close()

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
        verb = f"patch {subresource}".strip()
        if resource == CHECKPOINTS:  # written all the time, and nobody looks at the answer
            self._told(Unsent(verb, resource, namespace, name))
            return {}
        found = self._cluster.get(resource, namespace, name)
        if kind is PatchKind.JSON:
            changed = patches.apply(found, body if isinstance(body, list) else [])
        else:
            changed = patches.merge(found, body if isinstance(body, dict) else {})
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
