"""A workload or a pod: its numbers, what is done about it and why, as values that pages show.

Strategy: everything is what `plumbline explain` tells; here it gets the form of tables. Amounts are
exact texts, which pages shorten.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from app.model.fields import Json
from app.page.core.charts import Chart
from app.page.core.copied_texts import CopiedText
from app.page.core.derivation import AmountDerivation
from app.page.core.past import WorkloadPast
from app.page.core.rows import WorkloadRow
from app.updater.core.decisions import Action

_DUE: Final = (Action.EVICT, Action.RESIZE, Action.UNBOOST)


@dataclass(frozen=True, slots=True)
class NumberLine:
    """A resource of a container: what is requested, and what is recommended."""

    container: str
    resource: str
    lowest: str = ""  # request of any pod
    highest: str = ""
    target: str = ""
    lower: str = ""
    upper: str = ""
    uncapped: str = ""
    capped_by: str = ""
    saving: str = ""
    shortage: str = ""
    confidence: float | None = None
    samples: int | None = None
    as_of: datetime | None = None


@dataclass(frozen=True, slots=True)
class CreationLine:
    """What a resource of a container is when a pod is created now, step by step."""

    container: str
    resource: str
    had: Mapping[str, str] = field(default_factory=dict)  # request and limit
    recommended: str = ""
    held: str = ""  # what scales by it, so that it stays
    caps: Sequence[str] = ()
    boost: str = ""
    gets: Mapping[str, str] = field(default_factory=dict)
    about_limit: str = ""


@dataclass(frozen=True, slots=True)
class Creation:
    """What a pod gets that is created now."""

    reason: str
    message: str
    advice: str = ""
    vpa: str = ""
    why: str = ""  # this VPA
    weaker: Sequence[str] = ()  # other VPAs, and why not they
    lines: Sequence[CreationLine] = ()
    silent: Sequence[str] = ()  # containers without a recommendation, with the reason


@dataclass(frozen=True, slots=True)
class PodTurn:
    """What is decided about a pod, from a moment on."""

    pod: str
    at: datetime
    action: str
    reason: str
    message: str
    role: str = ""  # what the pod is by a Lease, and why
    advice: str = ""
    until: datetime | None = None  # when it may change by itself
    next: PodTurn | None = None  # what follows then

    @property
    def is_due(self) -> bool:
        """Whether something is done in the next round."""
        return self.action in _DUE


@dataclass(frozen=True, slots=True)
class VpaCondition:
    """A condition of a VPA."""

    type: str
    status: str
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class Happening:
    """An event about a pod."""

    at: datetime
    reason: str
    message: str
    component: str = ""
    count: int = 1
    namespace: str = ""
    pod: str = ""


@dataclass(frozen=True, slots=True)
class WorkloadView:
    """A workload, or one of its pods."""

    namespace: str
    kind: str
    name: str
    vpa: str
    row: WorkloadRow | None  # its row in the fleet
    mode: str = ""
    selector: str = ""
    rivals: Sequence[str] = ()
    problems: Sequence[tuple[str, str, str]] = ()  # level, sentence, the command that helps
    nothing: Sequence[str] = ()  # why nothing is recommended
    numbers: Sequence[NumberLine] = ()
    creation: Creation | None = None
    reasons: Sequence[tuple[str, int]] = ()
    pods: Sequence[PodTurn] = ()
    turns: Sequence[PodTurn] = ()  # of a pod: now and later
    conditions: Sequence[VpaCondition] = ()
    events: Sequence[Happening] = ()
    charts: Sequence[Chart] = ()
    is_gone: bool = False
    has_no_pods: bool = False
    derivations: Sequence[AmountDerivation] = ()
    copied: Sequence[CopiedText] = ()
    past: WorkloadPast | None = None  # over a recording, under other settings
    unread: str = ""  # why objects cannot be read as they were written, so that something lacks


def workload_view(told: Json, row: WorkloadRow | None) -> WorkloadView:
    """Return the view of something that was explained."""
    creation = told.get("creation")
    return WorkloadView(
        namespace=told["namespace"],
        kind=told["kind"],
        name=told["name"],
        vpa=_vpa(told),
        row=row,
        mode=told.get("mode") or ((creation or {}).get("vpa") or {}).get("mode", ""),
        selector=told.get("selector", ""),
        rivals=told.get("rivals", ()),
        problems=[
            (one["level"], one["message"], one.get("fix", "")) for one in told.get("problems", ())
        ],
        nothing=[one["problem"] for one in told.get("recommendation", ()) if "problem" in one],
        numbers=[_number(one) for one in told.get("recommendation", ()) if "container" in one],
        creation=_creation(creation) if creation is not None else None,
        reasons=list(told.get("reasons", {}).items()),
        pods=[_turn(one["pod"], one) for one in told.get("pods", ())],
        turns=[_turn(told["name"], one) for one in told.get("updater", ())],
        conditions=[VpaCondition(**one) for one in told.get("conditions", ())],
        events=[_happening(told, one) for one in reversed(told.get("events", ()))],
        is_gone="gone" in told,
        has_no_pods="noPods" in told,
    )


def _vpa(told: Json) -> str:
    if told["kind"] == "VerticalPodAutoscaler":
        return str(told["name"])
    return str(told.get("vpa") or ((told.get("creation") or {}).get("vpa") or {}).get("name", ""))


def _number(one: Json) -> NumberLine:
    as_of = one.get("asOf")
    return NumberLine(
        container=one["container"],
        resource=one["resource"],
        lowest=one.get("lowestRequest", ""),
        highest=one.get("highestRequest", ""),
        target=one.get("target", ""),
        lower=one.get("lowerBound", ""),
        upper=one.get("upperBound", ""),
        uncapped=one.get("uncappedTarget", ""),
        capped_by=one.get("cappedBy", ""),
        saving=one.get("saving", ""),
        shortage=one.get("shortage", ""),
        confidence=one.get("confidence"),
        samples=one.get("samples"),
        as_of=datetime.fromisoformat(as_of) if as_of else None,
    )


def _creation(told: Json) -> Creation:
    vpa = told.get("vpa") or {}
    return Creation(
        reason=told["reason"],
        message=told["message"],
        advice=told.get("advice", ""),
        vpa=vpa.get("name", ""),
        why=vpa.get("why", ""),
        weaker=[f"{one['name']}: {one['why']}" for one in vpa.get("weaker", ())],
        lines=list(_creation_lines(told)),
        silent=[
            f"{one['name']}: {one['recommendation']}"
            for one in told.get("containers", ())
            if "recommendation" in one
        ],
    )


def _creation_lines(told: Json) -> Iterator[CreationLine]:
    for container in told.get("containers", ()):
        for resource, story in container.items():
            if isinstance(story, dict):
                yield CreationLine(
                    container=container["name"],
                    resource=resource,
                    had=story.get("had", {}),
                    recommended=story.get("recommended", ""),
                    held=story.get("held", ""),
                    caps=story.get("caps", ()),
                    boost=_boost(story.get("boost")),
                    gets=story.get("gets", {}),
                    about_limit=story.get("aboutLimit", ""),
                )


def _boost(found: Json | str | None) -> str:
    if found is None or isinstance(found, str):
        return found or ""
    held = f", held by {found['heldBy']}" if "heldBy" in found else ""
    return f"{found['from']} to {found['to']}{held}"


def _turn(pod: str, one: Json) -> PodTurn:
    until = one.get("until")
    return PodTurn(
        pod=pod,
        at=datetime.fromisoformat(one["at"]),
        action=one["action"],
        reason=one["reason"],
        message=one["message"],
        role=one.get("role", ""),
        advice=one.get("advice", ""),
        until=datetime.fromisoformat(until) if until else None,
        next=_turn(pod, one["next"]) if "next" in one else None,
    )


def _happening(told: Json, one: Json) -> Happening:
    return Happening(
        at=datetime.fromisoformat(one["at"]),
        reason=one["reason"],
        message=one["message"],
        component=one.get("component", ""),
        count=one.get("count", 1),
        namespace=told["namespace"],
        pod=told["name"],
    )
