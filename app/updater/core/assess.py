"""What one pod needs, looked at alone.

Strategy: first what switches updates off (mode, gates, a boost, no recommendation), then whether
the pod needs one, and only then how: in place or by eviction. A pod that needs nothing gets its
decision here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from app.model.gates import FeatureGate, FeatureGates
from app.model.pods import Pod
from app.model.quantity import Quantity
from app.model.update_modes import MODES
from app.model.vpa import Vpa
from app.updater.core.decisions import Action, Reason, Why
from app.updater.core.memory import NOTHING
from app.updater.core.need import (
    NeedCheck,
    Priority,
    QuickOom,
    Trigger,
    check_need,
    first_unmet,
    percent,
    quick_oom,
    requirement_text,
)
from app.updater.core.patching import boosted_containers, last_updated
from app.updater.core.proposals import RESIZE_REASONS, Assessment, Need, PlanInputs, PodContext
from app.updater.core.resize import assessment, dated, evict, in_place, leftover, waiting
from app.updater.core.resize_state import ResizeState, is_stuck, resize_state
from app.updater.core.targets import OwnerTargets, PodTarget
from app.updater.core.unboost import boosted, has_marks, is_ordinary

Allocatable = Mapping[str, Quantity] | None


def mode_blocker(vpa: Vpa, gates: FeatureGates) -> Why | None:
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
    context = PodContext(pod, targets.vpa, targets, inputs, remembered, allocatable)
    if pod.deleted is not None:
        return context.decided(Action.NONE, Reason.POD_TERMINATING, "the pod is being deleted")
    if remembered.evicted is not None:
        return context.decided(
            Action.NONE, Reason.POD_TERMINATING, "evicted, and not seen to go yet"
        )
    if pod.annotations and has_marks(pod) and FeatureGate.CPU_STARTUP_BOOST in inputs.gates:
        if not is_ordinary(context):
            return boosted(context)
        found = _ordinary(context, boosted_containers(pod))
        return found if found.proposal is not None else boosted(context)
    return _ordinary(context, frozenset())


def _ordinary(context: PodContext, boosted: frozenset[str]) -> Assessment:
    """Assess a pod that no boost concerns, or none but its cpu."""
    if (off := mode_blocker(context.vpa, context.inputs.gates)) is not None:
        return context.decided(Action.NONE, *off)
    if context.vpa.recommendation is None:
        return context.decided(
            Action.NONE, Reason.NO_RECOMMENDATION, "there is no recommendation yet"
        )
    target = context.targets.of(context.pod, boosted)
    if not target.numbers.pairs:
        told = "there is no recommendation for any of the pod's containers"
        return context.decided(Action.NONE, Reason.NO_CONTAINER_RECOMMENDATION, told)
    if not context.pod.node and context.pod.phase in ("Pending", ""):
        return _unscheduled(context, target)
    return _running(context, target)


def _running(context: PodContext, target: PodTarget) -> Assessment:
    pod, rules, now = context.pod, context.rules, context.inputs.now
    allows = context.vpa.allows
    found = target.trigger
    oom = quick_oom(pod, context.vpa, rules, context.inputs.gates, now)
    rises = found.difference or found.is_outside
    if allows.only_upwards and not rises and target.numbers.gross_difference:
        told = f"nothing has to grow, and mode {context.vpa.mode} shrinks nothing"
        needed = NeedCheck(Reason.NOT_UPSCALE, told)
    elif oom is None and target.no_need is not None:
        needed = target.no_need
    else:
        changed = last_updated(pod, now)
        since = max(pod.started, changed) if pod.started and changed else pod.started
        needed = check_need(found, oom, since, rules, now)
    is_in_place = allows.may_resize or (allows.only_upwards and rules.upscale_only_in_place)
    if needed.reason is not None:
        quiet = context.decided(
            Action.NONE, needed.reason, needed.message, numbers=target.numbers, until=needed.until
        )
        if is_in_place:
            state = resize_state(pod)
            if state.is_ongoing:
                need = _need(context, target, needed.message, found, oom, state)
                return _after_pause(context, leftover(context, need, quiet))
        return quiet
    need = _need(context, target, needed.message, found, oom, resize_state(pod))
    act = in_place if is_in_place else _by_eviction
    return _after_pause(context, act(context, need))


def _need(
    context: PodContext,
    target: PodTarget,
    message: str,
    found: Trigger,
    oom: QuickOom | None,
    state: ResizeState,
) -> Need:
    priority = Priority(context.pod, target.numbers.is_up, found, oom is not None)
    return Need(target, message, priority, _unmet(context, target), state)


def _unmet(context: PodContext, target: PodTarget) -> str:
    """Return the eviction requirement that the change does not meet, empty if all are met."""
    policy = context.vpa.update_policy
    if policy is None or not policy.eviction_requirements:
        return ""
    unmet = first_unmet(policy.eviction_requirements, target.numbers.pairs)
    return "" if unmet is None else f"no container meets {requirement_text(unmet)}"


def _by_eviction(context: PodContext, need: Need) -> Assessment:
    """Assess a pod that is updated by being recreated."""
    base = assessment(context, need)
    proposal = evict(context, need, need.message)
    if need.state.is_ongoing and not proposal.is_free:
        base, since = dated(context, need.state, base)
        if not is_stuck(need.state, since, context.rules, context.inputs.now):
            return waiting(
                base, RESIZE_REASONS[need.state.stage], f"a resize is {need.state.stage}"
            )
    return replace(base, proposal=proposal)


def _after_pause(context: PodContext, found: Assessment) -> Assessment:
    """Let a pod rest for whose sake a call failed just now."""
    pause = context.remembered.pause
    if pause is None or found.proposal is None or pause.is_over(context.inputs.now):
        return found
    return context.decided(Action.WAIT, pause.reason, pause.message, numbers=found.numbers)


def _unscheduled(context: PodContext, target: PodTarget) -> Assessment:
    """Assess a pod that no node takes: a smaller size may help, and nothing is disturbed."""
    numbers, rules = target.numbers, context.rules
    shrinks = any(
        pair.is_controlled and pair.current is not None and pair.target < pair.current
        for pair in numbers.pairs
    )
    found = target.trigger
    is_worth_it = found.difference >= rules.update_threshold or (
        found.is_outside and found.difference >= rules.least_difference
    )
    if not (shrinks and is_worth_it) or context.vpa.allows.only_upwards:
        told = "the pod has no node, and no smaller size would help"
        return context.decided(Action.WAIT, Reason.POD_PENDING, told, numbers=numbers)
    message = f"has no node, and the recommendation is smaller by {percent(found.difference)}"
    need = _need(context, target, message, found, None, resize_state(context.pod))
    act = in_place if context.vpa.allows.may_resize else _by_eviction
    return _after_pause(context, act(context, need))
