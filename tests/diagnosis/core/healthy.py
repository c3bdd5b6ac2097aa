"""An installation in which everything is in order, for tests that plant one fault."""

from __future__ import annotations

import copy
from base64 import b64encode
from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta

from app.admission.core.rotation import Generation, fingerprints
from app.diagnosis.core.facts import (
    AccountRight,
    Facts,
    Finding,
    Level,
    Pods,
    TrialOutcome,
    TrialResult,
    Unasked,
)
from app.kube.manifests import documents
from app.model.fields import Json
from tests import make

CA = "-----BEGIN CERTIFICATE-----\nQ0E=\n-----END CERTIFICATE-----\n"
OTHER_CA = "-----BEGIN CERTIFICATE-----\nT1RIRVI=\n-----END CERTIFICATE-----\n"
SERVICE = ("kube-system", "vpa-webhook")


def bundle(pem: str) -> str:
    """Return certificates as a configuration carries them."""
    return b64encode(pem.encode()).decode()


def scope(operator: str, *names: str, key: str = "kubernetes.io/metadata.name") -> Json:
    """Return a selector of namespaces."""
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(names)}]}


def hook(**changes: object) -> Json:
    """Return our webhook as it is registered."""
    return {
        "name": "vpa.k8s.io",
        "clientConfig": {
            "caBundle": bundle(CA),
            "service": {"namespace": SERVICE[0], "name": SERVICE[1], "path": "/mutate"},
        },
        "failurePolicy": "Ignore",
        "timeoutSeconds": 5,
        "reinvocationPolicy": "Never",
        "namespaceSelector": {},
        "objectSelector": {},
        "rules": [
            {"operations": ["CREATE"], "apiGroups": [""], "resources": ["pods"]},
            {
                "operations": ["CREATE", "UPDATE"],
                "apiGroups": ["autoscaling.k8s.io"],
                "resources": ["verticalpodautoscalers"],
            },
        ],
    } | changes


def configuration(name: str = "vpa-webhook-config", *hooks: Json) -> Json:
    """Return a webhook configuration."""
    return {"metadata": {"name": name}, "webhooks": list(hooks) or [hook()]}


def definitions() -> list[Json]:
    """Return the definitions as an API server that took them over has them."""
    return [
        copy.deepcopy(item)
        | {"status": {"conditions": [{"type": "Established", "status": "True"}]}}
        for item in documents.objects("crd")
    ]


def lease(name: str, ago: timedelta, holder: str = "one") -> Json:
    """Return a Lease that was renewed so long ago."""
    return {
        "metadata": {"name": name},
        "spec": {"holderIdentity": holder, "renewTime": make.time(ago)},
    }


def deployment(
    component: str,
    *args: str,
    image: str = "plumbline",
    replicas: int = 1,
    available: int = 1,
) -> Json:
    """Return the Deployment of a process, ours unless its image says else."""
    labels = {
        "app.kubernetes.io/name": "plumbline"
        if image == "plumbline"
        else "vertical-pod-autoscaler",
        "app.kubernetes.io/component": component,
    }
    return {
        "metadata": {"namespace": "kube-system", "name": f"vpa-{component}", "labels": labels},
        "spec": {
            "replicas": replicas,
            "template": {"spec": {"containers": [{"image": image, "args": list(args)}]}},
        },
        "status": {"availableReplicas": available},
    }


def access(*, allowed: bool = True, process: str = "updater", what: str = "pods") -> AccountRight:
    """Return a right."""
    account = f"system:serviceaccount:kube-system:vpa-{process}" if process else "you"
    return AccountRight(
        account,
        "list",
        what,
        "compare them",
        process,
        process,
        scales=what != "pods",
        is_allowed=allowed,
    )


def charted(item: Json, namespace: str = "vpa") -> Json:
    """Return a Deployment as release `blue` of the chart has it."""
    found = copy.deepcopy(item)
    found["metadata"] |= {"namespace": namespace, "name": f"blue-{item['metadata']['name']}"}
    release = {"app.kubernetes.io/managed-by": "Helm", "app.kubernetes.io/instance": "blue"}
    found["metadata"]["labels"] |= release
    return found


def generation(
    days: float = 300, *, ca: str = CA, missing_names: tuple[str, ...] = ()
) -> Generation:
    """Return a certificate that is good for so many days."""
    life = make.NOW - timedelta(days=1), make.NOW + timedelta(days=days)
    return Generation(fingerprints(ca), *life, missing_names=missing_names)


def checkpoint_json(**status: object) -> Json:
    """Return a checkpoint of container `app` of VPA `web`, of two days with a sample a minute."""
    histogram: Json = {"referenceTimestamp": None, "bucketWeights": {}, "totalWeight": 0}
    usual = {
        "version": "v3",
        "cpuHistogram": histogram,
        "memoryHistogram": histogram,
        "firstSampleStart": "2026-01-01T00:00:00Z",
        "lastSampleStart": "2026-01-03T00:00:00Z",
        "lastUpdateTime": "2026-01-03T00:01:00Z",
        "totalSamplesCount": 2880,
    }
    return {
        "apiVersion": "autoscaling.k8s.io/v1",
        "kind": "VerticalPodAutoscalerCheckpoint",
        "metadata": {"namespace": "default", "name": "web-app"},
        "spec": {"vpaObjectName": "web", "containerName": "app"},
        "status": usual | status,
    }


VPA = make.vpa_json(cpu="1")
FACTS = Facts(
    now=make.NOW,
    version="v1.36.3",
    core_resources=frozenset({"pods", "pods/eviction", "pods/resize"}),
    server_time=make.NOW,
    definitions=definitions(),
    wanted_definitions=documents.objects("crd"),
    mutating=[configuration()],
    validating=[configuration("vpa-webhook-config", hook(name="validate.vpa.k8s.io"))],
    endpoints={SERVICE: 2},
    tried=TrialResult(TrialOutcome.REFUSED),
    certificate=generation(),
    leases=[
        lease("vpa-admission-controller", timedelta(seconds=5)),
        lease("vpa-updater", timedelta(seconds=2)),
    ],
    metrics=[{"timestamp": make.time(timedelta(seconds=20))}],
    deployments=[
        deployment("admission-controller"),
        deployment("recommender", "--leader-elect=true"),
        deployment("updater", "--leader-elect=true"),
    ],
    rights=[access(process="")],
    accounts=[access()],
    pods=Pods(make.snapshot(VPA, make.workload_json(), make.pod_json())),
)


def with_one(*deployments: Json) -> Facts:
    """Return an installation with these processes instead of the usual ones of their kind."""
    kinds = {item["metadata"]["name"] for item in deployments}
    assert not isinstance(FACTS.deployments, Unasked)
    others = [one for one in FACTS.deployments if one["metadata"]["name"] not in kinds]
    return replace(FACTS, deployments=[*others, *deployments])


def flaws(found: Iterable[Finding]) -> list[tuple[Level, str]]:
    """Return what is not fine, as level and sentence."""
    return [(one.level, one.message) for one in found if one.level is not Level.FINE]
