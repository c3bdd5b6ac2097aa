"""Workloads that no VPA targets, and VPAs in mode Off for them.

Strategy: a VPA has to name the topmost controller that can be scaled, so workloads are followed up
to it, from built-in ones and from pods. Names follow from namespaces alone: equal clusters give
equal VPAs, and who applies them and asks again gets none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from app.diagnosis.core.members import FoundByNamespace
from app.model.fields import Json
from app.model.kinds import ObjectKey, OwnerReference
from app.model.snapshot import NamespaceView, Snapshot
from app.model.update_modes import UpdateMode
from app.model.vpa import VPA_GROUP, VPA_KIND
from app.model.workloads import NOTHING_LOOKED_UP, Lookup, Workload
from app.sizing.matching import LookupNeeded, MatchReason, topmost

_ONCE = "Job"  # such pods run once: what is learned comes too late for them

_API_VERSIONS = {
    **dict.fromkeys(("DaemonSet", "Deployment", "ReplicaSet", "StatefulSet"), "apps/v1"),
    **dict.fromkeys(("CronJob", "Job"), "batch/v1"),
    "ReplicationController": "v1",
}


@dataclass(frozen=True, slots=True)
class TopWorkload:
    """A topmost controller, and the VPA that targets it if there is one."""

    namespace: str
    key: ObjectKey
    api_version: str
    vpa_name: str  # of the one that targets it, else the name that a new one would have
    is_covered: bool

    @property
    def runs_once(self) -> bool:
        """Whether its pods end before anything could be recommended for them."""
        return self.key.is_built_in and self.key.kind == _ONCE

    @property
    def vpa(self) -> Json:
        """A VPA that shows recommendations for it, and changes nothing."""
        target = {"apiVersion": self.api_version, "kind": self.key.kind, "name": self.key.name}
        return {
            "apiVersion": f"{VPA_GROUP}/v1",
            "kind": VPA_KIND,
            "metadata": {"name": self.vpa_name, "namespace": self.namespace},
            "spec": {"targetRef": target, "updatePolicy": {"updateMode": UpdateMode.OFF.value}},
        }


@dataclass(frozen=True, slots=True)
class TopWorkloads:
    """The topmost controllers, and why others are not known."""

    found: Sequence[TopWorkload]
    unknown: Mapping[str, str]  # by namespace


def top_workloads(
    snapshot: Snapshot, looked_up: FoundByNamespace
) -> tuple[TopWorkloads, Sequence[Lookup]]:
    """Return the topmost controllers, and the owners that would have to be known for more."""
    found: list[TopWorkload] = []
    unknown: dict[str, str] = {}
    lookups: dict[Lookup, None] = {}
    for namespace, view in sorted(snapshot.namespaces.items()):
        tops: dict[ObjectKey, str] = {}
        for owner in _owners(view):
            known = looked_up.get(namespace, NOTHING_LOOKED_UP)
            top = topmost(owner, namespace, view, known)
            if isinstance(top, LookupNeeded):
                lookups[top.lookup] = None
            elif isinstance(top, Workload):
                tops[top.key] = _api_version(top.key, view)
            elif top.reason is MatchReason.OWNER_UNKNOWN:
                unknown.setdefault(namespace, f"{owner.key}: its owner {top.message}")
        found += _named(namespace, view, tops)
    return TopWorkloads(found, unknown), tuple(lookups)


def _owners(view: NamespaceView) -> Iterator[OwnerReference]:
    """Yield the controllers of a namespace, as owners of something."""
    for key in view.workloads:
        yield OwnerReference(_API_VERSIONS[key.kind], key.kind, key.name, "", controller=True)
    controllers = (pod.controller for pod in view.pods.values())
    yield from {one.key: one for one in controllers if one is not None}.values()


def _api_version(key: ObjectKey, view: NamespaceView) -> str:
    """Return the version by which those call a controller that it owns."""
    if key.is_built_in:
        return _API_VERSIONS[key.kind]
    below = (one.owner for one in view.workloads.values())
    pods = (pod.controller for pod in view.pods.values())
    return next(one.api_version for one in (*below, *pods) if one is not None and one.key == key)


def _named(
    namespace: str, view: NamespaceView, tops: Mapping[ObjectKey, str]
) -> Iterator[TopWorkload]:
    counts = Counter(key.name for key in tops)
    for key in sorted(tops, key=lambda one: (one.name, one.kind, one.group)):
        rivals = view.rivals(key)
        name = key.name
        if counts[name] > 1 or name in view.vpas:
            name = f"{key.name}-{key.kind.lower()}"
        if name in view.vpas:
            name = f"{name}-vpa"
        shown = rivals[0].name if rivals else name
        yield TopWorkload(namespace, key, tops[key], shown, bool(rivals))
