"""Reads any object that a snapshot can hold.

Strategy: one table from group and kind to a collection and a reader. Objects may come from an
API server, from files or from recordings; a kind that is not in the table is not an error.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from app.model.errors import BadObject
from app.model.fields import Object, object_at, text_at
from app.model.kinds import BUILT_IN_KINDS, ObjectKey, group_of, owner_key
from app.model.limits import read_disruption_budget, read_limit_range
from app.model.nodes import read_node
from app.model.pods import read_pod
from app.model.snapshot import Collection, Replacement
from app.model.vpa import read_vpa, without_status
from app.model.workloads import read_workload

VPA_GROUP = "autoscaling.k8s.io"


class Reading(NamedTuple):
    """Where objects of a kind belong and how they are read."""

    collection: Collection
    read: Callable[[Object], Any]


_READINGS = {
    (VPA_GROUP, "VerticalPodAutoscaler"): Reading(Collection.VPAS, read_vpa),
    ("", "Pod"): Reading(Collection.PODS, read_pod),
    ("", "LimitRange"): Reading(Collection.LIMIT_RANGES, read_limit_range),
    ("", "Node"): Reading(Collection.NODES, read_node),
    ("policy", "PodDisruptionBudget"): Reading(Collection.BUDGETS, read_disruption_budget),
}


def reading(api_version: str, kind: str) -> Reading | None:
    """Return how objects of a kind are read, None if no snapshot holds them."""
    if kind in BUILT_IN_KINDS and owner_key(api_version, kind, "").is_built_in:
        read = partial(read_workload, kind=kind, api_version=api_version)
        return Reading(Collection.WORKLOADS, read)
    return _READINGS.get((group_of(api_version), kind))


def identity(item: Object) -> tuple[str, str, str, str]:
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
    api_version, kind, namespace, name = identity(item)
    found = reading(api_version, kind)
    if found is None:
        return None
    in_place = dict(item, metadata={**object_at(item, "metadata", ""), "namespace": namespace})
    return Replacement(
        found.collection, namespace, _key(found, api_version, kind, name), found.read(in_place)
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
    found = reading(api_version, kind)
    if found is None:
        return None
    return Replacement(found.collection, namespace, _key(found, api_version, kind, name), None)


def _key(found: Reading, api_version: str, kind: str, name: str) -> str | ObjectKey:
    return owner_key(api_version, kind, name) if found.collection is Collection.WORKLOADS else name
