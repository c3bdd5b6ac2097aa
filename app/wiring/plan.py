"""What the updater would do now, for objects in files or in a cluster; nothing is touched."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from typing import Final

import orjson

from app.adapters.files import Document, Unreadable, documents
from app.adapters.kube import KubeCluster, connect
from app.adapters.logs import start_logging
from app.adapters.owners import LiveOwners
from app.core.updating.decisions import Decision
from app.core.updating.memory import Memory
from app.core.updating.telling import decision_json
from app.model.errors import BadSetting, NotFound, Refused
from app.model.kinds import group_of
from app.model.snapshot import Snapshot
from app.ports import (
    LEASES,
    LIMIT_RANGES,
    NODES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    VPAS,
    WORKLOADS,
    Clock,
    Json,
    Owners,
    Resource,
)
from app.settings.plan import Output, PlanSettings
from app.wiring.clock import SystemClock
from app.wiring.knowledge import recorded_sources
from app.wiring.update_rules import lease_rules, update_rules
from app.workers.deciding import Decider, Sight
from app.workers.pace import PaceRules, within_pace
from app.workers.webhook_lease import HEALTHY, LeaseRules, Sign, WebhookLease, sign_of

log = logging.getLogger(__name__)

_PAGE: Final = 500
_CALL_SECONDS: Final = 5.0
_NEEDED: Final = (VPAS, PODS, *WORKLOADS)
_HELPFUL: Final = (LIMIT_RANGES, POD_DISRUPTION_BUDGETS, NODES)
_COLUMNS: Final = ("NAMESPACE", "POD", "VPA", "ACTION", "REASON", "REQUESTS", "MESSAGE")
_GAP: Final = "  "


@dataclass(frozen=True, slots=True)
class Seen:
    """What is known of a cluster."""

    snapshot: Snapshot
    owners: Owners
    webhook: Sign


def lines(settings: PlanSettings) -> Iterator[str]:
    """Yield the plan, line by line; problems are logged."""
    start_logging(settings.logging.verbosity)
    return told(settings, SystemClock())


def told(settings: PlanSettings, clock: Clock) -> Iterator[str]:
    """Yield the plan, line by line."""
    now = settings.asking.at or clock.now()
    seen = recorded(settings, now) if settings.offline.objects else live(settings, clock, now)
    if not seen.webhook.is_healthy:
        log.warning("the webhook gives no sign", extra={"reason": seen.webhook.message})
    decisions = decided(settings, seen, clock, now)
    if settings.asking.output is Output.JSON:
        yield from (orjson.dumps(decision_json(found)).decode() for found in decisions)
    else:
        yield from table(decisions)


def recorded(settings: PlanSettings, now: datetime) -> Seen:
    """Return what files tell of a cluster; without the webhook's Lease it counts as healthy."""
    rules = lease_rules(settings.admission)
    leases: list[Json] = []
    found = chain.from_iterable(documents(str(path)) for path in settings.offline.objects)
    sources = recorded_sources(_without_lease(found, rules, leases))
    sign = sign_of(leases[-1], rules, now) if leases and rules.is_on else HEALTHY
    return Seen(sources.snapshot(), sources.owners, sign)


def _without_lease(
    found: Iterable[Document | Unreadable], rules: LeaseRules, leases: list[Json]
) -> Iterator[Document | Unreadable]:
    """Yield all but the webhook's Lease, which is put into the list."""
    for item in found:
        if isinstance(item, Document) and _is_lease(item.item, rules):
            leases.append(item.item)
        else:
            yield item


def _is_lease(item: Json, rules: LeaseRules) -> bool:
    metadata = item.get("metadata")
    return (
        item.get("kind") == LEASES.kind
        and group_of(str(item.get("apiVersion"))) == LEASES.group
        and isinstance(metadata, dict)
        and (metadata.get("namespace"), metadata.get("name")) == (rules.namespace, rules.name)
    )


def live(settings: PlanSettings, clock: Clock, now: datetime) -> Seen:
    """Return what a cluster is like now; everything is listed once."""
    reach = settings.cluster
    cluster = connect(reach.kubeconfig, reach.context, reach.queries_per_second, reach.burst)
    namespace = settings.scope.namespace or settings.asking.namespace
    found = chain(
        *(_listed(cluster, resource, namespace) for resource in _NEEDED),
        *(_listed(cluster, resource, namespace, helpful=True) for resource in _HELPFUL),
    )
    sources = recorded_sources(found)
    asked = cluster.within(_CALL_SECONDS)
    sign = WebhookLease(asked, lease_rules(settings.admission), clock).look(now)
    return Seen(sources.snapshot(), LiveOwners(asked, clock), sign)


def _listed(
    cluster: KubeCluster, resource: Resource, namespace: str, *, helpful: bool = False
) -> Iterator[Document]:
    """Yield the objects of a resource; one that only helps may be missing or refused."""
    token = ""
    try:
        while True:
            at = namespace if resource.namespaced else ""
            page = cluster.list(resource, at, limit=_PAGE, continue_token=token)
            yield from (Document(resource.plural, item) for item in page.items)
            token = page.continue_token
            if not token:
                return
    except (NotFound, Refused) as error:
        if not helpful:
            raise
        log.warning("not read", extra={"resource": resource.plural, "error": str(error)})


def decided(settings: PlanSettings, seen: Seen, clock: Clock, now: datetime) -> list[Decision]:
    """Return the decisions that were asked for."""
    asking, disruption = settings.asking, settings.disruption
    rules = update_rules(
        settings.deciding, disruption, settings.thresholds, settings.scope, asking.interval
    )
    _check_asked(asking.namespace, settings.vpas, seen.snapshot)
    decider = Decider(rules, settings.deciding.gates, seen.owners, clock)
    made = decider.plan(Sight(seen.snapshot, seen.webhook.is_healthy), Memory(), now)
    pace = PaceRules(disruption.rate_per_second, disruption.burst)
    return [
        found
        for found in within_pace(made.decisions, made.queues, pace, asking.interval)
        if asking.namespace in ("", found.namespace)
        and (not settings.vpas or found.vpa in settings.vpas)
    ]


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
