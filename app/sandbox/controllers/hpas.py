"""HorizontalPodAutoscalers: as many replicas as the usage of a workload's pods asks for.

Strategy: every 15 seconds each is looked at: the scale of its target, the answer of each of its
metrics, the highest of them within the bounds and the pace that it allows. Resource and
ContainerResource are answered; the other metrics have no source here, and say so as they do in a
cluster without one. What it knows of the past is kept here, as in the real controller, and is lost
with the object.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from app.model.errors import ClusterError
from app.model.fields import time_at
from app.model.quantity import Quantity, QuantityFormat
from app.model.times import parse_duration, rfc3339
from app.ports import HPAS, Json
from app.sandbox.controllers.scaling_rules import (
    Dated,
    PodStanding,
    ReplicaRange,
    Sample,
    ScaledPod,
    ScaleHistory,
    Tolerances,
    UnknownUsage,
    UsageTarget,
    bounded,
    standing,
    wanted_replicas,
)
from app.sandbox.metrics import PodMetrics
from app.sandbox.objects import (
    Key,
    ObjectCondition,
    copied,
    key_of,
    member,
    set_condition,
)
from app.sandbox.pod_control import Controller, PodControl
from app.sandbox.refusals import not_found, unknown_resource
from app.sandbox.resources import amounts, is_sidecar, quantities
from app.sandbox.served_kinds import ScaleFields, ServedKind
from app.sandbox.store import selection
from app.sandbox.subresources import scale_of, scaled

PERIOD_SECONDS: Final = 15.0

_SOURCES: Final = {"Resource": "resource", "ContainerResource": "containerResource"}
_NO_SOURCE: Final = "no metrics returned from {} metrics API"
_GOT_SCALE: Final = ObjectCondition(
    "AbleToScale",
    "True",
    "SucceededGetScale",
    "the HPA controller was able to get the target's current scale",
)
_DISABLED: Final = ObjectCondition(
    "ScalingActive",
    "False",
    "ScalingDisabled",
    "scaling is disabled since the replica count of the target is zero",
)
_NO_SELECTOR: Final = ObjectCondition(
    "ScalingActive",
    "False",
    "InvalidSelector",
    "the HPA target's scale is missing a selector",
)
_ABLE: Final = {
    "": ("ReadyForNewScale", "recommended size matches current size"),
    "ScaleUpStabilized": (
        "ScaleUpStabilized",
        "recent recommendations were lower than current one, applying the lowest recent "
        "recommendation",
    ),
    "ScaleDownStabilized": (
        "ScaleDownStabilized",
        "recent recommendations were higher than current one, applying the highest recent "
        "recommendation",
    ),
}


class _Failed(Exception):
    """Why replicas stay as they are, as a condition and an event say it."""

    def __init__(self, condition: ObjectCondition, event: str, message: str) -> None:
        super().__init__(message)
        self.condition = condition
        self.event = event


class _Proposal(NamedTuple):
    """What one metric asks for."""

    replicas: int
    words: str
    status: Json


class _Target(NamedTuple):
    """What is scaled."""

    kind: ServedKind
    paths: ScaleFields
    key: Key
    scale: Json

    @property
    def replicas(self) -> int:
        """How many replicas it is to have."""
        return int(self.scale["spec"]["replicas"])


class HorizontalPodAutoscalers(Controller):
    """The controller of HorizontalPodAutoscalers."""

    resource = HPAS
    first_look_seconds = PERIOD_SECONDS

    def __init__(self, control: PodControl, metrics: PodMetrics) -> None:
        super().__init__(control)
        self._metrics = metrics
        self._histories: dict[Key, ScaleHistory] = {}
        self._selectors: dict[
            Key, Callable[[Json], bool]
        ] = {}  # of the pods of each, as of its last look

    def look(self, key: Key) -> float | None:
        """Move it on; forget the past of one that is gone."""
        if super().look(key) is None:
            self._histories.pop(key, None)
            self._selectors.pop(key, None)
            return None
        return PERIOD_SECONDS

    def move_on(self, owner: Json) -> float:
        """Give its target as many replicas as it asks for."""
        draft = copied(owner)
        try:
            status = self._scale(draft, self._histories.setdefault(key_of(owner), ScaleHistory()))
        except _Failed as failed:
            self._say(draft, failed.condition)
            self.tell(owner, failed.event, str(failed), warning=True)
            status = {}
        self.set_status(owner, {**draft["status"], **status})
        return PERIOD_SECONDS

    def _scale(self, owner: Json, history: ScaleHistory) -> Json:
        """Return the new status, but for the conditions, which the object gets."""
        monotonic = self._control.clock.monotonic()
        target = self._target(owner)
        self._say(owner, _GOT_SCALE)
        replicas = owner["status"]["currentReplicas"] = target.replicas
        if not history.answers:
            history.answers.append(Dated(monotonic, replicas))
        limits = ReplicaRange(owner["spec"]["minReplicas"], owner["spec"]["maxReplicas"])
        status: Json = {"currentMetrics": []}
        if replicas == 0:
            self._say(owner, _DISABLED)
            wanted, why = 0, ""
        elif replicas > limits.most:
            wanted, why = limits.most, "Current number of replicas above Spec.MaxReplicas"
        elif replicas < limits.least:
            wanted, why = limits.least, "Current number of replicas below Spec.MinReplicas"
        else:
            asked, status["currentMetrics"] = self._asked(owner, target)
            wanted = self._bounded(owner, history, limits, replicas, asked.replicas)
            is_more = asked.replicas > replicas
            why = f"{asked.words} above target" if is_more else "All metrics below target"
        if wanted != replicas:
            self._rescale(owner, target, wanted, why)
            dated = history.added if wanted > replicas else history.removed
            dated.append(Dated(monotonic, abs(wanted - replicas)))
            status["lastScaleTime"] = rfc3339(self._control.clock.now())
        return {**status, "desiredReplicas": wanted}

    def _bounded(
        self, owner: Json, history: ScaleHistory, limits: ReplicaRange, replicas: int, wanted: int
    ) -> int:
        """Return the replicas to have now; the conditions say what held them back."""
        behavior, monotonic = owner["spec"].get("behavior"), self._control.clock.monotonic()
        found = bounded(behavior, history, limits, replicas, wanted, monotonic)
        is_limited = "True" if found.is_limited else "False"
        self._say(owner, ObjectCondition("AbleToScale", "True", *_ABLE[found.stabilized]))
        self._say(owner, ObjectCondition("ScalingLimited", is_limited, found.reason, found.message))
        return found.replicas

    def _say(self, owner: Json, condition: ObjectCondition) -> None:
        set_condition(owner, condition, self._control.clock.now())

    def _target(self, owner: Json) -> _Target:
        reference = owner["spec"]["scaleTargetRef"]
        group = str(reference.get("apiVersion") or "").rpartition("/")[0]
        key = Key(key_of(owner).namespace, reference["name"])
        try:
            return self._read(group, reference["kind"], key)
        except ClusterError as error:
            message = error.message
            why = f"the HPA controller was unable to get the target's current scale: {message}"
            condition = ObjectCondition("AbleToScale", "False", "FailedGetScale", why)
            raise _Failed(condition, "FailedGetScale", message) from None

    def _read(self, group: str, kind: str, key: Key) -> _Target:
        for served in self._control.catalogue:
            if (served.resource.group, served.resource.kind) != (group, kind):
                continue
            item = self._control.store.read(served.collection, key)
            if item is None:
                raise not_found(served.collection, key.name)
            if served.scale is not None:
                return _Target(served, served.scale, key, scale_of(item, served.scale))
        raise unknown_resource()

    def _rescale(self, owner: Json, target: _Target, wanted: int, why: str) -> None:
        def edit(item: Json) -> Json:
            return scaled(item, target.paths, {"spec": {"replicas": wanted}})

        writes = self._control.writes
        try:
            writes.change(target.kind.resource, target.key, edit, subresource="scale")
        except ClusterError as error:
            message = f"the HPA controller was unable to update the target scale: {error.message}"
            condition = ObjectCondition("AbleToScale", "False", "FailedUpdateScale", message)
            told = f"New size: {wanted}; reason: {why}; error: {error.message}"
            raise _Failed(condition, "FailedRescale", told) from None
        message = f"the HPA controller was able to update the target scale to {wanted}"
        self._say(owner, ObjectCondition("AbleToScale", "True", "SucceededRescale", message))
        self.tell(owner, "SuccessfulRescale", f"New size: {wanted}; reason: {why}")

    def _asked(self, owner: Json, target: _Target) -> tuple[_Proposal, list[Json]]:
        """Return what the metric asks for that asks for most, and what all of them showed."""
        selector = member(target.scale, "status.selector")
        if not selector:
            raise _Failed(_NO_SELECTOR, "SelectorRequired", "selector is required")
        namespace = target.key.namespace
        matches = self._selectors[key_of(owner)] = selection("pods", selector, "")
        pods = [pod for pod in self._control.store.items("pods", namespace) if matches(pod)]
        self._check_alone(namespace, selector, pods)
        samples = self._metrics.list(namespace, selector, "").items
        usage = _Usage(pods, samples, target.replicas, self._control.clock.now())
        proposals, failures = [], []
        for metric in owner["spec"]["metrics"]:
            try:
                proposals.append(usage.answer(metric, _tolerances(owner)))
            except UnknownUsage as error:
                failures.append((f"FailedGet{metric['type']}Metric", str(error)))
        most = max(proposals, key=lambda found: found.replicas, default=None)
        if most is None or (failures and most.replicas < target.replicas):
            reason, message = failures[0]
            total = len(proposals) + len(failures)
            why = f"the HPA was unable to compute the replica count: {message}"
            first = f"invalid metrics ({len(failures)} invalid out of {total}), first error is"
            condition = ObjectCondition("ScalingActive", "False", reason, why)
            raise _Failed(condition, "FailedComputeMetricsReplicas", f"{first}: {message}")
        words = f"the HPA was able to successfully calculate a replica count from {most.words}"
        self._say(owner, ObjectCondition("ScalingActive", "True", "ValidMetricFound", words))
        return most, [found.status for found in proposals]

    def _check_alone(self, namespace: str, selector: str, pods: Iterable[Json]) -> None:
        """See that no other object scales the same pods.

        Raises:
            _Failed: one does, so none of them may.
        """
        rivals = [
            key
            for key, matches in self._selectors.items()
            if key.namespace == namespace and any(map(matches, pods))
        ]
        if len(rivals) > 1:
            names = " ".join("/".join(key) for key in sorted(rivals))
            why = f"pods by selector {selector} are controlled by multiple HPAs: [{names}]"
            condition = ObjectCondition("ScalingActive", "False", "AmbiguousSelector", why)
            raise _Failed(condition, "AmbiguousSelector", why)


class _Usage(NamedTuple):
    """The pods of a target and what is known of their usage."""

    pods: list[Json]
    samples: Sequence[Json]
    replicas: int
    now: datetime

    def answer(self, metric: Json, tolerances: Tolerances) -> _Proposal:
        """Return what a metric asks for."""
        kind = metric["type"]
        if kind not in _SOURCES:
            raise UnknownUsage(_NO_SOURCE.format("external" if kind == "External" else "custom"))
        source = metric[_SOURCES[kind]]
        name, container = source["name"], source.get("container", "")
        percent = source["target"].get("averageUtilization")
        amount = source["target"].get("averageValue")
        target = UsageTarget(percent or Quantity.read(amount).milli, is_share=percent is not None)
        what = "utilization" if target.is_share else "usage"
        if not self.samples:
            why = f"unable to get metrics for resource {name}: {_NO_SOURCE.format('resource')}"
            raise UnknownUsage(f"failed to get {name} {what}: {why}")
        try:
            pods = [self._scaled(pod, name, container, target) for pod in self.pods]
            answer = wanted_replicas(target, pods, self.replicas, tolerances)
        except UnknownUsage as error:
            raise UnknownUsage(f"failed to get {name} {what}: {error}") from None
        current: Json = {"averageValue": _written(name, answer.average_milli)}
        words = f"{name} resource"
        if target.is_share:
            current["averageUtilization"] = answer.current
            inside = " container" if container else ""
            words = f"{name}{inside} resource utilization (percentage of request)"
        shown = {key: source[key] for key in ("name", "container") if key in source}
        status = {"type": kind, _SOURCES[kind]: {**shown, "current": current}}
        return _Proposal(answer.replicas, words, status)

    def _scaled(self, pod: Json, resource: str, container: str, target: UsageTarget) -> ScaledPod:
        sample = self._sample(pod, resource, container)
        found = standing(pod, resource, sample, self.now)
        request = _requested(pod, resource, container) if target.is_share else 0
        used = sample.milli if sample and found is PodStanding.COUNTED else 0
        return ScaledPod(found, used, request)

    def _sample(self, pod: Json, resource: str, container: str) -> Sample | None:
        """Return what a pod, or a container of it, used; None if that is not known."""
        for item in self.samples:
            if key_of(item) != key_of(pod):
                continue
            used = [
                Quantity.read(one["usage"][resource]).milli
                for one in item["containers"]
                if container in ("", one["name"]) and resource in one["usage"]
            ]
            at = time_at(item, "timestamp", "")
            if used and at is not None:
                return Sample(sum(used), at, parse_duration(item["window"]))
        return None


def _requested(pod: Json, resource: str, container: str) -> int:
    whole = quantities(member(pod, "spec.resources.requests"))
    if whole and not container:
        if resource not in whole:
            name = pod["metadata"]["name"]
            raise UnknownUsage(f"missing pod-level request for {resource} in Pod {name}")
        return whole[resource].milli
    spec = pod["spec"]
    sidecars = filter(is_sidecar, spec.get("initContainers") or ())
    found = [one for one in (*spec["containers"], *sidecars) if container in ("", one["name"])]
    name = pod["metadata"]["name"]
    if not found:
        raise UnknownUsage(f"container {container} not found in Pod {name}")
    total = 0
    for one in found:
        request = amounts(one, "requests").get(resource)
        if request is None:
            where = f"container {one['name']} of Pod {name}"
            raise UnknownUsage(f"missing request for {resource} in {where}")
        total += request.milli
    return total


def _tolerances(owner: Json) -> Tolerances:
    usual = Tolerances()
    up, down = (
        member(owner, f"spec.behavior.{direction}.tolerance")
        for direction in ("scaleUp", "scaleDown")
    )
    return Tolerances(
        usual.up if up is None else Quantity.read(up).nano / 1e9,
        usual.down if down is None else Quantity.read(down).nano / 1e9,
    )


def _written(resource: str, milli: int) -> str:
    """Write an amount as the status shows it."""
    if resource == "memory":
        return str(Quantity.of_units(milli // 1000, QuantityFormat.BINARY_SI))
    return str(Quantity.of_milli(milli))
