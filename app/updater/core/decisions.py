"""What is done about a pod, and why: actions, reasons and the numbers behind them.

Strategy: every controlled pod gets exactly one decision, also when nothing is done. Numbers are
shared between pods of the same shape, so a hundred thousand decisions stay cheap.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Final

from app.model.fields import Json
from app.model.quantity import Quantities, Quantity


class Action(StrEnum):
    """What is done about a pod now."""

    EVICT = "Evict"
    RESIZE = "Resize"
    UNBOOST = "Unboost"
    WAIT = "Wait"  # something is wanted, and something stands in the way
    NONE = "None"  # nothing is wanted


class Reason(StrEnum):
    """Why: what was done, why something is to be done, or why nothing is."""

    UPDATED = "Updated"
    EVICTED = "Evicted"
    OUTSIDE_BOUNDS = "OutsideBounds"
    NO_REQUEST = "NoRequest"
    OUTDATED = "OutdatedInBounds"
    PROMOTED = "Promoted"
    OOM_KILLED = "OOMKilled"
    TOO_BIG_FOR_NODE = "TooBigForNode"
    BOOST_OVER = "BoostOver"
    MODE_OFF = "ModeOff"
    MODE_INITIAL = "ModeInitial"
    GATE_DISABLED = "GateDisabled"
    PAUSED = "Paused"
    NO_RECOMMENDATION = "NoRecommendation"
    NO_CONTAINER_RECOMMENDATION = "NoRecommendationForContainers"
    TOO_YOUNG = "InRangeTooYoung"
    TOO_SMALL = "InRangeTooSmall"
    NO_START_TIME = "NoStartTime"
    NO_CHANGE = "NoChange"
    NOT_UPSCALE = "NotUpscale"
    SCALED_HORIZONTALLY = "ScaledHorizontally"
    REQUIREMENT_NOT_MET = "RequirementNotMet"
    TOO_FEW_REPLICAS = "TooFewReplicas"
    LAST_OF_ROLE = "LastOfRole"
    HOLDS_LEASE = "HoldsLease"
    ROLE_SETTLING = "RoleSettling"
    OWNER_UNKNOWN = "OwnerUnknown"
    BUDGET_EXHAUSTED = "BudgetExhausted"
    PDB_BLOCKED = "PDBBlocked"
    RATE_LIMITED = "RateLimited"
    PLAN_OUTDATED = "PlanOutdated"
    LEASE_STALE = "LeaseStale"
    RESIZE_IN_PROGRESS = "ResizeInProgress"
    RESIZE_DEFERRED = "ResizeDeferred"
    RESIZE_INFEASIBLE = "ResizeInfeasible"
    INFEASIBLE_REMEMBERED = "InfeasibleRemembered"
    RESIZE_ERROR = "ResizeError"
    EVICTION_ERROR = "EvictionError"
    BOOST_RUNNING = "BoostRunning"
    UNBOOST_STUCK = "UnboostStuck"
    POD_PENDING = "PodPending"
    POD_TERMINATING = "PodTerminating"
    ROLLOUT_IN_PROGRESS = "RolloutInProgress"
    RECREATED_WITHOUT_CHANGE = "RecreatedWithoutChange"
    PROOF_PENDING = "ProofPending"
    NO_SELECTOR_MATCH = "NoVPASelectorMatch"
    ROLE_UNKNOWN = "RoleUnknown"


Why = tuple[Reason, str]  # and in a sentence

NEEDS: Final = (  # for which a pod gets what is recommended
    Reason.OUTSIDE_BOUNDS,
    Reason.NO_REQUEST,
    Reason.OUTDATED,
    Reason.PROMOTED,
    Reason.OOM_KILLED,
    Reason.TOO_BIG_FOR_NODE,
)
_DONE: Final = {
    Action.UNBOOST: Reason.UPDATED,
    Action.RESIZE: Reason.UPDATED,
    Action.EVICT: Reason.EVICTED,
}


@dataclass(frozen=True, slots=True)
class Pair:
    """One resource of one container: what it requests and what it should."""

    container: str
    resource: str
    current: Quantity | None  # None: no request
    target: Quantity
    lower: Quantity | None
    upper: Quantity | None
    is_controlled: bool  # the VPA recommends it, rather than moving it to make room

    @property
    def is_below(self) -> bool:
        """Whether the request is below its lower bound."""
        has = self.current
        return has is not None and self.lower is not None and has < self.lower

    @property
    def is_outside(self) -> bool:
        """Whether the request is missing, or outside of its bounds."""
        has = self.current
        return has is None or self.is_below or (self.upper is not None and has > self.upper)


@dataclass(frozen=True, slots=True)
class PodNumbers:
    """How far a pod is from its recommendation."""

    pairs: tuple[Pair, ...]
    difference: float  # sum over resources of the relative change of the pod's total
    gross_difference: float  # the same without netting one container against another
    is_outside: bool  # some request is outside of its bounds, or missing
    is_up: bool  # some request has to grow


@dataclass(frozen=True, slots=True)
class ContainerChange:
    """What a resize writes into one container; only what is there is written."""

    index: int
    container: str
    requests: Quantities
    limits: Quantities


@dataclass(frozen=True, slots=True)
class PodChange:
    """What a resize or the end of a boost writes into a pod."""

    containers: tuple[ContainerChange, ...] = ()
    annotations: tuple[tuple[str, str | None], ...] = ()  # set, or removed where None
    is_disruptive: bool = False  # a container restarts for it

    @property
    def is_resize(self) -> bool:
        """Whether it changes more than annotations."""
        return bool(self.containers)


@dataclass(frozen=True, slots=True)
class Decision:
    """What is done about one pod, and why."""

    uid: str
    namespace: str
    pod: str
    vpa: str  # empty if none controls the pod
    action: Action
    reason: Reason
    message: str
    numbers: PodNumbers | None = None
    is_quick_oom: bool = False
    change: PodChange | None = None  # of a resize or unboost
    may_evict_instead: bool = False  # if the resize is refused for good
    needs_proof: bool = False  # no replacement has shown yet that evicting pods of its VPA helps
    until: datetime | None = None  # when the decision may change by itself
    cause: Reason | None = None  # why something is to be done, also while it waits, or was done
    role: str = ""  # what the pod is by a Lease, and why

    def done(self) -> Decision:
        """Return the decision when its action was carried out."""
        return replace(self, reason=_DONE[self.action])

    def put_off(self, reason: Reason, message: str) -> Decision:
        """Return the decision when nothing comes of it for now."""
        return replace(
            self,
            action=Action.WAIT,
            reason=reason,
            message=message,
            change=None,
            may_evict_instead=False,
            needs_proof=False,
        )


def decision_json(decision: Decision) -> Json:
    """Return all that is known of a decision."""
    json: Json = {
        "namespace": decision.namespace,
        "pod": decision.pod,
        "uid": decision.uid,
        "vpa": decision.vpa,
        "action": str(decision.action),
        "reason": str(decision.reason),
        "message": decision.message,
    }
    if decision.cause is not None:
        json["cause"] = str(decision.cause)
    if decision.role:
        json["role"] = decision.role
    numbers = decision.numbers
    if numbers is not None:
        json["priority"] = round(numbers.gross_difference, 6)
        json["outsideBounds"] = numbers.is_outside
        json["quickOOM"] = decision.is_quick_oom
    json["containers"] = _containers(numbers.pairs if numbers is not None else ())
    if decision.change is not None:
        json["change"] = _change(decision.change)
    return json


def _containers(pairs: tuple[Pair, ...]) -> Json:
    json: Json = {}
    for pair in pairs:
        json.setdefault(pair.container, {})[pair.resource] = _some(
            current=pair.current, target=pair.target, lowerBound=pair.lower, upperBound=pair.upper
        )
    return json


def _change(change: PodChange) -> Json:
    return {
        item.container: {
            "requests": _some(**item.requests),
            "limits": _some(**item.limits),
        }
        for item in change.containers
    }


def _some(**amounts: Quantity | None) -> dict[str, str]:
    return {name: str(amount) for name, amount in amounts.items() if amount is not None}
