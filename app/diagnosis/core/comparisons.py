"""How far requests are from what is recommended, for each container of each VPA.

Strategy: one line a resource. What pods request now is what their kubelets report; where there
is no pod yet it is what the workload's template says. The gap is summed over all pods: above
zero they request more than is recommended, which could be saved, below it they are short.
Checkpoints say on how much history a recommendation rests.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

import numpy as np

from app.diagnosis.core.members import VpaKey
from app.model.errors import BadObject
from app.model.fields import Json, Object
from app.model.kinds import Condition, ObjectKey
from app.model.pods import Pod, Resources
from app.model.quantity import ZERO, Quantity, in_order
from app.model.snapshot import NamespaceView, Snapshot
from app.model.vpa import ContainerRecommendation, Vpa
from app.recommender.core.checkpoints import Checkpoint, read_checkpoint
from app.recommender.core.estimation import confidence
from app.recommender.core.moments import moment_or_none

ContainerKey = tuple[str, str, str]  # namespace, VPA, container

_FULL: Final = timedelta(days=1)  # of history is a confidence of one, unless a flag says else

_PROVIDED = "RecommendationProvided"


@dataclass(frozen=True, slots=True)
class LearnedHistory:
    """What was learned of a container, and when."""

    samples: int
    updated: datetime | None
    confidence: float  # days of history, by age and by number of samples


def histories(items: Iterable[Object]) -> Mapping[ContainerKey, LearnedHistory]:
    """Return the history of each container; a checkpoint that cannot be read tells nothing."""
    found = {}
    for item in items:
        try:
            checkpoint = read_checkpoint(item)
        except BadObject:
            continue
        key = checkpoint.namespace, checkpoint.vpa, checkpoint.container
        found[key] = learned_history(checkpoint)
    return found


def learned_history(checkpoint: Checkpoint) -> LearnedHistory:
    """Return what a checkpoint says of its container's history."""
    first, last, count = (
        np.array([value], dtype=np.int64)
        for value in (checkpoint.first_ns, checkpoint.last_ns, checkpoint.count)
    )
    return LearnedHistory(
        checkpoint.count,
        moment_or_none(checkpoint.updated_ns),
        float(confidence(first, last, count, _FULL)[0]),
    )


@dataclass(frozen=True, slots=True)
class UsageAnswer:
    """VPAs that do not exist with what they would recommend, and on what that rests."""

    vpas: Sequence[Vpa] = ()
    histories: Mapping[ContainerKey, LearnedHistory] = field(default_factory=dict)
    notes: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Gap:
    """What all pods together request beyond the target; below zero they are short."""

    amount: Quantity
    requested: Quantity  # by all of them

    @property
    def share(self) -> float | None:
        """The amount as a share of what they request now, None if that is nothing."""
        return self.amount.nano / self.requested.nano if self.requested.nano else None

    @property
    def size(self) -> Quantity:
        """The amount without its sign."""
        return Quantity(abs(self.amount.nano), self.amount.format)


@dataclass(frozen=True, slots=True)
class RequestComparison:
    """A resource of a container: what is requested and what is recommended."""

    namespace: str
    vpa: str
    mode: str
    workload: str
    pods: int
    container: str = ""  # empty: nothing is recommended for any
    resource: str = ""
    lowest: Quantity | None = None  # request of any pod; None: it has none
    highest: Quantity | None = None
    target: Quantity | None = None
    lower: Quantity | None = None
    upper: Quantity | None = None
    uncapped: Quantity | None = None
    capped_by: str = ""  # the field of the policy that made the target what it is
    gap: Gap | None = None  # None: there is no pod
    confidence: float | None = None  # days of history; None: not known
    samples: int | None = None
    as_of: datetime | None = None  # the latest sign that the recommendation is kept up
    problem: str = ""  # why nothing is recommended
    held_by: str = ""  # what scales by it, so that it is not changed
    target_key: ObjectKey | None = None  # the workload
    has_vpa: bool = True  # else it is what a VPA of this name would recommend

    @property
    def is_short(self) -> bool:
        """Whether pods request less than is recommended."""
        return self.gap is not None and self.gap.amount.nano < 0

    @property
    def is_outside(self) -> bool:
        """Whether some pod requests less than its lower bound or more than its upper one."""
        low, high = self.lowest or ZERO, self.highest or ZERO
        return (self.lower is not None and low < self.lower) or (
            self.upper is not None and high > self.upper
        )


def comparisons(
    snapshot: Snapshot,
    members: Mapping[VpaKey, Sequence[Pod]],
    histories: Mapping[ContainerKey, LearnedHistory],
) -> Iterator[RequestComparison]:
    """Yield all comparisons, by namespace, VPA, container and resource."""
    for namespace in sorted(snapshot.namespaces):
        view = snapshot.of(namespace)
        for name in sorted(view.vpas):
            pods = members.get((namespace, name), ())
            yield from vpa_comparisons(view.vpas[name], pods, view, histories)


def vpa_comparisons(
    vpa: Vpa,
    pods: Sequence[Pod],
    view: NamespaceView,
    histories: Mapping[ContainerKey, LearnedHistory],
) -> Iterator[RequestComparison]:
    """Yield the comparisons of some pods with their VPA, by container and resource."""
    workload = view.workloads.get(vpa.target.key) if vpa.target is not None else None
    template = workload.template if workload is not None else ()
    base = RequestComparison(
        vpa.namespace,
        vpa.name,
        vpa.mode,
        _workload(vpa),
        len(pods),
        as_of=_provided(vpa),
        target_key=vpa.target.key if vpa.target is not None else None,
    )
    if not vpa.recommendation:
        yield replace(base, problem=why_none(vpa))
    for found in sorted(vpa.recommendation or (), key=lambda one: one.container):
        running = [
            resources
            for pod in pods
            if (resources := pod.current_resources.get(found.container)) is not None
        ]
        written = [one.resources for one in template if one.name == found.container]
        history = histories.get((vpa.namespace, vpa.name, found.container))
        for resource in in_order(found.target):
            one = _comparison(base, found, resource, running, written)
            one = replace(one, capped_by=_capped_by(vpa, found, resource))
            if (metric := vpa.held_by(found.container, resource)) is not None:
                one = replace(one, held_by=metric.by, gap=None)  # nothing is to be saved
            yield one if history is None else _with_history(one, history)


def _comparison(
    base: RequestComparison,
    found: ContainerRecommendation,
    resource: str,
    running: Sequence[Resources],
    written: Sequence[Resources],
) -> RequestComparison:
    """Compare what pods request, or without pods what the template does."""
    requests = [one.request(resource) for one in running or written]
    known = [request for request in requests if request is not None]
    target = found.target[resource]
    return replace(
        base,
        container=found.container,
        resource=resource,
        lowest=min(known) if known and len(known) == len(requests) else None,
        highest=max(known, default=None),
        target=target,
        lower=found.lower_bound.get(resource),
        upper=found.upper_bound.get(resource),
        uncapped=found.uncapped_target.get(resource),
        gap=_gap(requests, target) if running else None,
    )


def _with_history(one: RequestComparison, history: LearnedHistory) -> RequestComparison:
    moments = filter(None, (one.as_of, history.updated))
    as_of = max(moments, default=None)
    return replace(one, confidence=history.confidence, samples=history.samples, as_of=as_of)


def _capped_by(vpa: Vpa, found: ContainerRecommendation, resource: str) -> str:
    target, policy = found.target[resource], vpa.policy(found.container)
    if policy is None or found.uncapped_target.get(resource, target) == target:
        return ""
    words = {"minAllowed": policy.min_allowed, "maxAllowed": policy.max_allowed}
    return next((word for word, caps in words.items() if (caps or {}).get(resource) == target), "")


def _gap(requests: Sequence[Quantity | None], target: Quantity) -> Gap:
    now = sum(request.nano for request in requests if request is not None)
    nano = now - target.nano * len(requests)
    return Gap(Quantity(nano, target.format), Quantity(now, target.format))


def _workload(vpa: Vpa) -> str:
    return str(vpa.target.key) if vpa.target is not None else ""


def _provided(vpa: Vpa) -> datetime | None:
    found = next((one for one in vpa.conditions if one.type == _PROVIDED), None)
    return found.last_transition if found is not None else None


def why_none(vpa: Vpa) -> str:
    """Say why a VPA has no recommendation, as far as its conditions tell."""
    said = [
        one.message or one.reason
        for one in vpa.conditions
        if (one.message or one.reason)
        and one.status == ("False" if one.type == _PROVIDED else "True")
    ]
    if said:
        return "; ".join(dict.fromkeys(said))
    return (
        "no recommender has looked at it yet" if not vpa.conditions else "nothing was learned yet"
    )


# --- as JSON: exact amounts, and nothing for what is not there


def comparison_json(one: RequestComparison) -> Json:
    """Return a comparison as JSON."""
    gap = one.gap
    word = "shortage" if one.is_short else "saving"
    told: Json = {
        "namespace": one.namespace,
        "vpa": one.vpa if one.has_vpa else None,
        "mode": one.mode if one.has_vpa else None,
        "workload": one.workload,
        "pods": one.pods,
        "container": one.container or None,
        "resource": one.resource or None,
        "lowestRequest": _exact(one.lowest),
        "highestRequest": _exact(one.highest),
        "target": _exact(one.target),
        "lowerBound": _exact(one.lower),
        "upperBound": _exact(one.upper),
        "uncappedTarget": _exact(one.uncapped),
        "cappedBy": one.capped_by or None,
        "heldBy": one.held_by or None,
        word: _exact(gap.size) if gap is not None else None,
        "share": None if gap is None or gap.share is None else round(abs(gap.share), 6),
        "confidence": None if one.confidence is None else round(one.confidence, 6),
        "samples": one.samples,
        "asOf": one.as_of and one.as_of.isoformat(),
        "problem": one.problem or None,
    }
    return without_gaps(told)


def _exact(quantity: Quantity | None) -> str | None:
    return None if quantity is None else str(quantity)


def vpa_json(vpa: Vpa) -> Json:
    """Return what a VPA asks for, and what its conditions say."""
    return without_gaps(
        {
            "kind": "VerticalPodAutoscaler",
            "namespace": vpa.namespace,
            "name": vpa.name,
            "mode": vpa.mode,
            "workload": _workload(vpa) or None,
            "selector": str(vpa.selector) if vpa.selector is not None else None,
            "created": vpa.created.isoformat() if vpa.created is not None else None,
            "recommenders": list(vpa.recommenders) or None,
            "conditions": [_condition_json(one) for one in vpa.conditions],
        }
    )


def _condition_json(one: Condition) -> Json:
    words = {"type": one.type, "status": one.status, "reason": one.reason, "message": one.message}
    return {key: value for key, value in words.items() if value}


def without_gaps(told: Json) -> Json:
    """Return a JSON object without the members that have no value."""
    return {key: value for key, value in told.items() if value is not None}
