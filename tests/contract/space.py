"""A namespace of the cluster under test: what a case does and sees there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.ports import Cluster, Json, PatchKind, Ref, Resource
from tests.contract.waiting import Eventually


@dataclass(frozen=True)
class Space:
    """A namespace of a case's own; every call is about its objects."""

    cluster: Cluster
    namespace: str
    eventually: Eventually

    def ref(self, resource: Resource, name: str = "", subresource: str = "") -> Ref:
        """Where an object stands, or a subresource of one."""
        return Ref(resource, self.namespace, name, subresource)

    def create(self, resource: Resource, body: Json, *, dry_run: bool = False) -> Json:
        """Create an object."""
        return self.cluster.create(self.ref(resource), body, dry_run=dry_run)

    def get(self, resource: Resource, name: str, subresource: str = "") -> Json:
        """Return an object as it is now."""
        return self.cluster.get(self.ref(resource, name, subresource))

    def items(self, resource: Resource, *, labels: str = "", fields: str = "") -> Sequence[Json]:
        """Return the objects that selectors choose."""
        return self.cluster.list(
            resource, self.namespace, label_selector=labels, field_selector=fields
        ).items

    def replace(self, resource: Resource, name: str, body: Json) -> Json:
        """Put an object in the place of another."""
        return self.cluster.replace(self.ref(resource, name), body)

    def patch(
        self, resource: Resource, name: str, operations: object, subresource: str = ""
    ) -> Json:
        """Change an object by the operations of a JSON patch."""
        return self.cluster.patch(self.ref(resource, name, subresource), operations)

    def merge(self, resource: Resource, name: str, patch: Json, subresource: str = "") -> Json:
        """Change an object by a merge patch."""
        ref = self.ref(resource, name, subresource)
        return self.cluster.patch(ref, patch, kind=PatchKind.MERGE)

    def delete(self, resource: Resource, name: str, *, uid: str = "") -> None:
        """Delete an object."""
        self.cluster.delete(self.ref(resource, name), uid=uid)
