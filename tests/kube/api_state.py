"""What the API server of the tests knows: objects, versions, open watches, faults.

Strategy: honest where clients look. Versions grow with every write, watches replay from a
version, compacted versions and list tokens are gone. Faults are ordered ahead of time (`fail`,
`holding`) or done to live watches (`order`). Nothing here sleeps; tests wait on conditions.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import orjson

from app.ports import Json, Resource

PATIENCE_SECONDS = 20.0

Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Request:
    """What a client sent."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes

    @property
    def watching(self) -> bool:
        """Whether this opens a watch."""
        return "watch" in self.query

    @property
    def json(self) -> Json:
        """The body, read."""
        found: Json = orjson.loads(self.body)
        return found


@dataclass(frozen=True, slots=True)
class Fault:
    """An answer in place of the real one; with a gate, the real one, but later.

    Without gate and status the connection is closed, as if the server had just ended.
    """

    path: str  # a part of the path, or of the names in the query behind it
    status: int = 0
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    watching: bool | None = None  # None: lists and watches alike
    gate: threading.Event | None = None

    def hits(self, request: Request) -> bool:
        """Whether this is meant for a request."""
        sent = f"{request.path}?{'&'.join(request.query)}"
        return self.path in sent and self.watching in {None, request.watching}


@dataclass(eq=False, slots=True)
class Watch:
    """A watch that is open; `orders` are lines to send or ways to end."""

    resource: Resource
    namespace: str
    orders: deque[bytes | str] = field(default_factory=deque)


class ApiState:
    """The cluster behind the server, with these resources; everything else is 404."""

    def __init__(self, *resources: Resource) -> None:
        self.changed = threading.Condition()
        self.served = list(resources)
        self.objects: dict[Resource, dict[Key, Json]] = {one: {} for one in resources}
        self.scales: dict[tuple[Resource, str, str], Json] = {}
        self.history: list[tuple[int, Resource, str, Json]] = []
        self.version = 100
        self.compacted = 0
        self.rests: dict[str, tuple[str, list[Json]]] = {}  # of lists, by continue token
        self.token = ""  # what clients must send, if anything
        self.date = ""  # what the server believes it is, if not the real time
        self.faults: list[Fault] = []
        self.requests: list[Request] = []
        self.watches: list[Watch] = []
        self.stopping = False

    # What happens in the cluster

    def put(
        self, resource: Resource, name: str, namespace: str = "default", **fields: Json
    ) -> Json:
        """Create or change an object."""
        with self.changed:
            namespace = namespace if resource.namespaced else ""
            metadata = {"name": name, **fields.pop("metadata", {})}
            metadata |= {"namespace": namespace} if namespace else {}
            head = {"apiVersion": resource.api_version, "kind": resource.kind}
            return self.store(resource, {**head, "metadata": metadata, **fields})

    def store(self, resource: Resource, item: Json) -> Json:
        """Keep an object under a new version and tell the watches."""
        with self.changed:
            key = key_of(item)
            before = self.objects[resource].get(key)
            uid = before["metadata"]["uid"] if before else f"uid-{self.version + 1}"
            change = "MODIFIED" if before else "ADDED"
            stored = self._at_new_version({**item, "metadata": {"uid": uid, **item["metadata"]}})
            self.objects[resource][key] = stored
            self._tell(resource, change, stored)
            return stored

    def remove(self, resource: Resource, name: str, namespace: str = "default") -> None:
        """Delete an object."""
        with self.changed:
            key = (namespace if resource.namespaced else "", name)
            gone = self._at_new_version(self.objects[resource].pop(key))
            self._tell(resource, "DELETED", gone)

    def _at_new_version(self, item: Json) -> Json:
        self.version += 1
        return {**item, "metadata": {**item["metadata"], "resourceVersion": str(self.version)}}

    def _tell(self, resource: Resource, change: str, item: Json) -> None:
        self.history.append((self.version, resource, change, item))
        for watch in self.watches:
            if watch.resource == resource and watch.namespace in {"", key_of(item)[0]}:
                watch.orders.append(line_of(change, item))
        self.changed.notify_all()

    # What goes wrong

    def fail(
        self,
        path: str,
        status: int,
        *,
        body: Json | bytes = b"",
        headers: dict[str, str] | None = None,
        times: int = 1,
        watching: bool | None = None,
    ) -> None:
        """Answer the next requests whose path holds `path` in this way."""
        sent = body if isinstance(body, bytes) else orjson.dumps(body)
        with self.changed:
            self.faults += [Fault(path, status, sent, headers or {}, watching)] * times

    @contextmanager
    def holding(self, path: str) -> Iterator[threading.Event]:
        """Let requests whose path holds `path` wait until the block or its event ends."""
        gate = threading.Event()
        fault = Fault(path, gate=gate)
        with self.changed:
            self.faults.append(fault)
        try:
            yield gate
        finally:
            with self.changed:
                self.faults.remove(fault)
            gate.set()

    def compact(self) -> None:
        """Forget all history and all list tokens: older versions are gone from now on."""
        with self.changed:
            self.version += 1
            self.compacted = self.version
            self.history.clear()
            self.rests.clear()

    def order(self, resource: Resource, *orders: bytes | str) -> None:
        """Send lines on the open watches of a resource, or end them.

        Words: `end` in good manners, `drop` without, `freeze` for silence ever after.
        """
        with self.changed:
            for watch in self.watches:
                if watch.resource == resource:
                    watch.orders.extend(orders)
            self.changed.notify_all()

    def bookmark(self, resource: Resource) -> None:
        """Send a bookmark at the present version."""
        metadata = {"resourceVersion": str(self.version)}
        self.order(resource, line_of("BOOKMARK", {"kind": resource.kind, "metadata": metadata}))

    # What a test waits for

    def wait_for(self, condition: Callable[[], bool]) -> None:
        """Wait until something holds that follows from what clients did."""
        with self.changed:
            assert self.changed.wait_for(condition, PATIENCE_SECONDS), "waited in vain"

    def wait_for_watches(self, resource: Resource, count: int = 1) -> None:
        """Wait until so many watches of a resource are open."""
        self.wait_for(lambda: sum(one.resource == resource for one in self.watches) == count)

    def asked(self, path: str, *, watching: bool = False) -> list[Request]:
        """Return the requests for exactly this path."""
        with self.changed:
            return [one for one in self.requests if (one.path, one.watching) == (path, watching)]


def key_of(item: Json) -> Key:
    """Return namespace and name of an object."""
    return (item["metadata"].get("namespace", ""), item["metadata"]["name"])


def line_of(change: str, item: Json) -> bytes:
    """Return a line of a watch."""
    return orjson.dumps({"type": change, "object": item}) + b"\n"
