"""What becomes of a pod or of a VPA's pods, and why, put together from all who decide about it.

Strategy: the webhook's core tells what the pod would get, the updater's what is done about it now
and later, and checkpoints on how much its numbers rest. Nothing is decided here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from itertools import islice
from typing import Final

from app.admission.core.mutate import PodAdmission, PodRules
from app.diagnosis.core.comparisons import (
    ContainerKey,
    LearnedHistory,
    comparison_json,
    histories,
    vpa_comparisons,
    vpa_json,
    without_gaps,
)
from app.diagnosis.core.members import members
from app.diagnosis.core.outlook import UpcomingDecision, outlook, upcoming_json
from app.diagnosis.core.pod_events import PodEvents, past_json
from app.diagnosis.creation_preview import CreationPreview, pods_of
from app.diagnosis.gathering import GatheredObjects, ask_with_lookups
from app.diagnosis.written_vpas import LEVEL_WORDS, problems_of
from app.model.fields import Json
from app.model.gates import FeatureGates
from app.model.kinds import ObjectKey
from app.model.pods import Pod
from app.model.vpa import Vpa
from app.ports import CHECKPOINTS, PODS, Clock
from app.updater.core.memory import Memory
from app.updater.core.plan import Plan
from app.updater.core.rules import UpdateRules
from app.updater.updater import OwnerLookupPlanner


@dataclass(frozen=True, slots=True)
class DecisionRules:
    """The rules by which webhook and updater decide."""

    updates: UpdateRules
    webhook: PodRules
    gates: FeatureGates


@dataclass(frozen=True, slots=True)
class KnownBefore:
    """What was worked out before about the same objects at the same moment."""

    plan: Plan | None = None
    histories: Mapping[ContainerKey, LearnedHistory] = field(default_factory=dict)


_NOTHING: Final = KnownBefore()


class Explainer:
    """Tells what becomes of pods, from one look at a cluster."""

    def __init__(
        self,
        seen: GatheredObjects,
        past: PodEvents,
        deciding: DecisionRules,
        clock: Clock,
        now: datetime,
        known: KnownBefore = _NOTHING,
    ) -> None:
        self._seen, self._past, self._clock, self._now = seen, past, clock, now
        self._deciding = deciding
        self._preview = CreationPreview(seen, PodAdmission(deciding.webhook), clock)
        self._plans = {now: known.plan} if known.plan is not None else {}
        self._members = ask_with_lookups(seen.owners, clock, partial(members, seen.snapshot))
        self._problems = problems_of(seen, clock, deciding.gates)
        self._histories = known.histories or histories(seen.objects_of(CHECKPOINTS))

    def of_pod(self, namespace: str, name: str) -> Json:
        """Return all that is known of a pod, also of one that is gone."""
        pod = self._seen.snapshot.of(namespace).pods.get(name)
        events = past_json(self._past, namespace, name, pod)
        if pod is None:
            place = {"namespace": namespace, "name": name}
            return {"kind": PODS.kind, **place, "gone": True, "events": events}
        told = self._pod(pod) | ({"events": events} if events else {})
        return self._with_problems(told)

    def of_vpa(self, namespace: str, name: str, most_later: int = 0) -> Json:
        """Return all that is known of a VPA and of its pods.

        What happens to these next is told as far as so many later moments tell, the earliest first:
        each of them takes a plan.
        """
        vpa = self._seen.snapshot.of(namespace).vpas[name]
        return self._with_problems(self._vpa(vpa, most_later), name)

    def of_workload(self, namespace: str, key: ObjectKey) -> Json:
        """Return all that is known of a workload and of its pods."""
        return self._with_problems(self._workload(namespace, key))

    def _with_problems(self, told: Json, vpa: str = "") -> Json:
        """Add what is wrong with the VPA, without a name the one that sizes the pod."""
        by = (told.get("creation") or {}).get("vpa") or {}
        about = told["namespace"], vpa or told.get("vpa") or by.get("name")
        problems = [
            {"level": LEVEL_WORDS[one.level], "message": one.message}
            | ({"fix": one.fix} if one.fix else {})
            for key, one in self._problems
            if key == about
        ]
        return told | ({"problems": problems} if problems else {})

    def _pod(self, pod: Pod) -> Json:
        name = next((name for (_, name), pods in self._members.items() if pod in pods), None)
        vpas = self._seen.snapshot.of(pod.namespace).vpas
        return {
            "kind": PODS.kind,
            "namespace": pod.namespace,
            "name": pod.name,
            **({} if name is None else {"vpa": name, "mode": vpas[name].mode}),
            "creation": self._preview.of_pod(pod),
            "recommendation": [] if name is None else self._comparisons(vpas[name], [pod]),
            "updater": list(map(upcoming_json, self._upcoming(pod))),
        }

    def _vpa(self, vpa: Vpa, most_later: int) -> Json:
        pods = sorted(self._members.get((vpa.namespace, vpa.name), ()), key=lambda pod: pod.name)
        view = self._seen.snapshot.of(vpa.namespace)
        rivals = view.rivals(vpa.target.key) if vpa.target is not None else ()
        told = {
            **vpa_json(vpa),
            "rivals": [rival.name for rival in rivals if rival.name != vpa.name],
            "recommendation": self._comparisons(vpa, pods),
            "creation": self._preview.of_first(pods) or self._of_template(vpa),
            "noPods": None if pods else True,
            **self._pods(pods, most_later),
        }
        return without_gaps(told) | {"creation": told["creation"]}

    def _of_template(self, vpa: Vpa) -> Json | None:
        if vpa.target is None:
            return None
        return self._preview.of_template(vpa.namespace, vpa.target.key)

    def _workload(self, namespace: str, key: ObjectKey) -> Json:
        view = self._seen.snapshot.of(namespace)
        pods = list(pods_of(view, key))
        preview = self._preview
        creation = preview.of_first(pods) or preview.of_template(namespace, key)
        found = (creation or {}).get("vpa")
        # Where it cannot be told whether a pod matches, the VPA that targets it says most.
        targeting = next(iter(view.rivals(key)), None)
        vpa = view.vpas.get(found["name"]) if found is not None else targeting
        told = {
            "kind": key.kind,
            "namespace": namespace,
            "name": key.name,
            "vpa": vpa.name if vpa is not None else None,
            "recommendation": self._comparisons(vpa, pods) if vpa is not None else [],
            "noPods": None if pods else True,
            **self._pods(pods),
        }
        return without_gaps(told) | {"creation": creation}

    def _pods(self, pods: Sequence[Pod], most_later: int = 0) -> Json:
        """Return what is done about pods now and next, and how often for which reason."""
        turns = [(pod, turn) for pod in pods for turn in islice(self._upcoming(pod), 1)]
        counts = Counter(str(turn.decision.reason) for _, turn in turns)
        later = set(sorted({turn.until for _, turn in turns if turn.until})[:most_later])
        return {
            "reasons": dict(counts.most_common()),
            "pods": [
                {"pod": pod.name, **upcoming_json(turn)}
                | ({"next": found} if (found := self._next(pod, turn, later)) else {})
                for pod, turn in turns
            ],
        }

    def _next(self, pod: Pod, turn: UpcomingDecision, later: Collection[datetime]) -> Json | None:
        """Return what follows a decision, if its end is among the moments that are looked at."""
        if turn.until not in later:
            return None
        found = next(islice(self._upcoming(pod), 1, 2), None)
        return upcoming_json(found) if found is not None else None

    def _comparisons(self, vpa: Vpa, pods: Sequence[Pod]) -> list[Json]:
        view = self._seen.snapshot.of(vpa.namespace)
        found = vpa_comparisons(vpa, pods, view, self._histories)
        return list(map(comparison_json, found))

    # --- what the updater does

    def _upcoming(self, pod: Pod) -> Iterator[UpcomingDecision]:
        return outlook(self._plan, pod, self._now)

    def _plan(self, at: datetime) -> Plan:
        found = self._plans.get(at)
        if found is None:
            # What was decided for earlier holds as long as it says; for later, it tells nothing.
            before = max((time for time in self._plans if time < at), default=None)
            planner = OwnerLookupPlanner(
                self._deciding.updates,
                self._deciding.gates,
                self._seen.owners,
                self._clock,
                self._plans[before] if before is not None else None,
            )
            found = self._plans[at] = planner.plan(
                self._seen.snapshot,
                Memory(),
                at,
                webhook_is_healthy=self._seen.webhook.is_healthy,
            )
        return found
