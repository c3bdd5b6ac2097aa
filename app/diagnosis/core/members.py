"""Which pods each VPA is for, whether or not it may act on them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from app.model.kinds import ObjectKey
from app.model.pods import Pod
from app.model.snapshot import NamespaceView, Snapshot
from app.model.workloads import NOTHING_LOOKED_UP, Lookup, LookupResult
from app.sizing.matching import LookupNeeded, match_pod

VpaKey = tuple[str, str]  # namespace and name
FoundByNamespace = Mapping[str, Mapping[ObjectKey, LookupResult]]

_ENDED = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class Members:
    """Live pods by VPA, and the owners that would have to be known for more."""

    pods: Mapping[VpaKey, tuple[Pod, ...]]
    lookups: tuple[Lookup, ...]


def members(snapshot: Snapshot, looked_up: FoundByNamespace) -> Members:
    """Return the pods of all VPAs."""
    found: dict[VpaKey, list[Pod]] = {}
    lookups: dict[Lookup, None] = {}
    for namespace, view in snapshot.namespaces.items():
        if view.vpas:
            _of_namespace(view, looked_up.get(namespace, NOTHING_LOOKED_UP), found, lookups)
    return Members({key: tuple(pods) for key, pods in found.items()}, tuple(lookups))


def _of_namespace(
    view: NamespaceView,
    looked_up: Mapping[ObjectKey, LookupResult],
    found: dict[VpaKey, list[Pod]],
    lookups: dict[Lookup, None],
) -> None:
    for pod in view.pods.values():
        if pod.phase in _ENDED or pod.deleted is not None:
            continue
        match = match_pod(pod, view, looked_up, boosts=True, with_off=True)
        if isinstance(match, LookupNeeded):
            lookups[match.lookup] = None
        elif match.vpa is not None:
            found.setdefault((match.vpa.namespace, match.vpa.name), []).append(pod)
