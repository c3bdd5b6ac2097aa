"""What scales workloads horizontally: HorizontalPodAutoscalers, and ScaledObjects of KEDA.

Strategy: of their metrics only those count that divide usage by the request, for these are coupled
to what a VPA changes: more of the resource in the request makes fewer pods, and fewer pods make
more usage of each. What an object leaves out is what its API server or KEDA would put there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from app.model.errors import BadObject
from app.model.fields import Object, integer_at, items_at, labels_at, object_at, text_at
from app.model.kinds import ObjectKey, read_owners, target_key
from app.model.quantity import CPU, SIZED

HPA_KIND: Final = "HorizontalPodAutoscaler"
SCALED_OBJECT_KIND: Final = "ScaledObject"

_DEFAULT_PERCENT: Final = 80  # of cpu, for an HPA without metrics
_PERCENT_OF_V1: Final = "targetCPUUtilizationPercentage"  # all that `autoscaling/v1` scales by
_DEFAULT_MOST: Final = 100  # replicas, for a ScaledObject that names none
_PAUSED: Final = "autoscaling.keda.sh/paused"
_PAUSED_AT: Final = "autoscaling.keda.sh/paused-replicas"
_FALSE: Final = ("0", "f", "F", "false", "False", "FALSE")  # what KEDA takes for that
_UTILIZATION: Final = "Utilization"


class ScaledMetric(NamedTuple):
    """A metric by which replicas are added when usage is above a share of the request."""

    scaler: ObjectKey
    resource: str
    container: str  # empty: all containers of the pod together
    percent: int
    place: int | None  # in the object's list of metrics or triggers; None: it has none
    is_typed_inside: bool = False  # a trigger whose metadata says what kind of target it has

    @property
    def by(self) -> str:
        """The object, as people write it."""
        return f"{self.scaler.kind}/{self.scaler.name}"

    @property
    def sentence(self) -> str:
        """Say what is scaled by which share of which request."""
        whose = f"container {self.container}'s" if self.container else "the pod's"
        return f"{self.by} adds replicas above {self.percent}% of {whose} {self.resource} request"

    def covers(self, container: str, resource: str) -> bool:
        """Whether the request for a resource of a container decides about replicas."""
        return resource == self.resource and self.container in ("", container)


def held_sentence(metrics: Iterable[ScaledMetric]) -> str:
    """Say why the requests by which replicas are scaled stay as they are."""
    found = list(dict.fromkeys(metric.sentence for metric in metrics))
    stay = "that request stays as it is" if len(found) == 1 else "those requests stay as they are"
    return f"{'; '.join(found)}, so {stay}"


@dataclass(frozen=True, slots=True)
class HorizontalScaler:
    """An object that changes the replicas of a workload."""

    namespace: str
    kind: str
    name: str
    target: ObjectKey
    metrics: tuple[ScaledMetric, ...]  # those that are coupled to requests; none if it is at rest
    made_by: str = ""  # the ScaledObject from which KEDA made it

    @property
    def key(self) -> ObjectKey:
        """The key of the object."""
        return scaler_key(self.kind, self.name)

    @property
    def origin(self) -> str:
        """What people change: the object itself, or that from which KEDA made it."""
        made_by = f"{SCALED_OBJECT_KIND}/{self.made_by}"
        return made_by if self.made_by else f"{self.kind}/{self.name}"


def scaler_key(kind: str, name: str) -> ObjectKey:
    """Return the key of an object that scales."""
    return ObjectKey("autoscaling" if kind == HPA_KIND else "keda.sh", kind, name)


def read_hpa(item: Object) -> HorizontalScaler:
    """Read a HorizontalPodAutoscaler of `autoscaling/v2`; files may hold one of v1."""
    metadata = object_at(item, "metadata", "")
    spec = object_at(item, "spec", "")
    name = text_at(metadata, "name", "metadata")
    least = integer_at(spec, "minReplicas", "spec")
    most = integer_at(spec, "maxReplicas", "spec") or 0
    is_at_rest = (1 if least is None else least) >= most
    owners = (one for one in read_owners(metadata) if one.kind == SCALED_OBJECT_KIND)
    return HorizontalScaler(
        namespace=text_at(metadata, "namespace", "metadata"),
        kind=HPA_KIND,
        name=name,
        target=_target(spec),
        metrics=() if is_at_rest else tuple(_hpa_metrics(spec, scaler_key(HPA_KIND, name))),
        made_by=next((one.name for one in owners), ""),
    )


def _target(spec: Object) -> ObjectKey:
    target, path = object_at(spec, "scaleTargetRef", "spec"), "spec.scaleTargetRef"
    return target_key(
        text_at(target, "apiVersion", path),
        text_at(target, "kind", path) or "Deployment",
        text_at(target, "name", path),
    )


def _hpa_metrics(spec: Object, scaler: ObjectKey) -> Iterator[ScaledMetric]:
    if not spec.get("metrics"):
        percent = _percent(spec, _PERCENT_OF_V1, "spec")
        yield ScaledMetric(scaler, CPU, "", percent or _DEFAULT_PERCENT, None)
    for place, (metric, path) in enumerate(items_at(spec, "metrics", "spec")):
        match text_at(metric, "type", path):
            case "Resource":
                key = "resource"
            case "ContainerResource":
                key = "containerResource"
            case _:
                continue
        source, at = object_at(metric, key, path), f"{path}.{key}"
        target = object_at(source, "target", at)
        percent = _percent(target, "averageUtilization", f"{at}.target")
        resource = text_at(source, "name", at)
        if percent is not None and resource in SIZED:
            yield ScaledMetric(scaler, resource, text_at(source, "container", at), percent, place)


def _percent(parent: Object, key: str, path: str) -> int | None:
    """Return a share of requests; no API server takes one of nothing, but files may hold it."""
    percent = integer_at(parent, key, path)
    if percent is not None and percent <= 0:
        raise BadObject(f"{path}.{key}", "must be greater than 0")
    return percent


def read_scaled_object(item: Object) -> HorizontalScaler:
    """Read a ScaledObject of `keda.sh/v1alpha1`."""
    metadata = object_at(item, "metadata", "")
    spec = object_at(item, "spec", "")
    name = text_at(metadata, "name", "metadata")
    annotations = labels_at(metadata, "annotations", "metadata")
    is_paused = annotations.get(_PAUSED, "false") not in _FALSE or _PAUSED_AT in annotations
    least = integer_at(spec, "minReplicaCount", "spec") or 0
    most = integer_at(spec, "maxReplicaCount", "spec")
    is_at_rest = is_paused or max(least, 1) >= (_DEFAULT_MOST if most is None else most)
    return HorizontalScaler(
        namespace=text_at(metadata, "namespace", "metadata"),
        kind=SCALED_OBJECT_KIND,
        name=name,
        target=_target(spec),
        metrics=() if is_at_rest else tuple(_triggers(spec, scaler_key(SCALED_OBJECT_KIND, name))),
    )


def _triggers(spec: Object, scaler: ObjectKey) -> Iterator[ScaledMetric]:
    for place, (trigger, path) in enumerate(items_at(spec, "triggers", "spec")):
        resource = text_at(trigger, "type", path)
        settings = labels_at(trigger, "metadata", path)
        inside, value = settings.get("type", ""), settings.get("value", "")
        kind = text_at(trigger, "metricType", path) or inside
        if resource in SIZED and kind == _UTILIZATION and value.isdecimal() and int(value) > 0:
            container = settings.get("containerName", "")
            yield ScaledMetric(scaler, resource, container, int(value), place, bool(inside))


def coupled_metrics(scalers: Iterable[HorizontalScaler]) -> Iterator[ScaledMetric]:
    """Yield the metrics by which a workload is scaled in proportion to its requests.

    What KEDA makes repeats its ScaledObject, which is what people change; where that is known,
    at rest or not, the HPA that was made from it does not count.
    """
    found = sorted(scalers, key=lambda one: one.key)
    makers = {one.name for one in found if one.kind == SCALED_OBJECT_KIND}
    for one in found:
        if one.made_by not in makers or not one.made_by:
            yield from one.metrics
