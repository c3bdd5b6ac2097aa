"""A plain client of an API server, for tests: sends what it is told, shows what came back."""

from __future__ import annotations

import json
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import httpx

from app import ports
from app.model.fields import Json
from app.ports import Resource

_RBAC = "rbac.authorization.k8s.io"
SERVICE_ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount")
_KNOWN = (
    *(found for found in vars(ports).values() if isinstance(found, Resource)),
    SERVICE_ACCOUNTS,
    Resource(_RBAC, "v1", "clusterroles", "ClusterRole", namespaced=False),
    Resource(_RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False),
    Resource(_RBAC, "v1", "roles", "Role"),
    Resource(_RBAC, "v1", "rolebindings", "RoleBinding"),
    Resource("apiregistration.k8s.io", "v1", "apiservices", "APIService", namespaced=False),
)
_BY_KIND = {resource.kind: resource for resource in _KNOWN}
_SECONDS = 30.0
# Many threads share a client. To keep few connections it would close idle ones, and among these
# some that another thread has been given and not yet used.
_KEPT = httpx.Limits(max_connections=None, max_keepalive_connections=None, keepalive_expiry=None)
NOT_FOUND = 404


class Refusal(Exception):
    """An API server said no."""

    def __init__(self, status: int, body: Json) -> None:
        self.status = status
        self.reason = str(body.get("reason", ""))
        self.message = str(body.get("message", ""))
        super().__init__(f"{status} {self.reason}: {self.message}")


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back, the warnings beside it."""

    status: int
    body: Json
    warnings: tuple[str, ...]


class Api:
    """One account at one API server."""

    def __init__(self, url: str, trust: ssl.SSLContext, token: str = "") -> None:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self.url = url
        self.token = token
        self._client = httpx.Client(
            base_url=url, verify=trust, headers=headers, timeout=_SECONDS, limits=_KEPT
        )

    def close(self) -> None:
        """Close its connections."""
        self._client.close()

    def text(self, path: str, query: Mapping[str, str] | None = None) -> str:
        """Return a page that is no JSON."""
        found = self._client.get(path, params=query)
        found.raise_for_status()
        return found.text

    def call(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        query: Mapping[str, str] | None = None,
        content_type: str = "application/json",
    ) -> Answer:
        """Send a request; raises `Refusal` on any answer that is no success."""
        headers = {"Content-Type": content_type}
        found = self._client.request(method, path, json=body, params=query, headers=headers)
        is_json = found.headers.get("content-type", "").startswith("application/json")
        answer = found.json() if is_json else {"message": found.text}
        if found.status_code >= 300:
            raise Refusal(found.status_code, answer)
        return Answer(found.status_code, answer, _warnings(found.headers.get_list("warning")))

    def create(self, item: Json, *, dry_run: bool = False) -> Json:
        """Create an object."""
        resource, namespace, _ = place(item)
        query = {"dryRun": "All"} if dry_run else None
        return self.call("POST", resource.path(namespace), item, query=query).body

    def apply(self, item: Json) -> Answer:
        """Apply an object server-side, with strict fields."""
        resource, namespace, name = place(item)
        query = {"fieldManager": "tests", "force": "true", "fieldValidation": "Strict"}
        path = resource.path(namespace, name)
        return self.call("PATCH", path, item, query=query, content_type=_APPLY)

    def get(self, resource: Resource, namespace: str, name: str, subresource: str = "") -> Json:
        """Return an object."""
        return self.call("GET", resource.path(namespace, name, subresource)).body

    def find(self, resource: Resource, namespace: str, name: str) -> Json | None:
        """Return an object, None if there is none."""
        try:
            return self.get(resource, namespace, name)
        except Refusal as refusal:
            if refusal.status != NOT_FOUND:
                raise
            return None

    def list(self, resource: Resource, namespace: str = "", labels: str = "") -> Sequence[Json]:
        """Return all objects with some labels; a list leaves out what they are."""
        query = {"labelSelector": labels} if labels else None
        items: list[Json] = self.call("GET", resource.path(namespace), query=query).body["items"]
        return [{"apiVersion": resource.api_version, "kind": resource.kind, **it} for it in items]

    def replace(self, item: Json) -> Json:
        """Put an object."""
        resource, namespace, name = place(item)
        return self.call("PUT", resource.path(namespace, name), item).body

    def merge(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        changes: Json,
        subresource: str = "",
    ) -> Answer:
        """Change some fields of an object."""
        path = resource.path(namespace, name, subresource)
        return self.call("PATCH", path, changes, content_type="application/merge-patch+json")

    def delete(self, resource: Resource, namespace: str, name: str) -> None:
        """Delete an object at once, if it is there."""
        try:
            now = {"gracePeriodSeconds": 0, "propagationPolicy": "Background"}
            self.call("DELETE", resource.path(namespace, name), now)
        except Refusal as refusal:
            if refusal.status != NOT_FOUND:
                raise

    def delete_all(self, resource: Resource, namespace: str, labels: str = "") -> None:
        """Delete all objects with some labels."""
        query = {"labelSelector": labels} if labels else None
        self.call("DELETE", resource.path(namespace), {"gracePeriodSeconds": 0}, query=query)


_APPLY = "application/apply-patch+yaml"


def place(item: Json) -> tuple[Resource, str, str]:
    """Return where an object belongs: its resource, namespace and name."""
    metadata = item["metadata"]
    group, _, version = item["apiVersion"].rpartition("/")
    resource = _BY_KIND.get(item["kind"])
    if resource is None or (resource.group, resource.version) != (group, version):
        kind = item["kind"].lower()
        plural = f"{kind[:-1]}ies" if kind.endswith("y") else f"{kind}s"
        resource = Resource(group, version, plural, item["kind"])
    return resource, metadata.get("namespace", ""), metadata.get("name", "")


def _warnings(headers: Sequence[str]) -> tuple[str, ...]:
    """Return the texts of headers like `299 - "text"`."""
    return tuple(json.loads(header.partition(" - ")[2]) for header in headers)
