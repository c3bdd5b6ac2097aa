"""Pods that are updated in place where that is possible."""

from __future__ import annotations

from dataclasses import replace

from app.updater.core.decisions import Action, Reason
from app.updater.core.resize_wishes import (
    Urge,
    assessment,
    changes_of,
    evict,
    fresh,
    is_only_in_place,
    waiting,
)
from app.updater.core.under_way import under_way
from app.updater.core.wishes import Assessment, Case


def in_place(case: Case, urge: Urge) -> Assessment:
    """Assess a pod that needs an update and may get it in place."""
    base = assessment(case, urge)
    if case.remembered.resized is not None:
        return waiting(base, Reason.RESIZE_IN_PROGRESS, "a resize was accepted just now")
    if case.pod.phase == "Pending" and case.pod.node:
        return _pending(case, urge, base)
    if urge.state.is_ongoing:
        return under_way(case, urge, base)
    changes = changes_of(case, urge.shape)
    if not changes:
        message = "all that can be changed in place is asked for"
        return case.decided(Action.NONE, Reason.NO_CHANGE, message, numbers=base.numbers)
    return fresh(case, urge, base, changes)


def _pending(case: Case, urge: Urge, base: Assessment) -> Assessment:
    """Assess a pod that has a node but does not run yet: only want of memory is mended now."""
    if urge.priority.quick_oom and not is_only_in_place(case):
        return replace(base, wish=evict(case, urge, urge.message))
    return waiting(base, Reason.POD_PENDING, "the pod does not run yet")
