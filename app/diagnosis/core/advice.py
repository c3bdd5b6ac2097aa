"""What helps where the updater leaves a pod as it is: one sentence for each reason."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from app.sizing.matching import MatchReason
from app.updater.core.decisions import Reason

UPDATES: Final[Mapping[Reason, str]] = {
    Reason.UPDATED: "",
    Reason.EVICTED: "",
    Reason.MODE_OFF: "the VPA only recommends; choose another spec.updatePolicy.updateMode",
    Reason.MODE_INITIAL: "new pods are sized, running ones are not; delete the pod, or choose "
    "another spec.updatePolicy.updateMode",
    Reason.GATE_DISABLED: "switch the feature gate on with --feature-gates",
    Reason.NO_RECOMMENDATION: "see whether the recommender runs and whether metrics.k8s.io answers",
    Reason.NO_CONTAINER_RECOMMENDATION: "see the container policies of the VPA, and wait until "
    "the containers were measured",
    Reason.TOO_YOUNG: "",
    Reason.TOO_SMALL: "",
    Reason.NO_START_TIME: "",
    Reason.NO_CHANGE: "",
    Reason.NOT_UPSCALE: "mode UpscaleOnly shrinks a pod only when it is created anew",
    Reason.REQUIREMENT_NOT_MET: "see spec.updatePolicy.evictionRequirements of the VPA",
    Reason.TOO_FEW_REPLICAS: "run more replicas, lower spec.updatePolicy.minReplicas of the VPA, "
    "or choose mode InPlaceOrRecreate",
    Reason.OWNER_UNKNOWN: "see whether the owner exists and whether it can be scaled",
    Reason.BUDGET_EXHAUSTED: "its turn comes when the others are back",
    Reason.PDB_BLOCKED: "the PodDisruptionBudget allows no disruption now; see why pods are not "
    "healthy, or let it allow one",
    Reason.RATE_LIMITED: "raise --eviction-rate-limit, or wait for the next round",
    Reason.LEASE_STALE: "see whether the admission webhook runs: without it an evicted pod would "
    "come back as it was",
    Reason.RESIZE_IN_PROGRESS: "",
    Reason.RESIZE_DEFERRED: "the node has no room now; it is waited for a while",
    Reason.RESIZE_INFEASIBLE: "no resize of this size can succeed on this node; lower "
    "maxAllowed, or choose mode InPlaceOrRecreate",
    Reason.INFEASIBLE_REMEMBERED: "it is tried again when the recommendation changes",
    Reason.RESIZE_ERROR: "",
    Reason.EVICTION_ERROR: "",
    Reason.BOOST_RUNNING: "",
    Reason.UNBOOST_STUCK: "see the events of the pod; its CPU cannot be taken back in place",
    Reason.POD_PENDING: "see why no node takes the pod",
    Reason.POD_TERMINATING: "",
    Reason.ROLLOUT_IN_PROGRESS: "the owner brings in new pods anyway; wait until it is done",
    Reason.RECREATED_WITHOUT_CHANGE: "pods came back as they were: see whether the admission "
    "webhook is called for them ('plumbline doctor' tells)",
    Reason.PROOF_PENDING: "",
    Reason.NO_SELECTOR_MATCH: "see spec.selector of the VPA and the labels of the pod",
}

MATCHES: Final[Mapping[MatchReason, str]] = {
    MatchReason.CONTROLLED: "",
    MatchReason.NO_VPA_IN_NAMESPACE: "create a VPA that names the pod's workload in spec.targetRef",
    MatchReason.NO_CONTROLLER: "a VPA sizes pods of a workload only; let one create the pod",
    MatchReason.OWNED_BY_NODE: "static pods cannot be sized",
    MatchReason.OWNER_UNKNOWN: "see whether the owner exists and whether it may be read",
    MatchReason.OWNERSHIP_CYCLE: "see the ownerReferences of the pod's owners",
    MatchReason.NO_SCALABLE_OWNER: "the owner's kind needs the scale subresource",
    MatchReason.NO_VPA_FOR_OWNER: "name the topmost owner in spec.targetRef of a VPA",
    MatchReason.MODE_OFF: UPDATES[Reason.MODE_OFF],
    MatchReason.NO_TARGET_SELECTOR_MATCH: "see the selector of the workload and the labels of the "
    "pod",
    MatchReason.NO_VPA_SELECTOR_MATCH: UPDATES[Reason.NO_SELECTOR_MATCH],
}
