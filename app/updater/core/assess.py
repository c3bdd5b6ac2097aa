"""Which VPAs update running pods at all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from app.model.gates import FeatureGate, FeatureGates
from app.model.pods import Pod
from app.model.quantity import Quantity
from app.model.vpa import UpdateMode, Vpa
from app.updater.core.decisions import Action, Reason
from app.updater.core.memory import NOTHING
from app.updater.core.need import (
    Need,
    Priority,
    QuickOom,
    Trigger,
    first_unmet,
    need,
    percent,
    quick_oom,
    told,
)
from app.updater.core.patching import boosted_containers, last_updated
from app.updater.core.proposals import REASONS, Assessment, Case, Terms, Urge
from app.updater.core.resize import assessment, dated, evict, in_place, leftover, waiting
from app.updater.core.resize_state import ResizeState, is_stuck, resize_state
from app.updater.core.targets import Shape, Shapes
from app.updater.core.unboost import boosted, has_marks, is_ordinary

IN_PLACE_MODES: Final = (UpdateMode.IN_PLACE, UpdateMode.IN_PLACE_OR_RECREATE)
_RECREATE: Final = (UpdateMode.RECREATE, UpdateMode.AUTO, UpdateMode.UPSCALE_ONLY)
Allocatable = Mapping[str, Quantity] | None


def switched_off(vpa: Vpa, gates: FeatureGates) -> tuple[Reason, str] | None:
    """Return why a VPA updates no running pods, None if it does."""
    mode = vpa.mode
    if mode in _RECREATE or mode == UpdateMode.IN_PLACE_OR_RECREATE:
        return None
    if mode == UpdateMode.IN_PLACE:
        if FeatureGate.IN_PLACE in gates:
            return None
        return Reason.GATE_DISABLED, "mode InPlace needs the feature gate InPlace"
    if mode == UpdateMode.INITIAL:
        return Reason.MODE_INITIAL, "mode Initial sizes pods only when they are created"
    if mode == UpdateMode.OFF:
        return Reason.MODE_OFF, "mode Off changes no pods"
    return Reason.MODE_OFF, f'the update mode "{mode[:40]}" is not known'


def assess(pod: Pod, shapes: Shapes, terms: Terms, allocatable: Allocatable = None) -> Assessment:
    """Return what one pod needs.

    Args:
        pod: the pod.
        shapes: of the pods of its owner under its VPA.
        terms: what holds now.
        allocatable: what its node can give, None if that is not known.
    """
    remembered = terms.memory.pods.get(pod.uid, NOTHING)
    case = Case(pod, shapes.vpa, shapes, terms, remembered, allocatable)
    if pod.deleted is not None:
        return case.decided(Action.NONE, Reason.POD_TERMINATING, "the pod is being deleted")
    if remembered.evicted is not None:
        return case.decided(Action.NONE, Reason.POD_TERMINATING, "evicted, and not seen to go yet")
    if pod.annotations and has_marks(pod) and FeatureGate.CPU_STARTUP_BOOST in terms.gates:
        if not is_ordinary(case):
            return boosted(case)
        found = _ordinary(case, boosted_containers(pod))
        return found if found.wish is not None else boosted(case)
    return _ordinary(case, frozenset())


def _ordinary(case: Case, boosted: frozenset[str]) -> Assessment:
    """Assess a pod that no boost concerns, or none but its cpu."""
    if (off := switched_off(case.vpa, case.terms.gates)) is not None:
        return case.decided(Action.NONE, *off)
    if case.vpa.recommendation is None:
        return case.decided(Action.NONE, Reason.NO_RECOMMENDATION, "there is no recommendation yet")
    shape = case.shapes.of(case.pod, boosted)
    if not shape.numbers.pairs:
        told = "there is no recommendation for any of the pod's containers"
        return case.decided(Action.NONE, Reason.NO_CONTAINER_RECOMMENDATION, told)
    if not case.pod.node and case.pod.phase in ("Pending", ""):
        return _unscheduled(case, shape)
    return _running(case, shape)


def _running(case: Case, shape: Shape) -> Assessment:
    pod, rules, now = case.pod, case.rules, case.terms.now
    is_upscale = case.shapes.mode == UpdateMode.UPSCALE_ONLY
    found = shape.trigger
    oom = quick_oom(pod, case.vpa, rules, case.terms.gates, now)
    rises = found.difference or found.is_outside
    if is_upscale and not rises and shape.numbers.gross_difference:
        told = "nothing has to grow, and mode UpscaleOnly shrinks nothing"
        needed = Need(Reason.NOT_UPSCALE, told)
    elif oom is None and shape.calm is not None:
        needed = shape.calm
    else:
        changed = last_updated(pod, now)
        since = max(pod.started, changed) if pod.started and changed else pod.started
        needed = need(found, oom, since, rules, now)
    is_in_place = case.shapes.mode in IN_PLACE_MODES or (is_upscale and rules.upscale_only_in_place)
    if needed.reason is not None:
        quiet = case.decided(
            Action.NONE, needed.reason, needed.message, numbers=shape.numbers, until=needed.until
        )
        if is_in_place:
            state = resize_state(pod)
            if state.is_ongoing:
                urge = _urge(case, shape, needed.message, found, oom, state)
                return _after_pause(case, leftover(case, urge, quiet))
        return quiet
    urge = _urge(case, shape, needed.message, found, oom, resize_state(pod))
    act = in_place if is_in_place else _by_eviction
    return _after_pause(case, act(case, urge))


def _urge(
    case: Case,
    shape: Shape,
    message: str,
    found: Trigger,
    oom: QuickOom | None,
    state: ResizeState,
) -> Urge:
    priority = Priority(case.pod, shape.numbers.is_up, found, oom is not None)
    return Urge(shape, message, priority, _unmet(case, shape), state)


def _unmet(case: Case, shape: Shape) -> str:
    """Return the eviction requirement that the change does not meet, empty if all are met."""
    policy = case.vpa.update_policy
    if policy is None or not policy.eviction_requirements:
        return ""
    unmet = first_unmet(policy.eviction_requirements, shape.numbers.pairs)
    return "" if unmet is None else f"no container meets {told(unmet)}"


def _by_eviction(case: Case, urge: Urge) -> Assessment:
    """Assess a pod that is updated by being recreated."""
    base = assessment(case, urge)
    wish = evict(case, urge, urge.message)
    if urge.state.is_ongoing and not wish.is_free:
        base, since = dated(case, urge.state, base)
        if not is_stuck(urge.state, since, case.rules, case.terms.now):
            return waiting(base, REASONS[urge.state.stage], f"a resize is {urge.state.stage}")
    return replace(base, wish=wish)


def _after_pause(case: Case, found: Assessment) -> Assessment:
    """Let a pod rest for whose sake a call failed just now."""
    pause = case.remembered.pause
    if pause is None or found.wish is None or pause.is_over(case.terms.now):
        return found
    return case.decided(Action.WAIT, pause.reason, pause.message, numbers=found.numbers)


def _unscheduled(case: Case, shape: Shape) -> Assessment:
    """Assess a pod that no node takes: a smaller size may help, and nothing is disturbed."""
    numbers, rules = shape.numbers, case.rules
    shrinks = any(
        pair.is_controlled and pair.current is not None and pair.target < pair.current
        for pair in numbers.pairs
    )
    found = shape.trigger
    is_worth_it = found.difference >= rules.update_threshold or (
        found.is_outside and found.difference >= rules.least_difference
    )
    if not (shrinks and is_worth_it) or case.vpa.mode == UpdateMode.UPSCALE_ONLY:
        told = "the pod has no node, and no smaller size would help"
        return case.decided(Action.WAIT, Reason.POD_PENDING, told, numbers=numbers)
    message = f"has no node, and the recommendation is smaller by {percent(found.difference)}"
    urge = _urge(case, shape, message, found, None, resize_state(case.pod))
    act = in_place if case.vpa.mode in IN_PLACE_MODES else _by_eviction
    return _after_pause(case, act(case, urge))
