"""The cluster at one moment, by namespace.

Strategy: nearly every question stays inside a namespace, so a snapshot is a map of immutable
namespace views. A batch of changes copies only the maps that it touches, so an older snapshot
stays consistent. One table maps group and kind to a collection and a reader. Objects may come
from an API server, from files or from recordings; a kind that is not in the table is no error.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from typing import Any, NamedTuple, TypeVar

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
from app.model.pod_roles import NO_ROLES, Roles, RoleSources, names_lease, role_change
from app.model.pods import Pod, read_pod
from app.model.role_leases import LeaseStanding, first_standing
from app.model.scalers import (
    HPA_KIND,
    SCALED_OBJECT_KIND,
    HorizontalScaler,
    coupled_metrics,
    read_hpa,
    read_scaled_object,
    scaler_key,
)
from app.model.update_modes import read_pausing_namespace
from app.model.vpa import VPA_GROUP, VPA_KIND, Vpa, read_vpa, without_status
from app.model.workloads import Workload, read_workload


class Collection(StrEnum):
    """What a snapshot holds."""

    VPAS = "vpas"
    WORKLOADS = "workloads"
    LIMIT_RANGES = "limit_ranges"
    PODS = "pods"
    BUDGETS = "budgets"
    SCALERS = "scalers"
    LEASES = "leases"
    NODES = "nodes"
    PAUSED_NAMESPACES = "paused_namespaces"


_CLUSTER_WIDE = (Collection.NODES, Collection.PAUSED_NAMESPACES)


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
    scalers: Mapping[ObjectKey, HorizontalScaler] = field(default_factory=dict)
    leases: Mapping[str, LeaseStanding] = field(default_factory=dict)  # that decide about roles
    roles: Roles = NO_ROLES
    limits: NamespaceLimits = NO_LIMITS
    targets: Targets = field(default_factory=dict)  # the strongest VPA first
    cache_key: CacheKey = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "cache_key", CacheKey())

    def rivals(self, key: ObjectKey) -> tuple[Vpa, ...]:
        """Return the VPAs that point at a controller, the strongest first."""
        return self.targets.get(key, ())

    def pods_by_lease(self, lease: str) -> Iterator[Pod]:
        """Yield the pods whose roles a Lease decides about."""
        for name in sorted(self.roles.pods.get(lease, ())):
            yield self.pods[name]


EMPTY_VIEW = NamespaceView()


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state of the cluster."""

    namespaces: Mapping[str, NamespaceView] = field(default_factory=dict)
    nodes: Mapping[str, Node] = field(default_factory=dict)
    paused_namespaces: Mapping[str, str] = field(default_factory=dict)  # with what pauses them

    def of(self, namespace: str) -> NamespaceView:
        """Return the view of a namespace, an empty one if it is unknown."""
        return self.namespaces.get(namespace, EMPTY_VIEW)

    def value(self, collection: Collection, namespace: str, key: Hashable) -> object:
        """Return one object, None if it is not known."""
        found = self if collection in _CLUSTER_WIDE else self.of(namespace)
        objects: Mapping[Hashable, object] = getattr(found, collection.value)
        return objects.get(key)

    def changed(self, changes: Iterable[Replacement]) -> Snapshot:
        """Return the snapshot after a batch of changes."""
        by_namespace: dict[str, dict[Collection, dict[Any, Any]]] = {}
        for collection, namespace, key, value in changes:
            by_namespace.setdefault(namespace, {}).setdefault(collection, {})[key] = value
        namespaces = dict(self.namespaces)
        wide: dict[str, Any] = {}
        for namespace, collections in by_namespace.items():
            for one in _CLUSTER_WIDE:
                if (values := collections.pop(one, None)) is not None:
                    wide[one.value] = _with(wide.get(one.value, getattr(self, one.value)), values)
            if collections:
                view = _changed(namespaces.get(namespace, EMPTY_VIEW), collections)
                if view == EMPTY_VIEW:
                    namespaces.pop(namespace, None)  # else deleted namespaces would pile up
                else:
                    namespaces[namespace] = view
        return replace(self, namespaces=namespaces, **wide)


def _changed(view: NamespaceView, collections: dict[Collection, dict[Any, Any]]) -> NamespaceView:
    vpas = collections.pop(Collection.VPAS, {})
    updates: dict[str, Any] = {
        collection.value: _with(getattr(view, collection.value), values)
        for collection, values in collections.items()
    }
    if Collection.LIMIT_RANGES in collections:
        updates["limits"] = combined_limits(updates["limit_ranges"].values())
    after = replace(view, **updates)
    vpas = _with_scalers(_rescaled(view, after, collections) | vpas, after)
    after = _with_vpas(after, vpas)
    if view.roles is NO_ROLES and not any(map(names_lease, vpas.values())):
        return after
    return _with_roles(view, after, collections.get(Collection.PODS, {}))


def _with_vpas(view: NamespaceView, vpas: Mapping[str, Vpa | None]) -> NamespaceView:
    if not vpas:
        return view
    known = _with(view.vpas, vpas)
    return replace(view, vpas=known, targets=_targets(view.targets, view.vpas, known, vpas))


def _with_roles(
    before: NamespaceView, after: NamespaceView, changed: Iterable[str]
) -> NamespaceView:
    """Return a namespace in which labels follow the Leases that its VPAs name."""
    was, now = (
        RoleSources(one.vpas, one.leases, one.workloads, one.pods) for one in (before, after)
    )
    roles, pods, vpas = role_change(before.roles, was, now, tuple(changed))
    after = _with_vpas(after, vpas)
    return replace(after, roles=roles, pods=_with(after.pods, pods) if pods else after.pods)


def _with(before: Mapping[Any, Any], values: Mapping[Any, Any]) -> dict[Any, Any]:
    after = dict(before)
    for key, value in values.items():
        if value is None:
            after.pop(key, None)
        else:
            after[key] = value
    return after


def _rescaled(
    before: NamespaceView, after: NamespaceView, collections: Mapping[Collection, Iterable[Any]]
) -> dict[str, Vpa]:
    """Return the VPAs that changes of scalers, or of what these scale, may concern."""
    both = before, after
    changed = collections.get(Collection.SCALERS, ())
    targets = {one.target for key in changed for view in both if (one := view.scalers.get(key))}
    moved = {
        key
        for key in (collections.get(Collection.WORKLOADS, ()) if after.scalers else ())
        if _owner(key, before) != _owner(key, after)
    }
    for one in after.scalers.values() if moved else ():
        if any(not moved.isdisjoint(_lineage(one.target, view)) for view in both):
            targets.add(one.target)
    keys = {key for target in targets for view in both for key in _lineage(target, view)}
    return {vpa.name: vpa for key in keys for vpa in before.rivals(key)}


def _owner(key: ObjectKey, view: NamespaceView) -> ObjectKey | None:
    workload = view.workloads.get(key)
    return None if workload is None or workload.owner is None else workload.owner.key


def _lineage(key: ObjectKey, view: NamespaceView) -> Iterator[ObjectKey]:
    """Yield a controller and its owners, whose VPAs size its pods."""
    seen: set[ObjectKey] = set()
    above: ObjectKey | None = key
    while above is not None and above not in seen:
        seen.add(above)
        yield above
        above = _owner(above, view)


def _with_scalers(vpas: Mapping[str, Vpa | None], view: NamespaceView) -> dict[str, Vpa | None]:
    """Return VPAs that know what scales their targets, or what these own."""
    by_target: dict[ObjectKey, list[HorizontalScaler]] = {}
    for one in view.scalers.values() if vpas else ():
        for key in _lineage(one.target, view):
            by_target.setdefault(key, []).append(one)
    return {name: vpa and _scaled(vpa, by_target) for name, vpa in vpas.items()}


def _scaled(vpa: Vpa, by_target: Mapping[ObjectKey, Sequence[HorizontalScaler]]) -> Vpa:
    found = by_target.get(vpa.target.key, ()) if vpa.target is not None else ()
    metrics = tuple(coupled_metrics(found))
    return vpa if metrics == vpa.scaled_by else replace(vpa, scaled_by=metrics)


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
    ("", "Namespace"): ObjectReader(Collection.PAUSED_NAMESPACES, read_pausing_namespace),
    ("policy", "PodDisruptionBudget"): ObjectReader(Collection.BUDGETS, read_disruption_budget),
    ("autoscaling", HPA_KIND): ObjectReader(Collection.SCALERS, read_hpa),
    ("keda.sh", SCALED_OBJECT_KIND): ObjectReader(Collection.SCALERS, read_scaled_object),
    ("coordination.k8s.io", "Lease"): ObjectReader(Collection.LEASES, first_standing),
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
    match reader.collection:
        case Collection.WORKLOADS:
            return owner_key(api_version, kind, name)
        case Collection.SCALERS:
            return scaler_key(kind, name)
        case _:
            return name


T = TypeVar("T")


def in_turns(items: Mapping[str, Iterable[T]], first: int) -> Iterator[T]:
    """Yield one item of each namespace, then another one of each; `first` says which begins.

    So what one of them has much of holds up no other.
    """
    queues = deque(iter(of_one) for of_one in items.values())
    queues.rotate(-first)
    while queues:
        queue = queues.popleft()
        for item in queue:
            yield item
            queues.append(queue)
            break
