"""Objects of a cluster as an API server stores them: controllers, pods, VPAs, checkpoints."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from app.recommender.core.checkpoints import Checkpoint, StoredHistogram
from app.recommender.core.moments import DAY, nanoseconds

Json = dict[str, Any]

STARTED: Final = datetime(2026, 1, 3, 10, tzinfo=UTC)
BIG: Final = {"cpu": "4", "memory": "8Gi"}


def time_text(moment: datetime) -> str:
    """Write a time as an API server does."""
    return moment.isoformat().replace("+00:00", "Z")


_STARTED: Final = time_text(STARTED)


def namespace(name: str) -> tuple[Json, Json]:
    """Return a namespace, and the account that its pods have."""
    made = {"apiVersion": "v1", "kind": "Namespace", "metadata": _metadata("", name)}
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": _metadata(name, "default")}
    return {**made, "status": {"phase": "Active"}}, account


def _metadata(where: str, name: str) -> Json:
    place = {"namespace": where} if where else {}
    return {"name": name, **place, "uid": f"{where}-{name}", "creationTimestamp": _STARTED}


def node() -> Json:
    """Return the node that all pods are on."""
    size = {"cpu": "1000", "memory": "4000Gi", "pods": "100000"}
    made = {"apiVersion": "v1", "kind": "Node", "metadata": _metadata("", "node-1"), "spec": {}}
    system = {"architecture": "amd64", "operatingSystem": "linux", "kubeletVersion": "v1.36.3"}
    return {**made, "status": {"capacity": size, "allocatable": size, "nodeInfo": system}}


def replica_set(app: str) -> str:
    """Return the name of an app's ReplicaSet."""
    return f"{app}-5d9c7b6f4"


def _owner(kind: str, name: str, uid: str) -> Json:
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "name": name,
        "uid": uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def controllers(where: str, app: str, replicas: int = 5) -> tuple[Json, Json]:
    """Return a Deployment and its ReplicaSet."""
    labels = {"app": app}
    small = {"requests": {"cpu": "50m", "memory": "128Mi"}}
    small["limits"] = {"cpu": "150m", "memory": "256Mi"}
    box = {"name": "main", "image": "registry.example.com/app:v1", "resources": small}
    spec = {
        "replicas": replicas,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [box]}},
    }
    status = {"replicas": replicas, "readyReplicas": replicas, "availableReplicas": replicas}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {**_metadata(where, app), "generation": 1},
        "spec": spec,
        "status": status,
    }
    owner = _owner("Deployment", app, f"{where}-{app}")
    metadata = {**_metadata(where, replica_set(app)), "labels": labels, "ownerReferences": [owner]}
    made = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata}
    return deployment, {**made, "spec": spec, "status": status}


def pod(  # the defaults are those of a pod at work
    where: str,
    app: str,
    number: int,
    *,
    cpu: str = "100m",
    boxes: Sequence[str] = ("main",),
    is_ready: bool = True,
    annotations: Json | None = None,
) -> Json:
    """Return a running pod of an app's ReplicaSet."""
    requests = {"cpu": cpu, "memory": "256Mi"}
    resources = {"requests": requests, "limits": {"cpu": "3", "memory": "512Mi"}}
    name, owner = f"{replica_set(app)}-{number:05d}", replica_set(app)
    words = ("Initialized", "Ready", "ContainersReady", "PodScheduled")
    ready = {word: is_ready or "Ready" not in word for word in words}
    noted = {"vpaUpdates": f"Pod resources updated by {app}: container 0: cpu request"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            **_metadata(where, name),
            "resourceVersion": str(number + 1),
            "labels": {"app": app, "pod-template-hash": "5d9c7b6f4"},
            "annotations": {**noted, "vpaObservedContainers": ", ".join(boxes)}
            | (annotations or {}),
            "ownerReferences": [_owner("ReplicaSet", owner, f"{where}-{owner}")],
        },
        "spec": {
            "nodeName": "node-1",
            "terminationGracePeriodSeconds": 0,
            "containers": [
                {"name": box, "image": "registry.example.com/app:v1", "resources": resources}
                for box in boxes
            ],
        },
        "status": {
            "phase": "Running",
            "startTime": _STARTED,
            "qosClass": "Burstable",
            "conditions": [
                {"type": kind, "status": str(yes), "lastTransitionTime": _STARTED}
                for kind, yes in ready.items()
            ],
            "containerStatuses": [
                {
                    "name": box,
                    "ready": is_ready,
                    "restartCount": 0,
                    "image": "registry.example.com/app:v1",
                    "imageID": "app",
                    "containerID": f"containerd://{name}-{box}",
                    "state": {"running": {"startedAt": _STARTED}},
                    "resources": resources,
                    "allocatedResources": requests,
                }
                for box in boxes
            ],
        },
    }


def vpa(
    where: str,
    app: str,
    target: str = "",
    *,
    boxes: Sequence[str] = ("main",),
    lower: str = "50m",
    mode: str = "Recreate",
    more: Json | None = None,
) -> Json:
    """Return a VPA of a Deployment; without a target of CPU nothing is recommended yet."""

    def recommended(box: str) -> Json:
        wanted = {"cpu": target, "memory": "256Mi"}
        return {
            "containerName": box,
            "target": wanted,
            "lowerBound": {"cpu": lower, "memory": "128Mi"},
            "upperBound": {"cpu": "2", "memory": "1Gi"},
            "uncappedTarget": wanted,
        }

    found = {
        "apiVersion": "autoscaling.k8s.io/v1",
        "kind": "VerticalPodAutoscaler",
        "metadata": {**_metadata(where, app), "resourceVersion": "1", "generation": 1},
        "spec": {
            "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": app},
            "updatePolicy": {"updateMode": mode},
            "resourcePolicy": {"containerPolicies": [{"containerName": "*", "maxAllowed": BIG}]},
            **(more or {}),
        },
    }
    if target:
        stated = {"containerRecommendations": [recommended(box) for box in boxes]}
        found["status"] = {"recommendation": stated}
    return found


def history(where: str, app: str, boxes: Sequence[str], now: datetime) -> Iterator[Checkpoint]:
    """Yield ten days of history for the containers of a VPA."""
    now_ns, dice = nanoseconds(now), random.Random(f"{where}/{app}")
    for box in boxes:
        weights = {dice.randrange(20, 80): dice.randrange(1, 10_000) for _ in range(15)}
        stored = StoredHistogram(now_ns, weights, 1_000_000.0)
        yield Checkpoint(
            where,
            f"{app}-{box}",
            app,
            box,
            cpu=stored,
            memory=stored,
            first_ns=now_ns - 10 * DAY,
            last_ns=now_ns - timedelta(minutes=1) // timedelta(microseconds=1) * 1000,
            count=14_400,
            updated_ns=now_ns,
        )
