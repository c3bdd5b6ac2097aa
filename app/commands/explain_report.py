"""What becomes of pods, as a report: what is asked about, and what the explainer tells of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from app.admission.core.mutate import PodRules
from app.commands.explain_past import past_events
from app.commands.explain_subjects import (
    Subject,
    check_asked,
    labelled_subjects,
    named_subjects,
    subjects_by_namespace,
)
from app.commands.explain_text import explanation_lines
from app.commands.flags import ExplainSettings
from app.diagnosis.explainer import DecisionRules, Explainer
from app.diagnosis.gathering import GatherRequest, chosen_namespace, gather_objects
from app.flags.shared import Scope
from app.kube.client import connect
from app.kube.files import Unreadable
from app.model.fields import Json
from app.output import Report, Text
from app.ports import CHECKPOINTS, EVENTS, PODS, VPAS, WORKLOADS, Clock
from app.updater.flags import update_rules

_KEEPS: Final = (PODS, CHECKPOINTS, EVENTS, *WORKLOADS, VPAS)
_NO_SCOPE: Final = Scope("", ())


def explain_report(settings: ExplainSettings, clock: Clock) -> Report:
    """Explain what was asked about."""
    offline, reach = settings.offline, settings.cluster
    check_asked(settings.names, settings.selection.selector)
    now = settings.asking.at or clock.now()
    namespace = chosen_namespace(settings.selection, offline, reach)
    rules, deciding = settings.admission, settings.deciding
    flags = deciding.native_sidecars, deciding.horizontal
    asked: list[Subject] = []
    items: list[Json] = []
    notes: list[str] = []
    is_partial = False
    for where, names in _places(settings, namespace).items():
        wanted = GatherRequest(offline, reach, where, rules, _KEEPS, *flags)
        with gather_objects(wanted, clock, now) as seen:
            unread: list[Unreadable] = []
            past = past_events(settings, seen, where, names, unread)
            selector = settings.selection.selector
            here = list(
                named_subjects(seen.snapshot, past, where, names)
                if names
                else labelled_subjects(seen.snapshot, where, selector)
            )
            explainer = Explainer(seen, past, _rules(settings), clock, now)
            items += (_explained(explainer, one) for one in here)
        asked += here
        notes += [*seen.notes, *map(str, unread)]
        is_partial = is_partial or bool(seen.unread)
    body, wide = (
        Text(
            [
                line
                for item in items
                for line in (
                    (),
                    *explanation_lines(item, now, settings.asking.interval, is_whole=is_whole),
                )
            ][1:]
        )
        for is_whole in (False, True)
    )
    titles = [one.title for one in asked]
    return Report(body, items, titles, notes, wide=wide, is_partial=is_partial)


def _places(settings: ExplainSettings, namespace: str) -> Mapping[str, Sequence[str]]:
    """Return what is asked for by namespace, so that of a large cluster little has to be read."""
    names, selector = settings.names, settings.selection.selector
    if namespace or settings.offline.objects:
        return {namespace: names}
    reach = settings.cluster
    cluster = connect(reach.kubeconfig, reach.context, reach.queries_per_second, reach.burst)
    try:
        places = subjects_by_namespace(cluster, names, selector)
    finally:
        cluster.close()
    return places if names else dict.fromkeys(places, ())


def _rules(settings: ExplainSettings) -> DecisionRules:
    deciding, asking = settings.deciding, settings.asking
    updates = update_rules(
        deciding, settings.disruption, settings.thresholds, _NO_SCOPE, asking.interval
    )
    webhook = PodRules(deciding.gates, asking.max_cpu_boost, deciding.native_sidecars)
    return DecisionRules(updates, webhook, deciding.gates)


def _explained(explainer: Explainer, asked: Subject) -> Json:
    if asked.key is not None:
        return explainer.of_workload(asked.namespace, asked.key)
    if asked.kind == PODS.kind:
        return explainer.of_pod(asked.namespace, asked.name)
    return explainer.of_vpa(asked.namespace, asked.name)
