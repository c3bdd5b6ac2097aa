"""Objects for the contract's cases, as any API server takes them."""

from __future__ import annotations

from collections.abc import Mapping

from app.ports import Json

NOBODY = "nobody"  # the scheduler of pods that shall never get a node


def secret(name: str = "first", **metadata: object) -> Json:
    """Return the plainest of objects: nothing acts on it."""
    return {"metadata": {"name": name, **metadata}, "data": {"key": "dmFsdWU="}}


def lease(name: str) -> Json:
    """Return a Lease that nobody holds."""
    return {"metadata": {"name": name}, "spec": {}}


def container(name: str = "main", **more: object) -> Json:
    """Return a container."""
    return {"name": name, "image": "registry.invalid/pause:3", **more}


def resources(
    requests: Mapping[str, str] | None = None, limits: Mapping[str, str] | None = None
) -> Json:
    """Return the resources of a container."""
    found = {"requests": requests, "limits": limits}
    return {side: dict(amounts) for side, amounts in found.items() if amounts}


def pod(name: str = "pod", *containers: Json, **spec: object) -> Json:
    """Return a pod that stays unscheduled unless it is given a schedulerName."""
    return {
        "metadata": {"name": name, "labels": {"app": "contract"}},
        "spec": {
            "containers": list(containers) or [container()],
            "schedulerName": NOBODY,
            "terminationGracePeriodSeconds": 1,
            **spec,
        },
    }


def template(**spec: object) -> Json:
    """Return a pod template; it is scheduled as usual."""
    return {
        "metadata": {"labels": {"app": "contract"}},
        "spec": {"containers": [container()], "terminationGracePeriodSeconds": 1, **spec},
    }


def workload(name: str = "web", replicas: int = 1, **spec: object) -> Json:
    """Return a controller of pods; a Deployment, ReplicaSet or StatefulSet."""
    return {
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "contract"}},
            "template": template(),
            **spec,
        },
    }


def vpa(name: str = "vpa", **spec: object) -> Json:
    """Return a VerticalPodAutoscaler."""
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    return {
        "apiVersion": "autoscaling.k8s.io/v1",
        "kind": "VerticalPodAutoscaler",
        "metadata": {"name": name},
        "spec": {"targetRef": target, **spec},
    }


def definition(kind: str, group: str, schema: Json, **version: object) -> Json:
    """Return the definition of a custom kind, of one version with what else that has."""
    plural = f"{kind.lower()}s"
    served = {"name": "v1", "served": True, "storage": True, **version}
    return {
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": kind, "listKind": f"{kind}List", "plural": plural},
            "versions": [served | {"schema": {"openAPIV3Schema": {"type": "object", **schema}}}],
        },
    }


def add(path: str, value: object) -> Json:
    """Return an operation of a JSON patch."""
    return {"op": "add", "path": path, "value": value}
