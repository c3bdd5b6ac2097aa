"""A whole cluster in memory, put together.

Strategy: its time passes when it is advanced, and in it all that is due. Everything else goes
through `cluster`, the port that a real cluster is behind too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from random import Random

import yaml

from app import ports
from app.model.errors import ClusterError, NotFound
from app.ports import Json, Ref, Resource, Sink
from app.sandbox.cluster import SandboxCluster
from app.sandbox.controllers.manager import ControllerManager, Garbage
from app.sandbox.disruption import Budgets
from app.sandbox.kubelet.elections import Elections
from app.sandbox.kubelet.housekeeping import Housekeeping
from app.sandbox.kubelet.kubelet import Kubelet
from app.sandbox.kubelet.resizer import Resizer
from app.sandbox.limit_ranger import LimitRanger
from app.sandbox.metrics import PodMetrics
from app.sandbox.objects import Key, collection_of, copied
from app.sandbox.pod_control import PodControl
from app.sandbox.scheduler import USUAL_NODES, NodeSize, Scheduler
from app.sandbox.served_kinds import DEFINITIONS, Catalogue, ServedKind, custom_kinds
from app.sandbox.stepped_clock import SteppedClock
from app.sandbox.store import Follower, Store, StoredChange, selection
from app.sandbox.subresources import NodeRoom
from app.sandbox.webhook_client import WebhookClient
from app.sandbox.webhooks import Webhooks
from app.sandbox.writes import Writes

_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")


@dataclass(frozen=True, slots=True)
class RefusedManifest:
    """An object that was not applied, and why."""

    kind: str
    name: str
    why: str


class Sandbox:
    """A cluster in memory: its API, its controllers, its nodes.

    `refuses` says why the container runtime does not resize a pod; it does if that is empty.
    """

    def __init__(
        self,
        clock: SteppedClock,
        seed: int = 0,
        *,
        nodes: Iterable[NodeSize] = USUAL_NODES,
        refuses: Callable[[Json], str] = lambda _pod: "",
        webhook_client: WebhookClient | None = None,
    ) -> None:
        self.clock = clock
        self.store = Store()
        catalogue = self._catalogue = Catalogue()
        random = Random(seed)
        writes = Writes(self.store, catalogue, clock, random)
        self._client = webhook_client or WebhookClient()
        webhooks = Webhooks(self.store, self._client, random)
        writes.gates = (LimitRanger(self.store), webhooks, NodeRoom(self.store))
        self.store.listen(self._serve)
        control = PodControl(writes)
        Garbage(control)
        Budgets(control)
        controllers = ControllerManager(control)
        Scheduler(control)
        kubelet = Kubelet(control)
        Resizer(control, kubelet, refuses)
        Housekeeping(control, kubelet)
        metrics = PodMetrics(kubelet, clock)
        controllers.scale_by(metrics)
        self.cluster = SandboxCluster(control, metrics)
        Elections(kubelet, self.cluster, clock)
        for name in _NAMESPACES:
            self.cluster.create(Ref(ports.NAMESPACES), {"metadata": {"name": name}})
        for node in nodes:
            self.cluster.create(Ref(ports.NODES), node.item())

    def apply(self, *manifests: str | Json) -> list[RefusedManifest]:
        """Create or replace objects, from YAML or as they are; return those that were not.

        Their namespaces are made if they do not exist.
        """
        refusals = []
        for item in _items(manifests):
            metadata = item.get("metadata") or {}
            kind, name = str(item.get("kind")), str(metadata.get("name"))
            try:
                self._apply_one(item)
            except ClusterError as error:
                refusals.append(RefusedManifest(kind, name, error.message))
        return refusals

    def knows(self, item: Json) -> bool:
        """Whether objects of this kind are kept here."""
        return self._kind_of(item) is not None

    def advance(self, seconds: float) -> None:
        """Let time pass, and all happen that is due in it."""
        self.clock.advance(seconds)

    def close(self) -> None:
        """Close all connections."""
        self._client.close()

    def follow(self, resource: Resource, namespace: str, fields: str, sink: Sink) -> Follower:
        """Return what tells a sink of objects of which some fields have certain values.

        The resource may be one that is not served, or not yet.
        """
        collection = collection_of(resource)
        matches = selection(collection, "", fields)
        return Follower(self.store, self.clock, collection, namespace, matches, sink)

    def _apply_one(self, item: Json) -> None:
        kind = self._kind_of(item)
        if kind is None:
            what = f"{item.get('apiVersion')} {item.get('kind')}"
            raise NotFound(f"the sandbox knows no {what}")
        resource, metadata = kind.resource, item.setdefault("metadata", {})
        namespace = ""
        if resource.namespaced:
            namespace = metadata.setdefault("namespace", "default")
            self._ensure_namespace(namespace)
        name = metadata.get("name", "")
        before = self.store.read(kind.collection, Key(namespace, name))
        if before is None:
            self.cluster.create(Ref(resource, namespace), item)
            return
        metadata["resourceVersion"] = before["metadata"]["resourceVersion"]
        metadata["uid"] = before["metadata"]["uid"]
        self.cluster.replace(Ref(resource, namespace, name), item)

    def _kind_of(self, item: Json) -> ServedKind | None:
        return self._catalogue.by_kind(str(item.get("apiVersion")), str(item.get("kind")))

    def _ensure_namespace(self, name: str) -> None:
        if self.store.read("namespaces", Key("", name)) is None:
            self.cluster.create(Ref(ports.NAMESPACES), {"metadata": {"name": name}})

    def _serve(self, collection: str, change: StoredChange) -> None:
        """Serve the kinds that definitions of custom resources make."""
        if collection != DEFINITIONS:
            return
        for definition, act in (
            (change.before, self._catalogue.remove),
            (change.after, self._catalogue.add),
        ):
            for kind in custom_kinds(definition) if definition else ():
                act(kind)


def _items(manifests: Iterable[str | Json]) -> Iterable[Json]:
    """Yield the objects of YAML documents and of lists."""
    for manifest in manifests:
        documents = yaml.safe_load_all(manifest) if isinstance(manifest, str) else [manifest]
        for document in documents:
            if not isinstance(document, Mapping):
                continue
            if document.get("kind") == "List":
                yield from _items(document.get("items") or ())
            else:
                yield copied(dict(document))
