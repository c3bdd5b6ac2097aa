"""Whether a pod needs an update, how urgently, and when that may change by itself.

Strategy: outside of its bounds, or after an OOM kill, a pod is updated at once; within them only
if the difference is worth it and the pod is not young. A kill counts if it came early in the
container's life and not long ago, until the container got more memory.

Each eviction requirement must be met by some container that the VPA controls; different
containers may meet different ones. A missing request counts as nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import IntEnum

from app.model.gates import FeatureGate, FeatureGates
from app.model.pods import ContainerStatus, Pod, Termination
from app.model.quantity import MEMORY
from app.model.times import believed, later
from app.model.vpa import ChangeRequirement, EvictionRequirement, Vpa
from app.updater.core import sentences
from app.updater.core.decisions import NEEDS, Pair, Reason
from app.updater.core.patching import memory_raised, observed_containers
from app.updater.core.resize_state import are_same
from app.updater.core.rules import UpdateRules

_KILLED = "OOMKilled"


@dataclass(frozen=True, slots=True)
class Deviation:
    """How far a pod is from its recommendation: as a whole, or only in what has to grow."""

    difference: float
    is_outside: bool
    pairs: tuple[Pair, ...] = ()  # that count
    has_several: bool = False  # the pod has several containers, so they are named

    @property
    def trigger(self) -> Pair | None:
        """What is outside of its bounds by most, None if nothing is."""
        return sentences.trigger(self.pairs) if self.is_outside else None


@dataclass(frozen=True, slots=True)
class NeedCheck:
    """Whether a pod needs an update, and why or why not."""

    reason: Reason
    message: str
    until: datetime | None = None  # when the answer may change without any event

    @property
    def is_needed(self) -> bool:
        """Whether the pod needs an update."""
        return self.reason in NEEDS


def no_need(deviation: Deviation, rules: UpdateRules) -> NeedCheck | None:
    """Return what holds for every pod with such a difference, unless it ran out of memory."""
    difference, pairs, named = deviation.difference, deviation.pairs, deviation.has_several
    if is_worth_it(difference, rules, at_once=deviation.is_outside):
        return None
    if (cause := deviation.trigger) is not None:
        message = sentences.hardly_outside(cause, rules.least_difference, named=named)
        return NeedCheck(Reason.NO_CHANGE, message)
    if difference == 0:
        return NeedCheck(Reason.NO_CHANGE, "within bounds and as recommended")
    message = sentences.too_small(pairs, rules.update_threshold, named=named)
    return NeedCheck(Reason.TOO_SMALL, message)


def is_worth_it(difference: float, rules: UpdateRules, *, at_once: bool) -> bool:
    """Whether a pod is updated for a difference.

    At once it is if it is outside of its bounds, or ran out of memory.
    """
    return difference > 0 and difference >= (
        rules.least_difference if at_once else rules.update_threshold
    )


def check_need(
    deviation: Deviation,
    oom: QuickOom | None,
    since: datetime | None,
    rules: UpdateRules,
    now: datetime,
) -> NeedCheck:
    """Decide where `no_need` cannot: after an OOM kill, or where age matters.

    `since` is when the pod started or was last resized.
    """
    pairs, named = deviation.pairs, deviation.has_several
    if oom is not None:
        if not is_worth_it(deviation.difference, rules, at_once=True):
            message = sentences.oom_killed_as_recommended(oom.container, rules.least_difference)
            return NeedCheck(Reason.NO_CHANGE, message)
        message = sentences.oom_killed(oom.container, pairs, named=named)
        return NeedCheck(Reason.OOM_KILLED, message, oom.until)
    if (cause := deviation.trigger) is not None:
        reason = Reason.NO_REQUEST if cause.current is None else Reason.OUTSIDE_BOUNDS
        return NeedCheck(reason, sentences.outside_bounds(cause, pairs, named=named))
    if since is None:
        return NeedCheck(Reason.NO_START_TIME, sentences.no_start_time(pairs, named=named))
    least_age = rules.lifetime_threshold
    old_enough = later(since, least_age)
    if now < old_enough:
        message = sentences.too_young(pairs, least_age, old_enough, named=named)
        return NeedCheck(Reason.TOO_YOUNG, message, old_enough)
    return NeedCheck(Reason.OUTDATED, sentences.outdated(pairs, least_age, named=named))


class Urgency(IntEnum):
    """The classes of the order, the most urgent first."""

    OUT_OF_MEMORY = 0
    FAR_TOO_SMALL = 1
    TOO_SMALL = 2
    TOO_BIG = 3


Rank = tuple[int, float, float, str, str]  # the least goes first


def rank(pod: Pod, deviation: Deviation, *, is_up: bool, is_quick_oom: bool) -> Rank:
    """Return what sorts pods that need an update: urgency, difference, age, name."""
    urgency = Urgency.TOO_BIG
    if is_quick_oom:
        urgency = Urgency.OUT_OF_MEMORY
    elif is_up:
        urgency = Urgency.FAR_TOO_SMALL if deviation.is_outside else Urgency.TOO_SMALL
    created = pod.created.timestamp() if pod.created else 0.0
    return urgency, -deviation.difference, created, pod.namespace, pod.name


@dataclass(frozen=True, slots=True)
class QuickOom:
    """The latest kill that counts, and until when it does."""

    container: str
    until: datetime


def latest_quick_oom(
    pod: Pod, vpa: Vpa, rules: UpdateRules, gates: FeatureGates, now: datetime
) -> QuickOom | None:
    """Return the latest quick kill that counts now."""
    latest: QuickOom | None = None
    for status in pod.statuses:
        for end in (status.last_terminated, status.terminated):
            if end is None or end.reason != _KILLED or _is_answered(end, status, pod, now):
                continue
            until = _counts_until(end, vpa, rules, gates)
            if until is None or now >= until or not _takes_part(status.name, pod, vpa):
                continue
            if latest is None or until > latest.until:
                latest = QuickOom(status.name, until)
    return latest


def _counts_until(
    end: Termination, vpa: Vpa, rules: UpdateRules, gates: FeatureGates
) -> datetime | None:
    """Return until when a kill counts, None if it was not early in the container's life."""
    started, finished = end.started_at, end.finished_at
    threshold, policy = rules.quick_oom_within, vpa.update_policy
    seconds = policy.evict_after_oom_seconds if policy is not None else None
    if seconds is not None and FeatureGate.PER_VPA_CONFIG in gates:
        threshold = timedelta(seconds=seconds)
    if started is None or finished is None or finished - started >= threshold:
        return None
    return later(finished, max(threshold, rules.oom_stays_recent))


def _is_answered(end: Termination, status: ContainerStatus, pod: Pod, now: datetime) -> bool:
    """Whether the container has more memory since, or the kill's time lies in the future."""
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


def unmet_requirement(vpa: Vpa, pairs: tuple[Pair, ...]) -> str:
    """Return the first requirement that no controlled container meets, empty if all are met."""
    policy = vpa.update_policy
    for requirement in policy.eviction_requirements if policy is not None else ():
        if not any(_meets(pair, requirement) for pair in pairs if pair.is_controlled):
            return f"no container meets {requirement_text(requirement)}"
    return ""


def _meets(pair: Pair, requirement: EvictionRequirement) -> bool:
    if pair.resource not in map(str.lower, requirement.resources):
        return False
    target, request = pair.target.milli, pair.current.milli if pair.current is not None else 0
    match requirement.change:
        case ChangeRequirement.HIGHER:
            return target > request
        case ChangeRequirement.LOWER:
            return target < request
        case _:
            return False


def requirement_text(requirement: EvictionRequirement) -> str:
    """Write a requirement for people."""
    return f"{requirement.change} of {' or '.join(requirement.resources) or 'nothing'}"
