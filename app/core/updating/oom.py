"""Containers that ran out of memory soon after their start: such pods need help at once.

Strategy: a kill counts if it came early in the container's life and not long ago. One that was
acted upon already does not count again, for an in-place change leaves its trace standing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from app.core.updating.moments import later
from app.core.updating.numbers import observed_containers
from app.core.updating.rules import UpdateRules
from app.model.gates import Gate, Gates
from app.model.pods import ContainerStatus, Pod, Termination
from app.model.vpa import Vpa

_KILLED = "OOMKilled"


@dataclass(frozen=True, slots=True)
class QuickOom:
    """The latest kill that counts, and until when it does."""

    container: str
    until: datetime


def early_threshold(vpa: Vpa, rules: UpdateRules, gates: Gates) -> timedelta:
    """Return how early in its life a container must be killed to count."""
    policy = vpa.update_policy
    if policy is None or policy.evict_after_oom_seconds is None:
        return rules.quick_oom
    if Gate.PER_VPA_CONFIG not in gates:
        return rules.quick_oom
    return timedelta(seconds=policy.evict_after_oom_seconds)


def quick_oom(
    pod: Pod, vpa: Vpa, rules: UpdateRules, gates: Gates, changed: datetime | None, now: datetime
) -> QuickOom | None:
    """Return the latest quick kill that counts now; `changed` is when the pod last was resized."""
    found: QuickOom | None = None
    for status in pod.statuses:
        if status.last_terminated is None and status.terminated is None:
            continue
        for end in _kills(status, rules):
            until = _counts_until(end, vpa, rules, gates, changed)
            if until is None or now >= until or not _takes_part(status.name, pod, vpa):
                continue
            if found is None or until > found.until:
                found = QuickOom(status.name, until)
    return found


def _kills(status: ContainerStatus, rules: UpdateRules) -> Iterator[Termination]:
    ends = [status.last_terminated]
    if not rules.upstream.oom_from_last_state:
        ends.append(status.terminated)
    return (end for end in ends if end is not None and end.reason == _KILLED)


def _counts_until(
    end: Termination, vpa: Vpa, rules: UpdateRules, gates: Gates, changed: datetime | None
) -> datetime | None:
    """Return until when a kill counts, None if it was not early or was acted upon."""
    started, finished = end.started_at, end.finished_at
    threshold = early_threshold(vpa, rules, gates)
    if started is None or finished is None or finished - started >= threshold:
        return None
    if rules.upstream.oom_from_last_state:
        return later(finished, threshold)
    if changed is not None and changed > finished:
        return None
    return later(finished, max(threshold, rules.oom_stays_recent))


def _takes_part(container: str, pod: Pod, vpa: Vpa) -> bool:
    observed = observed_containers(pod)
    if observed is not None and container not in observed:
        return False
    policy = vpa.policy(container)
    return policy is None or not policy.is_off
