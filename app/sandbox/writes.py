"""The way of a write: filled in, admitted, checked, committed.

Strategy: the order is an API server's: defaults, gates that change, validation, gates that only
check, commit. Nothing is locked while gates are asked, for they may call others. A change is
worked out again from the newest object until nothing came between, so a patch never undoes what it
did not see, and a caller who names a version gets a conflict if it is not the newest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import StrEnum
from random import Random
from uuid import UUID

from app import ports
from app.model.times import rfc3339
from app.ports import Json, Resource
from app.sandbox import metadata as names
from app.sandbox.objects import Key, copied, has_ended, is_deleted, key_of, uid_of
from app.sandbox.refusals import (
    exists,
    forbidden,
    invalid,
    modified,
    not_found,
    recreated,
)
from app.sandbox.served_kinds import Catalogue, ServedKind
from app.sandbox.stepped_clock import SteppedClock
from app.sandbox.store import Stale, Store

Edit = Callable[[Json], Json]  # gets a copy of the object, returns it as it is to be

_TRIES = 5


class Operation(StrEnum):
    """What is tried, as webhooks call it."""

    CREATE = "CREATE"
    UPDATE = "UPDATE"
    DELETE = "DELETE"


@dataclass(frozen=True, slots=True)
class Attempt:
    """One write before it is made."""

    operation: Operation
    kind: ServedKind
    namespace: str
    name: str  # empty while it is still to be generated
    item: Json | None  # None when it is to be deleted
    old: Json | None = None
    subresource: str = ""
    dry_run: bool = False


class AdmissionPlugin:
    """May change or refuse what is tried; refusals are `ClusterError`."""

    def change(self, attempt: Attempt) -> Json:
        """Return the object as it is to be, which may be the one of the attempt, changed."""
        assert attempt.item is not None
        return attempt.item

    def check(self, attempt: Attempt) -> None:
        """Refuse by raising; the object is final."""


class Writes:
    """Creates, changes and deletes objects."""

    def __init__(
        self, store: Store, catalogue: Catalogue, clock: SteppedClock, random: Random
    ) -> None:
        self.store = store
        self.catalogue = catalogue
        self.clock = clock
        self._random = random
        self.gates: Sequence[AdmissionPlugin] = ()
        self.orphaned: set[str] = set()  # uids of deleted owners whose dependents stay

    def create(
        self, resource: Resource, namespace: str, body: Json, *, dry_run: bool = False
    ) -> Json:
        """Create an object and return a copy of it."""
        kind = self.catalogue.find(resource)
        item = names.identified(kind, namespace, body)
        names.forget_system(item["metadata"])
        if resource.namespaced:
            self._check_namespace(kind, namespace, item["metadata"].get("name", ""))
        kind.fill(item)
        if kind.has_status and resource != ports.NODES:
            item.pop("status", None)
            if not kind.is_custom:
                item["status"] = {}
        named = item["metadata"].get("name", "")
        attempt = Attempt(Operation.CREATE, kind, namespace, named, item, dry_run=dry_run)
        item = self._changed(attempt)
        for _ in range(_TRIES):
            ready = self._born(kind, copied(item))
            self._validate(attempt, kind, ready, None)
            try:
                return self._insert(kind, ready, dry_run=dry_run)
            except Stale:
                if named:
                    break
        raise exists(kind.collection, ready["metadata"]["name"])

    def change(
        self,
        resource: Resource,
        key: Key,
        edit: Edit,
        *,
        subresource: str = "",
        is_patch: bool = True,
        dry_run: bool = False,
    ) -> Json:
        """Change an object and return a copy of it."""
        kind = self.catalogue.find(resource)
        for _ in range(_TRIES):
            old = self.store.read(kind.collection, key)
            if old is None:
                raise not_found(kind.collection, key.name)
            new = self._edited(kind, old, edit, subresource, is_patch=is_patch)
            attempt = Attempt(
                Operation.UPDATE, kind, key.namespace, key.name, new, old, subresource, dry_run
            )
            new = self._changed(attempt)
            names.restore_system(new, old)
            counts = kind.has_generation and subresource != "binding"
            if counts and _content(new) != _content(old):
                new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
            self._validate(attempt, kind, new, old)
            if dry_run or new == old:
                return copied(new)
            try:
                if is_deleted(new) and _may_go(kind, new):
                    self.store.remove(kind.collection, old)
                else:
                    self.store.replace(kind.collection, old, new)
            except Stale:
                continue
            return copied(new)
        raise modified(kind.collection, key.name)

    def delete(
        self,
        resource: Resource,
        key: Key,
        *,
        uid: str = "",
        grace_seconds: float | None = None,
        orphan: bool | None = None,
    ) -> None:
        """Delete an object, or begin to; None stands for what is usual for its kind."""
        kind = self.catalogue.find(resource)
        for _ in range(_TRIES):
            old = self.store.read(kind.collection, key)
            if old is None:
                raise not_found(kind.collection, key.name)
            if uid and uid != uid_of(old):
                raise recreated(resource.kind, key.name, uid, uid_of(old))
            self._check(Attempt(Operation.DELETE, kind, *key, None, old))
            if kind.orphans if orphan is None else orphan:
                self.orphaned.add(uid_of(old))
            grace = _grace(kind, old) if grace_seconds is None else grace_seconds
            try:
                self._depart(kind, old, grace)
            except Stale:
                continue
            return
        raise modified(kind.collection, key.name)

    def _check_namespace(self, kind: ServedKind, namespace: str, name: str) -> None:
        found = self.store.read("namespaces", Key("", namespace))
        if found is None:
            raise not_found("namespaces", namespace)
        if is_deleted(found):
            why = f"unable to create new content in namespace {namespace}"
            cause = ("NamespaceTerminating", f"namespace {namespace} is being terminated")
            full = f"{why} because it is being terminated"
            raise forbidden(kind.collection, name, full, (cause,))

    def _born(self, kind: ServedKind, item: Json) -> Json:
        metadata = item["metadata"]
        base = metadata.get("generateName")
        if base and not metadata.get("name"):
            metadata["name"] = names.generated_name(base, self._random)
        metadata["uid"] = str(UUID(int=self._random.getrandbits(128), version=4))
        metadata["creationTimestamp"] = rfc3339(self.clock.now())
        if kind.has_generation:
            metadata["generation"] = 1
        if metadata.get("name"):
            kind.begin(item)
        return item

    def _edited(
        self, kind: ServedKind, old: Json, edit: Edit, subresource: str, *, is_patch: bool
    ) -> Json:
        new = names.identified(kind, old["metadata"].get("namespace", ""), edit(copied(old)))
        problems = names.check_identity(kind, old, new, is_patch=is_patch)
        if problems:
            raise invalid(kind.word, old["metadata"]["name"], problems)
        version = new["metadata"].get("resourceVersion")
        if version and version != old["metadata"]["resourceVersion"]:
            raise modified(kind.collection, old["metadata"]["name"])
        if kind.has_status:
            new = _mixed(old, new, subresource)
        names.restore_system(new, old)
        if subresource != "status" or kind.is_custom:
            kind.fill(new)
        return new

    def _changed(self, attempt: Attempt) -> Json:
        for gate in self.gates:
            item = names.identified(attempt.kind, attempt.namespace, gate.change(attempt))
            attempt = replace(attempt, item=item)
        assert attempt.item is not None
        return attempt.item

    def _validate(self, attempt: Attempt, kind: ServedKind, item: Json, old: Json | None) -> None:
        found = list(names.metadata_problems(item["metadata"]))
        if old is not None:
            found += names.added_finalizers(old, item)
        if attempt.subresource in ("", "scale") or kind.is_custom:
            found += kind.check(item, old)
        if found:
            name = item["metadata"].get("name") or item["metadata"].get("generateName", "")
            raise invalid(kind.word, name, found)
        named = attempt.name or item["metadata"].get("name", "")
        self._check(replace(attempt, name=named, item=item))

    def _check(self, attempt: Attempt) -> None:
        for gate in self.gates:
            gate.check(attempt)

    def _insert(self, kind: ServedKind, item: Json, *, dry_run: bool) -> Json:
        if not dry_run:
            return copied(self.store.insert(kind.collection, item))
        if self.store.read(kind.collection, key_of(item)) is not None:
            raise Stale
        return item

    def _depart(self, kind: ServedKind, old: Json, grace_seconds: float) -> None:
        new = copied(old)
        metadata = new["metadata"]
        metadata["deletionGracePeriodSeconds"] = int(grace_seconds)
        if _may_go(kind, new):
            self.store.remove(kind.collection, old)
            return
        if is_deleted(old) and old["metadata"]["deletionGracePeriodSeconds"] <= grace_seconds:
            return
        if not is_deleted(old) and "generation" in metadata:
            metadata["generation"] += 1
        metadata["deletionTimestamp"] = rfc3339(self.clock.now() + timedelta(seconds=grace_seconds))
        if kind.resource == ports.NAMESPACES:
            new["status"] = {**(new.get("status") or {}), "phase": "Terminating"}
        self.store.replace(kind.collection, old, new)


def _mixed(old: Json, new: Json, subresource: str) -> Json:
    """Return the object of which only the part that was asked for is new."""
    if subresource == "binding":
        return new
    kept, taken = (new, old) if subresource != "status" else (old, new)
    mixed = copied(kept)
    mixed.pop("status", None)
    if "status" in taken:
        mixed["status"] = taken["status"]
    return mixed


def _may_go(kind: ServedKind, item: Json) -> bool:
    """Whether nothing holds an object any more whose deletion was asked for."""
    if item["metadata"].get("finalizers"):
        return False
    if kind.resource == ports.NAMESPACES:
        return not (item.get("spec") or {}).get("finalizers")
    return kind.resource != ports.PODS or not item["metadata"].get("deletionGracePeriodSeconds")


def _grace(kind: ServedKind, item: Json) -> float:
    """Return how long an object may take to end; only pods on a node have something to end."""
    if kind.resource != ports.PODS or not item["spec"].get("nodeName") or has_ended(item):
        return 0
    return float(item["spec"].get("terminationGracePeriodSeconds") or 0)


def _content(item: Json) -> Json:
    """Return the part of an object whose changes its generation counts."""
    rest = ("apiVersion", "kind", "metadata", "status")
    return {key: value for key, value in item.items() if key not in rest}
