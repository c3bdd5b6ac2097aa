"""The end of a start-up boost: which containers are due, what they go back to, when to look again.

Strategy: a boost ends so long after the pod got ready, in every update mode, for cpu alone. Until
then the pod is left alone, unless it runs out of memory so that it never gets ready. Then it is
brought back in place, again and again, and never evicted for it: its replacement would be boosted
and get stuck again. The webhook's mark stays until the kubelet reports the smaller size; a second
mark tells since when that is tried.

A boosted pod is looked at when it changes and when its boost is over, not on a grid. What cannot
be done yet comes back after a pause that doubles.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from operator import methodcaller
from typing import Final

from app.model.kinds import Condition
from app.model.pods import BOOST_ANNOTATION, Container, Pod, original_resources
from app.model.quantity import CPU, ZERO, Quantity
from app.model.times import believed, doubled, later, rfc3339
from app.model.vpa import StartupBoost, Vpa
from app.sizing.capping import proportional_limit
from app.sizing.sizing import CappedRecommendation, Sizes
from app.updater.core.decisions import Action, ContainerChange, PodChange, Reason
from app.updater.core.need import quick_oom
from app.updater.core.patching import (
    MARK,
    boosted_containers,
    pending_containers,
    pending_since,
    updated_marks,
    without_raised_marks,
)
from app.updater.core.proposals import RESIZE_REASONS, Assessment, PodContext, Proposal
from app.updater.core.resize import as_reported
from app.updater.core.resize_state import (
    IN_PROGRESS,
    PENDING,
    ResizeStage,
    ResizeState,
    is_disruptive,
    is_stuck,
    resize_state,
)
from app.updater.core.targets import OwnerTargets, container_change

_MOMENT: Final = timedelta(milliseconds=1)
_is_mark = methodcaller("startswith", (BOOST_ANNOTATION, MARK))
_FIRST: Final = timedelta(milliseconds=100)
_LONGEST: Final = timedelta(seconds=30)
_LOOKS_WITHOUT_VPA: Final = 6
_WATCHED: Final = ("Ready", PENDING, IN_PROGRESS)


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


@dataclass(frozen=True, slots=True)
class UnboostDue:
    """Which containers are to go back now, and when the next one is."""

    containers: frozenset[str]  # their time is over, or they are on their way back already
    until: datetime | None = None  # when the next one is due, None if none is to come

    def wait(self, now: datetime) -> timedelta:
        """Return the time until the next container is due, zero if none is to come."""
        return timedelta() if self.until is None else max(self.until - _MOMENT - now, timedelta())


def unboost_due(pod: Pod, vpa: Vpa, now: datetime) -> UnboostDue:
    """Return which boosts of a pod are over, and when the others will be."""
    due, moments = set(pending_containers(pod)), []
    if (ready := ready_condition(pod)) is not None:
        since = believed(ready.last_transition, now)
        for name in boosted_containers(pod):
            lasts = boost_lasts(vpa, name)
            if since is None or not lasts or now - since > lasts:
                due.add(name)
            else:
                moments.append(later(since, lasts + _MOMENT))
    return UnboostDue(frozenset(due), min(moments, default=None))


@dataclass(frozen=True, slots=True)
class BoostReturn:
    """What brings a pod back, and what hinders it."""

    containers: tuple[ContainerChange, ...]
    lost: tuple[str, ...] = ()  # containers with nothing to go back to


def way_back(pod: Pod, due: frozenset[str], targets: OwnerTargets) -> BoostReturn:
    """Return what has to be written to bring the due containers back."""
    target = targets.of(pod, boosted_containers(pod))
    found: list[ContainerChange] = []
    lost: list[str] = []
    for index, container in enumerate(pod.containers):
        if container.name not in due:
            continue
        wanted = _cpu_without_boost(pod, container, target.amounts, targets)
        if wanted is None:
            lost.append(container.name)
            continue
        change = container_change(index, container, wanted)
        if change.requests or change.limits:
            found.append(change)
    return BoostReturn(tuple(found), tuple(lost))


def _cpu_without_boost(
    pod: Pod,
    container: Container,
    amounts: Mapping[str, CappedRecommendation],
    targets: OwnerTargets,
) -> Sizes | None:
    """Return the cpu that a container goes back to, None if nothing tells it."""
    name, vpa = container.name, targets.vpa
    original = original_resources(pod, name)
    base = original if original is not None else targets.bases(pod)[name]
    policy = vpa.policy(name)
    capped = amounts.get(name)
    if not vpa.is_off and capped is not None and capped.is_own and CPU in capped.target:
        target = capped.target[CPU]
        if policy is not None and policy.requests_only:
            return Sizes({CPU: target}, {}, ())
        usual = targets.limits.container.usual(CPU) if targets.limits.container else ZERO
        limit = proportional_limit(CPU, base.limit(CPU), base.request(CPU), target, usual)
        return Sizes({CPU: target}, _only_cpu(limit.amount), ())
    if original is None:
        template = targets.template(pod).get(name)
        if template is None:
            return None
        original = template
    if original.request(CPU) is None:
        return None
    return Sizes(_only_cpu(original.request(CPU)), _only_cpu(original.limit(CPU)), ())


def _only_cpu(amount: Quantity | None) -> dict[str, Quantity]:
    return {} if amount is None else {CPU: amount}


def unboost_change(pod: Pod, due: frozenset[str], back: BoostReturn, now: datetime) -> PodChange:
    """Return the change that sends the due containers back."""
    marks = ((MARK + name, rfc3339(now)) for name in sorted(due - pending_containers(pod)))
    return PodChange(
        back.containers, (*updated_marks(None), *marks), is_disruptive(pod, back.containers)
    )


def without_marks(pod: Pod, containers: frozenset[str]) -> PodChange:
    """Return the change that takes the marks away, once the kubelet reports the smaller size."""
    present = pod.annotations or {}
    marks = (prefix + name for name in sorted(containers) for prefix in (BOOST_ANNOTATION, MARK))
    return PodChange((), tuple((mark, None) for mark in marks if mark in present))


def after_refusal(change: PodChange) -> PodChange:
    """Return what is still written when the resize itself was refused: since when it is tried."""
    marks = (pair for pair in change.annotations if pair[0].startswith(MARK) and pair[1])
    return PodChange((), tuple(marks))


def has_marks(pod: Pod) -> bool:
    """Whether a pod carries any mark of a boost."""
    return any(map(_is_mark, pod.annotations or ()))


def is_ordinary(context: PodContext) -> bool:
    """Whether a marked pod is updated like any other, although it is boosted."""
    pod, vpa, now = context.pod, context.vpa, context.inputs.now
    if context.remembered.unboosted is not None or unboost_due(pod, vpa, now).containers:
        return False
    return quick_oom(pod, vpa, context.rules, context.inputs.gates, now) is not None


def boosted(context: PodContext) -> Assessment:
    """Assess a pod with marks of a boost; its numbers are those of all but the boosted cpu."""
    target = context.targets.of(context.pod, boosted_containers(context.pod))
    return replace(_boosted(context), numbers=target.numbers)


def _boosted(context: PodContext) -> Assessment:
    pod, now = context.pod, context.inputs.now
    found = unboost_due(pod, context.vpa, now)
    due, until = found.containers, found.until
    if not due or pod.phase == "Pending":
        told = f"boosted until {until:%H:%M:%S}" if until else "boosted, and not ready yet"
        return context.decided(Action.WAIT, Reason.BOOST_RUNNING, told, until=until)
    if context.remembered.resized is not None:
        return _wait(context, Reason.RESIZE_IN_PROGRESS, "a resize was accepted just now")
    back, path = way_back(pod, due, context.targets), _path(context)
    if not back.containers:
        return _arriving(context, due, back, path)
    if path.state.is_ongoing and path.tried is None and not path.is_hopeless:
        told = f"another resize is {path.state.stage}"
        return replace(
            _wait(context, RESIZE_REASONS[path.state.stage], told), resizing_since=path.since
        )
    if _is_paused(context):
        return _paused(context, path.tried)
    change = unboost_change(pod, due - frozenset(back.lost), back, now)
    dropped = without_marks(pod, frozenset(back.lost)).annotations
    change = replace(change, annotations=(*change.annotations, *dropped))
    if path.is_hopeless:
        change = _with(change, pod, as_reported(pod, without_cpu=due))
    names = ", ".join(found.container for found in back.containers)
    return _unboost(context, f"boost of {names} is over", change)


@dataclass(frozen=True, slots=True)
class _Path:
    """The resize that a pod is in, if it is in one, on its way back or before."""

    state: ResizeState
    tried: datetime | None  # since when the pod is being brought back, None if it is not
    since: datetime  # the resize
    is_stuck: bool
    is_hopeless: bool  # what is asked for beside the smaller cpu is not waited for any longer


def _path(context: PodContext) -> _Path:
    pod, now, rules = context.pod, context.inputs.now, context.rules
    state = resize_state(pod)
    tried = pending_since(pod, now) or context.remembered.unboosted
    told = (tried, believed(state.since, now), context.remembered.resizing_since)
    since = max((moment for moment in told if moment is not None), default=now)
    stuck = state.is_ongoing and is_stuck(state, since, rules, now)
    is_late = now - since > rules.deferred_timeout or state.stage is ResizeStage.INFEASIBLE
    return _Path(state, tried, since, stuck, stuck and is_late)


def _wait(context: PodContext, reason: Reason, message: str) -> Assessment:
    return context.decided(Action.WAIT, reason, message)


def _unboost(
    context: PodContext, message: str, change: PodChange, *, is_free: bool = False
) -> Assessment:
    proposal = Proposal(Action.UNBOOST, message, change, is_free=is_free)
    return Assessment(context.pod, context.vpa, proposal=proposal)


def _arriving(
    context: PodContext, due: frozenset[str], back: BoostReturn, path: _Path
) -> Assessment:
    """Assess a pod that asks for its smaller size already."""
    pod, state = context.pod, path.state
    if not state.is_ongoing:
        told = "back from its boost"
        if back.lost:
            told = f"nothing tells what {', '.join(back.lost)} had before the boost; left as it is"
        return _unboost(context, told, without_marks(pod, due), is_free=True)
    told = f"the resize is {state.stage}{': ' if state.message else ''}{state.message}"
    if not path.is_stuck:
        return replace(_wait(context, RESIZE_REASONS[state.stage], told), resizing_since=path.since)
    if path.is_hopeless and not _is_paused(context):
        if others := as_reported(pod, without_cpu=due):
            message = f"still boosted: {told}; what else was asked for is taken back"
            return _unboost(context, message, _with(PodChange(), pod, others))
        if _never_rises(context, path):
            message = f"gets no more than in its boost: {told}"
            return _unboost(context, message, _with(without_marks(pod, due), pod, as_reported(pod)))
    return _wait(context, Reason.UNBOOST_STUCK, f"still boosted: {told}")


def _never_rises(context: PodContext, path: _Path) -> bool:
    """Whether a pod is to get more than in its boost, and its node has no room for that.

    The scheduler holds the room that it asks for, so it may not ask for ever.
    """
    asked = {container.name: container.resources for container in context.pod.containers}
    rises = any(
        (has := change.requests.get(CPU)) and (asked[change.container].request(CPU) or has) > has
        for change in as_reported(context.pod)
    )
    is_over = context.inputs.now - path.since > context.rules.give_back_timeout
    return rises and (path.state.stage is ResizeStage.INFEASIBLE or is_over)


def _with(change: PodChange, pod: Pod, others: Iterable[ContainerChange]) -> PodChange:
    """Return a change that takes back as well what else a pod asked for in vain."""
    found = {item.index: item for item in change.containers}
    for item in others:
        own = found.get(item.index, item)
        requests, limits = {**item.requests, **own.requests}, {**item.limits, **own.limits}
        found[item.index] = replace(own, requests=requests, limits=limits)
    containers = tuple(found[index] for index in sorted(found))
    marks = without_raised_marks(pod, containers)
    return replace(change, containers=containers, annotations=(*change.annotations, *marks))


def _is_paused(context: PodContext) -> bool:
    pause = context.remembered.pause
    return pause is not None and not pause.is_over(context.inputs.now)


def _paused(context: PodContext, since: datetime | None) -> Assessment:
    pause = context.remembered.pause
    told = pause.message if pause is not None else ""
    if since is not None and context.inputs.now - since > context.rules.deferred_timeout:
        return _wait(context, Reason.UNBOOST_STUCK, f"still boosted: {told}")
    return _wait(context, Reason.RESIZE_ERROR, told)


class BoostStep(StrEnum):
    """What becomes of an entry."""

    FORGET = "forget"  # until the pod changes
    LATER = "later"  # a pause that counts
    WHEN_DUE = "when due"  # and its pauses start again from the first
    UNBOOST = "unboost"  # now


@dataclass(frozen=True, slots=True)
class BoostCheck:
    """What a look at an entry tells."""

    next: BoostStep
    wait: timedelta = timedelta()


def pause_after(count: int) -> timedelta:
    """Return the pause after so many earlier ones in a row."""
    return doubled(_FIRST, count + 1, _LONGEST)


def check_boost(pod: Pod | None, vpa: Vpa | None, count: int, now: datetime) -> BoostCheck:
    """Tell what to do about an entry that came back after `count` pauses in a row."""
    if pod is None or not (boosted_containers(pod) or pending_containers(pod)):
        return BoostCheck(BoostStep.FORGET)
    if vpa is None:
        if count >= _LOOKS_WITHOUT_VPA:
            return BoostCheck(BoostStep.FORGET)
        return BoostCheck(BoostStep.LATER, pause_after(count))
    due = unboost_due(pod, vpa, now)
    if due.containers:
        return BoostCheck(BoostStep.UNBOOST)
    if wait := due.wait(now):
        return BoostCheck(BoostStep.WHEN_DUE, wait)
    return BoostCheck(BoostStep.LATER, pause_after(count))


def resets_pauses(before: Pod, after: Pod) -> bool:
    """Whether a pod changed in a way that makes another look worth while at once."""
    return _watched(before) != _watched(after)


def _watched(pod: Pod) -> list[Condition]:
    return [found for found in pod.conditions if found.type in _WATCHED]
