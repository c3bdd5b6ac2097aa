"""Pods in a resize: wait, replace it, evict, or take it back.

Strategy: a resize under way is waited for. It is replaced only when something clearly different
is wanted, followed by an eviction where the mode allows one and it is stuck, and taken back where
not: the scheduler holds the room that a deferred pod asked for, so it may not wait for ever.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from typing import Final

from app.model.pods import Pod
from app.model.quantity import CPU, SIZED, Quantities, Quantity
from app.updater.core.decisions import Action, ContainerChange, PodChange, Reason
from app.updater.core.infeasible import Infeasible, blamed_resources
from app.updater.core.moments import LATEST, believed, later
from app.updater.core.numbers import measure
from app.updater.core.patching import last_updated, updated_marks, without_raised_marks
from app.updater.core.resize_wishes import (
    REASONS,
    Urge,
    assessment,
    changes_of,
    evict,
    fresh,
    is_only_in_place,
    resize,
    waiting,
)
from app.updater.core.resizing import ResizeState, Stage, are_same, is_stuck
from app.updater.core.shapes import Shape
from app.updater.core.wishes import Assessment, Case, Wish

_PATIENT: Final = (Stage.DEFERRED, Stage.FAILING)  # taken back only after a while


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
