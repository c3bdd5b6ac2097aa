"""The pods of one owner: how many there should be, how many there are, whether that is enough.

Strategy: a group is all live pods of a pod's immediate controller, whichever VPAs they belong
to, so that VPAs which share a controller also share its budget.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from app.model.kinds import ObjectKey
from app.model.pods import Pod
from app.model.snapshot import NamespaceView
from app.model.vpa import Vpa
from app.model.workloads import Rollout, Workload
from app.updater.core.budget import Budget
from app.updater.core.rules import UpdateRules

_SIZED_KINDS = frozenset({"DaemonSet", "ReplicationController", "ReplicaSet", "StatefulSet"})


@dataclass(frozen=True, slots=True)
class Size:
    """How many pods an owner wants, or why that is not known."""

    configured: int | None
    problem: str = ""


def is_live(pod: Pod) -> bool:
    """Whether a pod serves or will serve."""
    return pod.deleted is None and pod.phase not in ("Succeeded", "Failed")


def configured_size(key: ObjectKey, owner: Workload | None, live: int) -> Size:
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
    return Size(wanted) if wanted else Size(None, f"{key} wants no pods")


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


def is_broken(pod: Pod, rules: UpdateRules, now: datetime, *, quick_oom: bool) -> bool:
    """Whether disturbing a running pod takes nothing away from what is ready."""
    if not is_unready(pod):
        return False
    if quick_oom:
        return True
    since = pod.condition("Ready")
    moment = since.last_transition if since is not None else None
    return moment is not None and now - moment >= rules.unready_patience


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
) -> Budget:
    """Return the budget of a group.

    Args:
        pods: its live pods.
        size: how many pods the owner wants.
        tolerance: the share of them that may be down because of us.
        gone: uids of pods that we evicted and that still seem to be there.
        disturbed: uids of pods that we are restarting.
    """
    running = alive = 0
    for pod in pods:
        if pod.uid in gone or not is_running(pod):
            continue
        running += 1
        alive += pod.uid not in disturbed and not is_unready(pod)
    return Budget(size, tolerance, running, alive)


def went_down(pods: Iterable[Pod], now: Mapping[str, Pod]) -> tuple[int, int]:
    """Return how many of some running pods run no more, and how many ready ones are not ready.

    Args:
        pods: as they were.
        now: all pods there are, by name.
    """
    stopped = unready = 0
    for pod in pods:
        found = now.get(pod.name)
        if found is pod:
            continue
        is_up = found is not None and found.uid == pod.uid and found.deleted is None
        runs = found is not None and is_up and is_running(found)
        stopped += not runs
        if not is_unready(pod):
            unready += found is None or not runs or is_unready(found)
    return stopped, unready


@dataclass(frozen=True, slots=True)
class Rolling:
    """A rollout that is going on."""

    mark: str  # changes with every rollout, and with every step of one
    message: str


def rolling(owner: Workload | None, view: NamespaceView) -> Rolling | None:
    """Return the rollout that is going on above a pod's owner, None if there is none."""
    parent = None
    if owner is not None and owner.owner is not None:
        parent = view.workloads.get(owner.owner.key)
    for workload in (owner, parent):
        rollout = workload.rollout if workload is not None else None
        if workload is None or rollout is None:
            continue
        if told := _rollout(workload, rollout):
            mark = f"{workload.key}@{rollout.generation}/{rollout.updated_replicas}"
            return Rolling(mark, f"{workload.key}: {told}")
    return None


def _rollout(workload: Workload, rollout: Rollout) -> str:
    if not rollout.observed_generation:  # told by no controller yet
        return ""
    if not workload.key.is_built_in or workload.key.kind not in ("Deployment", "StatefulSet"):
        return ""
    if rollout.observed_generation < rollout.generation:
        return "its latest change was not seen yet"
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
