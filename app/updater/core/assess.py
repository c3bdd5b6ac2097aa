"""What one pod needs, looked at alone.

Strategy: first what switches updates off (mode, gates, a boost, no recommendation), then whether
the pod needs one, and only then how: in place or by eviction. A pod that needs nothing gets its
decision here, and so does one that is paused; the end of a boost is no update.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from app.model.gates import FeatureGate, FeatureGates
from app.model.pods import Pod
from app.model.quantity import Quantity
from app.model.update_modes import MODES
from app.model.vpa import Vpa
from app.updater.core import sentences
from app.updater.core.decisions import Action, Reason, Why
from app.updater.core.memory import NOTHING
from app.updater.core.need import (
    NeedCheck,
    check_need,
    is_worth_it,
    latest_quick_oom,
    rank,
    unmet_requirement,
)
from app.updater.core.patching import last_updated
from app.updater.core.pod_targets import OwnerTargets, PodTarget
from app.updater.core.proposals import Assessment, Need, PlanInputs, PodContext
from app.updater.core.resize import by_eviction, in_place, not_needed
from app.updater.core.resize_state import resize_state
from app.updater.core.unboost import assess_boost_end, boost_ends, overdue_at

Allocatable = Mapping[str, Quantity] | None


def why_off(vpa: Vpa, gates: FeatureGates) -> Why | None:
    """Return why a VPA updates no running pods, None if it does."""
    mode, allows = vpa.mode, vpa.allows
    if allows.may_evict or allows.may_resize:
        if allows.gate is None or allows.gate in gates:
            return None
        return Reason.GATE_DISABLED, f"mode {mode} needs the feature gate {allows.gate}"
    if mode not in MODES:
        return Reason.MODE_OFF, f'the update mode "{mode[:40]}" is not known'
    if allows.on_creation:
        return Reason.MODE_INITIAL, f"mode {mode} sizes pods only when they are created"
    return Reason.MODE_OFF, f"mode {mode} changes no pods"


def assess(
    pod: Pod, targets: OwnerTargets, inputs: PlanInputs, allocatable: Allocatable = None
) -> Assessment:
    """Return what one pod needs.

    Args:
        pod: the pod.
        targets: of the pods of its owner under its VPA.
        inputs: what holds now.
        allocatable: what its node can give, None if that is not known.
    """
    remembered = inputs.memory.pods.get(pod.uid, NOTHING)
    role = targets.role(pod)
    context = PodContext(pod, targets.vpa, targets, inputs, remembered, allocatable, role)
    if pod.deleted is not None:
        return context.assessed(Action.NONE, Reason.POD_TERMINATING, "the pod is being deleted")
    if remembered.evicted is not None:
        return context.assessed(
            Action.NONE, Reason.POD_TERMINATING, "evicted, and still terminating"
        )
    if not pod.is_boosted:
        return _ordinary(context, frozenset())
    if FeatureGate.CPU_STARTUP_BOOST in inputs.gates:
        return _update_or_end_boost(context)
    return _not_unboosted(context)


def _not_unboosted(context: PodContext) -> Assessment:
    """Assess a pod with a boost that nothing ends, because the gate is off in this process.

    Its boosted cpu is no reason to evict it: where the gate is on in the webhook, its replacement
    would be boosted too.
    """
    names = _without_boosted_cpu(context, context.pod.returning_containers)
    assessed = _ordinary(context, names)
    decision = assessed.decision
    if decision is None or decision.action is not Action.NONE:
        return assessed
    gate = FeatureGate.CPU_STARTUP_BOOST
    message = f"it may be boosted, and feature gate {gate} of the updater is off: no boost ends"
    overdue = overdue_at(context.pod, context.vpa)
    return context.assessed(
        Action.NONE,
        Reason.GATE_DISABLED,
        message,
        numbers=assessed.numbers,
        until=overdue if context.inputs.now < overdue else assessed.until,
    )


def _without_boosted_cpu(context: PodContext, ending: frozenset[str]) -> frozenset[str]:
    """Return the containers whose cpu does not count: the boosted ones.

    When their boost should long be over, only those count as such that the next pod boosts too,
    or that are `ending`: no pod is evicted because the end of its boost fails.
    """
    pod, vpa = context.pod, context.vpa
    names = pod.boosted_containers
    if context.inputs.now < overdue_at(pod, vpa):
        return names
    return frozenset(name for name in names if vpa.boost(name) or name in ending)


def _update_or_end_boost(context: PodContext) -> Assessment:
    """Assess a pod with a boost.

    One that was OOM-killed in it is updated like any other, and one whose boost should long be
    over is evicted like any other, but for what the boost gave.
    """
    pod, now = context.pod, context.inputs.now
    ends = boost_ends(pod, context.vpa, now)
    is_running = not ends.containers and context.remembered.unboost_tried_at is None
    if is_running and latest_quick_oom(pod, context.vpa, context.rules, context.inputs.gates, now):
        assessed = _ordinary(context, pod.boosted_containers)
        held = assessed.decision
        if held is not None and held.reason is Reason.PAUSED:
            return replace(assessed, decision=replace(held, until=ends.until), until=ends.until)
        if assessed.proposal is not None:
            return replace(assessed, until=ends.until)
    if now >= overdue_at(pod, context.vpa):
        assessed = _ordinary(context, _without_boosted_cpu(context, ends.containers))
        if assessed.proposal is not None and assessed.proposal.action is Action.EVICT:
            return assessed
    return assess_boost_end(context, ends)


def _ordinary(context: PodContext, boosted_names: frozenset[str]) -> Assessment:
    """Assess a pod that no boost concerns, or none but its cpu."""
    if (off := why_off(context.vpa, context.inputs.gates)) is not None:
        return context.assessed(Action.NONE, *off)
    if context.vpa.recommendation is None:
        return context.assessed(
            Action.NONE, Reason.NO_RECOMMENDATION, "there is no recommendation yet"
        )
    target = context.targets.of(context.pod, boosted_names)
    if not target.numbers.pairs and target.held:
        return context.assessed(Action.NONE, Reason.SCALED_HORIZONTALLY, target.held)
    if not target.numbers.pairs:
        message = "there is no recommendation for any of the pod's containers"
        return context.assessed(Action.NONE, Reason.NO_CONTAINER_RECOMMENDATION, message)
    if not context.pod.node and context.pod.phase in ("Pending", ""):
        return _unscheduled(context, target)
    return _running(context, target)


def _running(context: PodContext, target: PodTarget) -> Assessment:
    pod, rules, now = context.pod, context.rules, context.inputs.now
    allows, deviation = context.vpa.allows, target.deviation
    oom = latest_quick_oom(pod, context.vpa, rules, context.inputs.gates, now)
    rises = deviation.difference or deviation.is_outside
    if allows.only_upwards and not rises and target.numbers.gross_difference:
        message = f"no request has to grow, and mode {context.vpa.mode} shrinks none"
        check = NeedCheck(Reason.NOT_UPSCALE, message)
    elif oom is None and target.no_need is not None:
        check = target.no_need
    else:
        changed = last_updated(pod, now)
        since = max(pod.started, changed) if pod.started and changed else pod.started
        check = check_need(deviation, oom, since, rules, now)
        if check.reason is Reason.TOO_YOUNG and _is_promoted(context, target, since):
            found = _promoted(context, target)
            if found.proposal is None or found.proposal.action is Action.RESIZE:
                return found
    if not check.is_needed:
        why = check.reason, check.message
        quiet = context.assessed(
            Action.NONE,
            *((Reason.SCALED_HORIZONTALLY, target.held) if target.held else why),
            numbers=target.numbers,
            until=check.until,
        )
        if not (context.is_in_place and resize_state(pod).is_ongoing):
            return quiet
        need = _need(context, target, check, is_oom=oom is not None)
        return _unless_held(context, not_needed(context, need, quiet))
    if (until := context.settles_until) is not None and not target.numbers.is_up:
        message = f"{check.message}; it follows, and is made smaller from {until:%H:%M:%S} on"
        settling = Reason.ROLE_SETTLING
        return context.assessed(Action.WAIT, settling, message, numbers=target.numbers, until=until)
    need = _need(context, target, check, is_oom=oom is not None)
    act = in_place if context.is_in_place else by_eviction
    return _unless_held(context, act(context, need))


def _is_promoted(context: PodContext, target: PodTarget, since: datetime | None) -> bool:
    """Whether a pod leads only since it was sized, and has to grow where that is possible."""
    leads_since = context.leads_since
    is_later = leads_since is not None and since is not None and leads_since >= since
    return is_later and target.numbers.is_up and context.is_in_place


def _promoted(context: PodContext, target: PodTarget) -> Assessment:
    deviation = target.deviation
    message = sentences.promoted(deviation.pairs, named=deviation.has_several)
    need = _need(context, target, NeedCheck(Reason.PROMOTED, message), is_oom=False)
    return _unless_held(context, in_place(context, need))


def _need(context: PodContext, target: PodTarget, check: NeedCheck, *, is_oom: bool) -> Need:
    pod = context.pod
    urgency = rank(pod, target.deviation, is_up=target.numbers.is_up, is_quick_oom=is_oom)
    unmet = unmet_requirement(context.vpa, target.numbers.pairs)
    return Need(target, check, urgency, is_oom, unmet, resize_state(pod))


def _unless_held(context: PodContext, assessed: Assessment) -> Assessment:
    """Return that a pod waits while it is paused, and during the pause after a failed call."""
    if assessed.proposal is None:
        return assessed
    why, pause = context.paused, context.pause
    if why is None and pause is not None:
        why = pause.reason, pause.message
    if why is None:
        return assessed
    return context.assessed(Action.WAIT, *why, numbers=assessed.numbers)


def _unscheduled(context: PodContext, target: PodTarget) -> Assessment:
    """Assess a pod that no node takes: a smaller size may help, and nothing is disturbed."""
    numbers, deviation, rules = target.numbers, target.deviation, context.rules
    helps = is_worth_it(deviation.difference, rules, at_once=deviation.is_outside) and any(
        pair.is_controlled and pair.current is not None and pair.target < pair.current
        for pair in numbers.pairs
    )
    if not helps or context.vpa.allows.only_upwards:
        message = "no node has room for the pod, and no less is recommended"
        return context.assessed(Action.WAIT, Reason.POD_PENDING, message, numbers=numbers)
    message = sentences.too_big(deviation.pairs, named=deviation.has_several)
    check = NeedCheck(Reason.TOO_BIG_FOR_NODE, message)
    need = _need(context, target, check, is_oom=False)
    act = in_place if context.is_in_place else by_eviction
    return _unless_held(context, act(context, need))
