"""Wishes for a resize, and for the eviction that stands for one that is hopeless."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from app.model.pods import Pod
from app.model.vpa import UpdateMode
from app.updater.core.decisions import Action, ContainerChange, PodChange, Reason
from app.updater.core.infeasible import is_remembered, targets
from app.updater.core.need import Priority
from app.updater.core.patching import raised_marks, updated_marks
from app.updater.core.resizing import ResizeState, Stage, changes_qos, is_disruptive
from app.updater.core.shapes import Shape
from app.updater.core.wishes import Assessment, Case, Wish

REASONS: Final = {
    Stage.UNDER_WAY: Reason.RESIZE_IN_PROGRESS,
    Stage.UNKNOWN: Reason.RESIZE_IN_PROGRESS,
    Stage.FAILING: Reason.RESIZE_ERROR,
    Stage.DEFERRED: Reason.RESIZE_DEFERRED,
    Stage.INFEASIBLE: Reason.RESIZE_INFEASIBLE,
}


@dataclass(frozen=True, slots=True)
class Urge:
    """A need that was found, for a pod of a certain shape."""

    shape: Shape
    message: str
    priority: Priority
    unmet: str
    state: ResizeState


def assessment(case: Case, urge: Urge) -> Assessment:
    """Return the beginning of an assessment, with the numbers behind it."""
    return Assessment(
        case.pod,
        case.vpa,
        numbers=urge.shape.numbers,
        quick_oom=urge.priority.quick_oom,
    )


def is_only_in_place(case: Case) -> bool:
    """Whether the update mode never evicts."""
    return case.vpa.mode == UpdateMode.IN_PLACE


def waiting(base: Assessment, reason: Reason, message: str) -> Assessment:
    """Return the assessment of a pod that has to wait."""
    return replace(base, decision=base.decided(Action.WAIT, reason, message))


def fresh(
    case: Case, urge: Urge, base: Assessment, changes: tuple[ContainerChange, ...]
) -> Assessment:
    """Assess a pod that is in no resize."""
    hopeless: tuple[Reason, str] | None = None
    past = case.remembered.infeasible
    if past is not None:
        wanted = targets(urge.shape.numbers.pairs)
        if is_remembered(past, wanted, case.allocatable, case.rules, case.terms.now):
            hopeless = (Reason.INFEASIBLE_REMEMBERED, "the node refused as much before")
    if changes_qos(case.pod, changes):
        hopeless = (Reason.RESIZE_INFEASIBLE, "a resize may not change the pod's QoS class")
    if hopeless is None:
        return replace(base, wish=resize(case, urge, changes))
    if is_only_in_place(case):
        return waiting(base, *hopeless)
    return replace(base, wish=evict(case, urge, f"{urge.message}; {hopeless[1]}"))


def changes_of(case: Case, shape: Shape) -> tuple[ContainerChange, ...]:
    """Return what a resize has to write."""
    changes = case.shapes.changes(shape, case.pod)
    if case.vpa.mode == UpdateMode.UPSCALE_ONLY:
        return _only_rising(case.pod, changes)
    return changes


def _only_rising(pod: Pod, changes: tuple[ContainerChange, ...]) -> tuple[ContainerChange, ...]:
    """Keep what makes a container bigger, with the limits that go along."""
    found: list[ContainerChange] = []
    for change in changes:
        has = pod.containers[change.index].resources
        requests = {
            name: amount
            for name, amount in change.requests.items()
            if (before := has.request(name)) is None or amount > before
        }
        limits = {name: amount for name, amount in change.limits.items() if name in requests}
        if requests:
            found.append(replace(change, requests=requests, limits=limits))
    return tuple(found)


def resize(case: Case, urge: Urge, changes: tuple[ContainerChange, ...]) -> Wish:
    """Return the wish for a resize."""
    now = case.terms.now
    marks = (*updated_marks(now), *raised_marks(case.pod, changes, now))
    return Wish(
        Action.RESIZE,
        urge.message,
        PodChange(changes, marks, is_disruptive(case.pod, changes)),
        urge.priority,
        urge.unmet,
        may_evict=not is_only_in_place(case),
        is_free=not case.pod.node,
    )


def evict(case: Case, urge: Urge, message: str, otherwise: PodChange | None = None) -> Wish:
    """Return the wish for an eviction."""
    return Wish(
        Action.EVICT,
        message,
        None,
        urge.priority,
        urge.unmet,
        is_free=case.pod.phase == "Pending",
        otherwise=otherwise,
        gives_back=REASONS[urge.state.stage] if otherwise is not None else None,
    )
