"""The pods of one namespace: matched with their VPAs, assessed, and settled owner by owner.

Strategy: a pod's assessment is taken over from the plan before while the pod, its VPA, its owner
and the LimitRanges are the same and nothing is remembered of it; what depends on the time says
until when it holds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from operator import attrgetter

from app.model.kinds import ObjectKey
from app.model.limits import Node
from app.model.pods import Pod
from app.model.snapshot import NamespaceView
from app.model.vpa import Vpa
from app.model.workloads import LookedUp, Lookup, Workload
from app.sizing.matching import MatchReason
from app.updater.core.assess import assess
from app.updater.core.carrying import Queue
from app.updater.core.decisions import Action, Decision, Reason
from app.updater.core.groups import is_live
from app.updater.core.hindrances import Group
from app.updater.core.ledger import Ledger
from app.updater.core.owned import Matcher, Overlap, Owned, by_owner
from app.updater.core.settle import settle
from app.updater.core.shapes import Shapes
from app.updater.core.wishes import Assessment, Terms


@dataclass(frozen=True, slots=True)
class Total:
    """How many pods a VPA has, and how many of them could be updated now."""

    namespace: str
    vpa: str
    mode: str
    pods: int
    evictable: int
    resizable: int


@dataclass(frozen=True, slots=True)
class NamespacePlan:
    """What is done about the pods of one namespace, and what of it can be taken over."""

    view: NamespaceView
    looked_up: LookedUp
    decisions: tuple[Decision, ...] = ()  # by pod
    queues: tuple[Queue, ...] = ()
    totals: tuple[Total, ...] = ()
    lookups: tuple[Lookup, ...] = ()
    overlaps: tuple[Overlap, ...] = ()
    lasting: Mapping[str, Assessment] = field(default_factory=dict)  # by uid
    until: datetime | None = None  # when one of them ends

    def still_holds(self, view: NamespaceView, looked_up: LookedUp, now: datetime) -> bool:
        """Whether all of it can be taken over."""
        return (
            view is self.view
            and len(self.lasting) == len(self.decisions)
            and (self.until is None or now < self.until)
            and (looked_up is self.looked_up or looked_up == self.looked_up)
        )


@dataclass(frozen=True, slots=True)
class Scene:
    """What all namespaces share while one plan is made."""

    terms: Terms
    ledger: Ledger
    nodes: Mapping[str, Node]


class _Planner:
    """Plans one namespace."""

    def __init__(
        self, namespace: str, view: NamespaceView, looked_up: LookedUp, scene: Scene
    ) -> None:
        self.namespace, self.view, self.looked_up = namespace, view, looked_up
        self.terms, self.ledger, self.nodes = scene.terms, scene.ledger, scene.nodes
        self.matcher = Matcher(namespace, view, looked_up, scene.terms.gates)
        self.old: NamespacePlan | None = None
        self.only: frozenset[str] | None = None  # names of the pods to decide about, None for all
        self.decisions: list[Decision] = []
        self.queues: list[Queue] = []
        self.lasting: dict[str, Assessment] = {}
        self.controlled: Counter[str] = Counter()
        self.evictable: Counter[str] = Counter()
        self.resizable: Counter[str] = Counter()

    def plan_owner(self, owned: Owned) -> None:
        """Decide about the pods of one owner."""
        owner = self._owner(owned.key)
        shapes: dict[str, Shapes] = {}
        assessed: list[Assessment] = []
        only = self.only
        wanted = owned.pods if only is None else [pod for pod in owned.pods if pod.name in only]
        for pod, match in self.matcher.matches(wanted):
            vpa = match.vpa
            if vpa is None:
                if match.reason is MatchReason.NO_VPA_SELECTOR_MATCH:
                    self.decisions.append(_unselected(pod, match.message))
                continue
            found = shapes.get(vpa.name)
            if found is None:
                found = shapes[vpa.name] = self._shapes(vpa, owner)
            assessed.append(self._assessed(pod, found))
            if is_live(pod):
                self.controlled[vpa.name] += 1
        self._settle(owned, owner, assessed)

    def _owner(self, key: ObjectKey) -> Workload | None:
        found = self.view.workloads.get(key) or self.looked_up.get(key)
        return found if isinstance(found, Workload) else None

    # --- assessing

    def _shapes(self, vpa: Vpa, owner: Workload | None) -> Shapes:
        return Shapes(vpa, owner, self.view.limits, self.terms.rules, self.terms.gates)

    def _assessed(self, pod: Pod, shapes: Shapes) -> Assessment:
        is_remembered = pod.uid in self.terms.memory.pods
        if not is_remembered and (lasting := self._lasting(pod, shapes)) is not None:
            self.lasting[pod.uid] = lasting
            return lasting
        node = self.nodes.get(pod.node)
        found = assess(pod, shapes, self.terms, node.allocatable if node is not None else None)
        self.ledger.remember(found)
        if not is_remembered and _lasts(found):
            self.lasting[pod.uid] = found
        return found

    def _lasting(self, pod: Pod, shapes: Shapes) -> Assessment | None:
        """Return what was assessed before, if it still holds."""
        old = self.old
        found = old.lasting.get(pod.uid) if old is not None else None
        if found is None or old is None:
            return None
        if not _is_same(found.pod, pod) or found.vpa is not shapes.vpa:
            return None
        if old.view.limits is not self.view.limits:
            return None
        if found.until is not None and self.terms.now >= found.until:
            return None
        owner = shapes.owner
        if owner is not None and old.view.workloads.get(owner.key) is not owner:
            return None
        return found

    # --- settling

    def _settle(self, owned: Owned, owner: Workload | None, assessed: list[Assessment]) -> None:
        decisions = [found.decision for found in assessed if found.decision is not None]
        is_quiet = len(decisions) == len(assessed)
        if is_quiet and not self._has_to_be_settled(owned.key, assessed):
            self.decisions += decisions
            return
        live = tuple(pod for pod in owned.pods if is_live(pod))
        group = Group(self.namespace, owned.key, owner, self.view, live, tuple(assessed))
        settled = settle(group, self.terms, self.ledger)
        self.decisions += settled.decisions.values()
        self.evictable += settled.evictable
        self.resizable += settled.resizable
        if settled.queue is not None:
            self.queues.append(settled.queue)

    def _has_to_be_settled(self, key: ObjectKey, assessed: list[Assessment]) -> bool:
        names = {found.vpa.name for found in assessed}
        proofs = (self.terms.memory.proofs.get((self.namespace, key, name)) for name in names)
        return any(proof is not None and proof.awaited for proof in proofs)

    def totals(self) -> tuple[Total, ...]:
        """Return the counts of all VPAs with pods."""
        return tuple(
            Total(
                self.namespace,
                name,
                self.view.vpas[name].mode,
                count,
                self.evictable[name],
                self.resizable[name],
            )
            for name, count in sorted(self.controlled.items())
        )


def plan_namespace(
    namespace: str,
    view: NamespaceView,
    looked_up: LookedUp,
    scene: Scene,
    *,
    old: NamespacePlan | None = None,
    only: frozenset[str] | None = None,
) -> NamespacePlan:
    """Decide about the controlled pods of a namespace.

    Args:
        namespace: its name.
        view: what is known of it.
        looked_up: owners that the view does not hold.
        scene: what all namespaces share.
        old: what was decided before.
        only: the names of pods to decide about, None for all.
    """
    planner = _Planner(namespace, view, looked_up, scene)
    planner.old, planner.only = old, only
    for owned in by_owner(view.pods.values()):
        planner.plan_owner(owned)
    planner.decisions.sort(key=attrgetter("pod"))
    lasting = planner.lasting.values()
    return NamespacePlan(
        view,
        looked_up,
        tuple(planner.decisions),
        tuple(planner.queues),
        planner.totals(),
        tuple(planner.matcher.lookups),
        tuple(planner.matcher.overlaps),
        planner.lasting,
        until=min((found.until for found in lasting if found.until), default=None),
    )


def _is_same(one: Pod, other: Pod) -> bool:
    if one is other:
        return True
    return bool(one.resource_version) and (
        one.uid == other.uid and one.resource_version == other.resource_version
    )


def _lasts(found: Assessment) -> bool:
    """Whether an assessment holds until the pod changes or its time is over."""
    decision = found.decision
    if decision is None:
        return False
    return decision.action is Action.NONE or decision.reason is Reason.BOOST_RUNNING


def _unselected(pod: Pod, message: str) -> Decision:
    return Decision(
        pod.uid,
        pod.namespace,
        pod.name,
        "",
        Action.NONE,
        Reason.NO_SELECTOR_MATCH,
        message,
    )
