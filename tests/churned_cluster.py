"""A cluster in memory in which nothing lives for long, and nothing is like anything before.

Strategy: the API of the sandbox with nobody at work behind it, so that fifty thousand pods come
and go in seconds. Objects go straight into its store; what watches it hears of each change.
"""

from __future__ import annotations

from collections import deque
from itertools import count
from random import Random
from typing import TYPE_CHECKING, Final, cast

from app.kube.manifests import documents
from app.model.times import rfc3339
from app.ports import (
    NAMESPACES,
    POD_METRICS,
    PODS,
    VPAS,
    WORKLOADS,
    Json,
    ListPage,
    Ref,
    Resource,
    Sink,
)
from app.run.simulated import SimulatedRuntime
from app.sandbox.cluster import SandboxCluster
from app.sandbox.objects import Key, collection_of, key_of
from app.sandbox.pod_control import PodControl
from app.sandbox.served_kinds import Catalogue, custom_kinds
from app.sandbox.stepped_clock import SteppedClock
from app.sandbox.store import Follower, Store, selection
from app.sandbox.writes import Writes
from tests import make

if TYPE_CHECKING:
    from app.sandbox.sandbox import Sandbox

BATCH: Final = 500  # pods that come together; each lives until the second batch after it
_VPAS_EVERY: Final = 50  # of so many one has a VPA that comes and goes with it
_OTHER: Final = "other"  # namespace of these
_LONG: Final = "x" * 60
_LOWER: Final = make.amounts("100m", "100Mi")  # more than pods ask for
_COLLECTIONS: Final = {one.kind: collection_of(one) for one in (PODS, VPAS, *WORKLOADS)}
_CHANGING: Final = -1  # the workload that stays, and whose VPA is changed


class ChurnedCluster:
    """The API, the runtime of a process that works on it, and the turns of what lives in it."""

    def __init__(self) -> None:
        self.clock = SteppedClock()
        self.store = Store()
        self._catalogue = Catalogue()
        for definition in documents.objects("crd"):
            for kind in custom_kinds(definition):
                self._catalogue.add(kind)
        writes = Writes(self.store, self._catalogue, self.clock, Random(0))
        self.cluster = _WithUsage(PodControl(writes), self.store, self.clock)
        for namespace in ("default", _OTHER, "kube-system"):
            self.cluster.create(Ref(NAMESPACES), {"metadata": {"name": namespace}})
        web, recommended = (
            "Deployment/web",
            [make.recommendation_json("*", cpu="250m", lower=_LOWER)],
        )
        for item in (
            make.workload_json(web, replicas=BATCH),
            make.vpa_json(target=web, mode="Recreate", recommendations=recommended),
            *self._workload(_CHANGING),
        ):
            self._put(item)
        self._own = self.store.version  # changes that nobody at work made
        self._living: deque[list[Json]] = deque()
        self._numbers = count()

    def follow(self, resource: Resource, namespace: str, fields: str, sink: Sink) -> Follower:
        """Return what tells a sink of objects of which some fields have certain values."""
        collection = collection_of(resource)
        matches = selection(collection, "", fields)
        return Follower(self.store, self.clock, collection, namespace, matches, sink)

    @property
    def runtime(self) -> SimulatedRuntime:
        """Return where a process works on it."""
        return SimulatedRuntime(cast("Sandbox", self), self.cluster)

    @property
    def changed(self) -> int:
        """Return how many changes others made."""
        return self.store.version - self._own

    def turn(self, seconds: float) -> None:
        """Let a batch come and an older one go, then some time pass."""
        began = self.store.version
        items: list[Json] = []
        for _ in range(BATCH):
            number = next(self._numbers)
            items += self._crowd(number)
            if number % _VPAS_EVERY == 0:
                items += self._workload(number)
            self._change_vpa(f"{number}-{_LONG}")
        for item in items:
            self._put(item)
        self._living.append(items)
        if len(self._living) > 2:
            for item in self._living.popleft():
                self._drop(item)
        for event in self.store.items("events"):
            self.store.remove("events", event)
        self._own += self.store.version - began
        self.clock.advance(seconds)

    def _crowd(self, number: int) -> list[Json]:
        """Return a pod of the Deployment that stays, with owners and a container of its own."""
        owner = f"ReplicaSet/web-{number}-{_LONG}"
        labels = make.LABELS | {"n": f"{number}-{_LONG}"}
        replica_set = make.workload_json(owner, replicas=1, labels=labels, owner="Deployment/web")
        return [replica_set, self._pod(f"web-{number}-{_LONG}", owner, labels)]

    def _workload(self, number: int) -> list[Json]:
        """Return a workload with its VPA and pod."""
        name, labels = _name(number), {"n": f"{number}-{_LONG}"}
        owner = f"StatefulSet/{name}"
        recommendations = [
            make.recommendation_json(f"c-{name}-0", cpu="300m", memory="1Gi", lower=_LOWER)
        ]
        return [
            make.workload_json(owner, namespace=_OTHER, replicas=1, labels=labels),
            make.vpa_json(
                name,
                namespace=_OTHER,
                target=owner,
                mode="Recreate",
                recommendations=recommendations,
            ),
            self._pod(f"{name}-0", owner, labels, _OTHER),
        ]

    def _pod(
        self, name: str, owner: str, labels: dict[str, str], namespace: str = "default"
    ) -> Json:
        container = make.container_json(f"c-{name}", cpu="10m", memory="50Mi")
        jobs = [make.owner_json(f"Job/j-{name}", controller=False)]
        owners = {"ownerReferences": [*jobs, make.owner_json(owner)]}
        pod = make.pod_json(
            container, name=name, namespace=namespace, labels=labels, metadata=owners
        )
        return make.running_json(pod, started=self.clock.now(), ready_since=self.clock.now())

    def _change_vpa(self, word: str) -> None:
        """Write another version of a VPA that stays."""
        found = self.store.read(_COLLECTIONS[VPAS.kind], Key(_OTHER, _name(_CHANGING)))
        assert found is not None
        policies = [make.policy_json(f"p-{word}-{_LONG}", max_allowed=make.amounts("1", "1Gi"))]
        spec = found["spec"] | {"resourcePolicy": {"containerPolicies": policies}}
        metadata = found["metadata"] | {"annotations": {"version": word}}
        self.store.replace(
            _COLLECTIONS[VPAS.kind], found, found | {"metadata": metadata, "spec": spec}
        )

    def _put(self, item: Json) -> None:
        self.store.insert(_COLLECTIONS[item["kind"]], item)

    def _drop(self, item: Json) -> None:
        collection = _COLLECTIONS[item["kind"]]
        found = self.store.read(collection, key_of(item))
        if found is not None:  # it was not evicted
            self.store.remove(collection, found)


def _name(number: int) -> str:
    return f"w-{number}-{_LONG}"


class _WithUsage(SandboxCluster):
    """The API; every pod uses the same."""

    def __init__(self, control: PodControl, store: Store, clock: SteppedClock) -> None:
        super().__init__(control)
        self._objects = store
        self._clock = clock

    def list(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 0,
        continue_token: str = "",
    ) -> ListPage:
        """Return all objects at once, or what all pods use; pages would be kept here."""
        del limit, continue_token
        if resource == POD_METRICS:
            pods = self._objects.items("pods", namespace)
            return ListPage([self._usage(pod) for pod in pods], "")
        return super().list(
            resource, namespace, label_selector=label_selector, field_selector=field_selector
        )

    def _usage(self, pod: Json) -> Json:
        usage = {"cpu": "50m", "memory": "60Mi"}
        names = [one["name"] for one in pod["spec"]["containers"]]
        return {
            "apiVersion": POD_METRICS.api_version,
            "kind": POD_METRICS.kind,
            "metadata": {key: pod["metadata"][key] for key in ("name", "namespace")},
            "timestamp": rfc3339(self._clock.now()),
            "window": "15s",
            "containers": [{"name": name, "usage": usage} for name in names],
        }

    def evict(self, namespace: str, name: str, *, uid: str = "", dry_run: bool = False) -> None:
        """Let a pod go at once, as no kubelet would end it."""
        del uid, dry_run
        self.delete(Ref(PODS, namespace, name))
