"""The patches that resize a pod, and the annotations that are written and read for it.

Strategy: two requests, because the resize subresource drops everything but resources and a plain
patch may not touch them. Both apply only to the pod that was looked at. Annotations are merged
into what the pod carries by then, so those of others stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

from app.model.patches import Operation, add, test
from app.model.pods import (
    IN_PLACE_ANNOTATION,
    OBSERVED_ANNOTATION,
    UNBOOST_KEY_PREFIX,
    Container,
    Pod,
    vpa_at_creation,
)
from app.model.quantity import MEMORY, Quantity, in_order
from app.model.times import believed, rfc3339
from app.updater.core.decisions import ContainerChange, PodChange

_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)
UPDATED_AT_ANNOTATION: Final = "vpaInPlaceUpdatedAt"  # when, so that small changes can rest
UPDATED_BY_ANNOTATION: Final = "vpaInPlaceUpdatedBy"  # the VPA, for pods that change theirs
RAISED_ANNOTATION: Final = "vpaMemoryRaisedAt/"  # of a container, in answer to a kill for memory


def observed_containers(pod: Pod) -> frozenset[str] | None:
    """Return the containers that the webhook saw, None for all."""
    text = pod.annotation(OBSERVED_ANNOTATION)
    return None if text is None else _parse_observed(text)


@lru_cache(4096)
def _parse_observed(text: str) -> frozenset[str] | None:
    if not text:
        return frozenset()
    names = text.split(", ")
    return frozenset(names) if all(map(_NAME.fullmatch, names)) else None


def resize_patch(pod: Pod, change: PodChange) -> list[Operation]:
    """Return what is sent to the resize subresource; empty if there is nothing to resize."""
    operations = [
        operation
        for item in change.containers
        for operation in _of_container(pod.containers[item.index], item)
    ]
    return [test("/metadata/uid", pod.uid), *operations] if operations else []


def _of_container(container: Container, change: ContainerChange) -> list[Operation]:
    path: tuple[str | int, ...] = ("spec", *container.place)
    present, resources = container.resources, (*path, "resources")
    operations: list[Operation] = []
    if present.requests is None and present.limits is None and not present.has_other:
        operations.append(add(resources, {}))
    for word, had, amounts in (
        ("requests", present.requests, change.requests),
        ("limits", present.limits, change.limits),
    ):
        if amounts and had is None:
            operations.append(add((*resources, word), {}))
        operations += [
            add((*resources, word, name), str(amounts[name])) for name in in_order(amounts)
        ]
    return [test((*path, "name"), container.name), *operations] if operations else []


def annotation_patch(pod: Pod, change: PodChange) -> dict[str, object]:
    """Return the merge patch that is sent to the pod itself; empty if no annotation changes."""
    if not change.annotations:
        return {}
    # A uid is never changed: an API server refuses a patch with another one.
    return {"metadata": {"uid": pod.uid, "annotations": dict(change.annotations)}}


def updated_annotations(now: datetime | None, vpa: str = "") -> Iterable[tuple[str, str | None]]:
    """Return the annotations that an in-place update leaves; a time makes small changes rest.

    The name of the VPA is left by a resize to what it recommends.
    """
    yield IN_PLACE_ANNOTATION, "true"
    if now is not None:
        yield UPDATED_AT_ANNOTATION, rfc3339(now)
    if vpa:
        yield UPDATED_BY_ANNOTATION, vpa


def raised_annotations(
    pod: Pod, changes: Iterable[ContainerChange], now: datetime
) -> Iterable[tuple[str, str | None]]:
    """Return the annotations of containers that get more memory."""
    for change in changes:
        if any(old is None or new > old for old, new in _memory(pod, change)):
            yield RAISED_ANNOTATION + change.container, rfc3339(now)


def without_raised_annotations(
    pod: Pod, changes: Iterable[ContainerChange]
) -> Iterable[tuple[str, str | None]]:
    """Return what takes those annotations from containers whose memory goes back again."""
    for change in changes:
        key = RAISED_ANNOTATION + change.container
        is_less = any(old is not None and new < old for old, new in _memory(pod, change))
        if is_less and pod.annotation(key) is not None:
            yield key, None


def _memory(pod: Pod, change: ContainerChange) -> Iterator[tuple[Quantity | None, Quantity]]:
    """Yield the request and the limit of memory that a change writes, behind what they were."""
    asked = pod.containers[change.index].resources
    for amounts, before in ((change.requests, asked.request), (change.limits, asked.limit)):
        if MEMORY in amounts:
            yield before(MEMORY), amounts[MEMORY]


def memory_raised(pod: Pod, container: str, now: datetime) -> datetime | None:
    """Return when a container last got more memory in place, by its annotation."""
    return believed(read_time(pod.annotation(RAISED_ANNOTATION + container)), now)


def last_updated(pod: Pod, now: datetime) -> datetime | None:
    """Return when a pod was last updated in place, by its annotation."""
    return believed(read_time(pod.annotation(UPDATED_AT_ANNOTATION)), now)


def last_sized_by(pod: Pod) -> str:
    """Return the VPA that sized a pod last, in place or at its creation, empty if none did."""
    return pod.annotation(UPDATED_BY_ANNOTATION) or vpa_at_creation(pod)


def read_time(text: str | None) -> datetime | None:
    """Read a time from an annotation; what is none counts as absent."""
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError):  # the latter at both ends of the calendar
        return None


def returning_since(pod: Pod, now: datetime) -> datetime | None:
    """Return since when a pod is being brought back, None if it is not, or not readably."""
    texts = (pod.annotation(UNBOOST_KEY_PREFIX + name) for name in pod.returning_containers)
    times = [believed(read_time(text), now) for text in texts]
    return min((moment for moment in times if moment is not None), default=None)
