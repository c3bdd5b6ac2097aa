"""Which containers of a pod run at the same time, so that their sums count against its bounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from app.model.pods import Container, Pod, Resources


class RunningTogether(NamedTuple):
    """Containers of a pod that run at the same time."""

    names: frozenset[str]  # of those that may be changed
    others: tuple[Resources, ...]


def running_together(pod: Pod) -> tuple[RunningTogether, ...]:
    """Return what runs at the same time: all that lasts, then what does so before, at the start.

    A kubelet starts init containers in their order, each beside the sidecars in front of it; what
    only holds containers that are not changed is left out.
    """
    sidecars = [one for one in (*pod.containers, *pod.init_containers) if one.is_sidecar]
    lasting = frozenset(one.name for one in pod.containers)
    found = [RunningTogether(lasting, _not_among(lasting, sidecars))]
    for starting in pod.init_containers:
        ahead = [one for one in sidecars if one.place < starting.place]
        if not starting.is_sidecar and (names := lasting & {one.name for one in ahead}):
            others = (starting.resources, *_not_among(names, ahead))
            found.append(RunningTogether(names, others))
    return tuple(found)


def _not_among(names: frozenset[str], containers: Sequence[Container]) -> tuple[Resources, ...]:
    return tuple(one.resources for one in containers if one.name not in names)
