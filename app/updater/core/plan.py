"""The plan for all pods at one moment: one decision each, and queues of what to carry out.

Strategy: namespace by namespace, owner by owner. The pods of an owner are matched with their VPAs
and assessed; only owners with a proposal go on to the blockers. What was decided for a namespace
that did not change stays as it is until its time is over, and so does the assessment of a pod
while pod, VPA, owner and LimitRanges are the same; so a quiet cluster costs next to nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain
from operator import attrgetter
from typing import Final

from app.model.gates import FeatureGates
from app.model.kinds import ObjectKey
from app.model.pods import Pod
from app.model.snapshot import NamespaceView, Snapshot
from app.model.workloads import NOTHING_LOOKED_UP, LookedUp, Lookup, Workload
from app.sizing.matching import MatchReason
from app.updater.core.action_queue import ActionQueue
from app.updater.core.assess import assess
from app.updater.core.blockers import plan_owner
from app.updater.core.decisions import Action, Decision, Reason
from app.updater.core.memory import Memory, NamespacedName, observed
from app.updater.core.owners import Matcher, Overlap, by_owner, is_live
from app.updater.core.plan_state import PlanState
from app.updater.core.proposals import Assessment, OwnerPods, PlanInputs
from app.updater.core.rules import UpdateRules
from app.updater.core.targets import OwnerTargets

_GOLDEN: Final = 0.618  # its multiples spread evenly, whatever the step


@dataclass(frozen=True, slots=True)
class Plan:
    """What is done about every controlled pod."""

    now: datetime
    rules: UpdateRules
    gates: FeatureGates
    memory: Memory
    namespaces: Mapping[str, NamespacePlan]
    is_partial: bool = False  # about some pods alone

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """All decisions, by namespace and pod."""
        return tuple(chain.from_iterable(found.decisions for found in self.namespaces.values()))

    @property
    def queues(self) -> tuple[ActionQueue, ...]:
        """What is to be carried out, per owner, the most urgent first; side by side if wanted."""
        found = chain.from_iterable(found.queues for found in self.namespaces.values())
        return tuple(sorted(found, key=attrgetter("rank")))

    @property
    def totals(self) -> tuple[VpaCounts, ...]:
        """How many pods each VPA has, and how many of them could be updated."""
        return tuple(chain.from_iterable(found.totals for found in self.namespaces.values()))

    @property
    def lookups(self) -> tuple[Lookup, ...]:
        """The controllers that would have to be known to decide about more pods."""
        return tuple(chain.from_iterable(found.lookups for found in self.namespaces.values()))

    @property
    def overlaps(self) -> tuple[Overlap, ...]:
        """VPAs that claim the same pods."""
        return tuple(chain.from_iterable(found.overlaps for found in self.namespaces.values()))


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """What a plan may take into account beside the cluster's objects."""

    webhook_is_healthy: bool = True
    looked_up: Mapping[str, LookedUp] = field(default_factory=dict)  # by namespace
    before: Plan | None = None  # whose unchanged parts are taken over
    only: frozenset[NamespacedName] | None = None  # the pods to decide about, None for all
    without: frozenset[str] = frozenset()  # namespaces that are left out


DEFAULT_OPTIONS = PlanOptions()


class Unplannable(Exception):
    """A namespace of which no plan can be made, by a defect of ours."""

    def __init__(self, namespace: str) -> None:
        super().__init__(f"no plan can be made of namespace {namespace}")
        self.namespace = namespace


def plan(
    snapshot: Snapshot,
    rules: UpdateRules,
    gates: FeatureGates,
    memory: Memory,
    now: datetime,
    options: PlanOptions = DEFAULT_OPTIONS,
) -> Plan:
    """Decide about every controlled pod, or about some alone such as those just unboosted.

    Raises:
        Unplannable: one namespace spoils the whole; it can be left out.
    """
    memory = observed(memory, snapshot, rules, now)
    is_partial = options.only is not None
    inputs = PlanInputs(rules, gates, memory, now, options.webhook_is_healthy, is_partial)
    state = PlanState(inputs, snapshot.nodes)
    touched = memory.namespaces()
    before = _comparable(options.before, rules, gates, now)
    found: dict[str, NamespacePlan] = {}
    for namespace, only in _wanted(_in_turn(snapshot, state), options.only):
        view = snapshot.of(namespace)
        if not view.vpas or not view.pods or not rules.covers(namespace):
            continue
        if namespace in options.without:
            continue
        looked_up = options.looked_up.get(namespace, NOTHING_LOOKED_UP)
        old = before.get(namespace)
        is_quiet = old is not None and only is None and namespace not in touched
        if old is not None and is_quiet and old.still_holds(view, looked_up, now):
            found[namespace] = old
            continue
        try:
            found[namespace] = plan_namespace(namespace, view, looked_up, state, old=old, only=only)
        except Exception as error:
            raise Unplannable(namespace) from error
    found = dict(sorted(found.items()))
    return Plan(now, rules, gates, state.memory(), found, is_partial)


def _in_turn(snapshot: Snapshot, state: PlanState) -> list[str]:
    """Return the namespaces by name; while few evictions are left another one begins each time.

    Else one whose evictions are all refused would for ever take what is left for others.
    """
    names = sorted(snapshot.namespaces)
    if state.evictions_left is None:
        return names
    first = int(state.inputs.now.timestamp() * _GOLDEN % 1 * len(names))
    return names[first:] + names[:first]


def _wanted(
    namespaces: Iterable[str], only: frozenset[NamespacedName] | None
) -> Iterator[tuple[str, frozenset[str] | None]]:
    """Return the namespaces in their order, each with the pods that are meant."""
    if only is None:
        yield from ((namespace, None) for namespace in namespaces)
        return
    for namespace in sorted({place[0] for place in only}):
        yield namespace, frozenset(place[1] for place in only if place[0] == namespace)


def _comparable(
    before: Plan | None, rules: UpdateRules, gates: FeatureGates, now: datetime
) -> Mapping[str, NamespacePlan]:
    """Return what an earlier plan said, nothing if it was made by other rules or another clock."""
    if before is None or before.is_partial or before.now > now:
        return {}
    if before.rules != rules or before.gates != gates:
        return {}
    return before.namespaces


@dataclass(frozen=True, slots=True)
class VpaCounts:
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
    queues: tuple[ActionQueue, ...] = ()
    totals: tuple[VpaCounts, ...] = ()
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


class _Planner:
    """Plans one namespace."""

    def __init__(
        self, namespace: str, view: NamespaceView, looked_up: LookedUp, state: PlanState
    ) -> None:
        self.namespace, self.view, self.looked_up = namespace, view, looked_up
        self.inputs, self.state = state.inputs, state
        self.matcher = Matcher(namespace, view, looked_up, state.inputs.gates)
        self.old: NamespacePlan | None = None
        self.only: frozenset[str] | None = None  # names of the pods to decide about, None for all
        self.decisions: list[Decision] = []
        self.queues: list[ActionQueue] = []
        self.lasting: dict[str, Assessment] = {}
        self.controlled: Counter[str] = Counter()
        self.evictable: Counter[str] = Counter()
        self.resizable: Counter[str] = Counter()

    def plan_owner(self, key: ObjectKey, pods: list[Pod]) -> None:
        """Decide about the pods of one owner."""
        owner = self._owner(key)
        targets: dict[str, OwnerTargets] = {}
        assessed: list[Assessment] = []
        only = self.only
        wanted = pods if only is None else [pod for pod in pods if pod.name in only]
        for pod, match in self.matcher.matches(wanted):
            vpa = match.vpa
            if vpa is None:
                if match.reason is MatchReason.NO_VPA_SELECTOR_MATCH:
                    self.decisions.append(_unselected(pod, match.message))
                continue
            found = targets.get(vpa.name)
            if found is None:
                found = OwnerTargets(vpa, owner, self.view.limits, self.inputs.rules)
                targets[vpa.name] = found
            assessed.append(self._assessed(pod, found))
            if is_live(pod):
                self.controlled[vpa.name] += 1
        self._settle(key, owner, pods, assessed)

    def _owner(self, key: ObjectKey) -> Workload | None:
        found = self.view.workloads.get(key) or self.looked_up.get(key)
        return found if isinstance(found, Workload) else None

    # --- assessing

    def _assessed(self, pod: Pod, targets: OwnerTargets) -> Assessment:
        is_remembered = pod.uid in self.inputs.memory.pods
        if not is_remembered and (lasting := self._lasting(pod, targets)) is not None:
            self.lasting[pod.uid] = lasting
            return lasting
        node = self.state.nodes.get(pod.node)
        found = assess(pod, targets, self.inputs, node.allocatable if node is not None else None)
        self.state.remember(found)
        if not is_remembered and _lasts(found):
            self.lasting[pod.uid] = found
        return found

    def _lasting(self, pod: Pod, targets: OwnerTargets) -> Assessment | None:
        """Return what was assessed before, if it still holds."""
        old = self.old
        found = old.lasting.get(pod.uid) if old is not None else None
        if found is None or old is None:
            return None
        if not _is_same(found.pod, pod) or found.vpa is not targets.vpa:
            return None
        if old.view.limits is not self.view.limits:
            return None
        if found.until is not None and self.inputs.now >= found.until:
            return None
        owner = targets.owner
        if owner is not None and old.view.workloads.get(owner.key) is not owner:
            return None
        return found

    # --- settling

    def _settle(
        self,
        key: ObjectKey,
        owner: Workload | None,
        pods: list[Pod],
        assessed: list[Assessment],
    ) -> None:
        decisions = [found.decision for found in assessed if found.decision is not None]
        is_quiet = len(decisions) == len(assessed)
        if is_quiet and not self._has_to_be_settled(key, assessed):
            self.decisions += decisions
            return
        live = tuple(pod for pod in pods if is_live(pod))
        group = OwnerPods(self.namespace, key, owner, self.view, live, tuple(assessed))
        owner_plan = plan_owner(group, self.state)
        self.decisions += owner_plan.decisions.values()
        self.evictable += owner_plan.evictable
        self.resizable += owner_plan.resizable
        if owner_plan.queue is not None:
            self.queues.append(owner_plan.queue)

    def _has_to_be_settled(self, key: ObjectKey, assessed: list[Assessment]) -> bool:
        names = {found.vpa.name for found in assessed}
        proofs = (self.inputs.memory.proofs.get((self.namespace, key, name)) for name in names)
        return any(proof is not None and proof.awaited for proof in proofs)

    def totals(self) -> tuple[VpaCounts, ...]:
        """Return the counts of all VPAs with pods."""
        return tuple(
            VpaCounts(
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
    state: PlanState,
    *,
    old: NamespacePlan | None = None,
    only: frozenset[str] | None = None,
) -> NamespacePlan:
    """Decide about the controlled pods of a namespace.

    Args:
        namespace: its name.
        view: what is known of it.
        looked_up: owners that the view does not hold.
        state: what all namespaces share.
        old: what was decided before.
        only: the names of pods to decide about, None for all.
    """
    planner = _Planner(namespace, view, looked_up, state)
    planner.old, planner.only = old, only
    for key, pods in by_owner(view.pods.values()):
        planner.plan_owner(key, pods)
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
