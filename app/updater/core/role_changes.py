"""What a role that comes from a Lease means for the updates of a pod.

Strategy: the pod that leads is resized as soon as it does, and evicted last, because eviction makes
another pod lead. A pod that follows is not made smaller for a while after its Lease changed hands,
nor below what it uses: it may lead again, or still hold what a leader needs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from app.model.fields import Object, items_at, quantities_at, text_at
from app.model.pod_roles import asked_by, leads
from app.model.pods import Pod
from app.model.role_leaders import shown
from app.model.snapshot import NamespaceView
from app.updater.core.action_queue import ActionQueue, QueueStep
from app.updater.core.decisions import Action, Reason, Why
from app.updater.core.events import Severity, UpdateEvent
from app.updater.core.owners import is_unready
from app.updater.core.proposals import Assessment


def why_holder_stays(
    assessed: Assessment, others: Iterable[Assessment], ready: Iterable[Pod]
) -> Why | None:
    """Return why the pod that leads is not evicted yet, None if it may be.

    Args:
        assessed: the pod that leads.
        others: the pods of its workload.
        ready: those of them that run and are not disturbed.
    """
    uid = assessed.pod.uid
    for other in others:
        proposal = other.proposal
        is_next = proposal is not None and proposal.action is Action.EVICT and not proposal.unmet
        if is_next and other.pod.uid != uid and not leads(other.pod):
            return Reason.HOLDS_LEASE, f"it leads, and goes last: {other.pod.name} goes first"
    if all(pod.uid == uid or is_unready(pod) for pod in ready):
        return Reason.HOLDS_LEASE, "it leads, and no other pod is ready to lead in its place"
    return None


def promotions(queues: Iterable[ActionQueue]) -> Iterator[ActionQueue]:
    """Yield queues with the resizes of pods that lead, which need no slot and evict nothing."""
    for queue in queues:
        for step in queue.steps:
            is_resize = step.decision.action is Action.RESIZE and not step.needs_slot
            if is_resize and leads(step.pod):
                decision = replace(step.decision, may_evict_instead=False)
                yield replace(queue, steps=(replace(step, decision=decision),))


def keeps_role(was: Pod, now: Pod) -> bool:
    """Whether a pod still is what a plan was made for, by its labels and by who leads.

    While a Lease changes hands too often all pods have the leader's label, and only one leads.
    """
    return now.labels == was.labels and leads(now) == leads(was)


def lowers(step: QueueStep) -> bool:
    """Whether a step makes a pod smaller that has its role from a Lease, and does not lead."""
    change = step.decision.change
    if not step.pod.roles or leads(step.pod) or change is None:
        return False
    return any(
        (before := step.pod.containers[item.index].resources.request(name)) is not None
        and amount < before
        for item in change.containers
        for name, amount in item.requests.items()
    )


def used_beyond(step: QueueStep, metrics: Object) -> Why | None:
    """Return why a pod is not made smaller by its usage, None if nothing speaks against it.

    Args:
        step: the resize.
        metrics: its PodMetrics.

    Raises:
        BadObject: the metrics cannot be read.
    """
    change = step.decision.change
    wanted = {item.container: item.requests for item in change.containers} if change else {}
    for container, path in items_at(metrics, "containers", ""):
        usage = quantities_at(container, "usage", path) or {}
        name = text_at(container, "name", path)
        for resource, amount in wanted.get(name, {}).items():
            used = usage.get(resource)
            if used is not None and used > amount:
                message = f"it follows, and still uses {used} {resource}, more than {amount}"
                return Reason.ROLE_SETTLING, message
    return None


def role_events(view: NamespaceView, namespace: str, lease: str) -> Iterator[UpdateEvent]:
    """Yield what the VPAs are told that name a Lease by which another pod leads than before."""
    leader, standing = view.roles.leaders.get(lease), view.leases.get(lease)
    if leader is None or standing is None:
        return
    who = f"pod {leader.pod} leads" if leader.pod in view.pods else "no pod leads"
    why = f"is held by {shown(standing.holder)}" if standing.holder else "is not held"
    for name, vpa in sorted(view.vpas.items()):
        if any(one.lease == lease for one in asked_by(vpa, view.roles)):
            message = f"Now {who}, because Lease {namespace}/{lease} {why}"
            kind, severity = "VerticalPodAutoscaler", Severity.NORMAL
            yield UpdateEvent(kind, namespace, name, vpa.uid, severity, "RoleChanged", message)
