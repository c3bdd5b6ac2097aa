"""Sandboxes for tests, stepped, and words for the pods in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from app.model.errors import BadObject
from app.model.snapshot import Replacement, Snapshot, object_identity, removal, replacement
from app.ports import LIMIT_RANGES, NODES, POD_DISRUPTION_BUDGETS, PODS, VPAS, WORKLOADS, Json, Ref
from app.sandbox.load import ANNOTATION
from app.sandbox.sandbox import Sandbox
from app.sandbox.scheduler import USUAL_NODES, NodeSize
from app.sandbox.stepped_clock import SteppedClock
from app.sandbox.store import StoredChange
from tests.sandbox_objects import events_in

REQUESTS = {"cpu": "100m", "memory": "100Mi"}
LIMITS = {"cpu": "1", "memory": "200Mi"}


def container(
    name: str = "app",
    requests: Mapping[str, str] = REQUESTS,
    limits: Mapping[str, str] = LIMITS,
    more: Mapping[str, object] | None = None,
) -> Json:
    """Return a container; `more` are further members."""
    resources = {"requests": dict(requests), "limits": dict(limits)}
    return {"name": name, "image": "app:1", "resources": resources, **(more or {})}


def pod(
    name: str = "pod",
    *containers: Json,
    load: str = "",
    metadata: Json | None = None,
    **spec: object,
) -> Json:
    """Return a pod of the kind that is scheduled."""
    annotations = {ANNOTATION: load} if load else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": annotations, **(metadata or {})},
        "spec": {"containers": list(containers) or [container()], **spec},
    }


def deployment(name: str, *containers: Json, replicas: int = 1, load: str = "") -> Json:
    """Return a Deployment of such pods."""
    labels = {"app": name}
    template = pod("", *containers, load=load, metadata={"labels": labels})
    del template["metadata"]["name"]
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": template["metadata"], "spec": template["spec"]},
        },
    }


@dataclass
class SteppedSandbox:
    """A sandbox, its time, and questions about the pods in it."""

    nodes: Sequence[NodeSize] = USUAL_NODES
    seed: int = 0
    sandbox: Sandbox = field(init=False)

    def __post_init__(self) -> None:
        self.sandbox = Sandbox(SteppedClock(), self.seed, nodes=self.nodes)

    def run(self, *items: Json, seconds: float = 2) -> None:
        """Apply objects and let them start."""
        assert self.sandbox.apply(*items) == []
        self.sandbox.advance(seconds)

    def step(self, seconds: float) -> None:
        """Let time pass."""
        self.sandbox.advance(seconds)

    def pod(self, name: str = "pod") -> Json:
        """Return a pod as it is now."""
        return self.sandbox.cluster.get(Ref(PODS, "default", name))

    def status(self, name: str = "pod", index: int = 0) -> Json:
        """Return the status of one of its containers."""
        found: Json = self.pod(name)["status"]["containerStatuses"][index]
        return found

    def conditions(self, name: str = "pod") -> dict[str, Json]:
        """Return the conditions of a pod by type."""
        return {found["type"]: found for found in self.pod(name)["status"]["conditions"]}

    def is_ready(self, name: str = "pod") -> bool:
        """Whether a pod is Ready."""
        return bool(self.conditions(name)["Ready"]["status"] == "True")

    def resize(self, name: str = "pod", container: int = 0, /, **amounts: str) -> None:
        """Ask for other amounts: `cpu`, `memory`, `cpu_limit`, `memory_limit`."""
        root = f"/spec/containers/{container}/resources"
        operations = []
        for word, amount in amounts.items():
            resource, _, limit = word.partition("_")
            side = "limits" if limit else "requests"
            path = f"{root}/{side}/{resource}"
            operations.append({"op": "add", "path": path, "value": amount})
        cluster = self.sandbox.cluster
        cluster.patch(Ref(PODS, "default", name, subresource="resize"), operations)

    def reasons(self) -> list[str]:
        """Return the reasons of all events, in order."""
        return [event["reason"] for event in events_in(self.sandbox)]


def snapshot_of(sandbox: Sandbox) -> Snapshot:
    """Return everything as it is now, as decisions see it; what cannot be read is left out."""
    found = []
    for resource in (*WORKLOADS, PODS, LIMIT_RANGES, POD_DISRUPTION_BUDGETS, NODES, VPAS):
        collection = ".".join(filter(None, (resource.plural, resource.group)))
        found += [_change(item) for item in sandbox.store.items(collection)]
    return Snapshot().changed(change for change in found if change is not None)


class LiveSnapshot:
    """The same at any moment; only what changed since the last one is read."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._lock = sandbox.store.lock
        self._snapshot = snapshot_of(sandbox)
        self._news: list[StoredChange] = []
        sandbox.store.listen(lambda _collection, change: self._news.append(change))

    def __call__(self) -> Snapshot:
        """Return everything as it is now."""
        with self._lock:
            news, self._news = self._news, []
            changes = filter(None, map(_change_of, news))
            self._snapshot = self._snapshot.changed(changes) if news else self._snapshot
            return self._snapshot


def _change_of(change: StoredChange) -> Replacement | None:
    found = _change(change.after) if change.after is not None else None
    item = change.after or change.before or {}
    return found or removal(*object_identity(item))


def _change(item: Json) -> Replacement | None:
    try:
        return replacement(item)
    except BadObject:
        return None
