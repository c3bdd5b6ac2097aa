"""What becomes of a pod or of a VPA's pods, and why, put together from all who decide about it.

Strategy: the webhook's core tells what the pod would get, the updater's what is done about it now
and later, and checkpoints on how much its numbers rest. Nothing is decided here.
What is asked about is found by name or by labels. Of a whole server only what has the names or
the labels is asked for, which gives the few namespaces that have to be read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import islice
from typing import Final

from app.admission.core.mutate import PodAdmission, PodRules, PodVerdict
from app.admission.core.pod_explanation import explain
from app.commands.explain_text import explanation_lines
from app.commands.flags import ExplainSettings
from app.diagnosis.core.comparisons import (
    comparison_json,
    histories,
    vpa_comparisons,
    vpa_json,
)
from app.diagnosis.core.members import (
    FoundByNamespace,
    created_again,
    creation_request,
    members,
)
from app.diagnosis.core.outlook import MATCHES, UpcomingDecision, outlook, upcoming_json
from app.diagnosis.gathering import (
    GatheredObjects,
    GatherRequest,
    ask_with_lookups,
    chosen_namespace,
    gather_objects,
    list_objects,
)
from app.flags.shared import Scope
from app.kube.client import connect
from app.model.errors import BadSetting
from app.model.fields import Json
from app.model.pods import Pod
from app.model.selectors import Selector
from app.model.snapshot import NamespaceView, Snapshot
from app.model.text import nearest
from app.model.vpa import Vpa
from app.model.workloads import Lookup
from app.output import Report, Text
from app.ports import CHECKPOINTS, PODS, VPAS, Clock, Cluster
from app.sizing.matching import LookupNeeded, MatchReason
from app.updater.core.memory import Memory
from app.updater.core.plan import Plan
from app.updater.flags import update_rules
from app.updater.updater import OwnerLookupPlanner

_NO_SCOPE: Final = Scope("", ())
_POD_WORDS: Final = ("pod", "pods", "po")
_VPA_WORDS: Final = ("vpa", "vpas", "verticalpodautoscaler", "verticalpodautoscalers")
_WORDS: Final = (*_POD_WORDS, *_VPA_WORDS)


def explain_report(settings: ExplainSettings, clock: Clock) -> Report:
    """Explain what was asked about."""
    offline, reach = settings.offline, settings.cluster
    now = settings.asking.at or clock.now()
    namespace = chosen_namespace(settings.selection, offline, reach)
    rules, sidecars = settings.admission, settings.deciding.native_sidecars
    asked: list[Subject] = []
    items: list[Json] = []
    notes: list[str] = []
    for where, names in _places(settings, namespace).items():
        wanted = GatherRequest(offline, reach, where, rules, (PODS, CHECKPOINTS), sidecars)
        with gather_objects(wanted, clock, now) as seen:
            selector = settings.selection.selector
            here = list(
                _named_subjects(seen.snapshot, where, names)
                if names
                else _labelled_subjects(seen.snapshot, where, selector)
            )
            explainer = Explainer(seen, settings, clock, now)
            items += map(explainer.explanation, here)
        asked += here
        notes += map(str, seen.problems)
    lines = [
        line
        for item in items
        for line in ((), *explanation_lines(item, now, settings.asking.interval))
    ]
    return Report(Text(lines[1:]), items, [one.title for one in asked], notes)


def _places(settings: ExplainSettings, namespace: str) -> Mapping[str, Sequence[str]]:
    """Return what is asked for by namespace, so that of a large cluster little has to be read."""
    names, selector = settings.names, settings.selection.selector
    if namespace or settings.offline.objects:
        return {namespace: names}
    reach = settings.cluster
    cluster = connect(reach.kubeconfig, reach.context, reach.queries_per_second, reach.burst)
    try:
        places = _subjects_by_namespace(cluster, names, selector)
    finally:
        cluster.close()
    return places if names else dict.fromkeys(places, ())


# --- what is asked about


@dataclass(frozen=True, slots=True)
class Subject:
    """Something to be explained."""

    kind: str  # Pod or VerticalPodAutoscaler
    namespace: str
    name: str

    @property
    def text(self) -> str:
        """How people call it."""
        return f"{'pod' if self.kind == PODS.kind else 'vpa'}/{self.name}"

    @property
    def title(self) -> str:
        """How other commands call it."""
        word = "pod" if self.kind == PODS.kind else f"verticalpodautoscaler.{VPAS.group}"
        return f"{word}/{self.name}"


def _labelled_subjects(
    snapshot: Snapshot, namespace: str, selector: Selector | None
) -> Iterator[Subject]:
    """Yield the pods that labels choose.

    Raises:
        BadSetting: no labels are named, or no pod has them.
    """
    selector = _needed(selector)
    found = [
        Subject(PODS.kind, where, name)
        for where, view in _views(snapshot, namespace)
        for name, pod in sorted(view.pods.items())
        if selector.matches(pod.labels)
    ]
    if not found:
        raise BadSetting(f"no pod has the labels {selector}")
    yield from found


def _needed(selector: Selector | None) -> Selector:
    if selector is None:
        raise BadSetting("say what to explain: the name of a pod or of a VPA, or --selector")
    return selector


def _named_subjects(snapshot: Snapshot, namespace: str, texts: Sequence[str]) -> Iterator[Subject]:
    """Yield what is called by names: `web-0`, `pod/web-0`, or `pod web-0 web-1`.

    Raises:
        BadSetting: there is nothing of a name, or more than one thing.
    """
    for word, name in _split(texts):
        yield _single(list(_matches_in_snapshot(snapshot, namespace, word)), namespace, word, name)


def _subjects_by_namespace(
    cluster: Cluster, texts: Sequence[str], selector: Selector | None
) -> Mapping[str, Sequence[str]]:
    """Return what of a whole server is called by names, or has labels, by namespace.

    Raises:
        BadSetting: nothing is named, or there is nothing of a name, or more than one thing.
        ClusterError: the server cannot be asked.
    """
    if texts:
        found = [
            _single(list(_matches_in_cluster(cluster, word, name)), "", word, name)
            for word, name in _split(texts)
        ]
    else:
        labels = str(_needed(selector))
        found = list(map(_subject, list_objects(cluster, PODS, labels=labels)))
    places: dict[str, list[str]] = {}
    for one in found:
        places.setdefault(one.namespace, []).append(one.text)
    if not places:
        raise BadSetting(f"no pod has the labels {selector}")
    return places


def _matches_in_cluster(cluster: Cluster, word: str, name: str) -> Iterator[Subject]:
    """Yield all of a name that a word before it allows."""
    fields = f"metadata.name={name}"
    if word not in _VPA_WORDS:
        yield from map(_subject, list_objects(cluster, PODS, fields=fields))
    if word not in _POD_WORDS:
        yield from map(_subject, list_objects(cluster, VPAS, fields=fields))


def _subject(item: Json) -> Subject:
    metadata = item["metadata"]
    return Subject(item["kind"], metadata["namespace"], metadata["name"])


def _split(texts: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the word and the name of each text; the word is empty where there is none."""
    word, *others = texts
    if word in _WORDS:
        if not others:
            raise BadSetting(f"say what to explain: {word}/NAME")
        texts = [f"{word}/{name}" for name in others]
    for text in texts:
        word, slash, name = text.rpartition("/")
        if slash and word not in _WORDS:
            raise BadSetting(f'"{text}": say pod/{name} or vpa/{name}')
        yield word, name


def _single(candidates: Sequence[Subject], namespace: str, word: str, name: str) -> Subject:
    found = [one for one in candidates if one.name == name]
    if len(found) == 1:
        return found[0]
    if found:
        ways = " or ".join(f"{one.text} -n {one.namespace}" for one in found)
        raise BadSetting(f'"{name}" is the name of several things; say {ways}')
    what = "VPA" if word in _VPA_WORDS else "pod" if word else "pod or VPA"
    where = f"in namespace {namespace}" if namespace else "in any namespace"
    meant = nearest(name, {one.name for one in candidates})
    raise BadSetting(f'there is no {what} "{name}" {where}{meant}')


def _matches_in_snapshot(snapshot: Snapshot, namespace: str, word: str) -> Iterator[Subject]:
    """Yield all that a word before a name allows; none allows both kinds."""
    for where, view in _views(snapshot, namespace):
        if word not in _VPA_WORDS:
            yield from (Subject(PODS.kind, where, name) for name in view.pods)
        if word not in _POD_WORDS:
            yield from (Subject(VPAS.kind, where, name) for name in view.vpas)


def _views(snapshot: Snapshot, namespace: str) -> Iterator[tuple[str, NamespaceView]]:
    for where, view in sorted(snapshot.namespaces.items()):
        if namespace in ("", where):
            yield where, view


# --- what becomes of it


class Explainer:
    """Tells what becomes of pods, from one look at a cluster."""

    def __init__(
        self, seen: GatheredObjects, settings: ExplainSettings, clock: Clock, now: datetime
    ) -> None:
        self._seen, self._clock, self._now = seen, clock, now
        deciding, asking = settings.deciding, settings.asking
        rules = update_rules(
            deciding, settings.disruption, settings.thresholds, _NO_SCOPE, asking.interval
        )
        self._rules, self._gates = rules, deciding.gates
        self._admission = PodAdmission(
            PodRules(deciding.gates, asking.max_cpu_boost, deciding.native_sidecars)
        )
        self._plans: dict[datetime, Plan] = {}
        self._raw = {
            (item["metadata"].get("namespace") or "default", item["metadata"].get("name")): item
            for item in seen.objects_of(PODS)
            if isinstance(item.get("metadata"), dict)
        }
        self._members = ask_with_lookups(seen.owners, clock, partial(members, seen.snapshot))
        self._histories = histories(seen.objects_of(CHECKPOINTS))

    def explanation(self, asked: Subject) -> Json:
        """Return all that is known of something."""
        view = self._seen.snapshot.of(asked.namespace)
        if asked.kind == PODS.kind:
            return self._pod(view.pods[asked.name])
        return self._vpa(view.vpas[asked.name])

    def _pod(self, pod: Pod) -> Json:
        name = next((name for (_, name), pods in self._members.items() if pod in pods), None)
        vpas = self._seen.snapshot.of(pod.namespace).vpas
        return {
            "kind": PODS.kind,
            "namespace": pod.namespace,
            "name": pod.name,
            "creation": self._creation(pod),
            "recommendation": [] if name is None else self._comparisons(vpas[name], [pod]),
            "updater": list(map(upcoming_json, self._upcoming(pod))),
        }

    def _vpa(self, vpa: Vpa) -> Json:
        pods = sorted(self._members.get((vpa.namespace, vpa.name), ()), key=lambda pod: pod.name)
        turns = [(pod.name, turn) for pod in pods for turn in islice(self._upcoming(pod), 1)]
        view = self._seen.snapshot.of(vpa.namespace)
        rivals = view.rivals(vpa.target.key) if vpa.target is not None else ()
        counts = Counter(str(turn.decision.reason) for _, turn in turns)
        return {
            **vpa_json(vpa),
            "rivals": [rival.name for rival in rivals if rival.name != vpa.name],
            "recommendation": self._comparisons(vpa, pods),
            "creation": self._creation(pods[0]) if pods else None,
            "reasons": dict(counts.most_common()),
            "pods": [{"pod": name, **upcoming_json(turn)} for name, turn in turns],
        }

    def _comparisons(self, vpa: Vpa, pods: Sequence[Pod]) -> list[Json]:
        view = self._seen.snapshot.of(vpa.namespace)
        found = vpa_comparisons(vpa, pods, view, self._histories)
        return list(map(comparison_json, found))

    # --- what it gets

    def _creation(self, pod: Pod) -> Json:
        verdict = ask_with_lookups(
            self._seen.owners, self._clock, lambda known: self._verdict(pod, known)
        )
        if isinstance(verdict, LookupNeeded):
            lookup = verdict.lookup
            return {"reason": str(MatchReason.OWNER_UNKNOWN), "message": f"{lookup.key} is unknown"}
        advice = MATCHES.get(verdict.match.reason, "") if verdict.match is not None else ""
        return explain(verdict) | ({"advice": advice} if advice else {})

    def _verdict(
        self, pod: Pod, known: FoundByNamespace
    ) -> tuple[PodVerdict | LookupNeeded, Sequence[Lookup]]:
        view = self._seen.snapshot.of(pod.namespace)
        owner = pod.controller
        workload = view.workloads.get(owner.key) if owner is not None else None
        template = workload.template if workload is not None else ()
        raw = self._raw[pod.namespace, pod.name]
        request = creation_request(created_again(raw, template))
        found = self._admission.admit(request, view, known.get(pod.namespace, {}))
        return found, [found.lookup] if isinstance(found, LookupNeeded) else []

    # --- what the updater does

    def _upcoming(self, pod: Pod) -> Iterator[UpcomingDecision]:
        return outlook(self._plan, pod, self._now)

    def _plan(self, at: datetime) -> Plan:
        found = self._plans.get(at)
        if found is None:
            # Each from scratch: what was decided for later is nothing to begin with.
            planner = OwnerLookupPlanner(self._rules, self._gates, self._seen.owners, self._clock)
            found = self._plans[at] = planner.plan(
                self._seen.snapshot,
                Memory(),
                at,
                webhook_is_healthy=self._seen.webhook.is_healthy,
            )
        return found
