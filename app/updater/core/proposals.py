"""What would be right for one pod, before it is asked whether its owner can afford it.

Strategy: what concerns one pod alone is assessed once and kept while the pod, its VPA and the
time allow; what concerns the pods of an owner together comes afterwards, and only where there is
a proposal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from app.model.gates import FeatureGates
from app.model.kinds import ObjectKey
from app.model.pods import Pod
from app.model.quantity import Quantity
from app.model.snapshot import NamespaceView
from app.model.vpa import Vpa
from app.model.workloads import Workload
from app.updater.core.decisions import (
    Action,
    Decision,
    PodChange,
    PodNumbers,
    Reason,
)
from app.updater.core.memory import (
    Infeasible,
    Memory,
    PodMemory,
)
from app.updater.core.need import Priority
from app.updater.core.resize_state import (
    ResizeStage,
    ResizeState,
)
from app.updater.core.rules import UpdateRules
from app.updater.core.targets import OwnerTargets, PodTarget

RESIZE_REASONS: Final = {
    ResizeStage.UNDER_WAY: Reason.RESIZE_IN_PROGRESS,
    ResizeStage.UNKNOWN: Reason.RESIZE_IN_PROGRESS,
    ResizeStage.FAILING: Reason.RESIZE_ERROR,
    ResizeStage.DEFERRED: Reason.RESIZE_DEFERRED,
    ResizeStage.INFEASIBLE: Reason.RESIZE_INFEASIBLE,
}


@dataclass(frozen=True, slots=True)
class PlanInputs:
    """What holds for everything that is decided at one moment."""

    rules: UpdateRules
    gates: FeatureGates
    memory: Memory
    now: datetime
    webhook_is_healthy: bool = True
    is_partial: bool = False  # only some pods are decided about


@dataclass(frozen=True, slots=True)
class Proposal:
    """An eviction, a resize or the end of a boost that would be right for a pod."""

    action: Action
    message: str
    change: PodChange | None = None
    priority: Priority | None = None
    unmet: str = ""  # the eviction requirement that is not met
    may_evict: bool = False  # whether the update mode allows an eviction instead of a resize
    is_free: bool = False  # takes nothing away from the owner: the pod does not serve
    gives_back: Reason | None = None  # a resize that takes back what was asked, and why
    otherwise: PodChange | None = None  # of an eviction: what is taken back if it may not be

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
    quick_oom: bool = False
    until: datetime | None = None  # when the decision may change by itself
    resizing_since: datetime | None = None  # the first sight of a resize that nothing dates
    infeasible: Infeasible | None = None  # to be remembered from now on

    def decided(self, action: Action, reason: Reason, message: str) -> Decision:
        """Return a decision about this pod."""
        pod = self.pod
        return Decision(
            pod.uid,
            pod.namespace,
            pod.name,
            self.vpa.name,
            action,
            reason,
            message,
            self.numbers,
            self.quick_oom,
        )


@dataclass(frozen=True, slots=True)
class PodContext:
    """One pod and all that is needed to assess it."""

    pod: Pod
    vpa: Vpa
    targets: OwnerTargets
    inputs: PlanInputs
    remembered: PodMemory
    allocatable: Mapping[str, Quantity] | None = None  # of the pod's node, None if not known

    @property
    def rules(self) -> UpdateRules:
        """The rules in force."""
        return self.inputs.rules

    def decided(
        self,
        action: Action,
        reason: Reason,
        message: str,
        *,
        numbers: PodNumbers | None = None,
        until: datetime | None = None,
    ) -> Assessment:
        """Return the assessment of a pod about which all is said."""
        found = Assessment(self.pod, self.vpa, numbers=numbers, until=until)
        return replace(found, decision=found.decided(action, reason, message))


@dataclass(frozen=True, slots=True)
class Need:
    """Why and how urgently a pod needs an update, and what it should become."""

    target: PodTarget
    message: str
    priority: Priority
    unmet: str
    state: ResizeState


@dataclass(frozen=True, slots=True)
class OwnerPods:
    """The pods of one owner."""

    namespace: str
    key: ObjectKey
    owner: Workload | None
    view: NamespaceView
    pods: tuple[Pod, ...]  # the live ones
    assessments: tuple[Assessment, ...]
