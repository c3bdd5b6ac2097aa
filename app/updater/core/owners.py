"""The pods of one owner: which VPA controls each, how many there should be, how many may go.

Strategy: an owner is a pod's immediate controller, whichever VPAs its pods belong to, so VPAs
that share it share its budget. Owner chains are climbed once, not once a pod: where only one VPA
can be meant, the other pods are like the first one as long as the selectors match.

The budget is what tolerance allows to be down, less what is down already; an owner too small for
any tolerance may lose one pod, and only while it is whole. A ready pod is judged by how many are
ready, a broken one by how many run at all, so that an owner whose pods are all broken can still
be repaired, a few pods at a time.

Which pods count:
  live         neither being deleted nor over
  scheduled    live, on a node, and not evicted by us: at least `minReplicas` for an update
  running      live, beyond phase Pending, and not evicted by us: the budget for broken pods
  undisturbed  running, and in no resize of ours that may restart it
  ready        undisturbed, and not saying that it is unready: the budget for all others
  desired      what the owner asks for, whatever there is
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from operator import attrgetter
from typing import Final

from app.model.gates import FeatureGate, FeatureGates
from app.model.kinds import ObjectKey
from app.model.pod_roles import given_labels, leads
from app.model.pods import Pod, vpa_at_creation
from app.model.selectors import Selector
from app.model.snapshot import NamespaceView
from app.model.vpa import Vpa
from app.model.workloads import LookedUp, Lookup, Rollout, Workload
from app.sizing.matching import LookupNeeded, Match, MatchReason, match_pod, selects
from app.updater.core.patching import last_sized_by
from app.updater.core.rules import UpdateRules

_OF_ONE_POD: Final = (
    MatchReason.CONTROLLED,
    MatchReason.NO_TARGET_SELECTOR_MATCH,
    MatchReason.NO_VPA_SELECTOR_MATCH,
)
_OVER: Final = ("Succeeded", "Failed")
_GIVEN_LABELS: Final = (  # by a controller, to a pod and to its replacement
    "apps.kubernetes.io/pod-index",
    "batch.kubernetes.io/job-completion-index",
    "controller-revision-hash",
    "pod-template-generation",
    "statefulset.kubernetes.io/pod-name",
)
_SIZED_KINDS = frozenset({"DaemonSet", "ReplicationController", "ReplicaSet", "StatefulSet"})


@dataclass(frozen=True, slots=True)
class Overlap:
    """Two VPAs that claim the same pods; the weaker one is passed over."""

    namespace: str
    stronger: str
    weaker: str


def by_owner(pods: Iterable[Pod]) -> list[tuple[ObjectKey, list[Pod]]]:
    """Return the pods by their immediate controllers, in a fixed order."""
    groups: dict[tuple[str, str, str], tuple[ObjectKey, list[Pod]]] = {}
    for pod in pods:
        owners = pod.owners
        is_plain = len(owners) == 1 and owners[0].controller
        owner = owners[0] if is_plain else pod.controller
        if owner is None or pod.phase in _OVER:
            continue
        key = (owner.kind, owner.name, owner.api_version)
        owned = groups.get(key)
        if owned is None:
            owned = groups[key] = (owner.key, [])
        owned[1].append(pod)
    for _, owned_pods in groups.values():
        owned_pods.sort(key=attrgetter("name"))
    return [groups[key] for key in sorted(groups)]


@dataclass(frozen=True, slots=True)
class _Alike:
    """How the only VPA of an owner came to control one of its pods."""

    match: Match
    owner: Workload
    vpa: Vpa

    def fits(self, pod: Pod) -> bool:
        """Whether it controls another of the pods as well."""
        return self.owner.selector.matches(pod.labels) and selects(self.vpa.selector, pod)


class Matcher:
    """Matches the pods of one namespace, and notes what is missing or claimed twice."""

    def __init__(
        self, namespace: str, view: NamespaceView, looked_up: LookedUp, gates: FeatureGates
    ) -> None:
        self._namespace, self._view, self._looked_up = namespace, view, looked_up
        self._boosts = FeatureGate.CPU_STARTUP_BOOST in gates
        self.lookups: dict[Lookup, None] = {}
        self.overlaps: dict[Overlap, None] = {}

    def matches(self, pods: Iterable[Pod]) -> Iterator[tuple[Pod, Match]]:
        """Yield the pods of one owner that a VPA may control, each with how it was matched."""
        alike: _Alike | None = None
        for pod in pods:
            if alike is not None and alike.fits(pod):
                yield pod, alike.match
                continue
            match = match_pod(pod, self._view, self._looked_up, boosts=self._boosts, with_off=True)
            if isinstance(match, LookupNeeded):
                self.lookups[match.lookup] = None
                return
            if match.reason not in _OF_ONE_POD:
                return
            self._note_overlaps(match)
            yield pod, match
            if alike is None and match.owner is not None and match.vpa is not None:
                is_alone = len(self._view.rivals(match.owner.key)) == 1
                alike = _Alike(match, match.owner, match.vpa) if is_alone else None

    def _note_overlaps(self, match: Match) -> None:
        if match.vpa is not None and not match.vpa.is_off:
            for weaker in match.weaker:
                if not weaker.is_off:
                    self.overlaps[Overlap(self._namespace, match.vpa.name, weaker.name)] = None


class Role(StrEnum):
    """How a pod came by the labels for which its VPA selects it."""

    ORIGINAL = "original"  # as its replacement would
    RESUMED = "resumed"  # the same, but another VPA sized it, which does not select it any more
    ACQUIRED = "acquired"  # later: its replacement would be of another VPA, or of none
    HELD = "held"  # by a Lease, which another pod acquires when it goes


def role_of(pod: Pod, vpa: Vpa, owner: Workload | None, rivals: Iterable[Vpa]) -> Role:
    """Return how a pod came by its labels, as far as it and its owner tell.

    Args:
        pod: the pod.
        vpa: the one that controls it.
        owner: its owner, from whose template a replacement is made.
        rivals: all VPAs that may control pods of that owner.
    """
    if vpa.selector is not None and not _selects_replacement(vpa, vpa.selector, pod, owner):
        return Role.HELD if leads(pod) else Role.ACQUIRED
    before = last_sized_by(pod)
    has_changed = any(one.name == before and not selects(one.selector, pod) for one in rivals)
    return Role.RESUMED if has_changed else Role.ORIGINAL


def _selects_replacement(vpa: Vpa, selector: Selector, pod: Pod, owner: Workload | None) -> bool:
    """Whether a VPA would control the replacement of a pod that it controls."""
    if vpa_at_creation(pod) == vpa.name and not pod.roles:
        return True
    template = owner.template_labels if owner is not None else None
    if template is None and not pod.roles:
        return False
    given = {key: pod.labels[key] for key in _GIVEN_LABELS if key in pod.labels}
    follows = {role.key: role.lease.follower for role in pod.roles}
    template = given_labels(pod) if template is None else template
    return selector.matches({**follows, **template, **given})


@dataclass(frozen=True, slots=True)
class Size:
    """How many pods an owner wants, or why that is not known."""

    desired: int | None
    problem: str = ""


def is_live(pod: Pod) -> bool:
    """Whether a pod serves or will serve."""
    return pod.deleted is None and pod.phase not in _OVER


def desired_size(key: ObjectKey, owner: Workload | None, live: int) -> Size:
    """Return how many pods an owner wants; `live` is how many it has."""
    kind = key.kind if key.is_built_in else ""
    if kind == "Job":
        return Size(live)
    if kind not in _SIZED_KINDS:
        if owner is None or owner.replicas is None:
            return Size(live)
    elif owner is None:
        return Size(None, f"{key} is not known")
    wanted = owner.desired_scheduled if kind == "DaemonSet" else owner.replicas
    return Size(wanted) if wanted else Size(None, f"{key} desires no pods")


def required_replicas(vpa: Vpa, rules: UpdateRules) -> int:
    """Return how many live pods an owner must have before a VPA disturbs one."""
    policy = vpa.update_policy
    if policy is not None and policy.min_replicas is not None:
        return policy.min_replicas
    return rules.min_replicas


def is_unready(pod: Pod) -> bool:
    """Whether a pod says that it is not ready; one that says nothing counts as ready."""
    ready = pod.condition("Ready")
    return ready is not None and ready.status == "False"


def is_broken(pod: Pod, rules: UpdateRules, now: datetime, *, is_quick_oom: bool) -> bool:
    """Whether disturbing a running pod takes nothing away from what is ready."""
    ready = pod.condition("Ready")
    if ready is None or ready.status != "False":
        return False
    since = ready.last_transition
    return is_quick_oom or (since is not None and now - since >= rules.unready_patience)


def is_running(pod: Pod) -> bool:
    """Whether a live pod runs, as far as its phase tells."""
    return pod.phase != "Pending"


def budget_of(
    pods: Iterable[Pod],
    size: int,
    tolerance: float,
    *,
    gone: Collection[str] = (),
    disturbed: Collection[str] = (),
) -> OwnerBudget:
    """Return the budget of a group.

    Args:
        pods: its live pods.
        size: how many pods the owner wants.
        tolerance: the share of them that may be down because of us.
        gone: uids of pods that we evicted and that still seem to be there.
        disturbed: uids of pods that we are restarting.
    """
    running = ready = 0
    for pod in pods:
        if pod.uid in gone or not is_running(pod):
            continue
        running += 1
        ready += pod.uid not in disturbed and not is_unready(pod)
    return OwnerBudget(size, tolerance, running, ready)


def went_down(pods: Iterable[Pod], now: Mapping[str, Pod]) -> tuple[list[str], list[str]]:
    """Return which of some running pods run no more, and which ready ones are not ready, by name.

    Args:
        pods: as they were.
        now: all pods there are, by name.
    """
    stopped: list[str] = []
    unready: list[str] = []
    for pod in pods:
        seen = now.get(pod.name)
        if seen is pod:
            continue
        is_there = seen is not None and seen.uid == pod.uid and seen.deleted is None
        after = seen if seen is not None and is_there and is_running(seen) else None
        if after is None:
            stopped.append(pod.name)
        if not is_unready(pod) and (after is None or is_unready(after)):
            unready.append(pod.name)
    return stopped, unready


def still_has_role(pod: Pod, now: Mapping[str, Pod]) -> bool:
    """Whether a pod that was ready is so still, with the labels for which its VPA selected it.

    Args:
        pod: as it was.
        now: all pods there are, by name.
    """
    seen = now.get(pod.name)
    if seen is None or seen.uid != pod.uid or seen.labels != pod.labels:
        return False
    return seen.deleted is None and is_running(seen) and not is_unready(seen)


@dataclass(frozen=True, slots=True)
class OngoingRollout:
    """A rollout that is going on."""

    mark: str  # changes with every rollout, and with every step of one
    message: str


def ongoing_rollout(owner: Workload | None, view: NamespaceView) -> OngoingRollout | None:
    """Return the rollout that is going on above a pod's owner, None if there is none."""
    parent = None
    if owner is not None and owner.owner is not None:
        parent = view.workloads.get(owner.owner.key)
    for workload in (owner, parent):
        rollout = workload.rollout if workload is not None else None
        if workload is None or rollout is None:
            continue
        if message := _progress(workload, rollout):
            mark = f"{workload.key}@{rollout.generation}/{rollout.updated_replicas}"
            return OngoingRollout(mark, f"{workload.key}: {message}")
    return None


def _progress(workload: Workload, rollout: Rollout) -> str:
    if not rollout.observed_generation:  # no controller has seen it yet
        return ""
    if not workload.key.is_built_in or workload.key.kind not in ("Deployment", "StatefulSet"):
        return ""
    if rollout.observed_generation < rollout.generation:
        return "its controller has not observed its latest change"
    wanted = workload.replicas if workload.replicas is not None else 1
    if workload.key.kind == "StatefulSet":
        if rollout.update_revision == rollout.current_revision:
            return ""
        wanted = max(wanted - rollout.partition, 0)
    updated = rollout.updated_replicas
    if updated < wanted:
        return f"{updated} of {wanted} pods are of the latest template"
    if workload.key.kind == "Deployment" and rollout.replicas > updated:
        return f"{rollout.replicas - updated} pods of an older template are still there"
    return ""


@dataclass(frozen=True, slots=True)
class OwnerBudget:
    """The pods of one owner, as far as they count, and what we took away from them."""

    desired: int
    tolerance: float
    running: int
    ready: int  # of those running: not known to be unready
    taken_running: int = 0
    taken_ready: int = 0

    @property
    def tolerated(self) -> int:
        """How many pods may be down."""
        return int(self.desired * self.tolerance)

    def has_slot(self, *, broken: bool = False, held: bool = False) -> bool:
        """Whether one more pod may go down.

        Args:
            broken: it is judged by how many run, not by how many are ready.
            held: it counts as down already, for a resize that may restart it.
        """
        up, taken = (self.running, self.taken_running) if broken else (self.ready, self.taken_ready)
        up += held and not broken
        if up - taken > self.desired - self.tolerated:
            return True
        is_untouched = self.taken_running == 0 and up == self.desired
        return self.tolerated == 0 and is_untouched

    def after(self, down: int, *, broken: bool = False, held: bool = False) -> OwnerBudget:
        """Return the budget after so many more pods went down; less than zero gives slots back."""
        return replace(
            self,
            taken_running=self.taken_running + down,
            taken_ready=self.taken_ready + (0 if broken or held else down),
        )
