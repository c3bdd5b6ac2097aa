"""What the updater would do now, for objects in files or in a cluster; nothing is touched."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final

from app.commands.flags import PlanSettings
from app.commands.workload_names import VPA_WORDS
from app.diagnosis.gathering import (
    GatheredObjects,
    GatherRequest,
    chosen_namespace,
    gather_objects,
    is_absent,
)
from app.diagnosis.written_vpas import problems_of, sentences
from app.model.errors import BadSetting
from app.model.pod_roles import role_names
from app.model.selectors import Selector
from app.model.snapshot import Snapshot
from app.output import Piece, Report, Table, Tone, folded, line
from app.ports import VPAS, Clock
from app.updater.core.decisions import Action, Decision, decision_json
from app.updater.core.events import counted, headline
from app.updater.core.memory import Memory
from app.updater.core.sentences import changes
from app.updater.flags import update_rules
from app.updater.updater import OwnerLookupPlanner
from app.updater.work_queue import RateLimits, within_rates

_NAMESPACE: Final = "NAMESPACE"
_ROLE: Final = "ROLE"
_COLUMNS: Final = (_NAMESPACE, "POD", "VPA", _ROLE, "ACTION", "REASON", "WHY")
_CHANGES: Final = " -> "  # stands in each sentence that says what changes
_TONES: Final = {
    Action.EVICT: Tone.CAREFUL,
    Action.RESIZE: Tone.GOOD,
    Action.UNBOOST: Tone.GOOD,
    Action.NONE: Tone.FAINT,
}


def plan_report(settings: PlanSettings, clock: Clock) -> Report:
    """Return the plan."""
    now = settings.asking.at or clock.now()
    reach, offline = settings.cluster, settings.offline
    namespace = settings.scope.namespace or chosen_namespace(settings.selection, offline, reach)
    deciding = settings.deciding
    wanted = GatherRequest(
        offline,
        reach,
        namespace,
        settings.admission,
        (VPAS,),
        deciding.native_sidecars,
        deciding.horizontal,
    )
    with gather_objects(wanted, clock, now) as seen:
        found = decided(settings, seen, namespace, clock, now)
        problems = problems_of(seen, clock, settings.deciding.gates)
    notes = seen.notes
    if not seen.webhook.is_healthy:
        notes.append(f"no pod would be evicted now: {seen.webhook.message}")
    if not found:
        where = f"in namespace {namespace}; -A looks at all namespaces" if namespace else "anywhere"
        notes.append(f"no pod under a VPA was found {where}")
    names = [f"pod/{decision.pod}" for decision in found]
    table, wide = (
        decisions_table(found, seen.snapshot, has_namespaces=not namespace, is_whole=is_whole)
        for is_whole in (False, True)
    )
    items = list(map(decision_json, found))
    told = sentences(problems, _vpas_asked_about(settings, seen.snapshot, namespace, found))
    return Report(table, items, names, notes, told, wide=wide, is_partial=bool(seen.unread))


def decided(
    settings: PlanSettings, seen: GatheredObjects, namespace: str, clock: Clock, now: datetime
) -> list[Decision]:
    """Return the decisions that were asked for."""
    asking, disruption = settings.asking, settings.disruption
    rules = update_rules(
        settings.deciding, disruption, settings.thresholds, settings.scope, asking.interval
    )
    names = _vpa_names(settings)
    _check_asked(namespace, names, seen.snapshot)
    planner = OwnerLookupPlanner(rules, settings.deciding.gates, seen.owners, clock)
    made = planner.plan(seen.snapshot, Memory(), now, webhook_is_healthy=seen.webhook.is_healthy)
    limits = RateLimits(disruption.rate_per_second, disruption.burst)
    return [
        found
        for found in within_rates(made.decisions, made.queues, limits, asking.interval)
        if namespace in ("", found.namespace)
        and (not names or found.vpa in names)
        and _is_selected(found, settings.selection.selector, seen.snapshot)
    ]


def _vpas_asked_about(
    settings: PlanSettings, snapshot: Snapshot, namespace: str, found: Sequence[Decision]
) -> set[tuple[str, str]]:
    """Return the VPAs that are named, or all of the namespaces; with labels those of the pods."""
    if settings.selection.selector is not None:
        return {(one.namespace, one.vpa) for one in found}
    names = _vpa_names(settings)
    return {
        (where, name)
        for where, view in snapshot.namespaces.items()
        for name in view.vpas
        if namespace in ("", where) and (not names or name in names)
    }


def _is_selected(found: Decision, selector: Selector | None, snapshot: Snapshot) -> bool:
    pod = snapshot.of(found.namespace).pods.get(found.pod)
    return selector is None or (pod is not None and selector.matches(pod.labels))


def _vpa_names(settings: PlanSettings) -> Sequence[str]:
    """Return the names of VPAs that were asked for, each also written as vpa/NAME.

    Raises:
        BadSetting: one names something else.
    """
    names = []
    for text in settings.vpas:
        word, slash, name = text.rpartition("/")
        if slash and word not in VPA_WORDS:
            raise BadSetting(f'"{text}" is not a VPA; ask: plumbline explain {text}')
        names.append(name)
    return names


def _check_asked(namespace: str, vpas: Sequence[str], snapshot: Snapshot) -> None:
    """See whether what was asked about is there.

    Raises:
        BadSetting: it is not.
    """
    views = [snapshot.of(namespace)] if namespace else list(snapshot.namespaces.values())
    known = {name for view in views for name in view.vpas}
    for name in vpas:
        if name not in known and any(name in view.pods for view in views):
            raise BadSetting(f'"{name}" is a pod; ask: plumbline explain pod/{name}')
        if name not in known:
            raise is_absent("VPA", name, namespace, known)


def decisions_table(
    decisions: Sequence[Decision], snapshot: Snapshot, *, has_namespaces: bool, is_whole: bool
) -> Table:
    """Return decisions for people: a row for each pod, and how many there are of each action.

    Unless it is whole, many pods of which the same is said have a row together.
    """
    roles = [_role(one, snapshot) for one in decisions]
    needed = {_NAMESPACE: has_namespaces, _ROLE: any(roles)}
    shown = [name for name in _COLUMNS if needed.get(name, True)]
    told = [
        (one.pod, (Piece(one.namespace), *_cells(one, role)))
        for one, role in zip(decisions, roles, strict=True)
    ]
    rows = [
        tuple(cells[name] for name in shown)
        for pod, (namespace, *others) in (told if is_whole else folded(told))
        for cells in [dict(zip(_COLUMNS, (namespace, Piece(pod), *others), strict=True))]
    ]
    below = [line(_counted(decisions))] if decisions else []
    return Table(tuple(shown), rows, below, ends_in_sentences=True)


def _role(decision: Decision, snapshot: Snapshot) -> str:
    pod = snapshot.of(decision.namespace).pods.get(decision.pod)
    return role_names(pod) if pod is not None else ""


def _cells(decision: Decision, role: str) -> Iterator[Piece]:
    yield Piece(decision.vpa or "-")
    yield Piece(role or "-")
    yield Piece(str(decision.action), _TONES.get(decision.action, Tone.PLAIN))
    yield Piece(str(decision.reason))
    yield Piece(_why(decision) or "-")


def _why(decision: Decision) -> str:
    """Return the sentence about a pod; with what would change behind it, unless it says so."""
    why = decision.message
    if decision.numbers is None or decision.action is Action.UNBOOST or _CHANGES in why:
        return why
    changed = changes(decision.numbers.pairs)
    return f"{why} ({changed})" if why and changed else why or changed


def _counted(decisions: Sequence[Decision]) -> str:
    words = headline((decision.action, decision.reason) for decision in decisions)
    return f"{counted(len(decisions))}: {words}"
