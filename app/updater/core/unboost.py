"""The end of a startup boost: which containers are due, what they go back to, when to look again.

Strategy: a boost ends so long after the pod got ready, in every update mode, for cpu alone. Until
then the pod is left alone, unless it runs out of memory: such a pod is updated like any other.
When the boost is over, the pod is brought back in place, again and again, and never evicted
because that fails: its replacement would be boosted and get stuck again. An eviction for another
reason (`assess`) ends the boost as well. The webhook's annotation stays until
the kubelet reports the smaller size; a second one says since when that is tried.

A boosted pod is looked at when it changes and when its boost is over, not on a grid. What cannot
be done yet comes back after a pause that doubles.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from app.model.pods import (
    BOOST_KEY_PREFIXES,
    UNBOOST_KEY_PREFIX,
    Container,
    Pod,
    original_resources,
)
from app.model.quantity import CPU, Quantities, Quantity
from app.model.times import believed, doubled, later, rfc3339
from app.model.vpa import Vpa
from app.sizing.boost import boost_overdue_at
from app.sizing.sizing import CappedRecommendation, Sizes, sizes
from app.updater.core.decisions import (
    Action,
    ContainerChange,
    Decision,
    Pair,
    PodChange,
    Reason,
)
from app.updater.core.memory import Pause
from app.updater.core.need import Deviation, rank
from app.updater.core.patching import (
    returning_since,
    updated_annotations,
    without_raised_annotations,
)
from app.updater.core.pod_targets import OwnerTargets, container_change
from app.updater.core.proposals import RESIZE_REASONS, Assessment, PodContext, Proposal
from app.updater.core.resize import as_reported
from app.updater.core.resize_state import (
    RESIZE_IN_PROGRESS,
    RESIZE_PENDING,
    ResizeStage,
    ResizeState,
    is_disruptive,
    is_stuck,
    resize_state,
)
from app.updater.core.sentences import boost_over

_MOMENT: Final = timedelta(milliseconds=1)
_FIRST_PAUSE: Final = timedelta(milliseconds=100)
_LONGEST_PAUSE: Final = timedelta(seconds=30)
_LOOKS_WITHOUT_VPA: Final = 6
_WATCHED: Final = ("Ready", RESIZE_PENDING, RESIZE_IN_PROGRESS)


@dataclass(frozen=True, slots=True)
class BoostEnds:
    """Which containers are to go back now, and when the next one is."""

    containers: frozenset[str]  # their time is over, or they are on their way back already
    until: datetime | None = None  # when the next one is due, None if none is to come


def boost_ends(pod: Pod, vpa: Vpa, now: datetime) -> BoostEnds:
    """Return which boosts of a pod are over, and when the others will be."""
    names, moments = set(pod.returning_containers), []
    if (ready := pod.ready) is not None:
        since = believed(ready.last_transition, now)
        for name in pod.boosted_containers:
            lasts = vpa.boost_lasts(name)
            if since is None or not lasts or now - since > lasts:
                names.add(name)
            else:
                moments.append(later(since, lasts + _MOMENT))
    return BoostEnds(frozenset(names), min(moments, default=None))


def overdue_at(pod: Pod, vpa: Vpa) -> datetime:
    """Return when the boosts of a pod have lasted too long to be in order."""
    lasts = max((vpa.boost_lasts(name) for name in pod.boosted_containers), default=timedelta())
    return boost_overdue_at(pod, lasts)


@dataclass(frozen=True, slots=True)
class BoostReturn:
    """What brings a pod back, and what hinders it."""

    containers: tuple[ContainerChange, ...]
    lost: tuple[str, ...]  # containers with nothing to go back to


def _boost_return(pod: Pod, names: frozenset[str], targets: OwnerTargets) -> BoostReturn:
    """Return what has to be written to bring some containers back."""
    target = targets.of(pod, pod.boosted_containers)
    changes: list[ContainerChange] = []
    lost: list[str] = []
    for index, container in enumerate(pod.containers):
        if container.name not in names:
            continue
        wanted = _sizes_after_boost(pod, container, target.amounts, targets)
        if wanted is None:
            lost.append(container.name)
            continue
        change = container_change(index, container, wanted, (CPU,))
        if change.requests or change.limits:
            changes.append(change)
    return BoostReturn(tuple(changes), tuple(lost))


def _sizes_after_boost(
    pod: Pod,
    container: Container,
    amounts: Mapping[str, CappedRecommendation],
    targets: OwnerTargets,
) -> Sizes | None:
    """Return what a container goes back to, None if nothing tells it.

    Only a recommendation raises anything: others may write the annotation.
    """
    name, vpa, has = container.name, targets.vpa, container.resources
    original, recommended = original_resources(pod, name), amounts.get(name)
    if not vpa.is_off and recommended and recommended.is_own and CPU in recommended.target:
        usual = sizes(recommended, targets.bases(pod)[name], vpa, targets.limits)
        if original is None:
            return usual
        wanted = sizes(recommended, original, vpa, targets.limits)
        highest = max(filter(None, (has.limit(CPU), usual.limits.get(CPU))), default=None)
        return replace(wanted, limits=_cpu_up_to(highest, wanted.limits))
    template = targets.template(pod).get(name)
    original = original or template
    if original is None or original.request(CPU) is None:
        return None
    highest = has.request(CPU)
    if (most := _most_allowed(vpa, name)) and template is not None and highest is not None:
        # The template's author may have asked for more than the policy allows.
        highest = min(highest, max(most, template.request(CPU) or most))
    requests = _cpu_up_to(highest, original.requests or {})
    return Sizes(requests, _cpu_up_to(has.limit(CPU), original.limits or {}), ())


def _cpu_up_to(highest: Quantity | None, amounts: Quantities) -> Quantities:
    """Return the cpu of some amounts, no more than the highest; None leaves it as it is."""
    cpu = amounts.get(CPU)
    return {} if cpu is None or highest is None else {CPU: min(cpu, highest)}


def _most_allowed(vpa: Vpa, container: str) -> Quantity | None:
    policy = vpa.policy(container)
    return policy.max_allowed.get(CPU) if policy is not None and policy.max_allowed else None


def _unboost_change(context: PodContext, names: frozenset[str], back: BoostReturn) -> PodChange:
    """Return the change that sends some containers back."""
    pod, lost = context.pod, frozenset(back.lost)
    started = sorted(names - lost - pod.returning_containers)
    now = rfc3339(context.inputs.now)
    annotations = (
        *updated_annotations(None),
        *((UNBOOST_KEY_PREFIX + name, now) for name in started),
        *_remove_annotations(pod, lost).annotations,
    )
    return PodChange(back.containers, annotations, is_disruptive(pod, back.containers))


def _remove_annotations(pod: Pod, containers: frozenset[str]) -> PodChange:
    """Return the change that removes them, once the kubelet reports the smaller size."""
    present = pod.annotations or {}
    keys = (prefix + name for name in sorted(containers) for prefix in BOOST_KEY_PREFIXES)
    return PodChange((), tuple((key, None) for key in keys if key in present))


def annotations_after_refusal(change: PodChange) -> PodChange:
    """Return what is still written when the resize itself was refused: since when it is tried."""
    kept = (
        pair for pair in change.annotations if pair[0].startswith(UNBOOST_KEY_PREFIX) and pair[1]
    )
    return PodChange((), tuple(kept))


def assess_boost_end(context: PodContext, ends: BoostEnds) -> Assessment:
    """Assess a pod with a boost; its numbers are those of all but the boosted cpu."""
    target = context.targets.of(context.pod, context.pod.boosted_containers)
    return replace(_wait_or_bring_back(context, ends), numbers=target.numbers)


def _wait_or_bring_back(context: PodContext, ends: BoostEnds) -> Assessment:
    pod, names, until = context.pod, ends.containers, ends.until
    if not names or pod.phase == "Pending":
        message = f"boosted until {until:%H:%M:%S}" if until else "boosted, and not ready yet"
        waiting = context.assessed(Action.WAIT, Reason.BOOST_RUNNING, message, until=until)
        overdue = overdue_at(pod, context.vpa)
        is_to_come = until is None and context.inputs.now < overdue
        return replace(waiting, until=overdue) if is_to_come else waiting
    if context.remembered.resized is not None:
        return _wait(context, Reason.RESIZE_IN_PROGRESS, "a resize was accepted just now")
    back, resize = _boost_return(pod, names, context.targets), _ongoing_resize(context)
    if not back.containers:
        return _finish_or_stay_stuck(context, names, back, resize)
    stage = resize.state.stage
    if resize.state.is_ongoing and resize.tried is None and not resize.is_hopeless:
        waiting = _wait(context, RESIZE_REASONS[stage], f"another resize is {stage}")
        return replace(waiting, resizing_since=resize.since)
    if (pause := context.pause) is not None:
        return _paused(context, pause, resize.tried)
    change = _unboost_change(context, names, back)
    if resize.is_hopeless:
        change = _with(change, pod, as_reported(pod, without_cpu=names))
    return _propose_end(context, _boost_over(pod, back.containers), change)


def _boost_over(pod: Pod, changes: Iterable[ContainerChange]) -> str:
    """Say which boosts are over, and from what to what."""
    has = {container.name: container.resources.request(CPU) for container in pod.containers}
    pairs = [
        Pair(name, CPU, has[name], cpu, None, None, is_controlled=True)
        for name, cpu in ((one.container, one.requests.get(CPU)) for one in changes)
        if cpu is not None
    ]
    names = [one.container for one in changes]
    return boost_over(names, pairs, named=len(names) > 1)


@dataclass(frozen=True, slots=True)
class _OngoingResize:
    """The resize that a pod is in, if it is in one, on its way back or before."""

    state: ResizeState
    tried: datetime | None  # since when the pod is being brought back, None if it is not
    since: datetime  # the resize
    is_stuck: bool
    is_hopeless: bool  # the other changes of this resize are no longer waited for


def _ongoing_resize(context: PodContext) -> _OngoingResize:
    pod, now, rules = context.pod, context.inputs.now, context.rules
    state = resize_state(pod)
    tried = returning_since(pod, now) or context.remembered.unboost_tried_at
    moments = (tried, believed(state.since, now), context.remembered.resizing_since)
    since = max(filter(None, moments), default=now)
    stuck = state.is_ongoing and is_stuck(state, since, rules, now)
    is_late = now - since > rules.deferred_timeout or state.stage is ResizeStage.INFEASIBLE
    return _OngoingResize(state, tried, since, stuck, stuck and is_late)


def _wait(context: PodContext, reason: Reason, message: str) -> Assessment:
    return context.assessed(Action.WAIT, reason, message)


def _propose_end(context: PodContext, message: str, change: PodChange) -> Assessment:
    """Propose the end of a boost: across owners after all that needs a change, within one first."""
    least = rank(context.pod, Deviation(0, is_outside=False), is_up=False, is_quick_oom=False)
    cause = Reason.BOOST_OVER
    proposal = Proposal(Action.UNBOOST, cause, message, least, change.is_disruptive, change)
    return Assessment(context.pod, context.vpa, proposal=proposal)


def _finish_or_stay_stuck(
    context: PodContext, names: frozenset[str], back: BoostReturn, resize: _OngoingResize
) -> Assessment:
    """Assess a pod that asks for its smaller size already."""
    pod, state = context.pod, resize.state
    removal = _remove_annotations(pod, names)
    if not state.is_ongoing:
        message = "back from its boost"
        if back.lost:
            lost = ", ".join(back.lost)
            message = f"nothing tells what {lost} had before the boost; left as it is"
        return _propose_end(context, message, removal)
    if not resize.is_stuck:
        waiting = _wait(context, RESIZE_REASONS[state.stage], state.text)
        return replace(waiting, resizing_since=resize.since)
    if resize.is_hopeless and context.pause is None:
        if others := as_reported(pod, without_cpu=names):
            message = f"still boosted: {state.text}; other pending changes are reverted"
            return _propose_end(context, message, _with(PodChange(), pod, others))
        if _has_no_room_to_rise(context, resize):
            message = f"gets no more than in its boost: {state.text}"
            return _propose_end(context, message, _with(removal, pod, as_reported(pod)))
    until = context.pause.until if resize.is_hopeless and context.pause else None
    message = f"still boosted: {state.text}"
    return context.assessed(Action.WAIT, Reason.UNBOOST_STUCK, message, until=until)


def _has_no_room_to_rise(context: PodContext, resize: _OngoingResize) -> bool:
    """Whether a pod is to get more than in its boost, and its node has no room for that.

    The scheduler holds the room that it asks for, so it may not ask for ever.
    """
    asked = {container.name: container.resources for container in context.pod.containers}
    rises = any(
        (has := change.requests.get(CPU)) and (asked[change.container].request(CPU) or has) > has
        for change in as_reported(context.pod)
    )
    is_over = context.inputs.now - resize.since > context.rules.revert_after
    return rises and (resize.state.stage is ResizeStage.INFEASIBLE or is_over)


def _with(change: PodChange, pod: Pod, others: Iterable[ContainerChange]) -> PodChange:
    """Return a change that also reverts what else a pod asked for in vain."""
    changes = {item.index: item for item in change.containers}
    for item in others:
        own = changes.get(item.index, item)
        requests, limits = {**item.requests, **own.requests}, {**item.limits, **own.limits}
        changes[item.index] = replace(own, requests=requests, limits=limits)
    containers = tuple(changes[index] for index in sorted(changes))
    removed = without_raised_annotations(pod, containers)
    return replace(change, containers=containers, annotations=(*change.annotations, *removed))


def _paused(context: PodContext, pause: Pause, since: datetime | None) -> Assessment:
    reason, message = Reason.RESIZE_ERROR, pause.message
    if since is not None and context.inputs.now - since > context.rules.deferred_timeout:
        reason, message = Reason.UNBOOST_STUCK, f"still boosted: {pause.message}"
    return context.assessed(Action.WAIT, reason, message, until=pause.until)


class NextLook(NamedTuple):
    """When to look at a boosted pod again, and how many looks in a row have failed by then."""

    pause: timedelta
    failed: int


def next_look(decision: Decision | None, failed: int, now: datetime) -> NextLook | None:
    """Return when to look again if a boost does not end now; without a VPA only a few times."""
    if decision is not None and decision.until is not None:
        return NextLook(decision.until - now, 0)
    if (decision is None or not decision.vpa) and failed >= _LOOKS_WITHOUT_VPA:
        return None
    return look_after_failure(failed)


def look_after_refusal(pause: Pause | None, failed: int, now: datetime) -> NextLook:
    """Return when to look again after a refused call: when its pause is over, not before."""
    return look_after_failure(failed) if pause is None else NextLook(pause.until - now, 0)


def look_after_failure(failed: int) -> NextLook:
    """Return when to look again after a look that failed, as so many in a row had before it."""
    return NextLook(doubled(_FIRST_PAUSE, failed + 1, _LONGEST_PAUSE), failed + 1)


def is_news(before: Pod, after: Pod) -> bool:
    """Whether a pod changed so that a look that failed before may succeed now."""
    had, has = (
        [condition for condition in pod.conditions if condition.type in _WATCHED]
        for pod in (before, after)
    )
    return had != has or before.statuses != after.statuses or before.phase != after.phase
