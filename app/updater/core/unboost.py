"""The end of a start-up boost: which containers are due, and what they go back to.

Strategy: a boost ends so long after the pod got ready, in every update mode, for cpu alone. The
mark that the webhook left stays until the kubelet reports the smaller size; a second mark tells
since when that is tried. A pod with that second mark is never evicted, for its replacement would
be boosted and get stuck again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import orjson

from app.model.errors import BadObject
from app.model.fields import as_object, quantities_at
from app.model.kinds import Condition
from app.model.pods import BOOST_ANNOTATION, Container, Pod, Resources
from app.model.quantity import CPU, ZERO, Quantity
from app.model.times import rfc3339
from app.model.vpa import StartupBoost, Vpa
from app.sizing.scaling import proportional_limit
from app.sizing.sizing import CappedRecommendation, Sizes
from app.updater.core.decisions import ContainerChange, PodChange
from app.updater.core.moments import believed, later
from app.updater.core.patching import read_time, updated_marks
from app.updater.core.resizing import is_disruptive
from app.updater.core.shapes import Shapes, difference

MARK: Final = "vpaCpuUnboostPending/"  # since when a container is being brought back
_MOMENT: Final = timedelta(milliseconds=1)


def boosted_containers(pod: Pod) -> frozenset[str]:
    """Return the containers that the webhook marked as boosted."""
    return _marked(pod, BOOST_ANNOTATION)


def pending_containers(pod: Pod) -> frozenset[str]:
    """Return the containers that are being brought back."""
    return _marked(pod, MARK)


def _marked(pod: Pod, prefix: str) -> frozenset[str]:
    return frozenset(
        key.removeprefix(prefix) for key in pod.annotations or () if key.startswith(prefix)
    )


def pending_since(pod: Pod, now: datetime) -> datetime | None:
    """Return since when a pod is being brought back, None if it is not, or not readably."""
    marks = (pod.annotation(MARK + name) for name in pending_containers(pod))
    times = [believed(read_time(text), now) for text in marks]
    return min((moment for moment in times if moment is not None), default=None)


def boost_lasts(vpa: Vpa, container: str) -> timedelta:
    """Return how long after Ready a container stays boosted; the VPA as it is now decides."""
    policy = vpa.policy(container)
    for boost in (policy.startup_boost if policy is not None else None, vpa.startup_boost):
        lasts = _lasts(boost)
        if lasts is not None:
            return lasts
    return timedelta()


def _lasts(boost: StartupBoost | None) -> timedelta | None:
    return boost.cpu.lasts if boost is not None and boost.cpu is not None else None


def ready_condition(pod: Pod) -> Condition | None:
    """Return the Ready condition if it holds."""
    ready = pod.condition("Ready")
    return ready if ready is not None and ready.status == "True" else None


def due_containers(pod: Pod, vpa: Vpa, now: datetime) -> frozenset[str]:
    """Return the boosted containers whose time is over."""
    ready = ready_condition(pod)
    if ready is None:
        return frozenset()
    return frozenset(
        name
        for name in boosted_containers(pod)
        if _is_over(believed(ready.last_transition, now), boost_lasts(vpa, name), now)
    )


def _is_over(since: datetime | None, lasts: timedelta, now: datetime) -> bool:
    return since is None or not lasts or now - since > lasts


def next_due(pod: Pod, vpa: Vpa, now: datetime) -> datetime | None:
    """Return when the next boosted container will be due, None if none will."""
    ready = ready_condition(pod)
    since = believed(ready.last_transition, now) if ready is not None else None
    if since is None:
        return None
    moments = (later(since, boost_lasts(vpa, name) + _MOMENT) for name in boosted_containers(pod))
    return min((moment for moment in moments if moment > now), default=None)


def remaining(pod: Pod, vpa: Vpa, now: datetime) -> timedelta:
    """Return the shortest time until a container is due, zero if none is to come."""
    moment = next_due(pod, vpa, now)
    if moment is None:
        return timedelta()
    return max(moment - _MOMENT - now, timedelta())


def original_resources(pod: Pod, container: str) -> Resources | None:
    """Return what a container asked for before its boost, None if the mark cannot be read."""
    text = pod.annotation(BOOST_ANNOTATION + container)
    try:
        found: Any = orjson.loads(text or "")
        parts = as_object(found, "")
        if not parts:
            return None
        return Resources(quantities_at(parts, "requests", ""), quantities_at(parts, "limits", ""))
    except (orjson.JSONDecodeError, BadObject):
        return None


@dataclass(frozen=True, slots=True)
class Return:
    """What brings a pod back, and what hinders it."""

    containers: tuple[ContainerChange, ...]
    lost: tuple[str, ...] = ()  # containers with nothing to go back to


def way_back(pod: Pod, due: frozenset[str], shapes: Shapes) -> Return:
    """Return what has to be written to bring the due containers back."""
    shape = shapes.of(pod, boosted_containers(pod))
    found: list[ContainerChange] = []
    lost: list[str] = []
    for index, container in enumerate(pod.containers):
        if container.name not in due:
            continue
        wanted = _cpu_without_boost(pod, container, shape.amounts, shapes)
        if wanted is None:
            lost.append(container.name)
            continue
        change = difference(index, container, wanted)
        if change.requests or change.limits:
            found.append(change)
    return Return(tuple(found), tuple(lost))


def _cpu_without_boost(
    pod: Pod, container: Container, amounts: Mapping[str, CappedRecommendation], shapes: Shapes
) -> Sizes | None:
    """Return the cpu that a container goes back to, None if nothing tells it."""
    name, vpa = container.name, shapes.vpa
    original = original_resources(pod, name)
    base = original if original is not None else shapes.bases(pod)[name]
    policy = vpa.policy(name)
    capped = amounts.get(name)
    if not vpa.is_off and capped is not None and capped.is_own and CPU in capped.target:
        target = capped.target[CPU]
        if policy is not None and policy.requests_only:
            return Sizes({CPU: target}, {}, ())
        usual = shapes.limits.container.usual(CPU) if shapes.limits.container else ZERO
        limit = proportional_limit(CPU, base.limit(CPU), base.request(CPU), target, usual)
        return Sizes({CPU: target}, _only_cpu(limit.amount), ())
    if original is None:
        template = shapes.template(pod).get(name)
        if template is None:
            return None
        original = template
    if original.request(CPU) is None:
        return None
    return Sizes(_only_cpu(original.request(CPU)), _only_cpu(original.limit(CPU)), ())


def _only_cpu(amount: Quantity | None) -> dict[str, Quantity]:
    return {} if amount is None else {CPU: amount}


def unboosting(pod: Pod, due: frozenset[str], back: Return, now: datetime) -> PodChange:
    """Return the change that sends the due containers back."""
    marks = ((MARK + name, rfc3339(now)) for name in sorted(due - pending_containers(pod)))
    return PodChange(
        back.containers, (*updated_marks(None), *marks), is_disruptive(pod, back.containers)
    )


def finished(pod: Pod, containers: frozenset[str]) -> PodChange:
    """Return the change that takes the marks away, once the kubelet reports the smaller size."""
    present = pod.annotations or {}
    marks = (prefix + name for name in sorted(containers) for prefix in (BOOST_ANNOTATION, MARK))
    return PodChange((), tuple((mark, None) for mark in marks if mark in present))


def after_refusal(change: PodChange) -> PodChange:
    """Return what is still written when the resize itself was refused: since when it is tried."""
    marks = (pair for pair in change.annotations if pair[0].startswith(MARK) and pair[1])
    return PodChange((), tuple(marks))
