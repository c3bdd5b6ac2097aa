"""What will be decided about a pod, now and later, if nothing else changes, and what helps.

Strategy: the updater's own plan is asked for now, and again for each moment at which it says
that its answer may change. So nothing about time is worked out a second way. Each reason for
which a pod is left as it is has one sentence of advice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from app.diagnosis.core.comparisons import without_gaps
from app.model.fields import Json
from app.model.pods import Pod
from app.sizing.matching import MatchReason
from app.updater.core.decisions import Action, Decision, Reason, decision_json
from app.updater.core.plan import Plan

UPDATES: Final[Mapping[Reason, str]] = {
    Reason.UPDATED: "",
    Reason.EVICTED: "",
    Reason.OUTSIDE_BOUNDS: "",
    Reason.NO_REQUEST: "",
    Reason.OUTDATED: "",
    Reason.PROMOTED: "",
    Reason.OOM_KILLED: "",
    Reason.TOO_BIG_FOR_NODE: "",
    Reason.BOOST_OVER: "",
    Reason.MODE_OFF: "the VPA only recommends; choose another spec.updatePolicy.updateMode",
    Reason.MODE_INITIAL: "new pods are sized, running ones are not; delete the pod, or choose "
    "another spec.updatePolicy.updateMode",
    Reason.GATE_DISABLED: "switch the feature gate on with --feature-gates",
    Reason.PAUSED: "updates are paused on purpose; remove the annotation that the message names",
    Reason.NO_RECOMMENDATION: "see whether the recommender runs and whether metrics.k8s.io answers",
    Reason.NO_CONTAINER_RECOMMENDATION: "see the container policies of the VPA, and wait until "
    "the containers were measured",
    Reason.TOO_YOUNG: "",
    Reason.TOO_SMALL: "",
    Reason.NO_START_TIME: "",
    Reason.NO_CHANGE: "",
    Reason.NOT_UPSCALE: "mode UpscaleOnly shrinks a pod only when it is recreated",
    Reason.SCALED_HORIZONTALLY: "let it scale by an absolute amount (AverageValue); the command "
    "stands under Problems and in docs/with-hpa.md",
    Reason.REQUIREMENT_NOT_MET: "see spec.updatePolicy.evictionRequirements of the VPA",
    Reason.TOO_FEW_REPLICAS: "run more replicas, or lower spec.updatePolicy.minReplicas of the "
    "VPA: 1 lets a single pod be evicted; mode InPlaceOrRecreate needs neither for a resize that "
    "restarts no container",
    Reason.LAST_OF_ROLE: "it cannot be resized, and evicting it would lose its role: give "
    "another pod its labels and evict it, or lower maxAllowed",
    Reason.HOLDS_LEASE: "it leads by its Lease, and is evicted when no other pod of its workload "
    "waits for that and another one is ready; let another pod lead, or lower maxAllowed",
    Reason.ROLE_SETTLING: "a pod that follows keeps a leader's size for a while, and what it uses; "
    "see --former-leader-shrinks-after of the updater",
    Reason.OWNER_UNKNOWN: "see whether the owner exists and whether it can be scaled",
    Reason.BUDGET_EXHAUSTED: "its turn comes when the others are back",
    Reason.PDB_BLOCKED: "the PodDisruptionBudget allows no disruption now; see why pods are not "
    "healthy, or let it allow one",
    Reason.RATE_LIMITED: "raise --eviction-rate-limit, or wait for the next round",
    Reason.PLAN_OUTDATED: "",
    Reason.LEASE_STALE: "see whether the admission webhook runs: without it an evicted pod would "
    "come back as it was",
    Reason.RESIZE_IN_PROGRESS: "",
    Reason.RESIZE_DEFERRED: "the node has no room now; after a while the updater "
    "evicts the pod, or reverts the resize where it may not",
    Reason.RESIZE_INFEASIBLE: "no resize of this size can succeed on this node; lower "
    "maxAllowed, or choose mode InPlaceOrRecreate",
    Reason.INFEASIBLE_REMEMBERED: "retried when the recommendation or the node changes",
    Reason.RESIZE_ERROR: "",
    Reason.EVICTION_ERROR: "",
    Reason.BOOST_RUNNING: "",
    Reason.UNBOOST_STUCK: "see the events of the pod; its CPU cannot be reset in place",
    Reason.POD_PENDING: "see why no node takes the pod",
    Reason.POD_TERMINATING: "",
    Reason.ROLLOUT_IN_PROGRESS: "the rollout creates new pods anyway; wait until it is done",
    Reason.RECREATED_WITHOUT_CHANGE: "pods came back without the new size: check whether the "
    "admission webhook is called for them, with: plumbline doctor",
    Reason.PROOF_PENDING: "",
    Reason.NO_SELECTOR_MATCH: "see spec.selector of the VPA and the labels of the pod",
    Reason.ROLE_UNKNOWN: "see whether the Lease that the annotation plumbline/role-lease of the "
    "VPAs names exists, is held by a pod of the workload, and may be watched",
}

MATCHES: Final[Mapping[MatchReason, str]] = {
    MatchReason.CONTROLLED: "",
    MatchReason.NO_VPA_IN_NAMESPACE: "create a VPA for the workload of the pod; "
    "'plumbline init' prints one that changes nothing",
    MatchReason.NO_CONTROLLER: "a VPA sizes pods of a workload only; let one create the pod",
    MatchReason.OWNED_BY_NODE: "static pods cannot be sized",
    MatchReason.OWNER_UNKNOWN: "see whether the owner exists and whether it may be read",
    MatchReason.OWNERSHIP_CYCLE: "see the ownerReferences of the pod's owners",
    MatchReason.NO_SCALABLE_OWNER: "the owner's kind needs the scale subresource",
    MatchReason.NO_VPA_FOR_OWNER: "name the topmost owner in spec.targetRef of a VPA; "
    "'plumbline init' prints one that changes nothing",
    MatchReason.MODE_OFF: UPDATES[Reason.MODE_OFF],
    MatchReason.NO_TARGET_SELECTOR_MATCH: "see the selector of the workload and the labels of the "
    "pod",
    MatchReason.NO_VPA_SELECTOR_MATCH: UPDATES[Reason.NO_SELECTOR_MATCH],
}

_MOST_TURNS: Final = 5
_DONE: Final = (Action.EVICT, Action.RESIZE, Action.UNBOOST)


@dataclass(frozen=True, slots=True)
class UpcomingDecision:
    """A decision, and since when it would be made."""

    at: datetime
    decision: Decision
    until: datetime | None  # when it may change by itself, None if never


def outlook(
    plan_at: Callable[[datetime], Plan], pod: Pod, now: datetime
) -> Iterator[UpcomingDecision]:
    """Yield what is decided now, then what later, up to the first action; none if uncontrolled.

    Who looks only at the first one has no plan made for later.
    """
    at: datetime | None = now
    turns = 0
    while at is not None and turns < _MOST_TURNS:
        found = _decision_at(plan_at(at), pod, at)
        if found is None:
            return
        yield found
        turns += 1
        at = None if found.decision.action in _DONE else found.until


def _decision_at(plan: Plan, pod: Pod, at: datetime) -> UpcomingDecision | None:
    found = plan.namespaces.get(pod.namespace)
    made = found.decisions if found is not None else ()
    decision = next((one for one in made if one.pod == pod.name), None)
    if found is None or decision is None:
        return None
    lasting = found.lasting.get(pod.uid)
    until = lasting.until if lasting is not None else None
    return UpcomingDecision(at, decision, until if until is not None and until > at else None)


def upcoming_json(turn: UpcomingDecision) -> Json:
    """Return a decision with its time and with what helps."""
    told = decision_json(turn.decision)
    words: Json = {word: told.get(word) for word in ("action", "reason", "message", "role")}
    advice = UPDATES[turn.decision.reason]
    until = turn.until.isoformat() if turn.until else None
    return without_gaps(
        {"at": turn.at.isoformat(), **words, "advice": advice or None, "until": until}
    )
