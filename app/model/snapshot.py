"""The cluster at one moment, by namespace.

Strategy: nearly every question stays inside a namespace, so a snapshot is a map of immutable
namespace views. A batch of changes copies only the maps that it touches, so an older snapshot
stays consistent. One table maps group and kind to a collection and a reader. Objects may come
from an API server, from files or from recordings; a kind that is not in the table is no error.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from typing import Any, NamedTuple

from app.model.errors import BadObject
from app.model.fields import Object, object_at, text_at
from app.model.kinds import BUILT_IN_KINDS, CacheKey, ObjectKey, group_of, owner_key
from app.model.limits import (
    NO_LIMITS,
    DisruptionBudget,
    LimitRange,
    NamespaceLimits,
    Node,
    combined_limits,
    read_disruption_budget,
    read_limit_range,
    read_node,
)
from app.model.pods import Pod, read_pod
from app.model.vpa import VPA_GROUP, VPA_KIND, Vpa, read_vpa, without_status
from app.model.workloads import Workload, read_workload


class Collection(StrEnum):
    """What a snapshot holds."""

    VPAS = "vpas"
    WORKLOADS = "workloads"
    LIMIT_RANGES = "limit_ranges"
    PODS = "pods"
    BUDGETS = "budgets"
    NODES = "nodes"


class Replacement(NamedTuple):
    """One object that was added, changed or (value None) deleted; the key: name or ObjectKey."""

    collection: Collection
    namespace: str
    key: Any
    value: Any


Targets = Mapping[ObjectKey, tuple[Vpa, ...]]


@dataclass(frozen=True, slots=True)
class NamespaceView:
    """The state of one namespace."""

    vpas: Mapping[str, Vpa] = field(default_factory=dict)
    workloads: Mapping[ObjectKey, Workload] = field(default_factory=dict)
    limit_ranges: Mapping[str, LimitRange] = field(default_factory=dict)
    pods: Mapping[str, Pod] = field(default_factory=dict)
    budgets: Mapping[str, DisruptionBudget] = field(default_factory=dict)
    limits: NamespaceLimits = NO_LIMITS
    targets: Targets = field(default_factory=dict)  # the strongest VPA first
    cache_key: CacheKey = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "cache_key", CacheKey())

    def rivals(self, key: ObjectKey) -> tuple[Vpa, ...]:
        """Return the VPAs that point at a controller, the strongest first."""
        return self.targets.get(key, ())


EMPTY_VIEW = NamespaceView()


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state of the cluster."""

    namespaces: Mapping[str, NamespaceView] = field(default_factory=dict)
    nodes: Mapping[str, Node] = field(default_factory=dict)

    def of(self, namespace: str) -> NamespaceView:
        """Return the view of a namespace, an empty one if it is unknown."""
        return self.namespaces.get(namespace, EMPTY_VIEW)

    def value(self, collection: Collection, namespace: str, key: Hashable) -> object:
        """Return one object, None if it is not known."""
        found = self if collection is Collection.NODES else self.of(namespace)
        objects: Mapping[Hashable, object] = getattr(found, collection.value)
        return objects.get(key)

    def changed(self, changes: Iterable[Replacement]) -> Snapshot:
        """Return the snapshot after a batch of changes."""
        by_namespace: dict[str, dict[Collection, dict[Any, Any]]] = {}
        for collection, namespace, key, value in changes:
            by_namespace.setdefault(namespace, {}).setdefault(collection, {})[key] = value
        namespaces = dict(self.namespaces)
        nodes = self.nodes
        for namespace, collections in by_namespace.items():
            if (new_nodes := collections.pop(Collection.NODES, None)) is not None:
                nodes = _with(nodes, new_nodes)
            if collections:
                view = _changed(namespaces.get(namespace, EMPTY_VIEW), collections)
                if view == EMPTY_VIEW:
                    namespaces.pop(namespace, None)  # else deleted namespaces would pile up
                else:
                    namespaces[namespace] = view
        return Snapshot(namespaces, nodes)


def _changed(view: NamespaceView, collections: dict[Collection, dict[Any, Any]]) -> NamespaceView:
    updates: dict[str, Any] = {
        collection.value: _with(getattr(view, collection.value), values)
        for collection, values in collections.items()
    }
    if Collection.VPAS in collections:
        changed = collections[Collection.VPAS]
        updates["targets"] = _targets(view.targets, view.vpas, updates["vpas"], changed)
    if Collection.LIMIT_RANGES in collections:
        updates["limits"] = combined_limits(updates["limit_ranges"].values())
    return replace(view, **updates)


def _with(before: Mapping[Any, Any], values: Mapping[Any, Any]) -> dict[Any, Any]:
    after = dict(before)
    for key, value in values.items():
        if value is None:
            after.pop(key, None)
        else:
            after[key] = value
    return after


def _targets(
    before: Targets, old: Mapping[str, Vpa], new: Mapping[str, Vpa], changed: Iterable[str]
) -> Targets:
    """Return the index of VPAs by target, updated where VPAs changed."""
    places: dict[ObjectKey, set[str]] = {}
    for name in changed:
        for vpa in (old.get(name), new.get(name)):
            if vpa is not None and vpa.target is not None:
                places.setdefault(vpa.target.key, set()).add(name)
    after = dict(before)
    for place, names in places.items():
        stay = [vpa for vpa in before.get(place, ()) if vpa.name not in names]
        come = [vpa for name in names if (vpa := new.get(name)) and _place(vpa) == place]
        if rivals := tuple(sorted(stay + come, key=lambda vpa: vpa.precedence)):
            after[place] = rivals
        else:
            after.pop(place, None)
    return after


def _place(vpa: Vpa) -> ObjectKey | None:
    return vpa.target.key if vpa.target else None


class ObjectReader(NamedTuple):
    """Where objects of a kind belong and how they are read."""

    collection: Collection
    read: Callable[[Object], Any]


_READINGS = {
    (VPA_GROUP, VPA_KIND): ObjectReader(Collection.VPAS, read_vpa),
    ("", "Pod"): ObjectReader(Collection.PODS, read_pod),
    ("", "LimitRange"): ObjectReader(Collection.LIMIT_RANGES, read_limit_range),
    ("", "Node"): ObjectReader(Collection.NODES, read_node),
    ("policy", "PodDisruptionBudget"): ObjectReader(Collection.BUDGETS, read_disruption_budget),
}


def object_reader(api_version: str, kind: str) -> ObjectReader | None:
    """Return how objects of a kind are read, None if no snapshot holds them."""
    if kind in BUILT_IN_KINDS and owner_key(api_version, kind, "").is_built_in:
        read = partial(read_workload, kind=kind, api_version=api_version)
        return ObjectReader(Collection.WORKLOADS, read)
    return _READINGS.get((group_of(api_version), kind))


def object_identity(item: Object) -> tuple[str, str, str, str]:
    """Return apiVersion, kind, namespace and name of an object; no namespace means `default`."""
    metadata = object_at(item, "metadata", "")
    return (
        text_at(item, "apiVersion", ""),
        text_at(item, "kind", ""),
        text_at(metadata, "namespace", "metadata") or "default",
        text_at(metadata, "name", "metadata"),
    )


def replacement(item: Object) -> Replacement | None:
    """Return an object as the change that brings it into a snapshot, None if it has no place."""
    api_version, kind, namespace, name = object_identity(item)
    reader = object_reader(api_version, kind)
    if reader is None:
        return None
    in_place = dict(item, metadata={**object_at(item, "metadata", ""), "namespace": namespace})
    return Replacement(
        reader.collection, namespace, _key(reader, api_version, kind, name), reader.read(in_place)
    )


def without_broken_status(item: Object, error: BadObject) -> Object:
    """Return an object that could not be read without its status, which is what is wrong with it.

    Raises:
        BadObject: something else is wrong; it is the error handed in.
    """
    if not error.path.startswith("status"):
        raise error
    return without_status(item)


def removal(api_version: str, kind: str, namespace: str, name: str) -> Replacement | None:
    """Return the change that takes an object out of a snapshot."""
    reader = object_reader(api_version, kind)
    if reader is None:
        return None
    return Replacement(reader.collection, namespace, _key(reader, api_version, kind, name), None)


def _key(reader: ObjectReader, api_version: str, kind: str, name: str) -> str | ObjectKey:
    return owner_key(api_version, kind, name) if reader.collection is Collection.WORKLOADS else name
