"""Builds objects for tests: `pod_json()` as an API server sends it, `pod()` as it is read.

Strategy: every builder works without arguments, and what it builds fits together: the pod is a
pod of the workload, the VPA points at the workload, the review asks about the pod. Resources are
plain words (`cpu="100m"`); what a builder has no word for goes in as `spec={...}` or
`status={...}` and is laid over what the builder made. None leaves a member out.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, ParamSpec, TypeVar

from app.model.fields import Json
from app.model.gates import FeatureGate, FeatureGates
from app.model.kinds import group_of
from app.model.limits import (
    DisruptionBudget,
    LimitRange,
    Node,
    read_disruption_budget,
    read_limit_range,
    read_node,
)
from app.model.pods import Container, Pod, read_containers, read_pod
from app.model.quantity import Quantity
from app.model.review import read_review
from app.model.snapshot import Collection, Replacement, Snapshot, replacement
from app.model.vpa import ContainerPolicy, Vpa, read_vpa
from app.model.workloads import Workload, read_workload

NO_GATES = FeatureGates()
ALL_GATES = FeatureGates(frozenset(FeatureGate))
Value = Vpa | Workload | LimitRange | Pod | DisruptionBudget | Node

NOW = datetime(2026, 1, 5, 10, 0, tzinfo=UTC)
LABELS = {"app": "web"}
API_VERSIONS = {
    "Pod": "v1",
    "Namespace": "v1",
    "Node": "v1",
    "LimitRange": "v1",
    "ReplicationController": "v1",
    "DaemonSet": "apps/v1",
    "Deployment": "apps/v1",
    "ReplicaSet": "apps/v1",
    "StatefulSet": "apps/v1",
    "Job": "batch/v1",
    "CronJob": "batch/v1",
    "PodDisruptionBudget": "policy/v1",
    "HorizontalPodAutoscaler": "autoscaling/v2",
    "ScaledObject": "keda.sh/v1alpha1",
    "Lease": "coordination.k8s.io/v1",
    "VerticalPodAutoscaler": "autoscaling.k8s.io/v1",
}
PLURALS = {
    "Pod": "pods",
    "VerticalPodAutoscaler": "verticalpodautoscalers",
}


# --- small pieces


def time(moment: datetime | timedelta | str | None) -> str | None:
    """Write a moment as RFC 3339; a timedelta is so long before `NOW`."""
    match moment:
        case timedelta():
            return time(NOW - moment)
        case datetime():
            return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
        case _:
            return moment


def quantity(text: str) -> Quantity:
    """Read a quantity."""
    return Quantity.parse(text)


def quantities(*, cpu: str | None = None, memory: str | None = None) -> dict[str, Quantity]:
    """Read a map of quantities; None leaves a resource out."""
    return {name: Quantity.parse(text) for name, text in amounts(cpu, memory).items()}


def amounts(cpu: str | None = None, memory: str | None = None) -> dict[str, str]:
    """Return a map of resources as JSON; None leaves a resource out."""
    return _some(cpu=cpu, memory=memory)


def reference_json(text: str) -> Json:
    """Read `Kind/name`, or `group/version/Kind/name` for kinds that are not built in."""
    *version, kind, name = text.split("/")
    api_version = "/".join(version) or API_VERSIONS.get(kind, "example.com/v1")
    return {"apiVersion": api_version, "kind": kind, "name": name}


def owner_json(text: str, *, controller: bool = True) -> Json:
    """Return an owner reference; see `reference_json` for the text."""
    return {**reference_json(text), "uid": f"uid-{text.rpartition('/')[2]}"} | (
        {"controller": True, "blockOwnerDeletion": True} if controller else {}
    )


P = ParamSpec("P")
T = TypeVar("T")


def _reading(build: Callable[P, Json], read: Callable[[Json], T]) -> Callable[P, T]:
    """Return a builder of values from a builder of JSON; it takes the same arguments."""

    def build_and_read(*args: P.args, **kwargs: P.kwargs) -> T:
        return read(build(*args, **kwargs))

    return build_and_read


def _some(**fields: object) -> Json:
    return {name: value for name, value in fields.items() if value is not None}


def _metadata(
    name: str,
    namespace: str | None,
    *,
    created: datetime | timedelta | str | None,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, Any] | None = None,
    owner: str | None = None,
    more: Mapping[str, Any] | None = None,
) -> Json:
    return _some(
        name=name,
        namespace=namespace,
        uid=f"uid-{name}",
        resourceVersion="1",
        generation=1,
        creationTimestamp=time(created),
        labels=None if labels is None else dict(labels),
        annotations=None if annotations is None else dict(annotations),
        ownerReferences=None if owner is None else [owner_json(owner)],
    ) | dict(more or {})


def _object(kind: str, metadata: Json, **parts: object) -> Json:
    return {"apiVersion": API_VERSIONS[kind], "kind": kind, "metadata": metadata} | _some(**parts)


# --- containers and pods


def container_json(
    name: str = "app",
    *,
    cpu: str | None = None,
    memory: str | None = None,
    cpu_limit: str | None = None,
    memory_limit: str | None = None,
    resize: Mapping[str, str] | None = None,
    **more: object,
) -> Json:
    """Return a container; without any resource it has no `resources` member.

    `resize` is the restart policy by resource, e.g. `{"memory": "RestartContainer"}`; `more` are
    further members, e.g. `image="nginx"`, where `resources={...}` replaces all resources.
    """
    resources = _some(
        requests=amounts(cpu, memory) or None, limits=amounts(cpu_limit, memory_limit) or None
    )
    policy = [
        {"resourceName": resource, "restartPolicy": word}
        for resource, word in (resize or {}).items()
    ]
    return _some(name=name, resources=resources or None, resizePolicy=policy or None) | more


def pod_json(
    *containers: Json,
    name: str = "web-0",
    namespace: str | None = "default",
    cpu: str | None = None,
    memory: str | None = None,
    cpu_limit: str | None = None,
    init: Sequence[Json] | None = None,
    labels: Mapping[str, str] | None = LABELS,
    annotations: Mapping[str, Any] | None = None,
    owner: str | None = "StatefulSet/web",
    created: datetime | timedelta | str | None = None,
    metadata: Mapping[str, Any] | None = None,
    spec: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
) -> Json:
    """Return a pod as it comes to admission, of containers from `container_json`.

    Without any it has one named `app`, for which `cpu`, `memory` and `cpu_limit` are.
    """
    alone = container_json(cpu=cpu, memory=memory, cpu_limit=cpu_limit, image="web")
    return _object(
        "Pod",
        _metadata(
            name,
            namespace,
            created=created,
            labels=labels,
            annotations=annotations,
            owner=owner,
            more=metadata,
        ),
        spec=_some(
            containers=list(containers) or [alone],
            initContainers=None if init is None else list(init),
        )
        | dict(spec or {}),
        status=None if status is None else dict(status),
    )


def running_json(
    pod: Json,
    *,
    started: datetime | timedelta = timedelta(days=1),
    ready_since: datetime | timedelta | None = timedelta(days=1),
    **status: object,
) -> Json:
    """Return a pod as it looks on a node: running, and Ready unless `ready_since` is None.

    The kubelet reports the resources that the spec asks for; `status` are further members of
    the status, e.g. `qosClass="Burstable"`.
    """
    ready = ready_since is not None

    def reported(item: Json) -> Json:
        return {
            "name": item["name"],
            "containerID": f"containerd://{item['name']}",
            "ready": ready,
            "restartCount": 0,
            "state": {"running": {"startedAt": time(started)}},
        } | _some(
            resources=copy.deepcopy(item.get("resources")),
            allocatedResources=copy.copy(item.get("resources", {}).get("requests")),
        )

    spec = pod["spec"]
    init = {"initContainerStatuses": [reported(item) for item in spec.get("initContainers", ())]}
    condition = {
        "type": "Ready",
        "status": "True" if ready else "False",
        "lastTransitionTime": time(ready_since if ready_since is not None else started),
    }
    metadata = {"creationTimestamp": time(started)} | pod["metadata"]
    return pod | {
        "metadata": metadata,
        "spec": spec | {"nodeName": "node-1"},
        "status": {
            "phase": "Running",
            "startTime": time(started),
            "conditions": [condition],
            "containerStatuses": [reported(item) for item in spec["containers"]],
        }
        | (init if "initContainers" in spec else {})
        | status,
    }


# --- VPAs


def boost_json(
    *,
    factor: int | None = None,
    quantity: str | None = None,
    duration: str | None = None,
    duration_seconds: int | None = None,
    kind: str | None = None,
) -> Json:
    """Return a `startupBoost`; its type follows from factor or quantity unless given."""
    kind = kind or ("Quantity" if quantity is not None else "Factor")
    return {
        "cpu": _some(
            type=kind,
            factor=factor,
            quantity=quantity,
            duration=duration,
            durationSeconds=duration_seconds,
        )
    }


def policy_json(
    container: str = "*",
    *,
    mode: str | None = None,
    min_allowed: Mapping[str, str] | None = None,
    max_allowed: Mapping[str, str] | None = None,
    resources: Sequence[str] | None = None,
    values: str | None = None,
    boost: Mapping[str, Any] | None = None,
    **more: object,
) -> Json:
    """Return a container policy; `boost` comes from `boost_json`."""
    return (
        _some(
            containerName=container,
            mode=mode,
            minAllowed=min_allowed,
            maxAllowed=max_allowed,
            controlledResources=None if resources is None else list(resources),
            controlledValues=values,
            startupBoost=boost,
        )
        | more
    )


def recommendation_json(
    container: str = "app",
    *,
    cpu: str | None = None,
    memory: str | None = None,
    lower: Mapping[str, str] | None = None,
    upper: Mapping[str, str] | None = None,
    uncapped: Mapping[str, str] | None = None,
) -> Json:
    """Return a container recommendation: cpu and memory are the target; bounds from `amounts`."""
    return _some(
        containerName=container,
        target=amounts(cpu, memory) or None,
        lowerBound=lower,
        upperBound=upper,
        uncappedTarget=uncapped,
    )


def vpa_json(
    name: str = "web",
    *,
    namespace: str | None = "default",
    target: str | None = "StatefulSet/web",
    mode: str | None = None,
    min_replicas: int | None = None,
    policies: Sequence[Json] | None = None,
    boost: Mapping[str, Any] | None = None,
    selector: Mapping[str, Any] | None = None,
    cpu: str | None = None,
    memory: str | None = None,
    recommendations: Sequence[Json] | None = None,
    annotations: Mapping[str, str] | None = None,
    created: datetime | timedelta | str | None = timedelta(days=30),
    metadata: Mapping[str, Any] | None = None,
    spec: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
) -> Json:
    """Return a VPA, with policies from `policy_json`; see `reference_json` for the target.

    `cpu` and `memory` recommend for the container `app`; `recommendations`, from
    `recommendation_json`, stand instead of them.
    """
    if recommendations is None and (cpu or memory):
        recommendations = [recommendation_json(cpu=cpu, memory=memory)]
    found = (
        None
        if recommendations is None
        else {"recommendation": {"containerRecommendations": list(recommendations)}}
    )
    update = _some(updateMode=mode, minReplicas=min_replicas)
    return _object(
        "VerticalPodAutoscaler",
        _metadata(name, namespace, created=created, annotations=annotations, more=metadata),
        spec=_some(
            targetRef=None if target is None else reference_json(target),
            selector=selector,
            updatePolicy=update or None,
            resourcePolicy=None if policies is None else {"containerPolicies": list(policies)},
            startupBoost=boost,
        )
        | dict(spec or {}),
        status=None if found is None and status is None else (found or {}) | dict(status or {}),
    )


# --- workloads, limits, nodes, budgets


def workload_json(
    kind_and_name: str = "StatefulSet/web",
    *,
    namespace: str | None = "default",
    labels: Mapping[str, str] = LABELS,
    replicas: int | None = 3,
    owner: str | None = None,
    containers: Sequence[Json] | None = None,
    metadata: Mapping[str, Any] | None = None,
    spec: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
) -> Json:
    """Return a built-in controller whose pods carry `labels`; e.g. `workload_json("Job/load")`."""
    reference = reference_json(kind_and_name)
    kind = reference["kind"]
    template = {
        "metadata": {"labels": dict(labels)},
        "spec": {"containers": list(containers or [container_json()])},
    }
    body: Json = {"selector": {"matchLabels": dict(labels)}, "template": template}
    match kind:
        case "CronJob":
            body = {"schedule": "@daily", "jobTemplate": {"spec": {"template": template}}}
        case "ReplicationController":
            body["selector"] = dict(labels)
    if kind in ("Deployment", "ReplicaSet", "StatefulSet", "ReplicationController"):
        body |= _some(replicas=replicas)
    return {
        "apiVersion": reference["apiVersion"],
        "kind": kind,
        "metadata": _metadata(
            reference["name"],
            namespace,
            created=timedelta(days=60),
            labels=labels,
            owner=owner,
            more=metadata,
        ),
        "spec": body | dict(spec or {}),
    } | _some(status=status)


def limits_json(
    kind: str = "Container",
    *,
    least: Mapping[str, str] | None = None,
    most: Mapping[str, str] | None = None,
    default: Mapping[str, str] | None = None,
) -> Json:
    """Return an entry of a LimitRange; maps from `amounts`."""
    return _some(type=kind, min=least, max=most, default=default)


def limit_range_json(
    *entries: Json,
    name: str = "limits",
    namespace: str | None = "default",
    least: Mapping[str, str] | None = None,
    most: Mapping[str, str] | None = None,
    default: Mapping[str, str] | None = None,
) -> Json:
    """Return a LimitRange of entries from `limits_json`, or of one for containers."""
    alone = limits_json(least=least, most=most, default=default)
    return _object(
        "LimitRange",
        _metadata(name, namespace, created=timedelta(days=60)),
        spec={"limits": list(entries) or [alone]},
    )


def node_json(name: str = "node-1", *, cpu: str = "4", memory: str = "16Gi") -> Json:
    """Return a node."""
    return _object(
        "Node",
        _metadata(name, None, created=timedelta(days=90)),
        spec={},
        status={"allocatable": amounts(cpu, memory) | {"pods": "110"}},
    )


def namespace_json(name: str = "default", *, paused: str | None = None) -> Json:
    """Return a Namespace, with the annotation that pauses updates if it has a value."""
    annotations = None if paused is None else {"plumbline/paused": paused}
    return _object("Namespace", _metadata(name, None, created=None, annotations=annotations))


def budget_json(
    name: str = "web",
    *,
    namespace: str | None = "default",
    labels: Mapping[str, str] = LABELS,
    allowed: int = 1,
    observed: int = 1,
) -> Json:
    """Return a PodDisruptionBudget that allows so many disruptions now."""
    return _object(
        "PodDisruptionBudget",
        _metadata(name, namespace, created=timedelta(days=60)),
        spec={"selector": {"matchLabels": dict(labels)}},
        status={"disruptionsAllowed": allowed, "observedGeneration": observed},
    )


def lease_json(
    holder: str | None = "web-0_4f5c",
    *,
    name: str = "web",
    namespace: str | None = "default",
    seconds: object = 15,
    renewed: int = 0,
    acquired: object = "2026-01-05T09:00:00.000000Z",
    spec: Mapping[str, Any] | None = None,
) -> Json:
    """Return a Lease that was renewed so often since it was acquired, now the last time."""
    return _object(
        "Lease",
        _metadata(name, namespace, created=None),
        spec=_some(
            holderIdentity=holder,
            leaseDurationSeconds=seconds,
            acquireTime=acquired,
            renewTime=f"2026-01-05T10:00:00.{renewed:06}Z",
        )
        | dict(spec or {}),
    )


def metric_json(resource: str, target: object, container: str = "") -> Json:
    """Return a metric of an HPA: a target of so many percent, or of an amount."""
    wanted = (
        {"type": "Utilization", "averageUtilization": target}
        if isinstance(target, int)
        else {"type": "AverageValue", "averageValue": target}
    )
    if not container:
        return {"type": "Resource", "resource": {"name": resource, "target": wanted}}
    source = {"name": resource, "container": container, "target": wanted}
    return {"type": "ContainerResource", "containerResource": source}


def hpa_json(
    *metrics: Json,
    name: str = "web",
    namespace: str | None = "default",
    target: str = "StatefulSet/web",
    least: int | None = 1,
    most: int = 10,
    owner: str | None = None,
) -> Json:
    """Return an HPA, with metrics from `metric_json`."""
    return _object(
        "HorizontalPodAutoscaler",
        _metadata(name, namespace, created=None, owner=owner),
        spec=_some(
            scaleTargetRef=reference_json(target),
            minReplicas=least,
            maxReplicas=most,
            metrics=list(metrics) or None,
        ),
    )


def scaled_object_json(
    *triggers: Json,
    name: str = "web",
    namespace: str | None = "default",
    target: str = "StatefulSet/web",
    annotations: Mapping[str, str] | None = None,
    spec: Mapping[str, Any] | None = None,
) -> Json:
    """Return a ScaledObject of KEDA with its triggers."""
    return _object(
        "ScaledObject",
        _metadata(name, namespace, created=None, annotations=annotations),
        spec={"scaleTargetRef": reference_json(target), "triggers": list(triggers)}
        | dict(spec or {}),
    )


def definition_json(
    kind: str = "Shop", group: str = "example.com", *, scope: str = "Namespaced", **versions: object
) -> Json:
    """Return a CustomResourceDefinition; versions as whether they can be scaled."""
    scale = {"specReplicasPath": ".spec.replicas", "labelSelectorPath": ".status.selector"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.lower()}s.{group}"},
        "spec": {
            "group": group,
            "scope": scope,
            "names": {"kind": kind, "plural": f"{kind.lower()}s"},
            "versions": [
                {"name": name, "subresources": {"scale": scale} if can_be_scaled else {}}
                for name, can_be_scaled in (versions or {"v1": True}).items()
            ],
        },
    }


def scaled_objects_definition_json() -> Json:
    """Return a CustomResourceDefinition with which objects of KEDA are stored as they are."""
    found = definition_json("ScaledObject", "keda.sh", v1alpha1=False)
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    found["spec"]["versions"][0] |= version
    return found


# --- the whole, and questions about it


def snapshot_json(*items: Json) -> Json:
    """Return a List of objects."""
    return {"apiVersion": "v1", "kind": "List", "items": list(items)}


def snapshot(*items: Json | Value) -> Snapshot:
    """Return a snapshot of objects, as JSON or as read, in any mixture."""
    return Snapshot().changed(change(item) for item in items)


def change(item: Json | Value) -> Replacement:
    """Return an object as the change that brings it into a snapshot."""
    match item:
        case dict():
            found = replacement(item)
            assert found is not None, f"no snapshot holds a {item['kind']}"
            return found
        case Vpa():
            return Replacement(Collection.VPAS, item.namespace, item.name, item)
        case Workload():
            return Replacement(Collection.WORKLOADS, item.namespace, item.key, item)
        case LimitRange():
            return Replacement(Collection.LIMIT_RANGES, item.namespace, item.name, item)
        case Pod():
            return Replacement(Collection.PODS, item.namespace, item.name, item)
        case DisruptionBudget():
            return Replacement(Collection.BUDGETS, item.namespace, item.name, item)
        case Node():
            return Replacement(Collection.NODES, "", item.name, item)


def with_value(item: Json, path: str, value: object) -> Json:
    """Return a copy with another value at a path such as `spec.containers[0].name`."""
    changed = copy.deepcopy(item)
    *parents, last = re.findall(r"[^.\[\]]+", path)
    inside: Any = changed
    for step in parents:
        inside = inside[int(step)] if isinstance(inside, list) else inside.setdefault(step, {})
    inside[int(last) if isinstance(inside, list) else last] = value
    return changed


def review_json(
    item: Json | None = None,
    *,
    old: Json | None = None,
    operation: str = "CREATE",
    uid: str = "review-1",
    subresource: str | None = None,
    dry_run: bool = False,
    **request: object,
) -> Json:
    """Return an AdmissionReview about an object, by default about the creation of `pod_json()`.

    `request` are further members of the request, e.g. `namespace="other"`.
    """
    if item is None and operation != "DELETE":
        item = pod_json()
    about = item or old or pod_json()
    group, version = group_of(about["apiVersion"]), about["apiVersion"].rpartition("/")[2]
    kind = about["kind"]
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": _some(
            uid=uid,
            kind={"group": group, "version": version, "kind": kind},
            resource={
                "group": group,
                "version": version,
                "resource": PLURALS.get(kind, f"{kind.lower()}s"),
            },
            subResource=subresource,
            name=about["metadata"].get("name"),
            namespace=about["metadata"].get("namespace"),
            operation=operation,
            userInfo={"username": "system:admin"},
            dryRun=dry_run,
            options={"apiVersion": "meta.k8s.io/v1", "kind": f"{operation.title()}Options"},
        )
        | {"object": item, "oldObject": old}
        | request,
    }


# --- the same, as read


def _read_container(item: Json) -> Container:
    return read_containers({"containers": [item]}, "containers", "spec")[0]


def _read_policy(item: Json) -> ContainerPolicy:
    (found,) = read_vpa(vpa_json(policies=[item])).policies or ()
    return found


container = _reading(container_json, _read_container)
pod = _reading(pod_json, read_pod)
running = _reading(running_json, read_pod)
policy = _reading(policy_json, _read_policy)
vpa = _reading(vpa_json, read_vpa)
workload = _reading(workload_json, read_workload)
limit_range = _reading(limit_range_json, read_limit_range)
node = _reading(node_json, read_node)
budget = _reading(budget_json, read_disruption_budget)
review = _reading(review_json, read_review)
