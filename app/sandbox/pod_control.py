"""What controllers do all alike: create, adopt, count and delete pods, and record events.

Strategy: as real recorders do, what is reported again of the same object counts up one event
instead of making another, so neither a crash loop nor a long run fills the store; after an hour
an event goes.
"""

from __future__ import annotations

import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from itertools import count

import orjson

from app.model.errors import ClusterError, Conflict, NotFound
from app.model.fields import time_at
from app.model.times import rfc3339
from app.ports import EVENTS, PODS, Json, Resource
from app.sandbox.metadata import LETTERS
from app.sandbox.objects import (
    Key,
    collection_of,
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
    selector_of,
    uid_of,
)
from app.sandbox.stepped_clock import REACTION_SECONDS
from app.sandbox.writes import Writes

Alter = Callable[[Json], object]  # changes a copy of an object in place

EVENTS_LIVE = timedelta(hours=1)

_SWEEP_SECONDS = 60.0
_LONGEST_MESSAGE = 1024

_HASH_LENGTH = 9


class EventWriter:
    """Writes events and takes away the old ones."""

    def __init__(self, writes: Writes) -> None:
        self._writes = writes
        self._store = writes.store
        self._clock = writes.clock
        self._numbers = count(1)
        self._told: dict[tuple[str, ...], Key] = {}
        self._clock.call_later(_SWEEP_SECONDS, self._sweep)

    def tell(
        self,
        component: str,
        resource: Resource,
        item: Json,
        reason: str,
        message: str,
        *,
        warning: bool = False,
        annotations: Json | None = None,
    ) -> None:
        """Tell something of an object."""
        metadata = item["metadata"]
        about = (metadata["uid"], component, reason, message)
        now = rfc3339(self._clock.now())
        namespace = metadata.get("namespace") or "default"
        event: Json = {
            "metadata": {
                "name": f"{metadata['name']}.{next(self._numbers):016x}",
                "namespace": namespace,
                "annotations": annotations,
            },
            "involvedObject": _reference(resource, metadata),
            "reason": reason,
            "message": message[:_LONGEST_MESSAGE],
            "type": "Warning" if warning else "Normal",
            "source": {"component": component},
            "reportingComponent": component,
            "reportingInstance": "",
            "eventTime": None,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        with suppress(ClusterError):  # its namespace is on its way out
            key = self._told.get(about)
            if key is not None and self._store.read("events", key) is not None:
                self._writes.change(
                    EVENTS,
                    key,
                    lambda told: {**told, "lastTimestamp": now, "count": told["count"] + 1},
                )
            else:
                self._told[about] = key_of(self._writes.create(EVENTS, namespace, event))

    def _sweep(self) -> None:
        oldest = self._clock.now() - EVENTS_LIVE
        for event in self._store.items("events"):
            last = time_at(event, "lastTimestamp", "") or time_at(
                event["metadata"], "creationTimestamp", ""
            )
            if last is not None and last < oldest:
                self._writes.delete(EVENTS, key_of(event))
        there = {key_of(event) for event in self._store.items("events")}
        self._told = {about: key for about, key in self._told.items() if key in there}
        self._clock.call_later(_SWEEP_SECONDS, self._sweep)


def _reference(resource: Resource, metadata: Json) -> Json:
    return {
        "kind": resource.kind,
        "namespace": metadata.get("namespace", ""),
        "name": metadata["name"],
        "uid": metadata["uid"],
        "apiVersion": resource.api_version,
        "resourceVersion": metadata.get("resourceVersion", ""),
    }


class PodControl:
    """The tools of a controller."""

    def __init__(self, writes: Writes) -> None:
        self.writes = writes
        self.store = writes.store
        self.catalogue = writes.catalogue
        self.clock = writes.clock
        self.recorder = EventWriter(writes)

    def change(
        self, resource: Resource, item: Json, alter: Alter, subresource: str = ""
    ) -> Json | None:
        """Alter an object unless it was made again; return a copy, None if it is gone."""

        def altered(found: Json) -> Json:
            if uid_of(found) == uid_of(item):
                alter(found)
            return found

        try:
            return self.writes.change(resource, key_of(item), altered, subresource=subresource)
        except NotFound:
            return None

    def delete(self, resource: Resource, item: Json) -> None:
        """Delete an object with all that it owns, if it is still there."""
        with suppress(NotFound, Conflict):
            self.writes.delete(resource, key_of(item), uid=uid_of(item), orphan=False)


class Controller(ABC):
    """Makes what is into what the objects of one kind ask for."""

    resource: Resource
    first_look_seconds = REACTION_SECONDS  # after a change

    def __init__(self, control: PodControl) -> None:
        self._control = control

    def look(self, key: Key) -> float | None:
        """Look at an object; return after how many seconds to look again."""
        owner = self._control.store.read(collection_of(self.resource), key)
        return None if owner is None or is_deleted(owner) else self.move_on(owner)

    @abstractmethod
    def move_on(self, owner: Json, /) -> float | None:
        """Do what an object that is to stay asks for; return when to look again."""

    def tell(self, owner: Json, reason: str, message: str, *, warning: bool = False) -> None:
        """Tell something of an object as an event."""
        component = f"{self.resource.kind.lower()}-controller"
        tell = self._control.recorder.tell
        tell(component, self.resource, owner, reason, message, warning=warning)

    def set_status(self, owner: Json, status: Json) -> None:
        """Put a new status into an object; what it does not speak of stays."""

        def renew(found: Json) -> None:
            found["status"] = {**(found.get("status") or {}), **status}

        if any((owner.get("status") or {}).get(key) != value for key, value in status.items()):
            self._control.change(self.resource, owner, renew, "status")

    def create_pod(self, owner: Json, template: Json, *, name: str = "") -> None:
        """Create a pod of a template; without a name, one that begins with the owner's.

        Raises:
            ClusterError: the pod is refused; the owner's events tell why.
        """
        metadata = copied(template.get("metadata") or {})
        metadata["ownerReferences"] = [owner_reference(self.resource, owner)]
        if name:
            metadata["name"] = name
        else:
            metadata["generateName"] = f"{owner['metadata']['name']}-"
        body: Json = {"metadata": metadata, "spec": copied(template.get("spec") or {})}
        namespace = owner["metadata"]["namespace"]
        try:
            created = self._control.writes.create(PODS, namespace, body)
        except ClusterError as error:
            message = f"Error creating: {error.message}"
            self.tell(owner, "FailedCreate", message, warning=True)
            raise
        message = f"Created pod: {created['metadata']['name']}"
        self.tell(owner, "SuccessfulCreate", message)

    def delete_pod(self, owner: Json, pod: Json) -> None:
        """Delete a pod."""
        self._control.delete(PODS, pod)
        message = f"Deleted pod: {pod['metadata']['name']}"
        self.tell(owner, "SuccessfulDelete", message)

    def pods_of(self, owner: Json) -> list[Json]:
        """Return the pods of a controller: strays that match are taken in, others let go."""
        uid, namespace, selector = uid_of(owner), owner["metadata"]["namespace"], selector_of(owner)
        found = []
        for collection, pod in self._control.store.owned_by(uid):
            if collection != "pods":
                continue
            if is_deleted(owner) or selector.matches(labels_of(pod)):
                found.append(pod)
            elif not is_deleted(pod):
                self._control.change(PODS, pod, without_owner(uid))
        for pod in self._control.store.ownerless("pods", namespace):
            if is_active(pod) and not is_deleted(owner) and selector.matches(labels_of(pod)):
                self._control.change(PODS, pod, _with_owner(owner_reference(self.resource, owner)))
                adopted = self._control.store.read("pods", key_of(pod))
                found += [adopted] if adopted is not None else []
        return sorted(found, key=lambda pod: str(pod["metadata"]["name"]))

    def owned(self, owner: Json, resource: Resource) -> list[Json]:
        """Return the objects of a kind that an owner controls."""
        collection = collection_of(resource)
        return [
            item
            for found, item in self._control.store.owned_by(uid_of(owner))
            if found == collection and (controller_of(item) or {}).get("uid") == uid_of(owner)
        ]


def template_hash(template: Json) -> str:
    """Return a short word that tells a pod template from others."""
    text = orjson.dumps(template, option=orjson.OPT_SORT_KEYS)
    number = int.from_bytes(hashlib.blake2s(text, digest_size=8).digest(), "big")
    letters = []
    for _ in range(_HASH_LENGTH):
        number, letter = divmod(number, len(LETTERS))
        letters.append(LETTERS[letter])
    return "".join(letters)


def with_labels(template: Json, labels: Mapping[str, str]) -> Json:
    """Return a template whose pods carry more labels."""
    metadata = template.get("metadata") or {}
    return {
        **template,
        "metadata": {**metadata, "labels": {**(metadata.get("labels") or {}), **labels}},
    }


def availability(owner: Json, pods: Iterable[Json], now: datetime) -> tuple[int, float | None]:
    """Return how many pods are available, and in how many seconds another one will be."""
    least = owner["spec"].get("minReadySeconds") or 0
    waits = [
        least - seconds_since(condition_of(pod, "Ready"), now)
        for pod in pods
        if is_ready(pod) and not is_deleted(pod)
    ]
    available = sum(wait <= 0 for wait in waits)
    return available, min((wait for wait in waits if wait > 0), default=None)


def without_owner(uid: str) -> Alter:
    """Return the change that takes an owner out of an object."""

    def alter(pod: Json) -> None:
        owners = pod["metadata"].get("ownerReferences") or ()
        kept = [owner for owner in owners if owner.get("uid") != uid]
        pod["metadata"]["ownerReferences"] = kept

    return alter


def _with_owner(reference: Json) -> Alter:
    def alter(pod: Json) -> None:
        if controller_of(pod) is None:
            pod["metadata"].setdefault("ownerReferences", []).append(reference)

    return alter


def pods_meant(value: object, total: int, *, round_up: bool) -> int:
    """Return how many pods `3` or `"25%"` of a total means; nonsense means none."""
    if isinstance(value, int):
        return value
    text = str(value or "")
    if not text.endswith("%") or not text[:-1].isdecimal():
        return 0
    share = int(text[:-1]) * total / 100
    return math.ceil(share) if round_up else math.floor(share)
