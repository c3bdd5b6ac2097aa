"""The JSON patch that brings sizes and marks into a pod.

Strategy: operations are built by path and never by comparing objects, so nothing that we do not
know can be lost. Maps are created only where they are missing; a present `resources` object is
never replaced, for it may hold more than requests and limits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from app.core.boost import Boosted
from app.core.scaling import in_order
from app.core.sizing import Sizes
from app.model.patches import Operation, add, pointer
from app.model.pods import OBSERVED_ANNOTATION, UPDATES_ANNOTATION, Container, Pod
from app.model.quantity import CPU

_PLAIN_NAMES = {"cpu": "/cpu", "memory": "/memory"}


class Patched(Protocol):
    """What one container gets."""

    @property
    def sizes(self) -> Sizes:
        """Its requests and limits without a boost."""
        ...

    @property
    def boost(self) -> Boosted | None:
        """Its boost, if it gets one."""
        ...


def pod_patch(pod: Pod, vpa: str, containers: Sequence[Patched]) -> list[Operation]:
    """Return the operations for a pod that a VPA controls; containers in the pod's order."""
    operations: list[Operation] = []
    if pod.annotations is None:
        operations.append(add("/metadata/annotations", {}))
    updates: list[str] = []
    for index, (container, patched) in enumerate(zip(pod.containers, containers, strict=True)):
        if patched.boost is not None:
            path = pointer("metadata", "annotations", patched.boost.annotation)
            operations.append(add(path, patched.boost.original))
        found, words = _container_patch(index, container, patched)
        operations += found
        if found:
            updates.append(f"container {index}: {', '.join(words)}")
    if updates:
        told = f"Pod resources updated by {vpa}: {'; '.join(updates)}"
        operations.append(add(f"/metadata/annotations/{UPDATES_ANNOTATION}", told))
    observed = ", ".join(container.name for container in pod.containers)
    operations.append(add(f"/metadata/annotations/{OBSERVED_ANNOTATION}", observed))
    return operations


def _container_patch(
    index: int, container: Container, patched: Patched
) -> tuple[list[Operation], list[str]]:
    requests, limits = patched.sizes.requests, patched.sizes.limits
    if patched.boost is not None:
        requests = {**requests, CPU: patched.boost.request}
        if patched.boost.limit is not None:
            limits = {**limits, CPU: patched.boost.limit}
    if not requests and not limits:
        return [], []
    path = f"/spec/containers/{index}/resources"
    current = container.resources
    operations: list[Operation] = []
    if current.requests is None and current.limits is None and not current.has_other:
        operations.append(add(path, {}))
    words = list(patched.sizes.notes)
    for kind, present, amounts in (
        ("request", current.requests, requests),
        ("limit", current.limits, limits),
    ):
        if not amounts:
            continue
        at = f"{path}/{kind}s"
        if present is None:
            operations.append(add(at, {}))
        for resource in in_order(amounts):
            name = _PLAIN_NAMES.get(resource) or pointer(resource)
            operations.append(add(at + name, str(amounts[resource])))
            words.append(f"{resource} {kind}")
    return operations, words
