"""Sums up the pods of each VPA: what they request, use and should have.

Strategy: the updater's decisions say which pods a VPA controls, because each of those has one.
Amounts are those of an average pod, so that a rollout shows as a movement, and of the containers
that have a recommendation and are not held, so that both sides of an arrow are about the same.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from datetime import datetime
from typing import NamedTuple

from app.diagnosis.core.attention import status_of, without_pods
from app.model.kinds import owner_key
from app.model.pods import Container, Pod
from app.model.quantity import Quantity
from app.model.snapshot import NamespaceView, Snapshot
from app.model.vpa import Vpa
from app.run.view import ResourceAmounts, Sums, VpaRow
from app.updater.core.decisions import Decision

CPU, MEMORY = "cpu", "memory"


class Used(NamedTuple):
    """What a container uses."""

    cpu_millicores: int
    memory_bytes: int


Usage = Mapping[tuple[str, str, str], Used]  # by namespace, pod and container


def rows(
    snapshot: Snapshot, decisions: Iterable[Decision], decided_at: datetime | None, usage: Usage
) -> list[VpaRow]:
    """Return a row for each VPA, first those that need attention."""
    found: dict[tuple[str, str], list[Decision]] = defaultdict(list)
    for decision in decisions:
        found[decision.namespace, decision.vpa].append(decision)
    made = [
        _row(view, vpa, found.get((namespace, name), []), decided_at, usage)
        for namespace, view in snapshot.namespaces.items()
        for name, vpa in view.vpas.items()
    ]
    return sorted(made, key=lambda row: (row.status.level, row.namespace, row.vpa))


def sums(snapshot: Snapshot, decisions: Iterable[Decision]) -> tuple[Sums, Sums]:
    """Return what the pods under VPAs would request as their templates are, and what they do."""
    before, after = [0, 0], [0, 0]
    for decision in decisions:
        view = snapshot.of(decision.namespace)
        pod = view.pods.get(decision.pod)
        if pod is None:
            continue
        for total, containers in ((before, template_of(view, pod)), (after, pod.containers)):
            total[0] += _requested(containers, CPU) or 0
            total[1] += _requested(containers, MEMORY) or 0
    return Sums(*before), Sums(*after)


def template_of(view: NamespaceView, pod: Pod) -> Sequence[Container]:
    """Return the containers of a pod as its controller has them."""
    owner = pod.controller
    if owner is None:
        return pod.containers
    workload = view.workloads.get(owner_key(owner.api_version, owner.kind, owner.name))
    return workload.template if workload is not None and workload.template else pod.containers


def workload_of(view: NamespaceView, pod_name: str) -> str:
    """Return the name of the workload of a pod, as far as it is known."""
    pod = view.pods.get(pod_name)
    if pod is None or pod.controller is None:
        return pod_name.rpartition("-")[0]
    found = view.workloads.get(pod.controller.key)
    return found.owner.name if found is not None and found.owner else pod.controller.name


def _row(
    view: NamespaceView,
    vpa: Vpa,
    decisions: Sequence[Decision],
    decided_at: datetime | None,
    usage: Usage,
) -> VpaRow:
    pods = [pod for one in decisions if (pod := view.pods.get(one.pod)) is not None]
    return VpaRow(
        namespace=vpa.namespace,
        vpa=vpa.name,
        mode=vpa.mode,
        pods=len(pods),
        cpu=_amounts(vpa, CPU, pods, usage),
        memory=_amounts(vpa, MEMORY, pods, usage),
        status=status_of(view, decisions) if pods else without_pods(vpa, decided_at),
    )


def _amounts(vpa: Vpa, resource: str, pods: Sequence[Pod], usage: Usage) -> ResourceAmounts:
    present = {container.name for pod in pods for container in pod.containers}
    found = [
        one
        for one in vpa.recommendation or ()
        if (not pods or one.container in present) and vpa.held_by(one.container, resource) is None
    ]
    sized = {one.container for one in found if resource in one.target}
    requests = [_requested(pod.containers, resource, sized) for pod in pods]
    used = [_used(pod, resource, sized, usage) for pod in pods]
    return ResourceAmounts(
        request=_mean(requests),
        usage=_mean(used),
        target=_recommended(resource, (one.target for one in found)),
        lower=_recommended(resource, (one.lower_bound for one in found)),
        upper=_recommended(resource, (one.upper_bound for one in found)),
    )


def _used(pod: Pod, resource: str, sized: Set[str], usage: Usage) -> int | None:
    found = [
        used.cpu_millicores if resource == CPU else used.memory_bytes
        for container in pod.containers
        if (not sized or container.name in sized)
        and (used := usage.get((pod.namespace, pod.name, container.name))) is not None
    ]
    return sum(found) if found else None


def _requested(
    containers: Iterable[Container], resource: str, sized: Set[str] = frozenset()
) -> int | None:
    """Return what some containers request, or all of them if none is sized."""
    found = [
        amount
        for container in containers
        if (not sized or container.name in sized)
        and (amount := container.resources.request(resource)) is not None
    ]
    return sum(amount_in(resource, one) for one in found) if found else None


def _recommended(resource: str, found: Iterable[Mapping[str, Quantity]]) -> int | None:
    amounts = [amount_in(resource, one[resource]) for one in found if resource in one]
    return sum(amounts) if amounts else None


def amount_in(resource: str, quantity: Quantity) -> int:
    """Return millicores, or bytes."""
    return quantity.milli if resource == CPU else quantity.units


def _mean(found: Iterable[int | None]) -> int | None:
    amounts = [amount for amount in found if amount is not None]
    return sum(amounts) // len(amounts) if amounts else None
