"""What the updater would do now, for objects in files or in a cluster; nothing is touched."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final

from app.adapters.logs import start_logging
from app.core.updating.decisions import Decision
from app.core.updating.memory import Memory
from app.core.updating.telling import decision_json
from app.model.errors import BadSetting
from app.model.selectors import Selector
from app.model.snapshot import Snapshot
from app.output.formats import Output, shown
from app.output.report import Report, Text
from app.ports import Clock
from app.settings.plan import PlanSettings
from app.wiring.clock import SystemClock
from app.wiring.gathering import Gathered, Place, gathered, namespace_of
from app.wiring.update_rules import lease_rules, update_rules
from app.workers.deciding import Decider, Sight
from app.workers.pace import PaceRules, within_pace

log = logging.getLogger(__name__)

_COLUMNS: Final = ("NAMESPACE", "POD", "VPA", "ACTION", "REASON", "REQUESTS", "MESSAGE")
_GAP: Final = "  "


def lines(settings: PlanSettings) -> Iterator[str]:
    """Yield the plan, line by line; problems are logged."""
    start_logging(settings.logging.verbosity)
    return told(settings, SystemClock())


def told(settings: PlanSettings, clock: Clock) -> Iterator[str]:
    """Yield the plan, line by line."""
    now = settings.asking.at or clock.now()
    reach, offline = settings.cluster, settings.offline
    namespace = settings.scope.namespace or namespace_of(settings.selection, offline, reach)
    place = Place(offline, reach, namespace, lease_rules(settings.admission))
    with gathered(place, clock, now) as seen:
        for problem in seen.problems:
            extra = {"place": problem.place, "problem": problem.message}
            log.warning("object not used as it is", extra=extra)
        if not seen.webhook.is_healthy:
            log.warning("the webhook gives no sign", extra={"reason": seen.webhook.message})
        decisions = decided(settings, seen, namespace, clock, now)
    if settings.showing.output is Output.TABLE:
        yield from table(decisions)
    else:
        names = [f"pod/{found.pod}" for found in decisions]
        items = list(map(decision_json, decisions))
        yield from shown(Report(Text(()), items, names), settings.showing.output)


def decided(
    settings: PlanSettings, seen: Gathered, namespace: str, clock: Clock, now: datetime
) -> list[Decision]:
    """Return the decisions that were asked for."""
    asking, disruption = settings.asking, settings.disruption
    rules = update_rules(
        settings.deciding, disruption, settings.thresholds, settings.scope, asking.interval
    )
    _check_asked(namespace, settings.vpas, seen.snapshot)
    decider = Decider(rules, settings.deciding.gates, seen.owners, clock)
    made = decider.plan(Sight(seen.snapshot, seen.webhook.is_healthy), Memory(), now)
    pace = PaceRules(disruption.rate_per_second, disruption.burst)
    return [
        found
        for found in within_pace(made.decisions, made.queues, pace, asking.interval)
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


def table(decisions: Sequence[Decision]) -> Iterator[str]:
    """Yield decisions as a table for people."""
    rows = [_COLUMNS, *map(_row, decisions)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield _GAP.join(cells).rstrip()


def _row(decision: Decision) -> tuple[str, ...]:
    return (
        decision.namespace,
        decision.pod,
        decision.vpa or "-",
        str(decision.action),
        str(decision.reason),
        _requests(decision) or "-",
        decision.message,
    )


def _requests(decision: Decision) -> str:
    """Return what a pod requests and should, where the two differ."""
    found: dict[str, list[str]] = {}
    for pair in decision.numbers.pairs if decision.numbers is not None else ():
        if pair.current != pair.target:
            change = f"{pair.resource} {pair.current or 'none'}->{pair.target}"
            found.setdefault(pair.container, []).append(change)
    return "; ".join(f"{name} {' '.join(changes)}" for name, changes in found.items())
