"""The explanation of a verdict on a pod, as JSON.

Strategy: each resource is explained in the order of the decision: what the container had, what
was recommended, what capped it, how it was boosted, what it gets, and how its limit came about.
What did not happen is listed with its reason, or left out.
"""

from __future__ import annotations

from app.admission.core.mutate import ContainerVerdict, PodVerdict
from app.model.fields import Json
from app.model.pods import Container
from app.model.quantity import CPU, SIZED, Quantity, in_order
from app.model.vpa import Vpa
from app.sizing.boost import Boosted, BoostRefusal, Ceiling
from app.sizing.capping import limits_follow
from app.sizing.matching import Match

_CEILINGS = {
    Ceiling.FLAG: "--max-allowed-cpu-boost",
    Ceiling.OWN_LIMIT: "the container's own limit",
    Ceiling.CONTAINER_LIMIT_RANGE: "the LimitRange for containers",
    Ceiling.POD_LIMIT_RANGE: "the LimitRange for pods",
    Ceiling.POD_RESOURCES: "the pod's own resources",
}
_REFUSALS = {
    BoostRefusal.UNKNOWN_TYPE: "its type is unknown",
    BoostRefusal.NOTHING_TO_BOOST: "the container asks for no cpu",
    BoostRefusal.NO_RISE: "it would not raise the request",
}


def explain(verdict: PodVerdict) -> Json:
    """Return why a pod gets what it gets, as JSON."""
    explanation: Json = {"reason": str(verdict.reason), "message": verdict.message}
    incoming, match = verdict.incoming, verdict.match
    if incoming is not None:
        explanation["pod"] = f"{incoming.namespace}/{incoming.title}"
    if match is not None and match.owner is not None:
        explanation["owner"] = str(match.owner.key)
    if incoming is None or match is None or match.vpa is None:
        return explanation
    explanation["vpa"] = _chosen(match, match.vpa)
    explanation["containers"] = [
        _container(container, container_verdict, match.vpa)
        for container, container_verdict in zip(
            incoming.pod().containers, verdict.containers, strict=True
        )
    ]
    return explanation


def _chosen(match: Match, vpa: Vpa) -> Json:
    explanation = _named(vpa)
    if not match.weaker:
        return explanation | {"why": "the only VPA that matches the pod"}
    explanation["why"] = f"it is the oldest {'that boosts it' if vpa.is_off else 'active one'}"
    explanation["weaker"] = [
        _named(other) | {"why": _weakness(other, vpa)} for other in match.weaker
    ]
    return explanation


def _named(vpa: Vpa) -> Json:
    return {
        "name": vpa.name,
        "mode": vpa.mode,
        "created": vpa.created.isoformat() if vpa.created is not None else None,
    }


def _weakness(other: Vpa, chosen: Vpa) -> str:
    if other.is_off and not chosen.is_off:
        return "it is in mode Off and would only boost"
    return "it is as old, and later by name" if other.created == chosen.created else "it is younger"


def _container(container: Container, verdict: ContainerVerdict, vpa: Vpa) -> Json:
    explanation: Json = {"name": container.name}
    if (silence := _silence(verdict, vpa)) is not None:
        explanation["recommendation"] = silence
    spec, amounts = container.resources, verdict.recommendation
    named = {*SIZED, *(amounts.target if amounts is not None else ())}
    for resource in in_order(named):
        story: Json = {}
        _tell(story, "had", spec.request(resource), spec.limit(resource))
        if amounts is not None and resource in amounts.recommended:
            story["recommended"] = str(amounts.recommended[resource])
        caps = [cap for cap in amounts.caps if cap.resource == resource] if amounts else []
        if (metric := vpa.held_by(container.name, resource)) is not None:
            story["held"] = metric.sentence
        if caps:
            story["caps"] = [f"{cap.by}: {cap.amount}" for cap in caps]
        if resource == CPU and (boost := _boost(verdict, vpa)) is not None:
            story["boost"] = boost
        request, limit = verdict.requests.get(resource), verdict.limits.get(resource)
        _tell(story, "gets", request, limit)
        if request is not None:
            story["aboutLimit"] = _limit(container, vpa, resource, limit)
        if story:
            explanation[resource] = story
    return explanation


def _silence(verdict: ContainerVerdict, vpa: Vpa) -> str | None:
    """Return why a recommendation is not there or not applied, None if it is."""
    policy = vpa.policy(verdict.container)
    if vpa.is_off:
        return "the VPA is in mode Off"
    if vpa.recommendation is None:
        return "the VPA has no recommendation yet"
    if policy is not None and policy.is_off:
        return "the container's policy is in mode Off"
    if verdict.recommendation is None:
        return "the VPA has no recommendation for this container"
    if verdict.recommendation.is_own:
        return None
    if verdict.sizes.requests:
        return "the VPA has no recommendation for this container, which makes room for others"
    return "the VPA has no recommendation for this container, and the pod has room for it"


def _tell(story: Json, word: str, request: Quantity | None, limit: Quantity | None) -> None:
    amounts = {"request": request, "limit": limit}
    if texts := {name: str(amount) for name, amount in amounts.items() if amount is not None}:
        story[word] = texts


def _boost(verdict: ContainerVerdict, vpa: Vpa) -> Json | str | None:
    match verdict.boost_outcome:
        case Boosted() as boost:
            return _boosted(boost)
        case Ceiling() as ceiling:
            return f"refused: {_CEILINGS[ceiling]} leaves no room"
        case BoostRefusal() as refusal:
            return f"refused: {_REFUSALS[refusal]}"
        case _:
            asked = vpa.boost(verdict.container)
            return None if asked is None else "refused: the feature gate is off"


def _boosted(boost: Boosted) -> Json:
    explanation = {"from": str(boost.base), "wanted": str(boost.wanted), "to": str(boost.request)}
    if boost.least > boost.base:
        explanation["atLeast"] = f"{boost.least}, its own request"
    if boost.ceiling is not None:
        explanation["heldBy"] = _CEILINGS[boost.ceiling]
    return explanation


def _limit(container: Container, vpa: Vpa, resource: str, limit: Quantity | None) -> str:
    """Return how a limit came about, or why none was written."""
    spec = container.resources
    had, asked = spec.limit(resource), spec.request(resource)
    if limit is None:
        if not limits_follow(vpa.policy(container.name)):
            return "left as it is: the policy does not control limits"
        if resource not in SIZED:
            return "left as it is: only those of cpu and memory follow"
        is_limited = had is not None and not had.is_zero
        return "left as it is: the request is zero" if is_limited else "the container has none"
    if had is None or had.is_zero:
        return "follows from the usual one of the LimitRange"
    if asked is None or asked.is_zero or asked.milli == had.milli:
        return "equals the request"
    return "keeps its ratio to the request"
