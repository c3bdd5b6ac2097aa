"""The port `Cluster` over objects in memory.

It promises what the cases of tests/contract prove, which run unchanged against a real API server;
docs/decisions/0014-what-the-sandbox-promises.md says what it does not offer.

Strategy: every verb finds its kind, then reads from the store or goes the one way of a write.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from app.model import patches
from app.model.errors import Invalid
from app.ports import (
    POD_METRICS,
    Json,
    ListPage,
    PatchKind,
    Ref,
    Resource,
    WatchEvent,
)
from app.sandbox.disruption import Evictions
from app.sandbox.metrics import PodMetrics
from app.sandbox.objects import Key, copied
from app.sandbox.pod_control import PodControl
from app.sandbox.refusals import bad_request, not_allowed, not_found, unknown_resource
from app.sandbox.served_kinds import discovered
from app.sandbox.store import Pages
from app.sandbox.subresources import resized, scale_of, scaled


class SandboxCluster:
    """A Kubernetes API in memory; safe to use from many threads."""

    def __init__(self, control: PodControl, metrics: PodMetrics | None = None) -> None:
        self._store = control.store
        self._catalogue = control.catalogue
        self._writes = control.writes
        self._pages = Pages(control.store)
        self._evictions = Evictions(control)
        self._metrics = metrics  # None: usage is not measured

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
        """Return one page of objects, in the order of their names."""
        if self._metrics is not None and resource == POD_METRICS:
            return self._metrics.list(namespace, label_selector, field_selector)
        kind = self._catalogue.find(resource)
        asked = (kind.collection, namespace, label_selector, field_selector)
        return self._pages.page(asked, limit, continue_token)

    def watch(self, *_asked: object, **_options: object) -> Iterator[WatchEvent]:
        """Refuse: what happens here is told to followers."""
        raise not_allowed()

    def get(self, ref: Ref) -> Json:
        """Return one object as it is now."""
        if self._metrics is not None and ref.resource == POD_METRICS:
            return self._metrics.get(Key(ref.namespace, ref.name))
        kind = self._catalogue.find(ref.resource)
        found = self._store.read(kind.collection, _key(ref))
        if found is None:
            raise not_found(kind.collection, ref.name)
        if ref.subresource == "scale" and kind.scale:
            return scale_of(found, kind.scale)
        if ref.subresource and ref.subresource not in kind.subresources:
            raise unknown_resource()
        if ref.subresource == "eviction":
            raise not_allowed()
        return copied(found)

    def create(self, ref: Ref, body: Json, *, dry_run: bool = False) -> Json:
        """Create an object, or post to the subresource of one."""
        item = copied(body)
        if not ref.subresource:
            return self._writes.create(ref.resource, ref.namespace, item, dry_run=dry_run)
        if ref.subresource not in self._catalogue.find(ref.resource).more:
            raise unknown_resource()
        if ref.subresource != "eviction":
            raise not_allowed()
        return self._evict(_key(ref), item, dry_run=dry_run)

    def replace(self, ref: Ref, body: Json) -> Json:
        """Put a whole object; its resourceVersion must be current when given."""
        if ref.subresource:
            raise not_allowed()
        return self._writes.change(
            ref.resource, _key(ref), lambda _old: copied(body), is_patch=False
        )

    def patch(
        self, ref: Ref, body: object, *, kind: PatchKind = PatchKind.JSON, dry_run: bool = False
    ) -> Json:
        """Change an object; returns it as changed."""
        served = self._catalogue.find(ref.resource)
        if ref.subresource and ref.subresource not in served.subresources:
            raise unknown_resource()
        if ref.subresource not in ("", "status", "scale", "resize"):
            raise not_allowed()
        paths = served.scale if ref.subresource == "scale" else None

        def edit(item: Json) -> Json:
            if paths:
                return scaled(item, paths, _patched(scale_of(item, paths), body, kind))
            new = _patched(item, body, kind)
            return resized(item, new) if ref.subresource == "resize" else new

        found = self._writes.change(
            ref.resource, _key(ref), edit, subresource=ref.subresource, dry_run=dry_run
        )
        return scale_of(found, paths) if paths else found

    def delete(self, ref: Ref, *, uid: str = "") -> None:
        """Delete an object, only if it still has this uid when one is given."""
        self._writes.delete(ref.resource, _key(ref), uid=uid)

    def evict(self, namespace: str, name: str, *, uid: str = "", dry_run: bool = False) -> None:
        """Ask for a pod's eviction; `TooMany` when a disruption budget holds."""
        self._evictions.evict(Key(namespace, name), uid, dry_run=dry_run)

    def request(self, method: str, path: str, query: Mapping[str, str] | None = None) -> Json:
        """Send a plain request, for paths that are no resource (discovery, version)."""
        del query  # nothing that is offered here takes one
        return discovered(self._catalogue, method, path)

    def _evict(self, key: Key, body: Json, *, dry_run: bool) -> Json:
        named = (body.get("metadata") or {}).get("name") or key.name
        if named != key.name:
            raise bad_request("name in URL does not match name in Eviction object")
        options = body.get("deleteOptions") or {}
        dry_run = dry_run or options.get("dryRun") == ["All"]
        uid = (options.get("preconditions") or {}).get("uid", "")
        return self._evictions.evict(key, uid, dry_run=dry_run)


def _key(ref: Ref) -> Key:
    return Key(ref.namespace if ref.resource.namespaced else "", ref.name)


def _patched(item: Json, body: object, kind: PatchKind) -> Json:
    """Return an object as a patch makes it."""
    if kind is PatchKind.MERGE and isinstance(body, dict):
        return copied(patches.merge(item, body))
    if kind is PatchKind.JSON and isinstance(body, list):
        return copied(patches.apply(item, body))
    if kind is PatchKind.APPLY:
        message = f"the sandbox takes no {kind.value}"
        raise Invalid(message, status=415, reason="UnsupportedMediaType")
    raise bad_request(f"the sandbox takes no such {kind.value}")
