"""What controllers do all alike: make, take over, count and end pods, and tell of it."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

import orjson

from app.model.errors import ClusterError, Conflict, NotFound
from app.model.selectors import Selector
from app.ports import PODS, Json, Resource
from app.sandbox.clock import SteppedClock
from app.sandbox.kinds import Catalogue
from app.sandbox.objects import (
    Key,
    condition_of,
    controller_of,
    copied,
    is_active,
    is_deleted,
    is_ready,
    key_of,
    labels_of,
    owner_reference,
    seconds_since,
    uid_of,
)
from app.sandbox.recorder import Recorder
from app.sandbox.store import Store
from app.sandbox.writes import Edit, Writes

_HASH_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_HASH_LENGTH = 9


@dataclass(frozen=True, slots=True)
class PodControl:
    """The tools of a controller."""

    store: Store
    writes: Writes
    catalogue: Catalogue
    clock: SteppedClock
    recorder: Recorder

    def tell(
        self, resource: Resource, item: Json, reason: str, message: str, *, warning: bool = False
    ) -> None:
        """Tell something of an object that is controlled here."""
        component = f"{resource.kind.lower()}-controller"
        self.recorder.tell(component, resource, item, reason, message, warning=warning)

    def change(self, resource: Resource, key: Key, edit: Edit, subresource: str = "") -> None:
        """Change an object, if it is still there."""
        try:
            self.writes.change(self.catalogue.find(resource), key, edit, subresource=subresource)
        except NotFound:
            return

    def set_status(self, resource: Resource, item: Json, status: Json) -> None:
        """Put a new status into an object; what it does not speak of stays."""

        def renewed(found: Json) -> Json:
            if uid_of(found) == uid_of(item):
                found["status"] = {**(found.get("status") or {}), **status}
            return found

        if any((item.get("status") or {}).get(key) != value for key, value in status.items()):
            self.change(resource, key_of(item), renewed, "status")

    def delete(self, resource: Resource, item: Json) -> None:
        """Delete an object with all that it owns, if it is still there."""
        try:
            kind = self.catalogue.find(resource)
            self.writes.delete(kind, key_of(item), uid=uid_of(item), orphan=False)
        except (NotFound, Conflict):
            return

    def create_pod(
        self, resource: Resource, owner: Json, template: Json, *, name: str = ""
    ) -> None:
        """Create a pod of a template; without a name, one that begins with the owner's.

        Raises:
            ClusterError: the pod is refused; the owner's events tell why.
        """
        metadata = copied(template.get("metadata") or {})
        metadata["ownerReferences"] = [owner_reference(resource, owner)]
        if name:
            metadata["name"] = name
        else:
            metadata["generateName"] = f"{owner['metadata']['name']}-"
        body: Json = {"metadata": metadata, "spec": copied(template.get("spec") or {})}
        namespace = owner["metadata"]["namespace"]
        try:
            created = self.writes.create(self.catalogue.find(PODS), namespace, body)
        except ClusterError as error:
            message = f"Error creating: {error.message}"
            self.tell(resource, owner, "FailedCreate", message, warning=True)
            raise
        message = f"Created pod: {created['metadata']['name']}"
        self.tell(resource, owner, "SuccessfulCreate", message)

    def delete_pod(self, resource: Resource, owner: Json, pod: Json) -> None:
        """Delete a pod."""
        self.delete(PODS, pod)
        message = f"Deleted pod: {pod['metadata']['name']}"
        self.tell(resource, owner, "SuccessfulDelete", message)

    def pods_of(self, resource: Resource, owner: Json, selector: Selector) -> list[Json]:
        """Return the pods of a controller: strays that match are taken in, others let go."""
        uid, namespace = uid_of(owner), owner["metadata"]["namespace"]
        found = []
        for collection, pod in self.store.owned_by(uid):
            if collection != "pods":
                continue
            if is_deleted(owner) or selector.matches(labels_of(pod)):
                found.append(pod)
            elif not is_deleted(pod):
                self.change(PODS, key_of(pod), _without_owner(uid))
        for pod in self.store.ownerless("pods", namespace):
            if is_active(pod) and not is_deleted(owner) and selector.matches(labels_of(pod)):
                self.change(PODS, key_of(pod), _with_owner(owner_reference(resource, owner)))
                adopted = self.store.read("pods", key_of(pod))
                found += [adopted] if adopted is not None else []
        return sorted(found, key=lambda pod: str(pod["metadata"]["name"]))

    def owned(self, owner: Json, resource: Resource) -> list[Json]:
        """Return the objects of a kind that an owner controls."""
        collection = self.catalogue.find(resource).collection
        return [
            item
            for found, item in self.store.owned_by(uid_of(owner))
            if found == collection and (controller_of(item) or {}).get("uid") == uid_of(owner)
        ]


def template_hash(template: Json) -> str:
    """Return a short word that tells a pod template from others."""
    text = orjson.dumps(template, option=orjson.OPT_SORT_KEYS)
    number = int.from_bytes(hashlib.blake2s(text, digest_size=8).digest(), "big")
    letters = []
    for _ in range(_HASH_LENGTH):
        number, letter = divmod(number, len(_HASH_LETTERS))
        letters.append(_HASH_LETTERS[letter])
    return "".join(letters)


def with_labels(template: Json, labels: Mapping[str, str]) -> Json:
    """Return a template whose pods carry more labels."""
    metadata = template.get("metadata") or {}
    return {
        **template,
        "metadata": {**metadata, "labels": {**(metadata.get("labels") or {}), **labels}},
    }


def available_in_seconds(pod: Json, min_ready_seconds: float, now: datetime) -> float | None:
    """Return how long until a pod counts as available, 0 if it does; None if it is not Ready."""
    if not is_ready(pod) or is_deleted(pod):
        return None
    ready = condition_of(pod, "Ready") or {}
    return max(min_ready_seconds - seconds_since(ready, "lastTransitionTime", now), 0.0)


def soonest(waits: Iterable[float | None]) -> float | None:
    """Return the shortest wait that is still to come."""
    return min((wait for wait in waits if wait), default=None)


def _without_owner(uid: str) -> Callable[[Json], Json]:
    def edit(pod: Json) -> Json:
        owners = pod["metadata"].get("ownerReferences") or ()
        kept = [owner for owner in owners if owner.get("uid") != uid]
        pod["metadata"]["ownerReferences"] = kept
        return pod

    return edit


def _with_owner(reference: Json) -> Callable[[Json], Json]:
    def edit(pod: Json) -> Json:
        if controller_of(pod) is None:
            pod["metadata"].setdefault("ownerReferences", []).append(reference)
        return pod

    return edit


def pods_meant(value: object, total: int, *, round_up: bool) -> int:
    """Return how many pods `3` or `"25%"` of a total means; nonsense means none."""
    if isinstance(value, bool):
        return 0
    if isinstance(value, int):
        return value
    text = str(value or "")
    if not text.endswith("%") or not text[:-1].isdecimal():
        return 0
    share = int(text[:-1]) * total / 100
    return math.ceil(share) if round_up else math.floor(share)
