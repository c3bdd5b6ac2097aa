"""A row for each workload: what its pods request, use and should have, and what is done.

Strategy: which pods a VPA controls is what the updater's plan says, and how far they are from their
recommendation is what `plumbline recommendations` shows. Rows are made by namespace, so that a
change in one leaves those of all others as they are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Final, NamedTuple

from app.diagnosis.core.attention import (
    Attention,
    Status,
    leading,
    no_pods,
    role_unknown,
    status_of,
)
from app.diagnosis.core.comparisons import (
    ContainerKey,
    LearnedHistory,
    RequestComparison,
    vpa_comparisons,
)
from app.diagnosis.core.uncovered import TopWorkload
from app.model.kinds import ObjectKey
from app.model.pod_roles import why_roles
from app.model.pods import Pod
from app.model.quantity import CPU, MEMORY, Quantity
from app.model.snapshot import NamespaceView
from app.model.vpa import Vpa
from app.sizing.sizing import holding_metrics
from app.updater.core.decisions import Decision, Reason

NOT_SIZED: Final = "NotSized"  # the reason of a workload that no VPA targets
NO_PODS: Final = "NoPods"
MISTAKE: Final = "Mistake"  # the reason of a workload whose VPA cannot work as it is written
_ENDED: Final = ("Succeeded", "Failed")
_OOM_KILLED: Final = "OOMKilled"


class ContainerUsage(NamedTuple):
    """What a container uses; None is not known."""

    cpu_millicores: int | None
    memory_bytes: int | None


UsageNow = Mapping[tuple[str, str, str], ContainerUsage]  # by namespace, pod and container


@dataclass(frozen=True, slots=True)
class ResourceTotals:
    """One resource of some pods, in millicores or bytes; None is not known."""

    request: int | None = None
    target: int | None = None
    usage: int | None = None
    lower: int | None = None
    upper: int | None = None
    saving: int = 0  # what containers request above their target
    shortage: int = 0  # what others request below it

    @property
    def difference(self) -> int:
        """What could be saved and what is short together."""
        return self.saving + self.shortage


class Badge(StrEnum):
    """What is special about a workload, in a word."""

    MISTAKE = "mistake"
    HORIZONTAL = "HPA"
    ROLE = "role"
    ROLE_UNKNOWN = "role unknown"  # which pod leads by a Lease
    BOOST = "boost"
    PROOF = "proof pending"


@dataclass(frozen=True, slots=True)
class WorkloadRow:
    """A workload under one VPA, or under none."""

    namespace: str
    workload: ObjectKey | None  # None: the VPA names none
    vpa: str  # empty: no VPA targets it
    mode: str
    pods: int
    cpu: ResourceTotals
    memory: ResourceTotals
    reason: str  # of most of the pods that need most attention
    status: Status  # the same in words
    reasons: tuple[tuple[str, int], ...] = ()  # how many pods have which
    badges: tuple[Badge, ...] = ()
    roles: tuple[str, ...] = ()  # of its pods by a Lease
    about_role: str = ""  # why they have it, or why it is not known
    confidence: float | None = None  # days of history, of the container that has the least
    as_of: datetime | None = None  # the latest sign that the recommendation is kept up
    held: tuple[str, ...] = ()  # why resources stay as they are: an HPA scales by them
    killed_at: datetime | None = None  # the last time a container ran out of memory

    @property
    def name(self) -> str:
        """The name of the workload, without one that of the VPA."""
        return self.workload.name if self.workload is not None else self.vpa


class NamespaceFacts(NamedTuple):
    """All that the rows of a namespace are made from."""

    view: NamespaceView
    decisions: Sequence[Decision]
    tops: Sequence[TopWorkload]
    histories: Mapping[ContainerKey, LearnedHistory]
    usage: UsageNow
    mistakes: Mapping[str, str] = {}  # what is wrong with VPAs, by their names


def workload_rows(facts: NamespaceFacts) -> tuple[WorkloadRow, ...]:
    """Return the rows of a namespace: VPAs by name, then workloads without one."""
    view = facts.view
    decided = by_vpa(facts.decisions)
    sized = [_vpa_row(view.vpas[name], decided.get(name, []), facts) for name in sorted(view.vpas)]
    uncovered = {one.key: one for one in facts.tops if not one.is_covered and not one.runs_once}
    pods = pods_by_top(view, uncovered)
    others = [_unsized_row(one, pods.get(key, ()), facts) for key, one in uncovered.items()]
    return (*sized, *others)


def pods_by_top(view: NamespaceView, tops: Iterable[ObjectKey]) -> Mapping[ObjectKey, list[Pod]]:
    """Return the live pods of some controllers, which own them directly or by others."""
    wanted = set(tops)
    found: dict[ObjectKey, list[Pod]] = {}
    for pod in view.pods.values() if wanted else ():
        if is_alive(pod):
            for key in wanted.intersection(_owners(pod, view)):
                found.setdefault(key, []).append(pod)
    return found


def _owners(pod: Pod, view: NamespaceView) -> Iterator[ObjectKey]:
    owner, seen = pod.controller, set[ObjectKey]()
    while owner is not None and owner.key not in seen:
        seen.add(owner.key)
        yield owner.key
        workload = view.workloads.get(owner.key)
        owner = workload.owner if workload is not None else None


def is_alive(pod: Pod) -> bool:
    """Whether a pod runs or will run."""
    return pod.phase not in _ENDED and pod.deleted is None


def controlled_pods(view: NamespaceView, decided: Iterable[Decision]) -> list[Pod]:
    """Return the live pods that something was decided about."""
    known = (view.pods.get(one.pod) for one in decided)
    return [pod for pod in known if pod is not None and is_alive(pod)]


def by_vpa(decisions: Iterable[Decision]) -> Mapping[str, list[Decision]]:
    """Return decisions by the VPA that controls the pod."""
    found: dict[str, list[Decision]] = {}
    for one in decisions:
        found.setdefault(one.vpa, []).append(one)
    return found


def _vpa_row(vpa: Vpa, decided: Sequence[Decision], facts: NamespaceFacts) -> WorkloadRow:
    view = facts.view
    pods = controlled_pods(view, decided)
    compared = list(vpa_comparisons(vpa, pods, view, facts.histories))
    first = leading(decided) if decided else None
    status = status_of(view, decided) if decided else no_pods(vpa)
    counts = Counter(str(one.reason) for one in decided)
    mistake = facts.mistakes.get(vpa.name, "")
    if mistake:
        status = Status(Attention.BLOCKED, "mistake in the VPA", why=mistake)
    confidences = [one.confidence for one in compared if one.confidence is not None]
    return WorkloadRow(
        namespace=vpa.namespace,
        workload=vpa.target.key if vpa.target is not None else None,
        vpa=vpa.name,
        mode=vpa.mode,
        pods=len(pods),
        cpu=_totals(CPU, compared, pods, facts.usage),
        memory=_totals(MEMORY, compared, pods, facts.usage),
        reason=MISTAKE if mistake else str(first.reason) if first is not None else NO_PODS,
        status=replace(status, why=status.why or (compared[0].problem if compared else "")),
        reasons=tuple(counts.most_common()),
        badges=(*((Badge.MISTAKE,) if mistake else ()), *_badges(vpa, pods, decided, view)),
        roles=tuple(sorted({role.value for pod in pods for role in pod.roles})),
        about_role=_about_role(vpa, pods),
        confidence=min(confidences, default=None),
        as_of=max(filter(None, (one.as_of for one in compared)), default=None),
        held=tuple(one.sentence for one in holding_metrics(vpa, vpa.recommendation or ())),
        killed_at=last_kill(pods),
    )


def _badges(
    vpa: Vpa, pods: Iterable[Pod], decided: Iterable[Decision], view: NamespaceView
) -> Iterator[Badge]:
    if holding_metrics(vpa, vpa.recommendation or ()):
        yield Badge.HORIZONTAL
    if role_unknown(vpa) is not None:
        yield Badge.ROLE_UNKNOWN
    elif not any(pod.roles for pod in pods) and _has_role(vpa, view):
        yield Badge.ROLE
    if any(pod.boosted_containers for pod in pods):
        yield Badge.BOOST
    if any(one.needs_proof or one.reason is Reason.PROOF_PENDING for one in decided):
        yield Badge.PROOF


def _has_role(vpa: Vpa, view: NamespaceView) -> bool:
    """Whether a VPA is for some pods of its target only."""
    has_rivals = vpa.target is not None and len(view.rivals(vpa.target.key)) > 1
    return vpa.selector is not None or has_rivals


def _about_role(vpa: Vpa, pods: Iterable[Pod]) -> str:
    """Return why it is not known which pod leads, or why the pods have their role."""
    unknown = role_unknown(vpa)
    return unknown[1] if unknown is not None else next(filter(None, map(why_roles, pods)), "")


def last_kill(pods: Iterable[Pod]) -> datetime | None:
    """Return when a container of some pods last ran out of memory, as far as statuses tell."""
    ends = (
        end
        for pod in pods
        for status in pod.statuses
        for end in (status.terminated, status.last_terminated)
        if end is not None and end.reason == _OOM_KILLED
    )
    return max((end.finished_at for end in ends if end.finished_at is not None), default=None)


def _unsized_row(top: TopWorkload, pods: Sequence[Pod], facts: NamespaceFacts) -> WorkloadRow:
    return WorkloadRow(
        namespace=top.namespace,
        workload=top.key,
        vpa="",
        mode="",
        pods=len(pods),
        cpu=_unsized(CPU, pods, facts.usage),
        memory=_unsized(MEMORY, pods, facts.usage),
        reason=NOT_SIZED,
        status=Status(Attention.IDLE, "not sized", why="no VPA targets it"),
        killed_at=last_kill(pods),
    )


def _unsized(resource: str, pods: Sequence[Pod], usage: UsageNow) -> ResourceTotals:
    requests = _requested(resource, pods)
    total = _units(resource, sum(requests)) if requests else None
    return ResourceTotals(request=total, usage=_used(resource, pods, None, usage))


def _requested(
    resource: str, pods: Iterable[Pod], containers: Container[str] | None = None
) -> list[int]:
    """Return the requests of containers in billionths; of all of them unless some are named."""
    return [
        amount.nano
        for pod in pods
        for name, one in pod.current_resources.items()
        if containers is None or name in containers
        if (amount := one.request(resource)) is not None
    ]


def _totals(
    resource: str, compared: Sequence[RequestComparison], pods: Sequence[Pod], usage: UsageNow
) -> ResourceTotals:
    """Sum up the containers that have a recommendation, so that all amounts are about the same.

    What is held stays as it is, so its request is its target as well.
    """
    found = [one for one in compared if one.resource == resource]
    if not found:
        return _unsized(resource, pods, usage)
    gaps = [one.gap for one in found if one.gap is not None]
    held = _requested(resource, pods, {one.container for one in found if one.held_by})
    if not gaps and not held:
        return _unsized(resource, pods, usage)
    sized = {one.container for one in found}
    requested = sum(gap.requested.nano for gap in gaps) + sum(held)
    amounts = [gap.amount.nano for gap in gaps]
    return ResourceTotals(
        request=_units(resource, requested),
        target=_units(resource, requested - sum(amounts)),
        usage=_used(resource, pods, sized, usage),
        lower=_bound(resource, found, [one.lower for one in found]),
        upper=_bound(resource, found, [one.upper for one in found]),
        saving=_units(resource, sum(amount for amount in amounts if amount > 0)),
        shortage=_units(resource, -sum(amount for amount in amounts if amount < 0)),
    )


def _bound(
    resource: str, found: Sequence[RequestComparison], bounds: Sequence[Quantity | None]
) -> int | None:
    """Return the sum of bounds over all pods, None if one is missing."""
    total = 0
    for one, bound in zip(found, bounds, strict=True):
        if bound is None or one.gap is None or one.target is None or not one.target.nano:
            return None
        wanted = one.gap.requested.nano - one.gap.amount.nano
        total += bound.nano * (wanted // one.target.nano)
    return _units(resource, total)


def _used(
    resource: str, pods: Iterable[Pod], sized: set[str] | None, usage: UsageNow
) -> int | None:
    found = [
        amount
        for pod in pods
        for one in pod.containers
        if sized is None or one.name in sized
        if (used := usage.get((pod.namespace, pod.name, one.name))) is not None
        if (amount := used.cpu_millicores if resource == CPU else used.memory_bytes) is not None
    ]
    return sum(found) if found else None


def _units(resource: str, nano: int) -> int:
    """Return millicores, or bytes."""
    return nano // (10**6 if resource == CPU else 10**9)
