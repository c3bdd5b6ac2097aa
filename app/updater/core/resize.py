"""How a pod gets what it needs: ask for a resize, wait, replace or revert it, or evict the pod.

Strategy: a resize under way is waited for. It is replaced only when something clearly different
is wanted, followed by an eviction where the mode allows one and it is stuck, and reverted where
not: the scheduler holds the room that a deferred pod asked for, so it may not wait for ever.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Final

from app.model.pod_roles import leads
from app.model.pods import Pod
from app.model.quantity import SIZED
from app.model.times import LATEST, believed, later
from app.sizing.sizing import Sizes
from app.updater.core.decisions import Action, ContainerChange, PodChange, Reason, Why
from app.updater.core.memory import Infeasible, blamed_resources, is_remembered, wanted_requests
from app.updater.core.need import is_worth_it
from app.updater.core.owners import Role
from app.updater.core.patching import (
    last_updated,
    raised_annotations,
    updated_annotations,
    without_raised_annotations,
)
from app.updater.core.pod_targets import PodTarget, container_change, measure, sized_resources
from app.updater.core.proposals import RESIZE_REASONS, Assessment, Need, PodContext, Proposal
from app.updater.core.resize_state import (
    ResizeStage,
    ResizeState,
    changes_qos,
    is_disruptive,
    is_stuck,
)

_WHY_IN_PLACE: Final = {
    Role.ACQUIRED: "evicting it would lose its role",
    Role.RESUMED: "its role changed since it was sized",
    Role.HELD: "evicting it would make another pod lead",
}
_PATIENT: Final = (ResizeStage.DEFERRED, ResizeStage.FAILING)  # reverted only after a while


def in_place(context: PodContext, need: Need) -> Assessment:
    """Assess a pod that needs an update and may get it in place."""
    base = _assessment(context, need)
    if context.remembered.resized is not None:
        return base.waiting(Reason.RESIZE_IN_PROGRESS, "a resize was accepted just now")
    if context.pod.phase == "Pending" and context.pod.node:
        if need.is_quick_oom and context.vpa.allows.may_evict:
            return replace(base, proposal=_evict(context, need))
        return base.waiting(Reason.POD_PENDING, "the pod is not running yet")
    if need.state.is_ongoing:
        return _ongoing(context, need, base)
    changes = _changes(context, need.target)
    if not changes:
        message = "all that can be changed in place is requested already"
        return context.assessed(Action.NONE, Reason.NO_CHANGE, message, numbers=base.numbers)
    return _propose_resize(context, need, base, changes)


def by_eviction(context: PodContext, need: Need) -> Assessment:
    """Assess a pod that is updated by being recreated."""
    base, stage = _assessment(context, need), need.state.stage
    proposal = _evict(context, need)
    if need.state.is_ongoing and proposal.needs_slot:
        base, since = _dated(context, need.state, base)
        if not is_stuck(need.state, since, context.rules, context.inputs.now):
            return base.waiting(RESIZE_REASONS[stage], f"a resize is {stage}")
        revert = _revert_change(context, need.state, since)
        proposal = _evict(context, need, revert_change=revert)
    return replace(base, proposal=proposal)


def _assessment(context: PodContext, need: Need) -> Assessment:
    """Return the beginning of an assessment, with the numbers behind it."""
    return Assessment(
        context.pod,
        context.vpa,
        numbers=need.target.numbers,
        is_quick_oom=need.is_quick_oom,
        role=context.role,
        is_in_place=context.is_in_place,
    )


def _propose_resize(
    context: PodContext, need: Need, base: Assessment, changes: tuple[ContainerChange, ...]
) -> Assessment:
    """Assess a pod for which a resize is to be asked for."""
    hopeless: Why | None = None
    past = context.remembered.infeasible
    if past is not None:
        wanted = wanted_requests(need.target.numbers.pairs)
        if is_remembered(past, wanted, context.allocatable, context.rules, context.inputs.now):
            hopeless = (Reason.INFEASIBLE_REMEMBERED, "the node refused this size before")
    if changes_qos(context.pod, changes):
        hopeless = (Reason.RESIZE_INFEASIBLE, "a resize may not change the pod's QoS class")
    if hopeless is None:
        return replace(base, proposal=_resize(context, need, changes))
    if not context.vpa.allows.may_evict:
        return base.waiting(*hopeless)
    return replace(base, proposal=_evict(context, need, hopeless[1]))


def _changes(context: PodContext, target: PodTarget) -> tuple[ContainerChange, ...]:
    """Return what a resize has to write."""
    changes = context.targets.changes(target, context.pod)
    if context.vpa.allows.only_upwards or context.settles_until is not None:
        return _only_rising(context.pod, changes)
    return changes


def _only_rising(pod: Pod, changes: tuple[ContainerChange, ...]) -> tuple[ContainerChange, ...]:
    """Keep what makes a container bigger, with the limits that go along."""
    rising: list[ContainerChange] = []
    for change in changes:
        has = pod.containers[change.index].resources
        requests = {
            name: amount
            for name, amount in change.requests.items()
            if (before := has.request(name)) is None or amount > before
        }
        limits = {name: amount for name, amount in change.limits.items() if name in requests}
        if requests:
            rising.append(replace(change, requests=requests, limits=limits))
    return tuple(rising)


def _resize(context: PodContext, need: Need, changes: tuple[ContainerChange, ...]) -> Proposal:
    """Propose a resize."""
    now, restarts = context.inputs.now, is_disruptive(context.pod, changes)
    annotations = (
        *updated_annotations(now, context.vpa.name),
        *raised_annotations(context.pod, changes, now),
    )
    is_free = context.rules.skip_disruption_budget or leads(context.pod)
    message = need.message
    if not context.vpa.allows.may_resize and context.role in _WHY_IN_PLACE:
        message = f"{message}; in place, because {_WHY_IN_PLACE[context.role]}"
    return Proposal(
        Action.RESIZE,
        need.check.reason,
        message,
        need.rank,
        bool(context.pod.node) and (restarts or not is_free),
        PodChange(changes, annotations, restarts),
        need.unmet,
    )


def _evict(
    context: PodContext, need: Need, no_resize: str = "", revert_change: PodChange | None = None
) -> Proposal:
    """Propose an eviction; `no_resize` says why it is no resize."""
    return Proposal(
        Action.EVICT,
        need.check.reason,
        "; ".join(filter(None, (need.message, no_resize))),
        need.rank,
        needs_slot=context.pod.phase != "Pending",
        unmet=need.unmet,
        revert_reason=RESIZE_REASONS[need.state.stage] if revert_change is not None else None,
        revert_change=revert_change,
    )


def _ongoing(context: PodContext, need: Need, base: Assessment) -> Assessment:
    """Assess a pod that is in a resize."""
    state = need.state
    base, since = _dated(context, state, base)
    if _may_be_replaced(context, state) and _asks_for_something_else(context, need.target):
        replaced = _propose_resize(context, need, base, _changes(context, need.target))
        if replaced.proposal is not None and replaced.proposal.action is Action.RESIZE:
            return replaced
    revert = _revert_change(context, state, since)
    if revert is not None:
        base = replace(base, infeasible=_refused(context, need))
    if context.vpa.allows.may_evict:
        if is_stuck(state, since, context.rules, context.inputs.now):
            return replace(base, proposal=_evict(context, need, state.text, revert))
    elif revert is not None:
        return _reverted(need, base, revert)
    return base.waiting(RESIZE_REASONS[state.stage], state.text)


def _dated(
    context: PodContext, state: ResizeState, base: Assessment
) -> tuple[Assessment, datetime]:
    """Return since when a pod is in its resize; if nothing tells, it is now, to be remembered."""
    now = context.inputs.now
    moments = filter(None, (last_updated(context.pod, now), believed(state.since, now)))
    since = max(moments, default=None)
    since = since or context.remembered.resizing_since
    return (base, since) if since is not None else (replace(base, resizing_since=now), now)


def _may_be_replaced(context: PodContext, state: ResizeState) -> bool:
    """Whether something else may be asked for; its time begins again, so not again and again."""
    began = believed(state.since, context.inputs.now)
    if began is None or state.stage not in _PATIENT:
        return True
    return context.inputs.now - began <= context.rules.revert_after


def _asks_for_something_else(context: PodContext, target: PodTarget) -> bool:
    """Whether the resize under way is clearly not what is wanted now."""
    asked = {container.name: container.resources for container in context.pod.containers}
    pairs = tuple(
        replace(pair, current=asked[pair.container].request(pair.resource))
        for pair in target.numbers.pairs
    )
    numbers = measure(pairs)
    return is_worth_it(numbers.gross_difference, context.rules, at_once=numbers.is_outside)


def _revert_change(context: PodContext, state: ResizeState, since: datetime) -> PodChange | None:
    """Return the change that reverts a hopeless resize, None while there is hope."""
    is_over = context.inputs.now - since > context.rules.revert_after
    hopeless = state.stage is ResizeStage.INFEASIBLE or (is_over and state.stage in _PATIENT)
    changes = as_reported(context.pod) if hopeless else ()
    annotations = (
        *updated_annotations(context.inputs.now),
        *without_raised_annotations(context.pod, changes),
    )
    return PodChange(changes, annotations) if changes else None


def as_reported(pod: Pod, without_cpu: frozenset[str] = frozenset()) -> tuple[ContainerChange, ...]:
    """Return the change that asks each container for what it has, but for the cpu of some."""
    changes: list[ContainerChange] = []
    for index, container in enumerate(pod.containers):
        status = pod.status(container.name)
        if status is None or status.resources is None:
            continue
        asked, has = container.resources, status.resources
        requests, limits = (
            {name: amount for name, amount in (reported or {}).items() if name in (names or {})}
            for reported, names in ((has.requests, asked.requests), (has.limits, asked.limits))
        )
        resources = sized_resources(container.name, without_cpu)
        change = container_change(index, container, Sizes(requests, limits, ()), resources)
        if change.requests or change.limits:
            changes.append(change)
    return tuple(changes)


def _reverted(need: Need, base: Assessment, revert: PodChange) -> Assessment:
    reason = RESIZE_REASONS[need.state.stage]
    proposal = Proposal(
        Action.RESIZE,
        reason,
        f"reverted, because {need.state.text}",
        need.rank,
        needs_slot=False,
        change=revert,
        revert_reason=reason,
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


def not_needed(context: PodContext, need: Need, quiet: Assessment) -> Assessment:
    """Assess a pod in a resize that is not needed any more: a stuck one is reverted.

    Args:
        context: the pod.
        need: what would be asked for.
        quiet: what holds for a pod in no resize.
    """
    base, since = _dated(context, need.state, _assessment(context, need))
    if context.remembered.resized is None and need.state.stage is not ResizeStage.UNDER_WAY:
        may_be_replaced = _may_be_replaced(context, need.state)
        if may_be_replaced and (changes := _changes(context, need.target)):
            message = f"{need.message}; this replaces the resize that is {need.state.stage}"
            reason = RESIZE_REASONS[need.state.stage]
            need = replace(need, check=replace(need.check, reason=reason, message=message))
            proposal = _resize(context, need, changes)
            proposal = replace(proposal, needs_slot=False, revert_reason=reason)
            return replace(base, proposal=proposal)
        if (revert := _revert_change(context, need.state, since)) is not None:
            return _reverted(need, base, revert)
    if need.state.stage is ResizeStage.UNDER_WAY:
        return base.waiting(Reason.RESIZE_IN_PROGRESS, "a resize is under way")
    until = min(later(since, context.rules.revert_after), quiet.until or LATEST)
    decision = quiet.decision and replace(quiet.decision, until=until)
    return replace(quiet, decision=decision, until=until, resizing_since=base.resizing_since)
