"""The cluster that is soaked: its workloads, their VPAs, and two replicas of each process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from app.admission.core.validate import Phase
from app.kube.manifests import documents
from app.kube.manifests.documents import Registration, webhook_configurations
from app.ports import PODS, Json, PatchKind, Ref
from app.sandbox.objects import is_deleted, labels_of
from app.sandbox.sandbox import Sandbox
from app.sandbox.scheduler import NodeSize
from app.sandbox.stepped_clock import SteppedClock
from app.sandbox.webhook_client import CallFailed
from tests import make
from tests.sandbox.in_process import InProcess
from tests.sandbox.worlds import container, deployment
from tests.soak.replicas import PROCESSES, Replica, UnreliableRuntime, WebhookProcess

NAMESPACE: Final = "default"
BOOST_SECONDS: Final = 60
_PATIENCE_SECONDS: Final = 60.0  # from the start until the three work
_REVISIONS: Final = 2  # kept of a workload: ten would take two days to come to be
_NODES: Final = tuple(NodeSize(f"node-{number}", "64", "256Gi") for number in range(4))
_OPEN: Final[Mapping[str, str]] = {"cpu": "2", "memory": "4Gi"}
# A pod of role `busy` or `greedy` uses more than the others; the second too much for its limit.
_BUSY: Final = "; role=busy -> cpu: constant 400m"
_GREEDY: Final = "; role=greedy -> memory: constant 6Gi"

# What the pods of each workload use, and how many there are.
WORKLOADS: Final[Mapping[str, tuple[str, int]]] = {
    "web": (f"cpu: daily 50m 250m, memory: constant 300Mi{_BUSY}{_GREEDY}", 4),
    "store": ("cpu: constant 150m, memory: constant 500Mi", 3),
    "slow": (f"cpu: constant 60m, memory: constant 200Mi, startup: 1 10{_BUSY}", 3),
    "once": (f"cpu: spiky 50m 300m 30m 2m, memory: constant 100Mi{_GREEDY}", 1),
    "crowd": ("cpu: constant 30m, memory: constant 60Mi", 30),
    "restarting": (f"cpu: daily 30m 200m, memory: constant 80Mi{_BUSY}", 4),
}
LEAST_REPLICAS: Final[Mapping[str, int]] = {"once": 1}  # as its VPA says; others as by default
STEADY: Final = ("store",)  # of which nobody changes anything that counts for its target


class SoakedCluster:
    """A cluster in memory, and the replicas at work in it."""

    def __init__(self, seed: int) -> None:
        client = InProcess({"/mutate": self._mutate, "/validate": self._validate})
        self.clock = SteppedClock()
        self.sandbox = Sandbox(self.clock, seed, nodes=_NODES, webhook_client=client)
        self.apply(*documents.objects("crd"))
        self.replicas = [
            Replica(self.sandbox, role, UnreliableRuntime(self.sandbox))
            for role in PROCESSES
            for _ in range(2)
        ]
        self._asked = 0
        self.apply(*(found for _, found in webhook_configurations(Registration(), "")))

    def start(self) -> None:
        """Start all processes, and bring the workloads."""
        for replica in self.replicas:
            replica.start()
        self.sandbox.advance(_PATIENCE_SECONDS)
        self.apply(*workloads())

    def stop(self) -> None:
        """End all processes."""
        for replica in self.replicas:
            replica.stop()

    def apply(self, *items: Json) -> None:
        """Bring objects into the cluster."""
        refused = self.sandbox.apply(*items)
        assert refused == [], refused

    def of(self, role: str) -> list[Replica]:
        """Return the replicas of a process."""
        return [one for one in self.replicas if one.role == role]

    def recover(self) -> None:
        """Let all processes work, and nothing go wrong."""
        for replica in self.replicas:
            replica.runtime.recover()
            if replica.process is None:
                replica.start()

    # --- objects

    def pods(self, name: str) -> list[Json]:
        """Return the pods of a workload that are there to stay, in the order of their names."""
        found = self.sandbox.store.items("pods", NAMESPACE)
        return [pod for pod in found if labels_of(pod).get("app") == name and not is_deleted(pod)]

    def label(self, pod: str, **labels: str) -> None:
        """Give a pod other labels."""
        body = {"metadata": {"labels": labels}}
        self.sandbox.cluster.patch(Ref(PODS, NAMESPACE, pod), body, kind=PatchKind.MERGE)

    # --- the webhook

    def is_webhook_ill(self) -> bool:
        """Say whether a replica of the webhook may answer without knowledge, or none answers."""
        ill = [
            one for one in self.of("webhook") if one.process is None or one.runtime.unseen_seconds()
        ]
        return bool(ill)

    def _mutate(self, review: Json) -> Json:
        return self._reviewed(Phase.MUTATING, review)

    def _validate(self, review: Json) -> Json:
        return self._reviewed(Phase.VALIDATING, review)

    def _reviewed(self, phase: Phase, review: Json) -> Json:
        """Let the replicas answer in turn."""
        self._asked += 1
        running = [one.process for one in self.of("webhook")]
        there = [found for found in running if isinstance(found, WebhookProcess)]
        if not there:
            raise CallFailed("connection refused")
        return there[self._asked % len(there)].review(phase, review)


def workloads() -> Iterator[Json]:
    """Yield the workloads and their VPAs, one of each update mode that acts."""
    boost = make.boost_json(factor=3, duration_seconds=BOOST_SECONDS)
    for name, (load, replicas) in WORKLOADS.items():
        yield workload(name, load, replicas)
    yield vpa("web")
    yield vpa("store", mode="InPlaceOrRecreate", target="StatefulSet/store")
    yield vpa("slow", mode="InPlaceOrRecreate", boost=boost)
    yield vpa("once", policy={"minReplicas": LEAST_REPLICAS["once"]})
    yield vpa("crowd")
    yield vpa("restarting", mode="InPlaceOrRecreate")
    yield {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web", "namespace": NAMESPACE},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}},
    }


def workload(name: str, load: str, replicas: int, box: str = "app") -> Json:
    """Return a workload whose pods use what `load` says."""
    more: Json = {"readinessProbe": {"httpGet": {"port": 8080}, "periodSeconds": 1}}
    if name == "restarting":
        more["resizePolicy"] = [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]
    app = container(box, requests={"cpu": "100m", "memory": "100Mi"}, limits=_OPEN, more=more)
    found = deployment(name, app, replicas=replicas, load=load)
    found["spec"]["revisionHistoryLimit"] = _REVISIONS
    if name in STEADY:
        found["kind"] = "StatefulSet"
        found["spec"]["serviceName"] = name
    return found


def vpa(
    name: str,
    *,
    target: str = "",
    mode: str = "Recreate",
    policy: Mapping[str, object] | None = None,
    boost: Json | None = None,
) -> Json:
    """Return the VPA of a workload; the policy is for updates."""
    updating = {"updatePolicy": {"updateMode": mode, **(policy or {})}}
    return make.vpa_json(
        name, target=target or f"Deployment/{name}", created=None, boost=boost, spec=updating
    )
