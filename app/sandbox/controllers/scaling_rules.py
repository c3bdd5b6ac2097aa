"""How many replicas the usage of pods asks for, and how fast they may change, as the real ones do.

Strategy: usage is compared with the target over the pods that have a sample worth counting. The
others are left out at first; where the answer is another number of replicas they are put in as if
they weighed against it: without usage on the way up, with their whole request on the way down. If
that turns the answer round, nothing is changed. All amounts are whole thousandths, and shares whole
percents, as the real ones are, so that equal usage gives equal replicas.

Of the answers within the stabilisation window the most careful one counts; what is left
of the change is bounded by the policies of its direction, which look at the changes of their
period; at last minimum and maximum hold. Without `spec.behavior` there are no policies: a workload
at most doubles at once, or reaches four replicas.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum, auto
from typing import Final, NamedTuple

from app.model.fields import time_at
from app.ports import Json
from app.sandbox.objects import condition_of, is_deleted, is_ready, member

_WINDOW_SECONDS: Final = 300.0  # on the way down, unless told
_FEW_REPLICAS: Final = 4  # that are reached at once
_LONGEST_SECONDS: Final = 3600.0  # of windows and periods
_IN_RANGE: Final = "DesiredWithinRange", "the desired count is within the acceptable range"
_TOO_FAST: Final = "the desired replica count is {} faster than the maximum scale rate"
_BEYOND: Final = "the desired replica count is {} than the {} replica count"


class Dated(NamedTuple):
    """An answer, or a change of replicas, and when it was."""

    at: float
    replicas: int


@dataclass(slots=True)
class ScaleHistory:
    """What was answered and done about one workload."""

    answers: deque[Dated] = field(default_factory=deque)
    added: deque[Dated] = field(default_factory=deque)
    removed: deque[Dated] = field(default_factory=deque)

    def forget(self, now: float) -> None:
        """Forget what is older than any window."""
        for dated in (self.answers, self.added, self.removed):
            while dated and dated[0].at < now - _LONGEST_SECONDS:
                dated.popleft()


class ReplicaRange(NamedTuple):
    """The replicas that a workload may have."""

    least: int
    most: int


class LimitedReplicas(NamedTuple):
    """The replicas to have now, and whether something held them back."""

    replicas: int
    stabilized: str  # the reason, empty if nothing recent spoke against the answer
    is_limited: bool
    reason: str
    message: str


def bounded(
    behavior: Json | None,
    history: ScaleHistory,
    bounds: ReplicaRange,
    replicas: int,
    wanted: int,
    now: float,
) -> LimitedReplicas:
    """Return the replicas to have now, and remember the answer."""
    history.forget(now)
    steady, reason = _stabilized(behavior, history, replicas, wanted, now)
    history.answers.append(Dated(now, wanted))
    if behavior is None:
        up = max(2 * replicas, _FEW_REPLICAS)
        limit = _limit(bounds, steady, up, 0)
    elif steady > replicas:
        up = max(_furthest(behavior["scaleUp"], history, replicas, now, 1), replicas)
        limit = _limit(bounds._replace(least=0), steady, up, 0)
    elif steady < replicas:
        down = min(_furthest(behavior["scaleDown"], history, replicas, now, -1), replicas)
        limit = _limit(bounds._replace(most=replicas), steady, replicas, down)
    else:
        limit = steady, *_IN_RANGE
    return LimitedReplicas(
        limit[0], reason if steady != wanted else "", limit[0] != steady, *limit[1:]
    )


def _stabilized(
    behavior: Json | None, history: ScaleHistory, replicas: int, wanted: int, now: float
) -> tuple[int, str]:
    """Return the most careful answer of the window, and what it is called if it is another one."""
    if behavior is None:
        cutoff = now - _WINDOW_SECONDS
        recent = [dated.replicas for dated in history.answers if dated.at >= cutoff]
        return max([wanted, *recent]), "ScaleDownStabilized"
    is_up = wanted >= replicas
    seconds = behavior["scaleUp" if is_up else "scaleDown"].get("stabilizationWindowSeconds")
    cutoff = now - (_WINDOW_SECONDS if seconds is None else float(seconds))
    recent = [dated.replicas for dated in history.answers if dated.at > cutoff]
    if is_up:
        return min([wanted, *recent]), "ScaleUpStabilized"
    return max([wanted, *recent]), "ScaleDownStabilized"


def _limit(bounds: ReplicaRange, wanted: int, up: int, down: int) -> tuple[int, str, str]:
    """Return what is wanted within the bounds and the pace, and why it is something else."""
    if wanted > min(bounds.most, up):
        if bounds.most > up:
            return up, "ScaleUpLimit", _TOO_FAST.format("increasing")
        return bounds.most, "TooManyReplicas", _BEYOND.format("more", "maximum")
    if wanted < max(bounds.least, down):
        if bounds.least < down:
            return down, "ScaleDownLimit", _TOO_FAST.format("decreasing")
        return bounds.least, "TooFewReplicas", _BEYOND.format("less", "minimum")
    return wanted, *_IN_RANGE


def _furthest(rules: Json, history: ScaleHistory, replicas: int, now: float, sign: int) -> int:
    """Return how far the policies of a direction let replicas go."""
    select = rules["selectPolicy"]
    if select == "Disabled":
        return replicas
    found: list[int] = []
    for policy in rules["policies"]:
        cutoff = now - float(policy["periodSeconds"])
        added, removed = (
            sum(found.replicas for found in dated if found.at > cutoff)
            for dated in (history.added, history.removed)
        )
        before = replicas - added + removed
        if policy["type"] == "Pods":
            found.append(before + sign * policy["value"])
        elif sign > 0:
            found.append(math.ceil(before * (1 + policy["value"] / 100)))
        else:
            found.append(int(before * (1 - policy["value"] / 100)))
    return max(found) if (select == "Max") == (sign > 0) else min(found)


CPU_INITIALIZATION: Final = timedelta(minutes=5)
INITIAL_READINESS: Final = timedelta(seconds=30)


class UnknownUsage(Exception):
    """Why there is no answer."""


class PodStanding(Enum):
    """Whether the sample of a pod counts."""

    COUNTED = auto()
    UNREADY = auto()  # or its sample is from its start
    UNMEASURED = auto()
    IGNORED = auto()  # it is on its way out


class Sample(NamedTuple):
    """What a pod used."""

    milli: int
    at: datetime
    window: timedelta


class ScaledPod(NamedTuple):
    """A pod of the workload."""

    standing: PodStanding
    usage_milli: int = 0
    request_milli: int = 0  # needed for shares of it only


class Tolerances(NamedTuple):
    """By which part of the target usage may differ from it."""

    up: float = 0.1
    down: float = 0.1

    def allow(self, ratio: float) -> bool:
        """Whether usage is near enough to the target."""
        return 1.0 - self.down <= ratio <= 1.0 + self.up


class UsageTarget(NamedTuple):
    """What the pods are to use on average: a share of their requests, or an amount."""

    amount: int  # percent, or thousandths
    is_share: bool

    def current(self, pods: Sequence[ScaledPod]) -> int:
        """Return what they use, in the measure of the target."""
        used = sum(pod.usage_milli for pod in pods)
        if not self.is_share:
            return used // len(pods)
        requested = sum(pod.request_milli for pod in pods)
        if not requested:
            raise UnknownUsage("no metrics returned matched known pods")
        return used * 100 // requested

    def at_most(self, pod: ScaledPod) -> ScaledPod:
        """Return a pod with the usage that keeps it from being scaled away."""
        if not self.is_share:
            return pod._replace(usage_milli=self.amount)
        return pod._replace(usage_milli=pod.request_milli * max(100, self.amount) // 100)


class Answer(NamedTuple):
    """The replicas that a metric asks for, and what it showed."""

    replicas: int
    current: int  # in the measure of the target
    average_milli: int  # per pod that counts


def standing(pod: Json, resource: str, sample: Sample | None, now: datetime) -> PodStanding:
    """Return whether the sample of a pod counts."""
    phase = member(pod, "status.phase")
    if is_deleted(pod) or phase == "Failed":
        return PodStanding.IGNORED
    if phase == "Pending":
        return PodStanding.UNREADY
    if sample is None:
        return PodStanding.UNMEASURED
    if resource == "cpu" and _is_starting(pod, sample, now):
        return PodStanding.UNREADY
    return PodStanding.COUNTED


def _is_starting(pod: Json, sample: Sample, now: datetime) -> bool:
    """Whether a pod is not ready for the first time yet, or was not for all of the sample."""
    started = time_at(pod.get("status") or {}, "startTime", "")
    since = time_at(condition_of(pod, "Ready") or {}, "lastTransitionTime", "")
    if started is None or since is None:
        return True
    if started + CPU_INITIALIZATION > now:
        return not is_ready(pod) or sample.at < since + sample.window
    return not is_ready(pod) and started + INITIAL_READINESS > since


def wanted_replicas(
    target: UsageTarget, pods: Sequence[ScaledPod], replicas: int, tolerances: Tolerances
) -> Answer:
    """Return how many replicas the usage of pods asks for.

    Raises:
        UnknownUsage: no pod has a sample that counts, or what counts requests nothing.
    """
    if not pods:
        raise UnknownUsage("no pods returned by selector while calculating replica count")
    counted, unready, unmeasured = (
        [pod for pod in pods if pod.standing is one]
        for one in (PodStanding.COUNTED, PodStanding.UNREADY, PodStanding.UNMEASURED)
    )
    if not counted:
        raise UnknownUsage("did not receive metrics for targeted pods (pods might be unready)")
    current = target.current(counted)
    ratio = current / target.amount
    shown = Answer(replicas, current, sum(pod.usage_milli for pod in counted) // len(counted))
    unready = unready if ratio > 1.0 else []
    if not unready and not unmeasured:
        if tolerances.allow(ratio):
            return shown
        return shown._replace(replicas=math.ceil(ratio * len(counted)))
    if ratio < 1.0:
        others = [target.at_most(pod) for pod in unmeasured]
    elif ratio > 1.0:
        others = [pod._replace(usage_milli=0) for pod in (*unmeasured, *unready)]
    else:
        others = []
    everyone = [*counted, *others]
    careful = target.current(everyone) / target.amount
    proposed = math.ceil(careful * len(everyone))
    turns_round = (ratio < 1.0 < careful) or (careful < 1.0 < ratio)
    goes_wrong_way = (careful < 1.0 and proposed > replicas) or (
        careful > 1.0 and proposed < replicas
    )
    if tolerances.allow(careful) or turns_round or goes_wrong_way:
        return shown
    return shown._replace(replicas=proposed)
