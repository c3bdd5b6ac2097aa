"""What objects of every kind share: keys, owner references and conditions.

Strategy: a key names an object the way owner references and VPA targets do. The seven built-in
controllers are known by kind and API group together: a `Job` of another group is another kind.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from app.model.fields import (
    Object,
    flag_at,
    int64_at,
    items_at,
    shared,
    shared_text,
    text_at,
    time_at,
)

# Built-in controllers and their groups. `extensions` is where three of them lived once.
_APPS = frozenset({"apps", "extensions"})
_BUILT_IN = {
    "DaemonSet": _APPS,
    "Deployment": _APPS,
    "ReplicaSet": _APPS,
    "StatefulSet": frozenset({"apps"}),
    "ReplicationController": frozenset({""}),
    "Job": frozenset({"batch"}),
    "CronJob": frozenset({"batch"}),
}
BUILT_IN_KINDS = frozenset(_BUILT_IN)


class CacheKey:
    """Stands for one version of an object where results are kept for it; goes with that."""

    __slots__ = ("__weakref__",)


class ObjectKey(NamedTuple):
    """What identifies a controller inside a namespace; `group` is empty for built-in kinds."""

    group: str
    kind: str
    name: str

    @property
    def is_built_in(self) -> bool:
        """Whether this is one of the seven built-in controllers."""
        return not self.group and self.kind in BUILT_IN_KINDS

    def __str__(self) -> str:
        return f"{self.kind}.{self.group}/{self.name}" if self.group else f"{self.kind}/{self.name}"


def group_of(api_version: str) -> str:
    """Return the API group of an apiVersion, empty for the core group."""
    group, slash, _ = api_version.rpartition("/")
    return group if slash else ""


def owner_key(api_version: str, kind: str, name: str) -> ObjectKey:
    """Return the key of an object whose apiVersion was written by an API server.

    One that is missing altogether means the built-in kind of that name if there is one.
    """
    group = group_of(api_version)
    if group in _BUILT_IN.get(kind, ()) or (not api_version and kind in BUILT_IN_KINDS):
        return ObjectKey("", kind, name)
    return ObjectKey(group or "core", kind, name)


def target_key(api_version: str, kind: str, name: str) -> ObjectKey:
    """Return the key of an object whose apiVersion was written by a person.

    A missing group, also in `v1`, means the built-in kind of that name if there is one.
    """
    if kind in BUILT_IN_KINDS and not group_of(api_version):
        return ObjectKey("", kind, name)
    return owner_key(api_version, kind, name)


class OwnerReference(NamedTuple):
    """An entry of `metadata.ownerReferences`."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool

    @property
    def key(self) -> ObjectKey:
        """The key of the owner."""
        return owner_key(self.api_version, self.kind, self.name)


def read_owners(metadata: Object) -> tuple[OwnerReference, ...]:
    """Read all owner references of an object."""
    return tuple(
        [
            OwnerReference(
                text_at(item, "apiVersion", path),
                text_at(item, "kind", path),
                text_at(item, "name", path),
                text_at(item, "uid", path),
                flag_at(item, "controller", path),
            )
            for item, path in items_at(metadata, "ownerReferences", "metadata")
        ]
    )


_MOST_SHARED = 2  # owner references; a pod has one
_LONGEST_SHARED = 256  # characters of all of them


def shared_owners(owners: tuple[OwnerReference, ...]) -> tuple[OwnerReference, ...]:
    """Return one object for all equal owners of pods, if these are so few that many fit."""
    if len(owners) > _MOST_SHARED:
        return owners
    length = sum(len(one.api_version + one.kind + one.name + one.uid) for one in owners)
    return shared(owners) if length <= _LONGEST_SHARED else owners


def controller_of(owners: tuple[OwnerReference, ...]) -> OwnerReference | None:
    """Return the owner that controls, the last one if several claim to."""
    for owner in reversed(owners):
        if owner.controller:
            return owner
    return None


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition of a pod or a VPA."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition: datetime | None = None
    observed_generation: int | None = None


def read_conditions(status: Object) -> tuple[Condition, ...]:
    """Read the conditions of an object's status, in their order."""
    return tuple(
        Condition(
            type=shared_text(text_at(item, "type", path)),
            status=shared_text(text_at(item, "status", path)),
            reason=shared_text(text_at(item, "reason", path)),
            message=text_at(item, "message", path),
            last_transition=time_at(item, "lastTransitionTime", path),
            observed_generation=int64_at(item, "observedGeneration", path),
        )
        for item, path in items_at(status, "conditions", "status")
    )
