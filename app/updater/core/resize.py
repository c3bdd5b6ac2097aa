"""Pods that are updated in place: ask, wait, replace, evict, or take it back.

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
from app.model.times import LATEST, believed, later
from app.updater.core.decisions import Action, ContainerChange, PodChange, Reason
from app.updater.core.memory import Infeasible, blamed_resources, is_remembered, wanted_requests
from app.updater.core.patching import (
    last_updated,
    raised_marks,
    updated_marks,
    without_raised_marks,
)
from app.updater.core.proposals import RESIZE_REASONS, Assessment, Need, PodContext, Proposal
from app.updater.core.resize_state import (
    ResizeStage,
    ResizeState,
    are_same,
    changes_qos,
    is_disruptive,
    is_stuck,
)
from app.updater.core.targets import PodTarget, measure

_PATIENT: Final = (ResizeStage.DEFERRED, ResizeStage.FAILING)  # taken back only after a while


def in_place(context: PodContext, need: Need) -> Assessment:
    """Assess a pod that needs an update and may get it in place."""
    base = assessment(context, need)
    if context.remembered.resized is not None:
        return waiting(base, Reason.RESIZE_IN_PROGRESS, "a resize was accepted just now")
    if context.pod.phase == "Pending" and context.pod.node:
        return _pending(context, need, base)
    if need.state.is_ongoing:
        return under_way(context, need, base)
    changes = changes_of(context, need.target)
    if not changes:
        message = "all that can be changed in place is asked for"
        return context.decided(Action.NONE, Reason.NO_CHANGE, message, numbers=base.numbers)
    return fresh(context, need, base, changes)


def _pending(context: PodContext, need: Need, base: Assessment) -> Assessment:
    """Assess a pod that has a node but does not run yet: only want of memory is mended now."""
    if need.priority.quick_oom and context.vpa.allows.may_evict:
        return replace(base, proposal=evict(context, need, need.message))
    return waiting(base, Reason.POD_PENDING, "the pod does not run yet")


def assessment(context: PodContext, need: Need) -> Assessment:
    """Return the beginning of an assessment, with the numbers behind it."""
    return Assessment(
        context.pod,
        context.vpa,
        numbers=need.target.numbers,
        quick_oom=need.priority.quick_oom,
    )


def waiting(base: Assessment, reason: Reason, message: str) -> Assessment:
    """Return the assessment of a pod that has to wait."""
    return replace(base, decision=base.decided(Action.WAIT, reason, message))


def fresh(
    context: PodContext, need: Need, base: Assessment, changes: tuple[ContainerChange, ...]
) -> Assessment:
    """Assess a pod that is in no resize."""
    hopeless: tuple[Reason, str] | None = None
    past = context.remembered.infeasible
    if past is not None:
        wanted = wanted_requests(need.target.numbers.pairs)
        if is_remembered(past, wanted, context.allocatable, context.rules, context.inputs.now):
            hopeless = (Reason.INFEASIBLE_REMEMBERED, "the node refused as much before")
    if changes_qos(context.pod, changes):
        hopeless = (Reason.RESIZE_INFEASIBLE, "a resize may not change the pod's QoS class")
    if hopeless is None:
        return replace(base, proposal=resize(context, need, changes))
    if not context.vpa.allows.may_evict:
        return waiting(base, *hopeless)
    return replace(base, proposal=evict(context, need, f"{need.message}; {hopeless[1]}"))


def changes_of(context: PodContext, target: PodTarget) -> tuple[ContainerChange, ...]:
    """Return what a resize has to write."""
    changes = context.targets.changes(target, context.pod)
    if context.vpa.allows.only_upwards:
        return _only_rising(context.pod, changes)
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


def resize(context: PodContext, need: Need, changes: tuple[ContainerChange, ...]) -> Proposal:
    """Propose a resize."""
    now = context.inputs.now
    marks = (*updated_marks(now), *raised_marks(context.pod, changes, now))
    return Proposal(
        Action.RESIZE,
        need.message,
        PodChange(changes, marks, is_disruptive(context.pod, changes)),
        need.priority,
        need.unmet,
        may_evict=context.vpa.allows.may_evict,
        is_free=not context.pod.node,
    )


def evict(
    context: PodContext, need: Need, message: str, otherwise: PodChange | None = None
) -> Proposal:
    """Propose an eviction."""
    return Proposal(
        Action.EVICT,
        message,
        None,
        need.priority,
        need.unmet,
        is_free=context.pod.phase == "Pending",
        otherwise=otherwise,
        gives_back=RESIZE_REASONS[need.state.stage] if otherwise is not None else None,
    )


def under_way(context: PodContext, need: Need, base: Assessment) -> Assessment:
    """Assess a pod that is in a resize."""
    state = need.state
    base, since = dated(context, state, base)
    if _may_be_replaced(context, state) and _asks_for_something_else(context, need.target):
        found = fresh(context, need, base, changes_of(context, need.target))
        if found.proposal is not None and found.proposal.action is Action.RESIZE:
            return found
    message = f"the resize is {state.stage}{': ' if state.message else ''}{state.message}"
    back = _taken_back(context, state, since)
    if back is not None:
        base = replace(base, infeasible=_refused(context, need))
    if not context.vpa.allows.may_evict:
        if back is None:
            return waiting(base, RESIZE_REASONS[state.stage], message)
        return _given_back(need, base, back)
    if not is_stuck(state, since, context.rules, context.inputs.now):
        return waiting(base, RESIZE_REASONS[state.stage], message)
    return replace(base, proposal=evict(context, need, message, back))


def dated(context: PodContext, state: ResizeState, base: Assessment) -> tuple[Assessment, datetime]:
    """Return since when a pod is in its resize; if nothing tells, it is now, to be remembered."""
    now = context.inputs.now
    told = (last_updated(context.pod, now), believed(state.since, now))
    since = max((moment for moment in told if moment is not None), default=None)
    since = since or context.remembered.resizing_since
    return (base, since) if since is not None else (replace(base, resizing_since=now), now)


def _may_be_replaced(context: PodContext, state: ResizeState) -> bool:
    """Whether something else may be asked for; its time begins again, so not again and again."""
    began = believed(state.since, context.inputs.now)
    if began is None or state.stage not in _PATIENT:
        return True
    return context.inputs.now - began <= context.rules.give_back_timeout


def _asks_for_something_else(context: PodContext, target: PodTarget) -> bool:
    """Whether the resize under way is clearly not what is wanted now."""
    asked = {container.name: container.resources for container in context.pod.containers}
    pairs = tuple(
        replace(pair, current=asked[pair.container].request(pair.resource))
        for pair in target.numbers.pairs
    )
    numbers = measure(pairs)
    differs = numbers.gross_difference >= context.rules.update_threshold
    return differs or (
        numbers.is_outside and numbers.gross_difference >= context.rules.least_difference
    )


def _taken_back(context: PodContext, state: ResizeState, since: datetime) -> PodChange | None:
    """Return the change that takes a hopeless resize back, None while there is hope."""
    is_over = context.inputs.now - since > context.rules.give_back_timeout
    hopeless = state.stage is ResizeStage.INFEASIBLE or (is_over and state.stage in _PATIENT)
    changes = as_reported(context.pod) if hopeless else ()
    marks = (*updated_marks(context.inputs.now), *without_raised_marks(context.pod, changes))
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


def _given_back(need: Need, base: Assessment, back: PodChange) -> Assessment:
    reason = RESIZE_REASONS[need.state.stage]
    proposal = Proposal(
        Action.RESIZE,
        f"taken back, for the resize is {need.state.stage}: {need.state.message}",
        back,
        need.priority,
        is_free=True,
        gives_back=reason,
    )
    return replace(base, proposal=proposal)


def _refused(context: PodContext, need: Need) -> Infeasible:
    """Return what is remembered of the resize that stands in the pod's spec."""
    asked = {
        (container.name, name): amount
        for container in context.pod.containers
        for name, amount in (container.resources.requests or {}).items()
        if name in SIZED
    }
    return Infeasible(
        asked, blamed_resources(need.state.message), context.inputs.now, context.allocatable
    )


def leftover(context: PodContext, need: Need, quiet: Assessment) -> Assessment:
    """Assess a pod in a resize that is not needed any more: a stuck one is written back.

    Args:
        context: the pod.
        need: what would be asked for.
        quiet: what holds for a pod in no resize.
    """
    base, since = dated(context, need.state, assessment(context, need))
    if context.remembered.resized is None and need.state.stage is not ResizeStage.UNDER_WAY:
        may_be_replaced = _may_be_replaced(context, need.state)
        if may_be_replaced and (changes := changes_of(context, need.target)):
            told = f"{need.message}; the resize that is {need.state.stage} is replaced"
            proposal = resize(context, replace(need, message=told), changes)
            reason = RESIZE_REASONS[need.state.stage]
            proposal = replace(proposal, may_evict=False, is_free=True, gives_back=reason)
            return replace(base, proposal=proposal)
        if (back := _taken_back(context, need.state, since)) is not None:
            return _given_back(need, base, back)
    if need.state.stage is ResizeStage.UNDER_WAY:
        return waiting(base, Reason.RESIZE_IN_PROGRESS, "a resize is under way")
    until = min(later(since, context.rules.give_back_timeout), quiet.until or LATEST)
    return replace(quiet, until=until, resizing_since=base.resizing_since)
