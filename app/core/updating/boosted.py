"""Pods under a start-up boost: wait until they are due, bring them back, see that they arrive.

Strategy: a boosted pod is left alone until its boost is over, unless it runs out of memory so
that it never gets ready. Once it is due it is brought back in place, again and again, and never
evicted for it.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from operator import methodcaller

from app.core.updating.decisions import Action, Reason
from app.core.updating.moments import believed
from app.core.updating.oom import quick_oom
from app.core.updating.resize_wishes import REASONS
from app.core.updating.resizing import ResizeState, is_stuck, resize_state
from app.core.updating.unboost import (
    MARK,
    Return,
    boosted_containers,
    due_containers,
    finished,
    next_due,
    pending_containers,
    pending_since,
    unboosting,
    upstream_way_back,
    way_back,
)
from app.core.updating.wishes import Assessment, Case, Wish
from app.model.pods import BOOST_ANNOTATION, Pod

_is_mark = methodcaller("startswith", (BOOST_ANNOTATION, MARK))


def has_marks(pod: Pod) -> bool:
    """Whether a pod carries any mark of a boost."""
    return any(map(_is_mark, pod.annotations or ()))


def is_ordinary(case: Case) -> bool:
    """Whether a marked pod is updated like any other, although it is boosted."""
    rules = case.rules
    if rules.upstream.removed_boost_is_ordinary and not case.vpa.mentions_boost:
        return True
    if rules.upstream.boost_blocks_oom or _was_tried(case):
        return False
    if due_containers(case.pod, case.vpa, case.terms.now):
        return False
    found = quick_oom(case.pod, case.vpa, rules, case.terms.gates, case.terms.now)
    return found is not None


def _was_tried(case: Case) -> bool:
    return case.remembered.unboosted is not None or bool(pending_containers(case.pod))


def boosted(case: Case) -> Assessment:
    """Assess a pod with marks of a boost."""
    pod, now = case.pod, case.terms.now
    due = due_containers(pod, case.vpa, now) | pending_containers(pod)
    if not due or pod.phase == "Pending":
        until = next_due(pod, case.vpa, now)
        told = f"boosted until {until:%H:%M:%S}" if until else "boosted, and not ready yet"
        return case.decided(Action.WAIT, Reason.BOOST_RUNNING, told, until=until)
    if case.rules.upstream.unboosts_everything:
        return _as_upstream(case, due)
    back = way_back(pod, due, case.shapes)
    state = resize_state(pod, case.rules)
    since = pending_since(pod, now) or case.remembered.unboosted
    if case.remembered.resized is not None:
        return _wait(case, Reason.RESIZE_IN_PROGRESS, "a resize was accepted just now")
    if not back.containers:
        return _arriving(case, due, back, state, since)
    if state.is_ongoing and since is None:
        return _wait(case, REASONS[state.stage], f"another resize is {state.stage}")
    pause = case.remembered.pause
    if pause is not None and not pause.is_over(now):
        return _paused(case, since)
    change = unboosting(pod, due - frozenset(back.lost), back, case.rules, now)
    dropped = finished(pod, frozenset(back.lost)).annotations
    change = replace(change, annotations=(*change.annotations, *dropped))
    names = ", ".join(found.container for found in back.containers)
    return Assessment(pod, case.vpa, wish=Wish(Action.UNBOOST, f"boost of {names} is over", change))


def _wait(case: Case, reason: Reason, message: str) -> Assessment:
    return case.decided(Action.WAIT, reason, message)


def _arriving(
    case: Case, due: frozenset[str], back: Return, state: ResizeState, since: datetime | None
) -> Assessment:
    """Assess a pod that asks for its smaller size already."""
    if state.is_ongoing:
        known = [
            moment
            for moment in (since, believed(state.since, case.terms.now))
            if moment is not None
        ]
        told = f"the resize is {state.stage}{': ' if state.message else ''}{state.message}"
        if known and is_stuck(state, max(known), case.rules, case.terms.now):
            return _wait(case, Reason.UNBOOST_STUCK, f"still boosted: {told}")
        return _wait(case, REASONS[state.stage], told)
    told = "back from its boost"
    if back.lost:
        told = f"nothing tells what {', '.join(back.lost)} had before the boost; left as it is"
    wish = Wish(Action.UNBOOST, told, finished(case.pod, due), is_free=True)
    return Assessment(case.pod, case.vpa, wish=wish)


def _paused(case: Case, since: datetime | None) -> Assessment:
    pause = case.remembered.pause
    told = pause.message if pause is not None else ""
    if since is not None and case.terms.now - since > case.rules.deferred_timeout:
        return _wait(case, Reason.UNBOOST_STUCK, f"still boosted: {told}")
    return _wait(case, Reason.RESIZE_ERROR, told)


def _as_upstream(case: Case, due: frozenset[str]) -> Assessment:
    pod = case.pod
    if resize_state(pod, case.rules).is_ongoing:
        return _wait(case, Reason.RESIZE_IN_PROGRESS, "a resize is under way")
    back = upstream_way_back(pod, due, case.shapes)
    if back.lost:
        told = f"the mark of {', '.join(back.lost)} cannot be read"
        return _wait(case, Reason.UNBOOST_STUCK, told)
    change = unboosting(pod, due, back, case.rules, case.terms.now)
    names = ", ".join(sorted(due & boosted_containers(pod)))
    return Assessment(pod, case.vpa, wish=Wish(Action.UNBOOST, f"boost of {names} is over", change))
