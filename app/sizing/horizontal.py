"""The way out for a workload whose replicas are scaled by a resource that a VPA recommends.

Strategy: the real algorithm divides the usage of all pods by what their specs request, so today's
scale point is a share of that on average. An absolute target of that size changes nothing at once,
and is no longer moved by what a VPA writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import orjson

from app.model.fields import Json
from app.model.kinds import ObjectKey
from app.model.pods import Container, Pod
from app.model.quantity import MEMORY, Quantity
from app.model.scalers import HPA_KIND, ScaledMetric

_ABSOLUTE: Final = "AverageValue"
_MIB: Final = 2**20
_ENDED: Final = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class WayOut:
    """The change after which a resource is sized again."""

    namespace: str
    scaler: ObjectKey
    patch: Sequence[Json]

    @property
    def command(self) -> str:
        """The command that makes it."""
        plural = "hpa" if self.scaler.kind == HPA_KIND else "scaledobject"
        what = f"{plural} {self.scaler.name}"
        patch = orjson.dumps(self.patch).decode()
        return f"kubectl -n {self.namespace} patch {what} --type=json -p '{patch}'"


def scale_point(
    metric: ScaledMetric, pods: Iterable[Pod], template: Sequence[Container] = ()
) -> Quantity | None:
    """Return the usage of a pod above which replicas are added; None if that is not known.

    The template stands for pods where there are none. Pods that are boosted or have ended do not
    count, nor those that lack a request, of which the algorithm makes no share.
    """
    lasting = (pod for pod in pods if not (pod.is_boosted or pod.deleted or pod.phase in _ENDED))
    requested = [_requested(metric, pod) for pod in lasting] or [_sum(metric, template)]
    known = [nano for nano in requested if nano]
    if not known:
        return None
    point = sum(known) * metric.percent // (100 * len(known))
    if metric.resource != MEMORY:
        return Quantity.of_milli(max(-(-point // 10**6), 1))
    bytes_ = point // 10**9
    text = f"{-(-bytes_ // _MIB)}Mi" if bytes_ >= _MIB else str(max(bytes_, 1))
    return Quantity.read(text)


def _requested(metric: ScaledMetric, pod: Pod) -> int:
    """Return what a pod's spec asks for: as a whole, if it says so, else container by container."""
    whole = pod.pod_resources
    if whole is not None and whole.requests and not metric.container:
        request = whole.request(metric.resource)
        return request.nano if request is not None else 0
    sidecars = (one for one in pod.init_containers if one.is_sidecar)
    return _sum(metric, (*pod.containers, *sidecars))


def _sum(metric: ScaledMetric, containers: Iterable[Container]) -> int:
    """Return what containers ask for together, 0 if one of them does not say."""
    requests = [
        one.resources.request(metric.resource)
        for one in containers
        if metric.covers(one.name, metric.resource)
    ]
    known = [request.nano for request in requests if request is not None]
    return sum(known) if len(known) == len(requests) else 0


def way_out(namespace: str, metric: ScaledMetric, point: Quantity) -> WayOut:
    """Return the change of an object that lets it scale by an absolute amount."""
    patch = _hpa_patch if metric.scaler.kind == HPA_KIND else _scaled_object_patch
    return WayOut(namespace, metric.scaler, patch(metric, str(point)))


def _hpa_patch(metric: ScaledMetric, amount: str) -> list[Json]:
    target = {"type": _ABSOLUTE, "averageValue": amount}
    if metric.place is None:
        only = {"type": "Resource", "resource": {"name": metric.resource, "target": target}}
        return [{"op": "add", "path": "/spec/metrics", "value": [only]}]
    source = "containerResource" if metric.container else "resource"
    path = f"/spec/metrics/{metric.place}/{source}"
    return [
        {"op": "test", "path": f"{path}/name", "value": metric.resource},
        {"op": "replace", "path": f"{path}/target", "value": target},
    ]


def _scaled_object_patch(metric: ScaledMetric, amount: str) -> list[Json]:
    path = f"/spec/triggers/{metric.place}"
    old = [{"op": "remove", "path": f"{path}/metadata/type"}] if metric.is_typed_inside else []
    return [
        {"op": "test", "path": f"{path}/type", "value": metric.resource},
        *old,
        {"op": "add", "path": f"{path}/metricType", "value": _ABSOLUTE},
        {"op": "replace", "path": f"{path}/metadata/value", "value": amount},
    ]
