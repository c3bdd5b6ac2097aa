"""Sums up the pods of each VPA: what they request, use and should have.

Strategy: pods are told apart by the updater's decisions, for every pod that a VPA controls gets
one. Amounts are those of an average pod, so that a rollout shows as a movement.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from app.model.kinds import owner_key
from app.model.pods import Container, Pod
from app.model.quantity import Quantity
from app.model.snapshot import NamespaceView, Snapshot
from app.model.vpa import Vpa
from app.run.picture import ResourceAmounts, Sums, VpaRow
from app.updater.core.decisions import Action, Decision

CPU, MEMORY = "cpu", "memory"


class Used(NamedTuple):
    """What a pod uses."""

    cpu_millicores: int
    memory_bytes: int


Usage = Mapping[tuple[str, str], Used]  # by namespace and name of the pod


def rows(
    snapshot: Snapshot, decisions: Iterable[Decision], decided_at: datetime | None, usage: Usage
) -> list[VpaRow]:
    """Return a row for each VPA, in the order of namespaces and names."""
    found: dict[tuple[str, str], list[Decision]] = defaultdict(list)
    for decision in decisions:
        found[decision.namespace, decision.vpa].append(decision)
    return [
        _row(view, view.vpas[name], found.get((namespace, name), []), decided_at, usage)
        for namespace, view in sorted(snapshot.namespaces.items())
        for name in sorted(view.vpas)
    ]


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


def _row(
    view: NamespaceView,
    vpa: Vpa,
    decisions: Sequence[Decision],
    decided_at: datetime | None,
    usage: Usage,
) -> VpaRow:
    pods = [pod for one in decisions if (pod := view.pods.get(one.pod)) is not None]
    used = [found for pod in pods if (found := usage.get((pod.namespace, pod.name))) is not None]
    return VpaRow(
        namespace=vpa.namespace,
        vpa=vpa.name,
        pods=len(pods),
        cpu=_amounts(vpa, CPU, pods, [one.cpu_millicores for one in used]),
        memory=_amounts(vpa, MEMORY, pods, [one.memory_bytes for one in used]),
        standing=_standing(decisions) if pods else _without_pods(vpa, decided_at),
    )


def _without_pods(vpa: Vpa, decided_at: datetime | None) -> str:
    """Say whether there are no pods, or the updater has not looked since there is a VPA."""
    is_seen = decided_at is not None and (vpa.created is None or vpa.created < decided_at)
    return "no pods" if is_seen else "not yet seen"


def _amounts(vpa: Vpa, resource: str, pods: Sequence[Pod], used: Sequence[int]) -> ResourceAmounts:
    requests = [
        amount for pod in pods if (amount := _requested(pod.containers, resource)) is not None
    ]
    return ResourceAmounts(
        request=_mean(requests),
        usage=_mean(used),
        target=_recommended(resource, (one.target for one in vpa.recommendation or ())),
        lower=_recommended(resource, (one.lower_bound for one in vpa.recommendation or ())),
        upper=_recommended(resource, (one.upper_bound for one in vpa.recommendation or ())),
    )


def _requested(containers: Iterable[Container], resource: str) -> int | None:
    found = [
        amount
        for container in containers
        if (amount := container.resources.request(resource)) is not None
    ]
    return sum(amount_in(resource, one) for one in found) if found else None


def _recommended(resource: str, found: Iterable[Mapping[str, Quantity]]) -> int | None:
    amounts = [amount_in(resource, one[resource]) for one in found if resource in one]
    return sum(amounts) if amounts else None


def amount_in(resource: str, quantity: Quantity) -> int:
    """Return millicores, or bytes."""
    return quantity.milli if resource == CPU else quantity.units


def _mean(amounts: Sequence[int]) -> int | None:
    return sum(amounts) // len(amounts) if amounts else None


def _standing(decisions: Sequence[Decision]) -> str:
    """Return the reason of most pods: of those something is done about, else of those that wait."""
    acting = [one for one in decisions if one.action not in (Action.WAIT, Action.NONE)]
    waiting = [one for one in decisions if one.action is Action.WAIT]
    counts = Counter(str(one.reason) for one in acting or waiting or decisions)
    return min(counts, key=lambda reason: (-counts[reason], reason))
