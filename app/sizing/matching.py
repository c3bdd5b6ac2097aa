"""Which VPA controls a pod, and why that one or none.

Strategy: follow owner references from the pod to its topmost controller that is built in or can
be scaled, and take the VPAs that target it and whose selectors match. Active VPAs come before
those in mode Off that only boost; then the oldest wins.

What the snapshot does not hold is not guessed: the answer is `LookupNeeded` with the key of the
object to look up, and the caller asks again with what it found.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Protocol

from app.model.kinds import ObjectKey, OwnerReference
from app.model.pod_roles import created_labels
from app.model.selectors import Selector
from app.model.snapshot import NamespaceView
from app.model.vpa import Vpa
from app.model.workloads import Failed, LookedUp, Lookup, Workload


class MatchReason(StrEnum):
    """Why a pod is or is not controlled."""

    CONTROLLED = "Controlled"
    NO_VPA_IN_NAMESPACE = "NoVPAInNamespace"
    NO_CONTROLLER = "NoController"
    OWNED_BY_NODE = "OwnedByNode"
    OWNER_UNKNOWN = "OwnerUnknown"
    OWNERSHIP_CYCLE = "OwnershipCycle"
    NO_SCALABLE_OWNER = "NoScalableOwner"
    NO_VPA_FOR_OWNER = "NoVPAForOwner"
    MODE_OFF = "ModeOff"
    NO_TARGET_SELECTOR_MATCH = "NoTargetSelectorMatch"
    NO_VPA_SELECTOR_MATCH = "NoVPASelectorMatch"


class Match(NamedTuple):
    """The VPA that controls a pod, or None, with the reason."""

    reason: MatchReason
    message: str
    vpa: Vpa | None = None
    owner: Workload | None = None  # the topmost controller, if there is one
    weaker: tuple[Vpa, ...] = ()  # VPAs that would control the pod if this one were not there


@dataclass(frozen=True, slots=True)
class LookupNeeded:
    """The decision needs this object: look it up and ask again."""

    lookup: Lookup


class Matchable(Protocol):
    """The fields of a pod that matching reads."""

    @property
    def namespace(self) -> str:
        """Its namespace."""
        ...

    @property
    def labels(self) -> Mapping[str, str]:
        """Its labels, which selectors match."""
        ...

    @property
    def controller(self) -> OwnerReference | None:
        """The owner that controls it."""
        ...


def match_pod(
    pod: Matchable,
    view: NamespaceView,
    looked_up: LookedUp,
    *,
    boosts: bool,
    with_off: bool = False,
    is_new: bool = False,
) -> Match | LookupNeeded:
    """Return the VPA that controls a pod.

    Args:
        pod: the pod.
        view: what is known of its namespace.
        looked_up: what was found of objects that the view does not hold.
        boosts: whether startup boosts are switched on; they let a VPA in mode Off take part.
        with_off: whether VPAs in mode Off take part in any case.
        is_new: whether the pod is being created; one of a snapshot has its labels by Leases.
    """
    if not view.vpas:
        return Match(MatchReason.NO_VPA_IN_NAMESPACE, "the namespace has no VPA")
    owner = pod.controller
    if owner is None:
        return Match(MatchReason.NO_CONTROLLER, "no controller owns the pod")
    top = topmost(owner, pod.namespace, view, looked_up)
    if not isinstance(top, Workload):
        return top
    labels = pod.labels
    if is_new and (asked := view.roles.by_target.get(top.key)):
        labels = created_labels(labels, asked, view.leases)
    match = _strongest(labels, top, view, boosts=boosts, with_off=with_off)
    given = ", ".join(f"{key}={labels[key]}" for key in labels.keys() - pod.labels.keys())
    return match._replace(message=f"{match.message}, with {given} by its Lease") if given else match


def topmost(
    owner: OwnerReference, namespace: str, view: NamespaceView, looked_up: LookedUp
) -> Workload | Match | LookupNeeded:
    """Return the topmost controller above and including `owner`, or why there is none."""
    best: Workload | None = None
    seen: set[ObjectKey] = set()
    current: OwnerReference | None = owner
    while current is not None:
        key = current.key
        if key in seen:
            return Match(MatchReason.OWNERSHIP_CYCLE, f"{key} owns itself in a circle")
        if current.kind == "Node":
            return Match(MatchReason.OWNED_BY_NODE, f"node {current.name} owns the pod")
        seen.add(key)
        controller = view.workloads.get(key) or looked_up.get(key)
        if isinstance(controller, Workload):
            best, current = controller, controller.owner
            continue
        if controller is None:
            lookup = Lookup(namespace, current.api_version, current.kind, current.name, key)
            return LookupNeeded(lookup)
        if isinstance(controller, Failed):
            return Match(MatchReason.OWNER_UNKNOWN, f"{key}: {controller.message}")
        if key.is_built_in:
            return Match(MatchReason.OWNER_UNKNOWN, f"{key} does not exist")
        break  # not scalable: stop climbing, and take the last scalable owner
    if best is None:
        return Match(MatchReason.NO_SCALABLE_OWNER, f"{owner.key} cannot be scaled")
    return best


def _strongest(
    labels: Mapping[str, str], top: Workload, view: NamespaceView, *, boosts: bool, with_off: bool
) -> Match:
    rivals = view.rivals(top.key)
    if not rivals:
        reason = MatchReason.NO_VPA_FOR_OWNER
        return Match(reason, f"no VPA targets {top.key}", owner=top)
    acting = [
        vpa for vpa in rivals if with_off or not vpa.is_off or (boosts and vpa.mentions_boost)
    ]
    if not acting:
        reason = MatchReason.MODE_OFF
        return Match(reason, f"VPA {rivals[0].name} is in mode Off", owner=top)
    if not top.selector.matches(labels):
        reason = MatchReason.NO_TARGET_SELECTOR_MATCH
        return Match(reason, f"the selector of {top.key} does not match the pod", owner=top)
    matching = [vpa for vpa in acting if vpa.selector is None or vpa.selector.matches(labels)]
    if not matching:
        reason = MatchReason.NO_VPA_SELECTOR_MATCH
        names = ", ".join(vpa.name for vpa in acting)
        message = f"no selector matches the pod's labels: VPA {names}"
        if unknown := view.roles.keys.get(top.key, frozenset()) - labels.keys():
            message += f"; its {' and '.join(sorted(unknown))} by a Lease is not known"
        return Match(reason, message, owner=top)
    if len(matching) > 1:
        matching.sort(key=lambda vpa: (vpa.is_off, vpa.precedence))
    strongest, *weaker = matching
    message = f"VPA {strongest.name} targets {top.key}"
    if weaker:
        message += f" and comes before {', '.join(vpa.name for vpa in weaker)}"
    return Match(MatchReason.CONTROLLED, message, strongest, top, tuple(weaker))


def selects(selector: Selector | None, pod: Matchable) -> bool:
    """Whether a VPA's own selector lets a pod in; none lets all in."""
    return selector is None or selector.matches(pod.labels)
