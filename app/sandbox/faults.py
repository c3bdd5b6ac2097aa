"""A cluster that fails when it is told to, for tests of what happens then.

Strategy: it stands before any other cluster and lets calls through, but for those that somebody
ordered to fail. A call may also fail after it was carried out, as when an answer gets lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from threading import Lock
from typing import TypeVar

from app.model.errors import ClusterError
from app.ports import PODS, Cluster, Json, Page, PatchKind, Resource, WatchEvent

T = TypeVar("T")


@dataclass(slots=True)
class Fault:
    """Which calls fail, and how; what is left empty fits any."""

    error: ClusterError
    verb: str = ""  # a method of the port
    resource: Resource | None = None
    name: str = ""
    subresource: str = ""
    times: int = 1  # then it is over
    too_late: bool = False  # the call is carried out, only its answer is lost

    def fits(self, verb: str, resource: Resource | None, name: str, subresource: str) -> bool:
        """Whether a call is to fail."""
        return (
            self.times > 0
            and self.verb in ("", verb)
            and self.resource in (None, resource)
            and self.name in ("", name)
            and self.subresource in ("", subresource)
        )


class FaultyCluster:
    """A cluster before which faults can be put; the latest that fits counts."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._lock = Lock()
        self.faults: list[Fault] = []

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
        """Return one page."""
        return self._through(
            lambda: self._cluster.list(
                resource,
                namespace,
                label_selector=label_selector,
                field_selector=field_selector,
                limit=limit,
                continue_token=continue_token,
                resource_version=resource_version,
            ),
            "list",
            resource,
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
        """Yield changes; a fault strikes before the first of them."""
        yield from self._through(
            lambda: self._cluster.watch(
                resource,
                namespace,
                resource_version=resource_version,
                label_selector=label_selector,
                field_selector=field_selector,
                timeout_seconds=timeout_seconds,
            ),
            "watch",
            resource,
        )

    def get(self, resource: Resource, namespace: str, name: str, subresource: str = "") -> Json:
        """Return one object."""
        return self._through(
            lambda: self._cluster.get(resource, namespace, name, subresource),
            "get",
            resource,
            name,
            subresource,
        )

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
        """Create an object, or post to the subresource of one."""
        return self._through(
            lambda: self._cluster.create(
                resource, namespace, body, name=name, subresource=subresource, dry_run=dry_run
            ),
            "create",
            resource,
            name or str((body.get("metadata") or {}).get("name") or ""),
            subresource,
        )

    def replace(self, resource: Resource, namespace: str, name: str, body: Json) -> Json:
        """Put a whole object."""
        return self._through(
            lambda: self._cluster.replace(resource, namespace, name, body),
            "replace",
            resource,
            name,
        )

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
        """Change an object."""
        return self._through(
            lambda: self._cluster.patch(
                resource, namespace, name, body, kind=kind, subresource=subresource, dry_run=dry_run
            ),
            "patch",
            resource,
            name,
            subresource,
        )

    def delete(self, resource: Resource, namespace: str, name: str, *, uid: str = "") -> None:
        """Delete an object."""
        self._through(
            lambda: self._cluster.delete(resource, namespace, name, uid=uid),
            "delete",
            resource,
            name,
        )

    def evict(self, namespace: str, name: str, *, uid: str = "", dry_run: bool = False) -> None:
        """Ask for a pod's eviction."""
        self._through(
            lambda: self._cluster.evict(namespace, name, uid=uid, dry_run=dry_run),
            "evict",
            PODS,
            name,
        )

    def request(self, method: str, path: str, query: Mapping[str, str] | None = None) -> Json:
        """Send a plain request."""
        return self._through(lambda: self._cluster.request(method, path, query), "request")

    def _through(
        self,
        call: Callable[[], T],
        verb: str,
        resource: Resource | None = None,
        name: str = "",
        subresource: str = "",
    ) -> T:
        fault = self._fault(verb, resource, name, subresource)
        if fault is not None and not fault.too_late:
            raise fault.error
        answer = call()
        if fault is not None:
            raise fault.error
        return answer

    def _fault(
        self, verb: str, resource: Resource | None, name: str, subresource: str
    ) -> Fault | None:
        with self._lock:
            for fault in reversed(self.faults):
                if fault.fits(verb, resource, name, subresource):
                    fault.times -= 1
                    return fault
            self.faults = [fault for fault in self.faults if fault.times > 0]
        return None
