"""A pod and what is needed to assess it, and what comes of that: a decision or a proposal.

Strategy: all are values. What concerns one pod alone is assessed once and kept while the pod, its
VPA and the time allow; what concerns the pods of an owner together comes afterwards, and only
where there is a proposal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from app.model.gates import FeatureGates
from app.model.kinds import ObjectKey
from app.model.pod_roles import why_roles
from app.model.pods import Pod
from app.model.quantity import Quantity
from app.model.snapshot import NamespaceView
from app.model.text import BOOLEANS
from app.model.times import later
from app.model.update_modes import PAUSED_ANNOTATION, pausing_value
from app.model.vpa import Vpa
from app.model.workloads import Workload
from app.updater.core.decisions import Action, Decision, PodChange, PodNumbers, Reason, Why
from app.updater.core.memory import Infeasible, Memory, Pause, PodMemory
from app.updater.core.need import NeedCheck, Rank
from app.updater.core.owners import Role
from app.updater.core.pod_targets import OwnerTargets, PodTarget
from app.updater.core.proof import Outage
from app.updater.core.resize_state import ResizeStage, ResizeState
from app.updater.core.rules import UpdateRules

RESIZE_REASONS: Final = {
    ResizeStage.UNDER_WAY: Reason.RESIZE_IN_PROGRESS,
    ResizeStage.UNKNOWN: Reason.RESIZE_IN_PROGRESS,
    ResizeStage.FAILING: Reason.RESIZE_ERROR,
    ResizeStage.DEFERRED: Reason.RESIZE_DEFERRED,
    ResizeStage.INFEASIBLE: Reason.RESIZE_INFEASIBLE,
}


def why_paused(vpa: Vpa, namespaces: Mapping[str, str]) -> Why | None:
    """Return why the pods of a VPA are paused, None if they are not; its own annotation first.

    Args:
        vpa: the VPA.
        namespaces: those that are paused, each with what pauses it.
    """
    value, owner = pausing_value(vpa.annotations), f"VPA {vpa.name}"
    if value is None:
        value, owner = namespaces.get(vpa.namespace), f"namespace {vpa.namespace}"
    if value is None:
        return None
    told = f'{owner} has the annotation {PAUSED_ANNOTATION}: "{value[:40]}"'
    return Reason.PAUSED, told if value in BOOLEANS else f"{told}, which is no boolean and pauses"


@dataclass(frozen=True, slots=True)
class PlanInputs:
    """What holds for everything that is decided at one moment."""

    rules: UpdateRules
    gates: FeatureGates
    memory: Memory
    now: datetime
    webhook_is_healthy: bool = True
    is_partial: bool = False  # only some pods are decided about
    outage: Outage | None = None  # the latest of the webhook, over by now
    paused_namespaces: Mapping[str, str] = field(default_factory=dict)  # with what pauses them


@dataclass(frozen=True, slots=True)
class Proposal:
    """An eviction, a resize or the end of a boost that would be right for a pod."""

    action: Action
    cause: Reason
    message: str
    rank: Rank
    needs_slot: bool  # in the owner's budget
    change: PodChange | None = None
    unmet: str = ""  # the eviction requirement that is not met
    revert_reason: Reason | None = None  # why a resize that was asked for before is reverted
    revert_change: PodChange | None = None  # of an eviction: what is reverted if it may not be

    @property
    def is_disruptive(self) -> bool:
        """Whether a change restarts a container."""
        return self.change is not None and self.change.is_disruptive


@dataclass(frozen=True, slots=True)
class Assessment:
    """A pod with either a decision or a proposal."""

    pod: Pod
    vpa: Vpa
    decision: Decision | None = None
    proposal: Proposal | None = None
    numbers: PodNumbers | None = None
    is_quick_oom: bool = False
    until: datetime | None = None  # when it may change by itself
    resizing_since: datetime | None = None  # the first sight of a resize that nothing dates
    infeasible: Infeasible | None = None  # to be remembered from now on
    role: Role = Role.ORIGINAL
    is_in_place: bool = False  # resized rather than evicted, where that is possible

    def decided(self, action: Action, reason: Reason, message: str) -> Decision:
        """Return a decision about this pod."""
        return Decision(
            self.pod.uid,
            self.pod.namespace,
            self.pod.name,
            self.vpa.name,
            action,
            reason,
            message,
            self.numbers,
            self.is_quick_oom,
            until=self.until,
            cause=self.proposal.cause if self.proposal is not None else None,
            role=why_roles(self.pod) if self.pod.roles else "",
        )

    def waiting(self, reason: Reason, message: str) -> Assessment:
        """Return the assessment with the decision that the pod has to wait."""
        return replace(self, decision=self.decided(Action.WAIT, reason, message))


@dataclass(frozen=True, slots=True)
class PodContext:
    """One pod and all that is needed to assess it."""

    pod: Pod
    vpa: Vpa
    targets: OwnerTargets
    inputs: PlanInputs
    remembered: PodMemory
    allocatable: Mapping[str, Quantity] | None = None  # of the pod's node, None if not known
    role: Role = Role.ORIGINAL

    @property
    def rules(self) -> UpdateRules:
        """The rules in force."""
        return self.inputs.rules

    @property
    def is_in_place(self) -> bool:
        """Whether the pod is resized rather than evicted, where that is possible.

        One whose VPA changed with its labels is in every mode: it would lose the labels.
        """
        allows = self.vpa.allows
        is_upscaled = allows.only_upwards and self.rules.upscale_only_in_place
        return allows.may_resize or is_upscaled or self.role is not Role.ORIGINAL

    @property
    def leads_since(self) -> datetime | None:
        """Since when the pod leads by a Lease, None if it does not, or nobody knows."""
        found = [one.acquired for one in self.pod.roles if one.acquired and one.leads]
        return max(found, default=None)

    @property
    def settles_until(self) -> datetime | None:
        """Until when a pod that follows is not made smaller, None if it may be now.

        Where nobody knows since when it follows, it has begun to.
        """
        now = self.inputs.now
        changes = [one.since or now for one in self.pod.roles if not one.leads]
        until = later(max(changes), self.rules.role_settles) if changes else None
        return until if until is not None and now < until else None

    @property
    def paused(self) -> Why | None:
        """Why operators want the pod to be left alone, None if they do not."""
        return why_paused(self.vpa, self.inputs.paused_namespaces)

    @property
    def pause(self) -> Pause | None:
        """The pause after a call for the pod failed, None if there is none or it is over."""
        pause = self.remembered.pause
        return None if pause is None or pause.is_over(self.inputs.now) else pause

    def assessed(
        self,
        action: Action,
        reason: Reason,
        message: str,
        *,
        numbers: PodNumbers | None = None,
        until: datetime | None = None,
    ) -> Assessment:
        """Return the assessment of a pod for which nothing is proposed."""
        found = Assessment(self.pod, self.vpa, numbers=numbers, until=until)
        return replace(found, decision=found.decided(action, reason, message))


@dataclass(frozen=True, slots=True)
class Need:
    """Why and how urgently a pod needs an update, and what it should become."""

    target: PodTarget
    check: NeedCheck
    rank: Rank
    is_quick_oom: bool
    unmet: str
    state: ResizeState

    @property
    def message(self) -> str:
        """Why, in a sentence."""
        return self.check.message


@dataclass(frozen=True, slots=True)
class OwnerPods:
    """The pods of one owner."""

    namespace: str
    key: ObjectKey
    owner: Workload | None
    view: NamespaceView
    pods: tuple[Pod, ...]  # the live ones
    assessments: tuple[Assessment, ...]
