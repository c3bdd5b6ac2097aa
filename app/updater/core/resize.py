"""Pods that are updated in place where that is possible."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from typing import Final

from app.model.pods import Pod
from app.model.quantity import CPU, SIZED, Quantities, Quantity
from app.model.times import LATEST, believed, later
from app.model.vpa import UpdateMode
from app.updater.core.decisions import Action, ContainerChange, PodChange, Reason
from app.updater.core.memory import Infeasible, blamed_resources, is_remembered, targets
from app.updater.core.patching import (
    last_updated,
    raised_marks,
    updated_marks,
    without_raised_marks,
)
from app.updater.core.proposals import REASONS, Assessment, Case, Urge, Wish
from app.updater.core.resize_state import (
    ResizeState,
    Stage,
    are_same,
    changes_qos,
    is_disruptive,
    is_stuck,
)
from app.updater.core.targets import Shape, measure

_PATIENT: Final = (Stage.DEFERRED, Stage.FAILING)  # taken back only after a while


def in_place(case: Case, urge: Urge) -> Assessment:
    """Assess a pod that needs an update and may get it in place."""
    base = assessment(case, urge)
    if case.remembered.resized is not None:
        return waiting(base, Reason.RESIZE_IN_PROGRESS, "a resize was accepted just now")
    if case.pod.phase == "Pending" and case.pod.node:
        return _pending(case, urge, base)
    if urge.state.is_ongoing:
        return under_way(case, urge, base)
    changes = changes_of(case, urge.shape)
    if not changes:
        message = "all that can be changed in place is asked for"
        return case.decided(Action.NONE, Reason.NO_CHANGE, message, numbers=base.numbers)
    return fresh(case, urge, base, changes)


def _pending(case: Case, urge: Urge, base: Assessment) -> Assessment:
    """Assess a pod that has a node but does not run yet: only want of memory is mended now."""
    if urge.priority.quick_oom and not is_only_in_place(case):
        return replace(base, wish=evict(case, urge, urge.message))
    return waiting(base, Reason.POD_PENDING, "the pod does not run yet")


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


def under_way(case: Case, urge: Urge, base: Assessment) -> Assessment:
    """Assess a pod that is in a resize."""
    state = urge.state
    base, since = dated(case, state, base)
    if _may_be_replaced(case, state) and _asks_for_something_else(case, urge.shape):
        found = fresh(case, urge, base, changes_of(case, urge.shape))
        if found.wish is not None and found.wish.action is Action.RESIZE:
            return found
    message = f"the resize is {state.stage}{': ' if state.message else ''}{state.message}"
    back = _taken_back(case, state, since)
    if back is not None:
        base = replace(base, infeasible=_refused(case, urge))
    if is_only_in_place(case):
        if back is None:
            return waiting(base, REASONS[state.stage], message)
        return _given_back(urge, base, back)
    if not is_stuck(state, since, case.rules, case.terms.now):
        return waiting(base, REASONS[state.stage], message)
    return replace(base, wish=evict(case, urge, message, back))


def dated(case: Case, state: ResizeState, base: Assessment) -> tuple[Assessment, datetime]:
    """Return since when a pod is in its resize; if nothing tells, it is now, to be remembered."""
    now = case.terms.now
    told = (last_updated(case.pod, now), believed(state.since, now))
    since = max((moment for moment in told if moment is not None), default=None)
    since = since or case.remembered.resizing_since
    return (base, since) if since is not None else (replace(base, resizing_since=now), now)


def _may_be_replaced(case: Case, state: ResizeState) -> bool:
    """Whether something else may be asked for; its time begins anew, so not again and again."""
    began = believed(state.since, case.terms.now)
    if began is None or state.stage not in _PATIENT:
        return True
    return case.terms.now - began <= case.rules.give_back_timeout


def _asks_for_something_else(case: Case, shape: Shape) -> bool:
    """Whether the resize under way is clearly not what is wanted now."""
    asked = {container.name: container.resources for container in case.pod.containers}
    pairs = tuple(
        replace(pair, current=asked[pair.container].request(pair.resource))
        for pair in shape.numbers.pairs
    )
    numbers = measure(pairs)
    differs = numbers.gross_difference >= case.rules.update_threshold
    return differs or (
        numbers.is_outside and numbers.gross_difference >= case.rules.least_difference
    )


def _taken_back(case: Case, state: ResizeState, since: datetime) -> PodChange | None:
    """Return the change that takes a hopeless wish back, None while there is hope."""
    is_over = case.terms.now - since > case.rules.give_back_timeout
    hopeless = state.stage is Stage.INFEASIBLE or (is_over and state.stage in _PATIENT)
    changes = as_reported(case.pod) if hopeless else ()
    marks = (*updated_marks(case.terms.now), *without_raised_marks(case.pod, changes))
    return PodChange(changes, marks) if changes else None


def as_reported(pod: Pod, without_cpu: frozenset[str] = frozenset()) -> tuple[ContainerChange, ...]:
    """Return the change that asks each container for what it has, but for the cpu of some."""
    found: list[ContainerChange] = []
    for index, container in enumerate(pod.containers):
        status = pod.status(container.name)
        if status is None or status.resources is None:
            continue
        asked, has = container.resources, status.resources
        names = [name for name in SIZED if not (name == CPU and container.name in without_cpu)]
        requests = _reported(names, asked.requests, has.requests)
        limits = _reported(names, asked.limits, has.limits)
        if requests or limits:
            found.append(ContainerChange(index, container.name, requests, limits))
    return tuple(found)


def _reported(
    names: Iterable[str], asked: Quantities | None, has: Quantities | None
) -> dict[str, Quantity]:
    asked, has = asked or {}, has or {}
    return {
        name: has[name]
        for name in names
        if name in asked and name in has and not are_same(name, asked[name], has[name])
    }


def _given_back(urge: Urge, base: Assessment, back: PodChange) -> Assessment:
    reason = REASONS[urge.state.stage]
    wish = Wish(
        Action.RESIZE,
        f"taken back, for the resize is {urge.state.stage}: {urge.state.message}",
        back,
        urge.priority,
        is_free=True,
        gives_back=reason,
    )
    return replace(base, wish=wish)


def _refused(case: Case, urge: Urge) -> Infeasible:
    """Return what is remembered of the wish that stands in the pod's spec."""
    asked = {
        (container.name, name): amount
        for container in case.pod.containers
        for name, amount in (container.resources.requests or {}).items()
        if name in SIZED
    }
    return Infeasible(asked, blamed_resources(urge.state.message), case.terms.now, case.allocatable)


def leftover(case: Case, urge: Urge, quiet: Assessment) -> Assessment:
    """Assess a pod in a resize that is not needed any more: a stuck one is written back.

    Args:
        case: the pod.
        urge: what would be asked for.
        quiet: what holds for a pod in no resize.
    """
    base, since = dated(case, urge.state, assessment(case, urge))
    if case.remembered.resized is None and urge.state.stage is not Stage.UNDER_WAY:
        may_be_replaced = _may_be_replaced(case, urge.state)
        if may_be_replaced and (changes := changes_of(case, urge.shape)):
            told = f"{urge.message}; the resize that is {urge.state.stage} is replaced"
            wish = resize(case, replace(urge, message=told), changes)
            reason = REASONS[urge.state.stage]
            wish = replace(wish, may_evict=False, is_free=True, gives_back=reason)
            return replace(base, wish=wish)
        if (back := _taken_back(case, urge.state, since)) is not None:
            return _given_back(urge, base, back)
    if urge.state.stage is Stage.UNDER_WAY:
        return waiting(base, Reason.RESIZE_IN_PROGRESS, "a resize is under way")
    until = min(later(since, case.rules.give_back_timeout), quiet.until or LATEST)
    return replace(quiet, until=until, resizing_since=base.resizing_since)
