"""What becomes of a pod or of a VPA's pods, and why, put together from all who decide about it.

Strategy: the webhook's core tells what the pod would get, the updater's what is done about it now
and later, and checkpoints on how much its numbers rest. Nothing is decided here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Final

from app.adapters.kube import connect
from app.core.admission.explain import explain
from app.core.admission.mutate import PodRules, PodVerdict, admit_pod
from app.core.matching import MatchReason, Unknown
from app.core.reporting.advice import MATCHES
from app.core.reporting.history import histories
from app.core.reporting.members import FoundByNamespace, VpaKey, members
from app.core.reporting.outlook import Turn, outlook, turn_json
from app.core.reporting.recreated import created_again, creation_request
from app.core.reporting.standings import Standing, standing_json, standings, vpa_json
from app.core.updating.memory import Memory
from app.core.updating.plan import Plan
from app.model.lookups import Lookup
from app.model.pods import Pod
from app.model.vpa import Vpa
from app.output.report import Json, Report, Text
from app.ports import CHECKPOINTS, PODS, Clock
from app.settings.explain import ExplainSettings
from app.settings.shared import Scope
from app.wiring.explain_names import Asked, chosen, named, sought
from app.wiring.explain_text import told
from app.wiring.gathering import Gathered, Wanted, gathered, looked_up, namespace_of
from app.wiring.update_rules import lease_rules, update_rules
from app.workers.deciding import Decider, Sight

_NO_SCOPE: Final = Scope("", ())


def explained(settings: ExplainSettings, clock: Clock) -> Report:
    """Explain what was asked about."""
    offline, reach = settings.offline, settings.cluster
    now = settings.asking.at or clock.now()
    namespace = namespace_of(settings.selection, offline, reach)
    rules = lease_rules(settings.admission)
    asked: list[Asked] = []
    items: list[Json] = []
    notes: list[str] = []
    for where, names in _places(settings, namespace).items():
        wanted = Wanted(offline, reach, where, rules, (PODS, CHECKPOINTS))
        with gathered(wanted, clock, now) as seen:
            selector = settings.selection.selector
            found = named(seen.snapshot, where, names) if names else None
            here = list(found or chosen(seen.snapshot, where, selector))
            story = Story(seen, settings, clock, now)
            items += map(story.of, here)
        asked += here
        notes += map(str, seen.problems)
    lines = [line for item in items for line in ((), *told(item, now, settings.asking.interval))]
    return Report(Text(lines[1:]), items, [one.title for one in asked], notes)


def _places(settings: ExplainSettings, namespace: str) -> Mapping[str, Sequence[str]]:
    """Return what is asked for by namespace, so that of a large cluster little has to be read."""
    names, selector = settings.names, settings.selection.selector
    if namespace or settings.offline.objects:
        return {namespace: names}
    reach = settings.cluster
    cluster = connect(reach.kubeconfig, reach.context, reach.queries_per_second, reach.burst)
    try:
        places = sought(cluster, names, selector)
    finally:
        cluster.close()
    return places if names else dict.fromkeys(places, ())


class Story:
    """Tells what becomes of pods, from one look at a cluster."""

    def __init__(
        self, seen: Gathered, settings: ExplainSettings, clock: Clock, now: datetime
    ) -> None:
        self._seen, self._clock, self._now = seen, clock, now
        deciding, asking = settings.deciding, settings.asking
        rules = update_rules(
            deciding, settings.disruption, settings.thresholds, _NO_SCOPE, asking.interval
        )
        self._rules, self._gates = rules, deciding.gates
        self._pod_rules = PodRules(deciding.gates, asking.max_cpu_boost)
        self._plans: dict[datetime, Plan] = {}
        self._raw = {
            (item["metadata"].get("namespace") or "default", item["metadata"].get("name")): item
            for item in seen.of(PODS)
            if isinstance(item.get("metadata"), dict)
        }
        self._members = looked_up(seen.owners, clock, self._belonging)
        self._histories = histories(seen.of(CHECKPOINTS))

    def of(self, asked: Asked) -> Json:
        """Return all that is known of something."""
        view = self._seen.snapshot.of(asked.namespace)
        if asked.kind == PODS.kind:
            return self._pod(view.pods[asked.name])
        return self._vpa(view.vpas[asked.name])

    def _belonging(
        self, known: FoundByNamespace
    ) -> tuple[Mapping[VpaKey, Sequence[Pod]], Sequence[Lookup]]:
        found = members(self._seen.snapshot, known)
        return found.pods, found.lookups

    def _pod(self, pod: Pod) -> Json:
        key = next((key for key, pods in self._members.items() if pod in pods), None)
        return {
            "kind": PODS.kind,
            "namespace": pod.namespace,
            "name": pod.name,
            "creation": self._creation(pod),
            "recommendation": [] if key is None else self._standings(key, [pod]),
            "updater": list(map(turn_json, self._turns(pod))),
        }

    def _vpa(self, vpa: Vpa) -> Json:
        key = vpa.namespace, vpa.name
        pods = sorted(self._members.get(key, ()), key=lambda pod: pod.name)
        turns = [(pod.name, turn) for pod in pods for turn in islice(self._turns(pod), 1)]
        view = self._seen.snapshot.of(vpa.namespace)
        rivals = view.rivals(vpa.target.key) if vpa.target is not None else ()
        counts = Counter(str(turn.decision.reason) for _, turn in turns)
        return {
            **vpa_json(vpa),
            "rivals": [rival.name for rival in rivals if rival.name != vpa.name],
            "recommendation": self._standings(key, pods),
            "creation": self._creation(pods[0]) if pods else None,
            "reasons": dict(counts.most_common()),
            "pods": [{"pod": name, **turn_json(turn)} for name, turn in turns],
        }

    def _standings(self, key: VpaKey, pods: Sequence[Pod]) -> list[Json]:
        found: Iterator[Standing] = standings(self._seen.snapshot, {key: pods}, self._histories)
        return [standing_json(one) for one in found if (one.namespace, one.vpa) == key]

    # --- what it gets

    def _creation(self, pod: Pod) -> Json:
        verdict = looked_up(self._seen.owners, self._clock, lambda known: self._verdict(pod, known))
        if isinstance(verdict, Unknown):
            lookup = verdict.lookup
            return {"reason": str(MatchReason.OWNER_UNKNOWN), "message": f"{lookup.key} is unknown"}
        advice = MATCHES.get(verdict.match.reason, "") if verdict.match is not None else ""
        return explain(verdict) | ({"advice": advice} if advice else {})

    def _verdict(
        self, pod: Pod, known: FoundByNamespace
    ) -> tuple[PodVerdict | Unknown, Sequence[Lookup]]:
        view = self._seen.snapshot.of(pod.namespace)
        owner = pod.controller
        workload = view.workloads.get(owner.key) if owner is not None else None
        template = workload.template if workload is not None else ()
        raw = self._raw[pod.namespace, pod.name]
        request = creation_request(created_again(raw, template))
        found = admit_pod(request, view, known.get(pod.namespace, {}), self._pod_rules)
        return found, [found.lookup] if isinstance(found, Unknown) else []

    # --- what the updater does

    def _turns(self, pod: Pod) -> Iterator[Turn]:
        return outlook(self._plan, pod, self._now)

    def _plan(self, at: datetime) -> Plan:
        found = self._plans.get(at)
        if found is None:
            sight = Sight(self._seen.snapshot, self._seen.webhook.is_healthy)
            # Each from scratch: what was decided for later is nothing to begin with.
            decider = Decider(self._rules, self._gates, self._seen.owners, self._clock)
            found = self._plans[at] = decider.plan(sight, Memory(), at)
        return found
