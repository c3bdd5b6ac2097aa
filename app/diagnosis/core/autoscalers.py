"""VPAs: whose owners exist, which overlap, which have no pods, which learn nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Final

from app.admission.core.overlap import Disjointness
from app.diagnosis.core.comparisons import why_none
from app.diagnosis.core.facts import Facts, Finding, Level, Unasked, known
from app.diagnosis.core.members import VpaKey, members
from app.diagnosis.core.vpa_problems import EVERY_GATE, WrittenObjects, vpa_problems, vpa_schemas
from app.model.gates import RESIZES_PODS, read_version
from app.model.kinds import ObjectKey
from app.model.pods import Pod
from app.model.snapshot import NamespaceView
from app.model.update_modes import PAUSED_ANNOTATION, pausing_value
from app.model.vpa import Vpa
from app.model.workloads import NOTHING_LOOKED_UP, Failed, LookupResult, Workload
from app.recommender.core.status import ConditionType
from app.sizing.boost import unprobed_boosts
from app.sizing.matching import Match, match_pod

_PATIENCE: Final = timedelta(minutes=10)
_MOST_SHOWN: Final = 40  # characters of a value


def of_vpas(facts: Facts) -> Iterator[Finding]:
    """Judge the VPAs of all namespaces."""
    pods = known(facts.pods, "vpa")
    for problem in pods.problems:
        yield Finding(Level.WARNING, "object", problem)
    found, _ = members(pods.snapshot, pods.looked_up)
    flaws = [
        flaw
        for namespace, view in sorted(pods.snapshot.namespaces.items())
        for flaw in _of_namespace(
            view,
            pods.looked_up.get(namespace, NOTHING_LOOKED_UP),
            found,
            facts,
            paused=pods.snapshot.paused_namespaces.get(namespace),
        )
    ]
    written = WrittenObjects(
        pods.snapshot,
        pods.written,
        pods.looked_up,
        schemas=vpa_schemas(facts.wanted_definitions),
        gates=EVERY_GATE,
        disjointness=Disjointness.OFF,  # of overlaps and targets is told above
        are_all=False,
    )
    for key, finding in vpa_problems(written):
        namespace, name = key
        fix = finding.fix or f"kubectl -n {namespace} edit vpa {name}"
        flaws.append(replace(finding, fix=fix))
    yield from flaws
    count = sum(len(view.vpas) for view in pods.snapshot.namespaces.values())
    if not count and not pods.written:
        fix = "plumbline init -A | kubectl apply -f -"
        yield Finding(Level.NOTE, "vpa", "there is none, so no pod is sized", fix)
    elif not flaws:
        yield Finding(Level.FINE, "vpa", f"{count} in order")


def _of_namespace(
    view: NamespaceView,
    looked_up: Mapping[ObjectKey, LookupResult],
    members: Mapping[VpaKey, Sequence[Pod]],
    facts: Facts,
    *,
    paused: str | None,
) -> Iterator[Finding]:
    weaker = _overlaps(view, looked_up)
    yield from _pauses(view, paused)
    for name in sorted(view.vpas):
        vpa = view.vpas[name]
        pods = members.get((vpa.namespace, name), ())
        is_weaker = name in weaker
        if is_weaker and (not vpa.is_off or vpa.mentions_boost):
            told = f"VPA {weaker[name]} takes the same pods first; part them by spec.selector"
            yield _warning(vpa, told, "edit")
        yield from _boost_prerequisites(vpa, view, facts)
        level, problem = _target_problem(vpa, view, looked_up)
        if problem:
            yield _warning(vpa, problem, "edit", level)
        elif not pods and not is_weaker:
            yield _warning(vpa, "it has no pods", "describe", Level.NOTE)
        elif pods and _is_old(vpa, facts):
            if not vpa.recommendation:
                yield _warning(vpa, f"nothing is recommended: {why_none(vpa)}", "describe")
            elif not_provided := _not_provided(vpa):
                yield _warning(vpa, f"not all is recommended: {not_provided}", "describe")


def _pauses(view: NamespaceView, paused: str | None) -> Iterator[Finding]:
    """Tell of pauses of updates, which are easily forgotten."""
    updating = [vpa for _, vpa in sorted(view.vpas.items()) if not vpa.is_off]
    if paused is not None and updating:
        namespace = updating[0].namespace
        told = f"{_paused(paused)} none of its pods is evicted or resized"
        fix = f"kubectl annotate namespace {namespace} {PAUSED_ANNOTATION}-"
        yield Finding(Level.WARNING, f"namespace/{namespace}", told, fix)
    for vpa in updating:
        if (value := pausing_value(vpa.annotations)) is not None:
            told = f"{_paused(value)} none of its pods is evicted or resized"
            yield _warning(vpa, told, f"annotate vpa {vpa.name} {PAUSED_ANNOTATION}-")


def _paused(value: str) -> str:
    return f'paused by its annotation {PAUSED_ANNOTATION}: "{value[:_MOST_SHOWN]}":'


def _warning(vpa: Vpa, told: str, verb: str, level: Level = Level.WARNING) -> Finding:
    """Return a finding about a VPA; the command is a verb of kubectl alone, or all of it."""
    command = verb if " " in verb else f"{verb} vpa {vpa.name}"
    fix = f"kubectl -n {vpa.namespace} {command}"
    return Finding(level, f"vpa/{vpa.name} -n {vpa.namespace}", told, fix)


def _boost_prerequisites(vpa: Vpa, view: NamespaceView, facts: Facts) -> Iterator[Finding]:
    """Warn of boosts that cannot end, and note those that may end too early."""
    version = read_version("" if isinstance(facts.version, Unasked) else facts.version)
    if vpa.mentions_boost and version is not None and version < RESIZES_PODS:
        told = f"its boosts cannot end: Kubernetes {facts.version} resizes no running pods"
        yield _warning(vpa, told, "edit")
    if names := unprobed_boosts(vpa, view):
        told = f"{', '.join(names)}: without a readiness or startup probe boosts may end too early"
        target = vpa.target.key if vpa.target is not None else ""
        fix = f"kubectl -n {vpa.namespace} edit {str(target).lower()}"
        yield Finding(Level.WARNING, f"vpa/{vpa.name} -n {vpa.namespace}", told, fix)


def _not_provided(vpa: Vpa) -> str:
    """Return what the recommender says has no target, empty if all has."""
    found = (one for one in vpa.conditions if one.type == ConditionType.RECOMMENDATION_PROVIDED)
    return next((one.message for one in found if one.status == "False"), "")


def _is_old(vpa: Vpa, facts: Facts) -> bool:
    return vpa.created is None or facts.now - vpa.created > _PATIENCE


def _target_problem(
    vpa: Vpa, view: NamespaceView, looked_up: Mapping[ObjectKey, LookupResult]
) -> tuple[Level, str]:
    if vpa.target is None:
        return Level.WARNING, "it names no workload"
    key = vpa.target.key
    found = view.workloads.get(key) or looked_up.get(key)
    if isinstance(found, Workload):
        owner = found.owner
        if owner is None:
            return Level.FINE, ""
        return Level.WARNING, f"{key} belongs to {owner.key}; name that in spec.targetRef"
    if isinstance(found, Failed):
        return Level.UNKNOWN, f"{key} cannot be looked up: {found.message}"
    return Level.WARNING, f"{key} does not exist, or cannot be scaled"


def _overlaps(
    view: NamespaceView, looked_up: Mapping[ObjectKey, LookupResult]
) -> Mapping[str, str]:
    """Return the VPAs that come second for some pod, each with the one that comes first."""
    found: dict[str, str] = {}
    for pod in view.pods.values():
        match = match_pod(pod, view, looked_up, boosts=True, with_off=True)
        if isinstance(match, Match) and match.vpa is not None:
            for weaker in match.weaker:
                found.setdefault(weaker.name, match.vpa.name)
    return found
