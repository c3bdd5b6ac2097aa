"""The plan for all pods at one moment: one decision each, and queues of what to carry out.

Strategy: namespace by namespace, owner by owner. The pods of an owner are matched with their VPAs
and assessed; only owners with a proposal go on to the blockers. What was decided for a namespace
that did not change stays as it is until its time is over, and so does the assessment of a pod
while pod, VPA, owner and LimitRanges are the same; so a quiet cluster costs next to nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import chain
from operator import attrgetter

from app.model.gates import FeatureGates
from app.model.kinds import ObjectKey
from app.model.pod_roles import why_roles
from app.model.pods import Pod
from app.model.snapshot import NamespaceView, Snapshot
from app.model.vpa import Vpa
from app.model.workloads import NOTHING_LOOKED_UP, LookedUp, Lookup, Workload
from app.sizing.matching import Match, MatchReason
from app.updater.core.action_queue import ActionQueue
from app.updater.core.assess import assess
from app.updater.core.blockers import decide_owner
from app.updater.core.decisions import Action, Decision, Reason
from app.updater.core.memory import Memory, NamespacedName, after_outage, observed
from app.updater.core.owners import Matcher, Overlap, by_owner, is_live
from app.updater.core.plan_state import PlanState
from app.updater.core.pod_targets import OwnerTargets
from app.updater.core.proof import Outage
from app.updater.core.proposals import Assessment, OwnerPods, PlanInputs
from app.updater.core.rules import UpdateRules


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
        return tuple(chain.from_iterable(part.decisions for part in self.namespaces.values()))

    @property
    def queues(self) -> tuple[ActionQueue, ...]:
        """What is to be carried out, per owner, the most urgent first; side by side if wanted."""
        queues = chain.from_iterable(part.queues for part in self.namespaces.values())
        return tuple(sorted(queues, key=attrgetter("rank")))

    @property
    def totals(self) -> tuple[VpaCounts, ...]:
        """How many pods each VPA has, and how many of them could be updated."""
        return tuple(chain.from_iterable(part.totals for part in self.namespaces.values()))

    @property
    def lookups(self) -> tuple[Lookup, ...]:
        """The controllers that would have to be known to decide about more pods."""
        return tuple(chain.from_iterable(part.lookups for part in self.namespaces.values()))

    @property
    def overlaps(self) -> tuple[Overlap, ...]:
        """VPAs that claim the same pods."""
        return tuple(chain.from_iterable(part.overlaps for part in self.namespaces.values()))


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """What a plan may take into account beside the cluster's objects."""

    webhook_is_healthy: bool = True
    outage: Outage | None = None  # the latest of the webhook
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
    """Decide about every controlled pod, or about some alone such as those whose boost may be over.

    Raises:
        Unplannable: one namespace spoils the whole; it can be left out.
    """
    memory = observed(memory, snapshot, rules, now)
    outage = options.outage if options.webhook_is_healthy else None
    if outage is not None:
        memory = after_outage(memory, outage, rules)
    is_partial = options.only is not None
    healthy, paused = options.webhook_is_healthy, snapshot.paused_namespaces
    inputs = PlanInputs(rules, gates, memory, now, healthy, is_partial, outage, paused)
    state = PlanState(inputs, snapshot.nodes)
    touched = memory.namespaces()
    before = _comparable(options.before, rules, gates, now)
    planned: dict[str, NamespacePlan] = {}
    for namespace, only in _wanted(state.namespaces_in_turn(snapshot.namespaces), options.only):
        view = snapshot.of(namespace)
        if not view.vpas or not view.pods or not rules.covers(namespace):
            continue
        if namespace in options.without:
            continue
        looked_up = options.looked_up.get(namespace, NOTHING_LOOKED_UP)
        old = before.get(namespace)
        is_quiet = only is None and namespace not in touched
        if old is not None and is_quiet and old.still_holds(view, looked_up, now):
            planned[namespace] = old
            continue
        try:
            planner = _NamespacePlanner(namespace, view, looked_up, state, old)
            planned[namespace] = planner.plan(only)
        except Exception as error:
            raise Unplannable(namespace) from error
    return Plan(now, rules, gates, state.memory(), dict(sorted(planned.items())), is_partial)


def _wanted(
    namespaces: Iterable[str], only: frozenset[NamespacedName] | None
) -> Iterator[tuple[str, frozenset[str] | None]]:
    """Return the namespaces in their order, each with the pods that are meant."""
    if only is None:
        yield from ((namespace, None) for namespace in namespaces)
        return
    for namespace in sorted({namespace for namespace, _ in only}):
        yield namespace, frozenset(name for other, name in only if other == namespace)


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
    is_settled: bool = False  # all decisions hold until then, or until an object changes

    def still_holds(self, view: NamespaceView, looked_up: LookedUp, now: datetime) -> bool:
        """Whether all of it can be taken over."""
        return (
            view is self.view
            and self.is_settled
            and (self.until is None or now < self.until)
            and (looked_up is self.looked_up or looked_up == self.looked_up)
        )


class _NamespacePlanner:
    """Plans one namespace."""

    def __init__(
        self,
        namespace: str,
        view: NamespaceView,
        looked_up: LookedUp,
        state: PlanState,
        old: NamespacePlan | None,
    ) -> None:
        self._namespace, self._view, self._looked_up = namespace, view, looked_up
        self._inputs, self._state, self._old = state.inputs, state, old
        self._matcher = Matcher(namespace, view, looked_up, state.inputs.gates)
        self._decisions: list[Decision] = []
        self._queues: list[ActionQueue] = []
        self._lasting: dict[str, Assessment] = {}
        self._unselected = 0  # pods that no VPA selects
        self._controlled, self._evictable, self._resizable = (Counter[str]() for _ in range(3))

    def plan(self, only: frozenset[str] | None) -> NamespacePlan:
        """Decide about all controlled pods, or about those with some names alone."""
        for key, pods in by_owner(self._view.pods.values()):
            self._assess_owner(key, pods, only)
        ends = (assessed.until for assessed in self._lasting.values())
        return NamespacePlan(
            self._view,
            self._looked_up,
            tuple(sorted(self._decisions, key=attrgetter("pod"))),
            tuple(self._queues),
            self._totals(),
            tuple(self._matcher.lookups),
            tuple(self._matcher.overlaps),
            self._lasting,
            until=min(filter(None, ends), default=None),
            is_settled=len(self._lasting) + self._unselected == len(self._decisions),
        )

    def _assess_owner(self, key: ObjectKey, pods: list[Pod], only: frozenset[str] | None) -> None:
        known = self._view.workloads.get(key) or self._looked_up.get(key)
        owner = known if isinstance(known, Workload) else None
        targets: dict[str, OwnerTargets] = {}
        assessments: list[Assessment] = []
        wanted = pods if only is None else [pod for pod in pods if pod.name in only]
        for pod, match in self._matcher.matches(wanted):
            vpa = match.vpa
            if vpa is None:
                if match.reason is MatchReason.NO_VPA_SELECTOR_MATCH:
                    self._decisions.append(_unselected(pod, match, self._view))
                    self._unselected += 1
                continue
            if vpa.name not in targets:
                limits, rules = self._view.limits, self._inputs.rules
                rivals = _rivals(vpa, self._view)
                targets[vpa.name] = OwnerTargets(vpa, owner, limits, rules, rivals)
            assessments.append(self._assess(pod, targets[vpa.name]))
            if is_live(pod):
                self._controlled[vpa.name] += 1
        self._settle(key, owner, pods, assessments)

    def _assess(self, pod: Pod, targets: OwnerTargets) -> Assessment:
        is_remembered = pod.uid in self._inputs.memory.pods
        if not is_remembered and (known := self._known(pod, targets)) is not None:
            self._lasting[pod.uid] = known
            return known
        assessed = assess(pod, targets, self._inputs, self._state.allocatable(pod))
        self._state.remember(assessed)
        if not is_remembered and _lasts(assessed):
            self._lasting[pod.uid] = assessed
        return assessed

    def _known(self, pod: Pod, targets: OwnerTargets) -> Assessment | None:
        """Return what was assessed before, if it still holds."""
        old, owner = self._old, targets.owner
        known = old.lasting.get(pod.uid) if old is not None else None
        if known is None or old is None:
            return None
        if not _is_same(known.pod, pod) or known.vpa is not targets.vpa:
            return None
        if targets.rivals and targets.rivals is not _rivals(known.vpa, old.view):
            return None
        if old.view.limits is not self._view.limits or (
            known.until is not None and self._inputs.now >= known.until
        ):
            return None
        if owner is not None and old.view.workloads.get(owner.key) is not owner:
            return None
        return known

    def _settle(
        self,
        key: ObjectKey,
        owner: Workload | None,
        pods: list[Pod],
        assessments: list[Assessment],
    ) -> None:
        """Take over the decisions about an owner's pods, or plan where something is proposed."""
        decisions = [assessed.decision for assessed in assessments if assessed.decision is not None]
        is_quiet = len(decisions) == len(assessments)
        if is_quiet and not self._awaits_replacement(key, assessments):
            self._decisions += decisions
            return
        live = tuple(pod for pod in pods if is_live(pod))
        group = OwnerPods(self._namespace, key, owner, self._view, live, tuple(assessments))
        owner_plan = decide_owner(group, self._state)
        self._decisions += owner_plan.decisions.values()
        self._evictable += owner_plan.evictable
        self._resizable += owner_plan.resizable
        if owner_plan.queue is not None:
            self._queues.append(owner_plan.queue)

    def _awaits_replacement(self, key: ObjectKey, assessments: list[Assessment]) -> bool:
        names = {assessed.vpa.name for assessed in assessments}
        proofs = (self._inputs.memory.proofs.get((self._namespace, key, name)) for name in names)
        return any(proof is not None and proof.awaited for proof in proofs)

    def _totals(self) -> tuple[VpaCounts, ...]:
        """Return the counts of all VPAs with pods."""
        return tuple(
            VpaCounts(
                self._namespace,
                name,
                self._view.vpas[name].mode,
                count,
                self._evictable[name],
                self._resizable[name],
            )
            for name, count in sorted(self._controlled.items())
        )


def _rivals(vpa: Vpa, view: NamespaceView) -> tuple[Vpa, ...]:
    """Return the VPAs with the target of one, itself among them."""
    return view.rivals(vpa.target.key) if vpa.target is not None else ()


def _is_same(one: Pod, other: Pod) -> bool:
    version = one.resource_version
    return one is other or (
        bool(version)
        and (one.uid, version) == (other.uid, other.resource_version)
        and one.roles == other.roles
    )


def _lasts(assessed: Assessment) -> bool:
    """Whether an assessment holds until the pod changes or its time is over."""
    decision = assessed.decision
    if decision is None:
        return False
    return decision.action is Action.NONE or decision.reason is Reason.BOOST_RUNNING


def _unselected(pod: Pod, match: Match, view: NamespaceView) -> Decision:
    """Return the decision about a pod that no selector matches, maybe for want of a role."""
    no_vpa, reason, message = "", Reason.NO_SELECTOR_MATCH, match.message
    owner = match.owner
    if owner is not None and view.roles.keys.get(owner.key, frozenset()) - pod.labels.keys():
        problems = {one.role_problem[1]: None for one in view.rivals(owner.key) if one.role_problem}
        reason = Reason.ROLE_UNKNOWN
        message = f"it is not known which pod leads: {'; '.join(problems)}"
    told = Decision(pod.uid, pod.namespace, pod.name, no_vpa, Action.NONE, reason, message)
    return replace(told, role=why_roles(pod))
