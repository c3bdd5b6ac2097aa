"""A real Kubernetes API, behind the port `Cluster`.

Strategy: objects stay plain JSON; the `kubernetes` package at most says how the server is
reached. Names from outside go into a path only if an API server could have accepted them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from urllib.parse import quote

import orjson

from app.kube.connection import ApiAccess, Pacer
from app.kube.reach import Origin
from app.kube.transport import Call, Deadlines, Transport, parse, translate
from app.model.errors import Invalid, Unavailable
from app.model.token_bucket import TokenBucket
from app.ports import (
    POD_METRICS,
    PODS,
    EventType,
    Json,
    ListPage,
    PatchKind,
    Ref,
    Resource,
    WatchEvent,
)

FIELD_MANAGER = "plumbline"
WATCH_GRACE_SECONDS = 10  # after which a watch ends here that the server did not end


class KubeCluster:
    """The API server of a cluster."""

    def __init__(self, transport: Transport, deadlines: Deadlines) -> None:
        self._transport = transport
        self._deadlines = deadlines

    def within(self, seconds: float) -> KubeCluster:
        """Return the same cluster, its calls given up after so many seconds."""
        return KubeCluster(self._transport, self._deadlines.within(seconds))

    def until(self, moment: float) -> KubeCluster:
        """Return the same cluster, none of its calls begun or waited for after a moment.

        The moment is one of the monotonic clock, and counts the wait for a token too.
        """
        return KubeCluster(self._transport, self._deadlines.until(moment))

    def server_now(self) -> datetime | None:
        """Return the time by the clock of the API server, None as long as it has not told."""
        return self._transport.server_now()

    def close(self) -> None:
        """End all watches and close all connections."""
        self._transport.close()

    def list(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 0,
        continue_token: str = "",
    ) -> ListPage:
        """Return one page; its items carry kind and apiVersion, which servers leave out."""
        query = _query(
            labelSelector=label_selector,
            fieldSelector=field_selector,
            limit=str(limit) if limit > 0 else "",
        )
        query |= {"continue": continue_token} if continue_token else {}
        call = Call("GET", _path(Ref(resource, namespace)), query)
        # Usage is gathered from all nodes first, which takes long in a large cluster.
        is_gathered = resource == POD_METRICS
        deadlines = self._deadlines.at_once() if is_gathered else self._deadlines
        found = self._transport.call(call, deadlines)
        metadata, items = found.get("metadata"), found.get("items")
        if not isinstance(metadata, dict) or not isinstance(items, list | None):
            raise Unavailable(f"{call}: the answer is no list")
        kept = [item for item in items or () if isinstance(item, dict)]
        for item in kept:
            item.setdefault("apiVersion", resource.api_version)
            item.setdefault("kind", resource.kind)
        version, token = metadata.get("resourceVersion"), metadata.get("continue")
        return ListPage(kept, str(version or ""), str(token or ""))

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
        """Ask at once; then yield changes after a version, until time is over or silence long."""
        query = _query(
            watch="true",
            allowWatchBookmarks="true",
            resourceVersion=resource_version,
            timeoutSeconds=str(timeout_seconds),
            labelSelector=label_selector,
            fieldSelector=field_selector,
        )
        call = Call("GET", _path(Ref(resource, namespace)), query)
        seconds = timeout_seconds + WATCH_GRACE_SECONDS
        lines = self._transport.lines(call, self._deadlines, seconds)
        return (_event(call, line) for line in lines if line.strip())

    def get(self, ref: Ref) -> Json:
        """Return one object as it is now."""
        return self._call(Call("GET", _named(ref)))

    def create(self, ref: Ref, body: Json, *, dry_run: bool = False) -> Json:
        """Create an object, or post to the subresource of one."""
        path = _named(ref) if ref.subresource else _path(Ref(ref.resource, ref.namespace))
        return self._call(Call("POST", path, _writing(dry_run), orjson.dumps(body)))

    def replace(self, ref: Ref, body: Json) -> Json:
        """Put a whole object; its resourceVersion must be current when given."""
        return self._call(Call("PUT", _named(ref), _writing(), orjson.dumps(body)))

    def patch(
        self, ref: Ref, body: object, *, kind: PatchKind = PatchKind.JSON, dry_run: bool = False
    ) -> Json:
        """Change an object; returns it as changed. An applied object takes fields from others."""
        query = _writing(dry_run)
        if kind is PatchKind.APPLY:
            query["force"] = "true"
        return self._call(Call("PATCH", _named(ref), query, orjson.dumps(body), kind.value))

    def delete(self, ref: Ref, *, uid: str = "") -> None:
        """Delete an object, only if it still has this uid when one is given."""
        self._call(Call("DELETE", _named(ref), body=orjson.dumps(_delete_options(uid))))

    def evict(self, namespace: str, name: str, *, uid: str = "", dry_run: bool = False) -> None:
        """Ask for a pod's eviction; `TooMany` when a disruption budget holds."""
        eviction = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
            "deleteOptions": _delete_options(uid),
        }
        self.create(Ref(PODS, namespace, name, "eviction"), eviction, dry_run=dry_run)

    def request(self, method: str, path: str, query: Mapping[str, str] | None = None) -> Json:
        """Send a plain request, for paths that are no resource (discovery, version)."""
        return self._call(Call(method, path, query or {}))

    def _call(self, call: Call) -> Json:
        return self._transport.call(call, self._deadlines)


def connect(
    kubeconfig: str = "",
    context: str = "",
    qps: float = 50,
    burst: float = 100,
    *,
    origin: Origin | None = None,
    deadlines: Deadlines | None = None,
) -> KubeCluster:
    """Read the configuration and return its cluster; raises `BadSetting`, sends nothing yet.

    A kubeconfig given wins, then KUBECONFIG, then the service account of a pod, then the
    kubeconfig of the home directory. `origin` takes the place of `kubeconfig` and `context`.
    """
    access = ApiAccess(origin or Origin(kubeconfig, context))
    bucket = TokenBucket.full(qps if burst > 0 else 0.0, burst)
    transport = Transport(access, Pacer(bucket))
    return KubeCluster(transport, deadlines or Deadlines())


def _query(**values: str) -> dict[str, str]:
    return {key: value for key, value in values.items() if value}


def _writing(dry_run: bool = False) -> dict[str, str]:
    query = {"fieldManager": FIELD_MANAGER}
    if dry_run:
        query["dryRun"] = "All"
    return query


def _delete_options(uid: str) -> Json:
    options: Json = {"apiVersion": "v1", "kind": "DeleteOptions"}
    if uid:
        options["preconditions"] = {"uid": uid}
    return options


def _path(ref: Ref) -> str:
    place = (_segment(ref.namespace), _segment(ref.name), _segment(ref.subresource))
    return ref.resource.path(*place)


def _named(ref: Ref) -> str:
    if not ref.name:
        raise Invalid(f"{ref.resource.kind} in namespace {ref.namespace!r}: the name is empty")
    if ref.resource.namespaced and not ref.namespace:
        raise Invalid(f"{ref.resource.kind} {ref.name!r}: the namespace is empty")
    return _path(ref)


def _segment(text: str) -> str:
    """Quote a part of a path; refuse what would leave its place there."""
    if text in {".", ".."} or "/" in text or "%" in text:
        raise Invalid(f"{text!r} cannot be a name: no '.', '..', '/' or '%'")
    return quote(text, safe="")


def _event(call: Call, line: bytes) -> WatchEvent:
    found = parse(call, line)
    kind, item = str(found.get("type")), found.get("object")
    if not isinstance(item, dict):
        raise Unavailable(f"{call}: a watch event without object")
    if kind == "ERROR":
        raise translate(f"{call}", 0, item)
    try:
        return WatchEvent(EventType(kind), item)
    except ValueError as error:
        raise Unavailable(f"{call}: a watch event of unknown type {kind!r}") from error
