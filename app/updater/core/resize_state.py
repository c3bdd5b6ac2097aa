"""In-place resizes: how far one has come, whether it is stuck, whether it restarts something.

Strategy: the kubelet reports by conditions, and removes them when it is done; but a change that it
has not seen yet shows only by its generation, and one that its runtime ignored only as a
difference between what is asked for and what is reported. All of them count as under way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from app.model.kinds import Condition
from app.model.pods import Container, Pod, Resources
from app.model.quantity import CPU, SIZED, Quantities, Quantity
from app.updater.core.decisions import ContainerChange
from app.updater.core.rules import UpdateRules

RESIZE_PENDING = "PodResizePending"
RESIZE_IN_PROGRESS = "PodResizeInProgress"
_RESTART = "RestartContainer"


class ResizeStage(StrEnum):
    """How far a resize has come."""

    NONE = "none"
    UNDER_WAY = "in progress"
    FAILING = "failing"  # tried again and again by the kubelet
    DEFERRED = "deferred"  # no room on the node now
    INFEASIBLE = "infeasible"  # never room on this node
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class ResizeState:
    """The resize that a pod is in."""

    stage: ResizeStage
    since: datetime | None = None
    message: str = ""

    @property
    def is_ongoing(self) -> bool:
        """Whether there is one."""
        return self.stage is not ResizeStage.NONE

    @property
    def may_begin(self) -> bool:
        """Whether there is one that the kubelet carries out, or may at any moment."""
        return self.stage not in (ResizeStage.NONE, ResizeStage.INFEASIBLE)

    @property
    def text(self) -> str:
        """The state for people."""
        return f"the resize is {self.stage}{': ' if self.message else ''}{self.message}"


SETTLED = ResizeState(ResizeStage.NONE)


def resize_state(pod: Pod) -> ResizeState:
    """Return how far a pod's resize has come."""
    reported = [
        item
        for item in pod.conditions
        if item.type in (RESIZE_PENDING, RESIZE_IN_PROGRESS) and item.status == "True"
    ]
    pending = next((item for item in reported if item.type == RESIZE_PENDING), None)
    if pending is not None:
        stages = {"Deferred": ResizeStage.DEFERRED, "Infeasible": ResizeStage.INFEASIBLE}
        return _state(stages.get(pending.reason, ResizeStage.UNKNOWN), pending)
    if reported:
        return _state(_progress(reported[0]), reported[0])
    if differs_from_status(pod):
        return ResizeState(ResizeStage.UNDER_WAY, None, "not reported as done")
    if pod.observed_generation and pod.observed_generation < pod.generation:
        return ResizeState(ResizeStage.UNDER_WAY, None, "not seen by the kubelet yet")
    return SETTLED


def _progress(condition: Condition) -> ResizeStage:
    if condition.reason == "Error":
        return ResizeStage.FAILING
    return ResizeStage.UNKNOWN if condition.reason or condition.message else ResizeStage.UNDER_WAY


def _state(stage: ResizeStage, condition: Condition) -> ResizeState:
    return ResizeState(stage, condition.last_transition, condition.message)


def differs_from_status(pod: Pod) -> bool:
    """Whether some container has not what it asks for, by the kubelet's own word."""
    asked = {container.name: container.resources for container in pod.containers}
    for status in pod.statuses:
        wanted, has = asked.get(status.name), status.resources
        if wanted is None or has is None:
            continue
        if wanted != has and not (
            _agree(wanted.requests, has.requests) and _agree(wanted.limits, has.limits)
        ):
            return True
    return False


def _agree(asked: Quantities | None, reported: Quantities | None) -> bool:
    """Whether what is asked for is reported so; what is not reported at all is not judged."""
    asked, reported = asked or {}, reported or {}
    return all(
        are_same(resource, asked[resource], reported[resource])
        for resource in SIZED
        if resource in asked and resource in reported
    )


def are_same(resource: str, one: Quantity | None, other: Quantity | None) -> bool:
    """Whether two amounts are the same to an API server, which keeps cpu in millicores."""
    if one is None or other is None:
        return one is other
    if resource == CPU:
        return one.milli == other.milli
    return one.units == other.units


def is_stuck(state: ResizeState, since: datetime, rules: UpdateRules, now: datetime) -> bool:
    """Whether an ongoing resize will not end by itself, or has taken too long."""
    match state.stage:
        case ResizeStage.DEFERRED:
            return now - since > rules.deferred_timeout
        case ResizeStage.UNDER_WAY:
            return now - since > rules.resize_timeout
        case _:
            return True


def may_restart(pod: Pod) -> bool:
    """Whether any change of any resource might restart a container."""
    return any(
        word == _RESTART for container in pod.containers for _, word in container.resize_policy
    )


def restarts(container: Container, change: ContainerChange) -> bool:
    """Whether a change restarts its container."""
    return any(
        word == _RESTART and (resource in change.requests or resource in change.limits)
        for resource, word in container.resize_policy
    )


def is_disruptive(pod: Pod, changes: Sequence[ContainerChange]) -> bool:
    """Whether a resize restarts a container."""
    return any(restarts(pod.containers[change.index], change) for change in changes)


class QosClass(StrEnum):
    """The classes that a resize may not change."""

    GUARANTEED = "Guaranteed"
    BURSTABLE = "Burstable"
    BEST_EFFORT = "BestEffort"


def qos_class(containers: Sequence[Resources]) -> QosClass:
    """Return the class of a pod with these containers, the init containers among them."""
    is_guaranteed, asks = True, False
    for resources in containers:
        for resource in SIZED:
            limit = _some(resources.limit(resource))
            request = _some(resources.request(resource)) or limit
            asks |= request is not None
            is_guaranteed &= limit is not None and request == limit
    if not asks:
        return QosClass.BEST_EFFORT
    return QosClass.GUARANTEED if is_guaranteed else QosClass.BURSTABLE


def _some(amount: Quantity | None) -> Quantity | None:
    return None if amount is None or amount.is_zero else amount


def changes_qos(pod: Pod, changes: Sequence[ContainerChange]) -> bool:
    """Whether an API server would refuse a resize because the pod would change its class."""
    if pod.pod_resources is not None:
        return False
    fixed = [container.resources for container in pod.init_containers]
    before = [container.resources for container in pod.containers]
    after = list(before)
    for change in changes:
        now = before[change.index]
        after[change.index] = Resources(
            {**(now.requests or {}), **change.requests}, {**(now.limits or {}), **change.limits}
        )
    return qos_class(fixed + before) is not qos_class(fixed + after)
