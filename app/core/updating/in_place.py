"""Pods that are updated in place where that is possible."""

from __future__ import annotations

from dataclasses import replace

from app.core.updating.decisions import Action, Reason
from app.core.updating.infeasible import Infeasible, is_remembered
from app.core.updating.resize_wishes import (
    Urge,
    assessment,
    changes_of,
    evict,
    fresh,
    is_only_in_place,
    resize,
    waiting,
    wanted_of,
)
from app.core.updating.resizing import Stage
from app.core.updating.under_way import under_way
from app.core.updating.wishes import Assessment, Case


def in_place(case: Case, urge: Urge) -> Assessment:
    """Assess a pod that needs an update and may get it in place."""
    upstream = case.rules.upstream
    base = assessment(case, urge)
    if case.remembered.resized is not None:
        return waiting(base, Reason.RESIZE_IN_PROGRESS, "a resize was accepted just now")
    if upstream.resizes_without_budget and is_only_in_place(case):
        return _patch_anyway(case, urge, base)
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
    may_evict = not is_only_in_place(case) and not case.rules.upstream.ignores_unscheduled
    if urge.priority.quick_oom and may_evict:
        return replace(base, wish=evict(case, urge, urge.message))
    return waiting(base, Reason.POD_PENDING, "the pod does not run yet")


def _patch_anyway(case: Case, urge: Urge, base: Assessment) -> Assessment:
    """Assess as upstream does in mode InPlace, where only a refusal before holds it back."""
    past, now = case.remembered.infeasible, case.terms.now
    pairs = urge.shape.numbers.pairs
    raw = wanted_of(case, pairs)
    capped = {(pair.container, pair.resource): pair.target for pair in pairs}
    if past is not None and any(
        is_remembered(past, wanted, None, case.rules, now) for wanted in (raw, capped)
    ):
        return waiting(base, Reason.INFEASIBLE_REMEMBERED, "the node refused as much before")
    if urge.state.stage is Stage.INFEASIBLE:
        base = replace(base, infeasible=Infeasible(raw, frozenset(), now, None))
    wish = replace(resize(case, urge, changes_of(case, urge.shape)), is_free=True)
    return replace(base, wish=wish)
