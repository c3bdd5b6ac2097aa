"""Containers that ran out of memory soon after their start: such pods need help at once.

Strategy: a kill counts if it came early in the container's life and not long ago. Once the
container got more memory it does not count again, for a resize leaves its trace standing; no
other change of the pod is an answer to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from app.model.gates import FeatureGate, FeatureGates
from app.model.pods import ContainerStatus, Pod, Termination
from app.model.quantity import MEMORY
from app.model.vpa import Vpa
from app.updater.core.moments import believed, later
from app.updater.core.numbers import observed_containers
from app.updater.core.patching import memory_raised
from app.updater.core.resizing import are_same
from app.updater.core.rules import UpdateRules

_KILLED = "OOMKilled"


@dataclass(frozen=True, slots=True)
class QuickOom:
    """The latest kill that counts, and until when it does."""

    container: str
    until: datetime


def early_threshold(vpa: Vpa, rules: UpdateRules, gates: FeatureGates) -> timedelta:
    """Return how early in its life a container must be killed to count."""
    policy = vpa.update_policy
    if policy is None or policy.evict_after_oom_seconds is None:
        return rules.quick_oom
    if FeatureGate.PER_VPA_CONFIG not in gates:
        return rules.quick_oom
    return timedelta(seconds=policy.evict_after_oom_seconds)


def quick_oom(
    pod: Pod, vpa: Vpa, rules: UpdateRules, gates: FeatureGates, now: datetime
) -> QuickOom | None:
    """Return the latest quick kill that counts now."""
    found: QuickOom | None = None
    for status in pod.statuses:
        for end in (status.last_terminated, status.terminated):
            if end is None or end.reason != _KILLED or _is_answered(end, status, pod, now):
                continue
            until = _counts_until(end, vpa, rules, gates)
            if until is None or now >= until or not _takes_part(status.name, pod, vpa):
                continue
            if found is None or until > found.until:
                found = QuickOom(status.name, until)
    return found


def _counts_until(
    end: Termination, vpa: Vpa, rules: UpdateRules, gates: FeatureGates
) -> datetime | None:
    """Return until when a kill counts, None if it was not early."""
    started, finished = end.started_at, end.finished_at
    threshold = early_threshold(vpa, rules, gates)
    if started is None or finished is None or finished - started >= threshold:
        return None
    return later(finished, max(threshold, rules.oom_stays_recent))


def _is_answered(end: Termination, status: ContainerStatus, pod: Pod, now: datetime) -> bool:
    """Whether the container has more memory since, or its kill is told of the future."""
    finished = believed(end.finished_at, now)
    if finished is None:
        return True
    raised = memory_raised(pod, status.name, now)
    return raised is not None and raised > finished and not _waits_for_memory(status, pod)


def _waits_for_memory(status: ContainerStatus, pod: Pod) -> bool:
    """Whether the memory that a container asks for was not given to it yet."""
    has = status.resources
    asked = next((item.resources for item in pod.containers if item.name == status.name), None)
    if has is None or asked is None:
        return False
    pairs = ((asked.request(MEMORY), has.request(MEMORY)), (asked.limit(MEMORY), has.limit(MEMORY)))
    return any(one and other and not are_same(MEMORY, one, other) for one, other in pairs)


def _takes_part(container: str, pod: Pod, vpa: Vpa) -> bool:
    observed = observed_containers(pod)
    if observed is not None and container not in observed:
        return False
    policy = vpa.policy(container)
    return policy is None or not policy.is_off
