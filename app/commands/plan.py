"""What the updater would do now, for objects in files or in a cluster; nothing is touched."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from textwrap import wrap
from typing import Final

from app.commands.flags import PlanSettings
from app.diagnosis.gathering import GatheredObjects, GatherRequest, chosen_namespace, gather_objects
from app.model.errors import BadSetting
from app.model.selectors import Selector
from app.model.snapshot import Snapshot
from app.model.text import amount
from app.output import Line, Piece, Report, Table, Text, Tone, line, table_lines
from app.ports import Clock
from app.updater.core.decisions import Action, Decision, decision_json
from app.updater.core.events import counted
from app.updater.core.memory import Memory
from app.updater.flags import update_rules
from app.updater.updater import OwnerLookupPlanner
from app.updater.work_queue import RateLimits, within_rates

_COLUMNS: Final = ("NAMESPACE", "POD", "VPA", "ACTION", "REASON")
_INDENT: Final = "    "
_WIDTH: Final = 96  # of what stands below a row, so that a hundred columns are enough
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
    sidecars = settings.deciding.native_sidecars
    wanted = GatherRequest(offline, reach, namespace, settings.admission, native_sidecars=sidecars)
    with gather_objects(wanted, clock, now) as seen:
        found = decided(settings, seen, namespace, clock, now)
    notes = [str(problem) for problem in seen.problems]
    if not seen.webhook.is_healthy:
        notes.append(f"no pod would be evicted now: {seen.webhook.message}")
    if not found:
        where = f"in namespace {namespace}; -A looks at all namespaces" if namespace else "anywhere"
        notes.append(f"no pod under a VPA was found {where}")
    names = [f"pod/{decision.pod}" for decision in found]
    text = Text(tuple(page(found)) if found else ())
    return Report(text, list(map(decision_json, found)), names, notes)


def decided(
    settings: PlanSettings, seen: GatheredObjects, namespace: str, clock: Clock, now: datetime
) -> list[Decision]:
    """Return the decisions that were asked for."""
    asking, disruption = settings.asking, settings.disruption
    rules = update_rules(
        settings.deciding, disruption, settings.thresholds, settings.scope, asking.interval
    )
    _check_asked(namespace, settings.vpas, seen.snapshot)
    planner = OwnerLookupPlanner(rules, settings.deciding.gates, seen.owners, clock)
    made = planner.plan(seen.snapshot, Memory(), now, webhook_is_healthy=seen.webhook.is_healthy)
    limits = RateLimits(disruption.rate_per_second, disruption.burst)
    return [
        found
        for found in within_rates(made.decisions, made.queues, limits, asking.interval)
        if namespace in ("", found.namespace)
        and (not settings.vpas or found.vpa in settings.vpas)
        and _is_selected(found, settings.selection.selector, seen.snapshot)
    ]


def _is_selected(found: Decision, selector: Selector | None, snapshot: Snapshot) -> bool:
    pod = snapshot.of(found.namespace).pods.get(found.pod)
    return selector is None or (pod is not None and selector.matches(pod.labels))


def _check_asked(namespace: str, vpas: Sequence[str], snapshot: Snapshot) -> None:
    """See whether what was asked about is there.

    Raises:
        BadSetting: it is not.
    """
    views = [snapshot.of(namespace)] if namespace else snapshot.namespaces.values()
    known = {name for view in views for name in view.vpas}
    where = f" in namespace {namespace}" if namespace else ""
    for name in vpas:
        if name not in known:
            raise BadSetting(f'there is no VPA "{name}"{where}')


def page(decisions: Sequence[Decision]) -> Iterator[Line]:
    """Yield decisions for people: a row for each pod, and below it what changes and why."""
    head, *rows = table_lines(Table(_COLUMNS, list(map(_row, decisions))))
    yield head
    for row, decision in zip(rows, decisions, strict=True):
        yield row
        told = ": ".join(filter(None, (_changes(decision), decision.message)))
        yield from (line(_INDENT + part, Tone.FAINT) for part in wrap(told, _WIDTH))
    yield line(_counted(decisions))


def _row(decision: Decision) -> Line:
    return (
        Piece(decision.namespace),
        Piece(decision.pod),
        Piece(decision.vpa or "-"),
        Piece(str(decision.action), _TONES.get(decision.action, Tone.PLAIN)),
        Piece(str(decision.reason)),
    )


def _changes(decision: Decision) -> str:
    """Return what a pod requests and should, where the two differ."""
    found: dict[str, list[str]] = {}
    pairs = decision.numbers.pairs if decision.numbers is not None else ()
    for pair in pairs:
        if pair.current != pair.target:
            has = "none" if pair.current is None else amount(pair.resource, pair.current)
            told = f"{pair.resource} {has} -> {amount(pair.resource, pair.target)}"
            found.setdefault(pair.container, []).append(told)
    is_one = len({pair.container for pair in pairs}) == 1
    return "; ".join(
        ", ".join(told) if is_one else f"{name} {', '.join(told)}" for name, told in found.items()
    )


def _counted(decisions: Sequence[Decision]) -> str:
    counts = Counter(decision.action for decision in decisions)
    words = ", ".join(f"{action} {counts[action]}" for action in Action if counts[action])
    return f"{counted(len(decisions))}: {words}"
