"""Pods under a start-up boost: wait until they are due, bring them back, see that they arrive.

Strategy: a boosted pod is left alone until its boost is over, unless it runs out of memory so
that it never gets ready. Once it is due it is brought back in place, again and again, and never
evicted for it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from operator import methodcaller

from app.model.pods import BOOST_ANNOTATION, Pod
from app.model.quantity import CPU
from app.updater.core.decisions import Action, ContainerChange, PodChange, Reason
from app.updater.core.moments import believed
from app.updater.core.oom import quick_oom
from app.updater.core.patching import without_raised_marks
from app.updater.core.resize_wishes import REASONS
from app.updater.core.resizing import ResizeState, Stage, is_stuck, resize_state
from app.updater.core.unboost import (
    MARK,
    Return,
    boosted_containers,
    due_containers,
    finished,
    next_due,
    pending_containers,
    pending_since,
    unboosting,
    way_back,
)
from app.updater.core.under_way import as_reported
from app.updater.core.wishes import Assessment, Case, Wish

_is_mark = methodcaller("startswith", (BOOST_ANNOTATION, MARK))


def has_marks(pod: Pod) -> bool:
    """Whether a pod carries any mark of a boost."""
    return any(map(_is_mark, pod.annotations or ()))


def is_ordinary(case: Case) -> bool:
    """Whether a marked pod is updated like any other, although it is boosted."""
    pod, vpa, now = case.pod, case.vpa, case.terms.now
    was_tried = case.remembered.unboosted is not None or pending_containers(pod)
    if was_tried or due_containers(pod, vpa, now):
        return False
    return quick_oom(pod, vpa, case.rules, case.terms.gates, now) is not None


def boosted(case: Case) -> Assessment:
    """Assess a pod with marks of a boost; its numbers are those of all but the boosted cpu."""
    shape = case.shapes.of(case.pod, boosted_containers(case.pod))
    return replace(_boosted(case), numbers=shape.numbers)


def _boosted(case: Case) -> Assessment:
    pod, now = case.pod, case.terms.now
    due = due_containers(pod, case.vpa, now) | pending_containers(pod)
    if not due or pod.phase == "Pending":
        until = next_due(pod, case.vpa, now)
        told = f"boosted until {until:%H:%M:%S}" if until else "boosted, and not ready yet"
        return case.decided(Action.WAIT, Reason.BOOST_RUNNING, told, until=until)
    if case.remembered.resized is not None:
        return _wait(case, Reason.RESIZE_IN_PROGRESS, "a resize was accepted just now")
    back, path = way_back(pod, due, case.shapes), _path(case)
    if not back.containers:
        return _arriving(case, due, back, path)
    if path.state.is_ongoing and path.tried is None and not path.is_hopeless:
        told = f"another resize is {path.state.stage}"
        return replace(_wait(case, REASONS[path.state.stage], told), resizing_since=path.since)
    if _is_paused(case):
        return _paused(case, path.tried)
    change = unboosting(pod, due - frozenset(back.lost), back, now)
    dropped = finished(pod, frozenset(back.lost)).annotations
    change = replace(change, annotations=(*change.annotations, *dropped))
    if path.is_hopeless:
        change = _with(change, pod, as_reported(pod, without_cpu=due))
    names = ", ".join(found.container for found in back.containers)
    return _unboost(case, f"boost of {names} is over", change)


@dataclass(frozen=True, slots=True)
class _Path:
    """The resize that a pod is in, if it is in one, on its way back or before."""

    state: ResizeState
    tried: datetime | None  # since when the pod is being brought back, None if it is not
    since: datetime  # the resize
    is_stuck: bool
    is_hopeless: bool  # what is asked for beside the smaller cpu is not waited for any longer


def _path(case: Case) -> _Path:
    pod, now, rules = case.pod, case.terms.now, case.rules
    state = resize_state(pod)
    tried = pending_since(pod, now) or case.remembered.unboosted
    told = (tried, believed(state.since, now), case.remembered.resizing_since)
    since = max((moment for moment in told if moment is not None), default=now)
    stuck = state.is_ongoing and is_stuck(state, since, rules, now)
    is_late = now - since > rules.deferred_timeout or state.stage is Stage.INFEASIBLE
    return _Path(state, tried, since, stuck, stuck and is_late)


def _wait(case: Case, reason: Reason, message: str) -> Assessment:
    return case.decided(Action.WAIT, reason, message)


def _unboost(case: Case, message: str, change: PodChange, *, is_free: bool = False) -> Assessment:
    wish = Wish(Action.UNBOOST, message, change, is_free=is_free)
    return Assessment(case.pod, case.vpa, wish=wish)


def _arriving(case: Case, due: frozenset[str], back: Return, path: _Path) -> Assessment:
    """Assess a pod that asks for its smaller size already."""
    pod, state = case.pod, path.state
    if not state.is_ongoing:
        told = "back from its boost"
        if back.lost:
            told = f"nothing tells what {', '.join(back.lost)} had before the boost; left as it is"
        return _unboost(case, told, finished(pod, due), is_free=True)
    told = f"the resize is {state.stage}{': ' if state.message else ''}{state.message}"
    if not path.is_stuck:
        return replace(_wait(case, REASONS[state.stage], told), resizing_since=path.since)
    if path.is_hopeless and not _is_paused(case):
        if others := as_reported(pod, without_cpu=due):
            message = f"still boosted: {told}; what else was asked for is taken back"
            return _unboost(case, message, _with(PodChange(), pod, others))
        if _never_rises(case, path):
            message = f"gets no more than in its boost: {told}"
            return _unboost(case, message, _with(finished(pod, due), pod, as_reported(pod)))
    return _wait(case, Reason.UNBOOST_STUCK, f"still boosted: {told}")


def _never_rises(case: Case, path: _Path) -> bool:
    """Whether a pod is to get more than in its boost, and its node has no room for that.

    The scheduler holds the room that it asks for, so it may not ask for ever.
    """
    asked = {container.name: container.resources for container in case.pod.containers}
    rises = any(
        (has := change.requests.get(CPU)) and (asked[change.container].request(CPU) or has) > has
        for change in as_reported(case.pod)
    )
    is_over = case.terms.now - path.since > case.rules.give_back_timeout
    return rises and (path.state.stage is Stage.INFEASIBLE or is_over)


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


def _is_paused(case: Case) -> bool:
    pause = case.remembered.pause
    return pause is not None and not pause.is_over(case.terms.now)


def _paused(case: Case, since: datetime | None) -> Assessment:
    pause = case.remembered.pause
    told = pause.message if pause is not None else ""
    if since is not None and case.terms.now - since > case.rules.deferred_timeout:
        return _wait(case, Reason.UNBOOST_STUCK, f"still boosted: {told}")
    return _wait(case, Reason.RESIZE_ERROR, told)
