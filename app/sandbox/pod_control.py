"""Events: what the sandbox's controllers and kubelet tell of objects, for an hour.

Strategy: as real recorders do, what is told again of the same object counts up one event instead
of making another, so neither a crash loop nor a long run fills the store.
"""

from __future__ import annotations

from collections import OrderedDict
from datetime import timedelta
from itertools import count

from app.model.errors import ClusterError, NotFound
from app.model.fields import time_at
from app.model.times import rfc3339
from app.ports import EVENTS, Json, Resource
from app.sandbox.clock import SteppedClock
from app.sandbox.kinds import Catalogue
from app.sandbox.objects import Key, key_of
from app.sandbox.store import Store
from app.sandbox.writes import Writes

EVENTS_LIVE = timedelta(hours=1)

_SWEEP_SECONDS = 60.0
_REMEMBERED = 4096  # events that may be counted up
_LONGEST_MESSAGE = 1024


class Recorder:
    """Writes events and takes away the old ones."""

    def __init__(
        self, store: Store, writes: Writes, catalogue: Catalogue, clock: SteppedClock
    ) -> None:
        self._store = store
        self._writes = writes
        self._kind = catalogue.find(EVENTS)
        self._clock = clock
        self._numbers = count(1)
        self._told: OrderedDict[tuple[str, ...], Key] = OrderedDict()
        clock.call_later(_SWEEP_SECONDS, self._sweep)

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
        event = {
            "metadata": {
                "name": f"{metadata['name']}.{next(self._numbers):016x}",
                "namespace": metadata.get("namespace") or "default",
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
        }
        try:
            if not self._counted_up(about):
                self._told[about] = self._created(event)
        except ClusterError:
            return  # its namespace is on its way out; nobody wants to know
        while len(self._told) > _REMEMBERED:
            self._told.popitem(last=False)

    def _created(self, event: Json) -> Key:
        now = rfc3339(self._clock.now())
        body = event | {"firstTimestamp": now, "lastTimestamp": now, "count": 1}
        created = self._writes.create(self._kind, event["metadata"]["namespace"], body)
        return key_of(created)

    def _counted_up(self, about: tuple[str, ...]) -> bool:
        key = self._told.get(about)
        if key is None:
            return False
        now = rfc3339(self._clock.now())

        def once_more(event: Json) -> Json:
            event["count"] = event.get("count", 1) + 1
            event["lastTimestamp"] = now
            return event

        try:
            self._writes.change(self._kind, key, once_more)
        except NotFound:
            return False
        self._told.move_to_end(about)
        return True

    def _sweep(self) -> None:
        oldest = self._clock.now() - EVENTS_LIVE
        for event in self._store.items(self._kind.collection):
            last = time_at(event, "lastTimestamp", "") or time_at(
                event["metadata"], "creationTimestamp", ""
            )
            if last is not None and last < oldest:
                self._writes.delete(self._kind, key_of(event))
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
