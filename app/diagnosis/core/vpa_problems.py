"""What is wrong with VPAs that were written: what is refused, what is not there, what conflicts.

Strategy: the schema is that of the CRD and the verdict that of the webhook's core, so that nothing
passes here that a cluster refuses. The rest compares a VPA with the other objects: its target, the
containers that it names, LimitRanges, and HorizontalPodAutoscalers of the same workload.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from app.admission.core.overlap import Disjointness
from app.admission.core.validate import Phase, review_vpa
from app.diagnosis.core.attention import role_unknown
from app.diagnosis.core.facts import Finding, Level
from app.diagnosis.core.members import FoundByNamespace, VpaKey
from app.model.fields import Json, Object
from app.model.gates import FeatureGate, FeatureGates
from app.model.kinds import ObjectKey
from app.model.pods import Pod
from app.model.quantity import SIZED, Quantities, Quantity
from app.model.review import AdmissionRequest, GroupVersionWord
from app.model.role_leaders import RoleProblem
from app.model.role_leases import role_lease_of
from app.model.scalers import HPA_KIND, HorizontalScaler, ScaledMetric, held_sentence
from app.model.selectors import Selector
from app.model.snapshot import NamespaceView, Snapshot
from app.model.text import nearest
from app.model.vpa import VPA_GROUP, VPA_KIND, ContainerPolicy, Vpa
from app.model.workloads import Absent, Failed, LookupResult, Workload
from app.sandbox.schema import prune, schema_problems
from app.sizing.horizontal import scale_point, way_out

_KIND: Final = GroupVersionWord(VPA_GROUP, "v1", VPA_KIND)
_RESOURCE: Final = GroupVersionWord(VPA_GROUP, "v1", "verticalpodautoscalers")
_POLICIES: Final = "spec.resourcePolicy.containerPolicies"

EVERY_GATE: Final = FeatureGates(frozenset(FeatureGate))  # where it is not known which are on


@dataclass(frozen=True, slots=True)
class WrittenObjects:
    """VPAs as they were written, and all that they are compared with."""

    snapshot: Snapshot
    vpas: Sequence[Json] = ()
    looked_up: FoundByNamespace = field(default_factory=dict)
    schemas: Mapping[str, Json] = field(default_factory=dict)  # of VPAs, by version
    gates: FeatureGates = field(default_factory=FeatureGates)
    disjointness: Disjointness = Disjointness.ENFORCE
    are_all: bool = True  # whether a workload that is not among them does not exist


class _Flaw(NamedTuple):
    """A finding about a VPA."""

    level: Level
    message: str
    fix: str = ""


def vpa_schemas(definitions: Iterable[Json]) -> Mapping[str, Json]:
    """Return the schemas of VPAs by version, from CustomResourceDefinitions."""
    return {
        version["name"]: version["schema"]["openAPIV3Schema"]
        for item in definitions
        if item["spec"]["names"]["kind"] == VPA_KIND
        for version in item["spec"]["versions"]
        if version["served"]
    }


def vpa_key(item: Object) -> VpaKey:
    """Return namespace and name of a VPA as it was written."""
    metadata = item.get("metadata")
    found = metadata if isinstance(metadata, dict) else {}
    return str(found.get("namespace") or "default"), str(found.get("name") or "")


def vpa_problems(written: WrittenObjects) -> Iterator[tuple[VpaKey, Finding]]:
    """Yield what is wrong with each VPA, the most serious first, with the VPA's key."""
    before: dict[str, list[Vpa]] = {}
    for item in written.vpas:
        key = namespace, name = vpa_key(item)
        siblings = before.setdefault(namespace, [])
        found = list(_of_item(item, siblings, written))
        vpa = written.snapshot.of(namespace).vpas.get(name)
        if vpa is not None:
            siblings.append(vpa)
            found += _beside_others(vpa, written)
        about = f"vpa/{name} -n {namespace}"
        for level in (Level.SERIOUS, Level.WARNING, Level.UNKNOWN, Level.NOTE):
            for one in dict.fromkeys(one for one in found if one.level is level):
                yield key, Finding(level, about, one.message, one.fix)


# --- what a cluster would refuse, or warn of


def _of_item(item: Json, siblings: Sequence[Vpa], written: WrittenObjects) -> Iterator[_Flaw]:
    namespace, name = vpa_key(item)
    _, _, version = str(item.get("apiVersion")).rpartition("/")
    schema = written.schemas.get(version)
    if schema is None and written.schemas:
        known = " or ".join(f"{VPA_GROUP}/{one}" for one in written.schemas)
        yield _Flaw(
            Level.SERIOUS, f'apiVersion: "{item.get("apiVersion")}" is not served, but {known}'
        )
    if not name:
        yield _Flaw(Level.SERIOUS, "metadata.name: Required value")
    verdict = review_vpa(
        AdmissionRequest(
            uid="",
            kind=_KIND,
            resource=_RESOURCE,
            subresource="",
            operation="CREATE",
            namespace=namespace,
            name=name,
            dry_run=True,
            new=item,
            old=None,
        ),
        written.gates,
        siblings,
        written.disjointness,
        phase=Phase.VALIDATING,
        view=written.snapshot.of(namespace),
    )
    refused = {error.path: str(error) for error in verdict.errors}
    for problem in schema_problems(schema or {}, _without_status(item), None):
        if problem.field not in refused:
            yield _Flaw(Level.SERIOUS, str(problem))
    for path in _unknown(schema, item) if schema is not None else ():
        yield _Flaw(Level.SERIOUS, path)
    yield from (_Flaw(Level.SERIOUS, told) for told in map(str, verdict.errors))
    yield from (_Flaw(Level.WARNING, told) for told in verdict.warnings)


def _without_status(item: Json) -> Json:
    return {key: value for key, value in item.items() if key != "status"}


def _unknown(schema: Json, item: Json) -> Iterator[str]:
    """Yield the fields that a schema does not know, which kubectl refuses too."""
    spec = item.get("spec")
    pruned = deepcopy({"spec": spec})
    prune(schema, pruned)
    for path, name, known in _missing(spec, pruned.get("spec"), "spec", schema):
        yield f'{path}.{name}: unknown field "{name}"{nearest(name, known)}'


def _missing(
    before: object, after: object, path: str, schema: Json
) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Yield path, name and known names of each member that is not there any more."""
    if isinstance(before, list) and isinstance(after, list):
        for index, (one, other) in enumerate(zip(before, after, strict=True)):
            yield from _missing(one, other, f"{path}[{index}]", schema)
    if not isinstance(before, dict) or not isinstance(after, dict):
        return
    for name, value in before.items():
        if name in after:
            yield from _missing(value, after[name], f"{path}.{name}", schema)
        else:
            yield path, name, _known_names(schema, path)


def _known_names(schema: Json, path: str) -> tuple[str, ...]:
    at = schema
    for part in path.split("."):
        at = at.get("properties", {}).get(part.partition("[")[0], {})
        at = at.get("items", at)
    return tuple(at.get("properties", {}))


# --- what it does not fit


def _beside_others(vpa: Vpa, written: WrittenObjects) -> Iterator[_Flaw]:
    view = written.snapshot.of(vpa.namespace)
    if written.are_all:
        yield from _target(vpa, view, written)
    yield from _containers(vpa, view)
    yield from _limit_ranges(vpa, view)
    yield from _scaled(vpa, view, written)
    yield from _roles_unknown(vpa)


def _target(vpa: Vpa, view: NamespaceView, written: WrittenObjects) -> Iterator[_Flaw]:
    if vpa.target is None or not vpa.target.name or not vpa.target.kind:
        return  # of which the webhook tells
    key = vpa.target.key
    found = _found(key, vpa.namespace, written)
    if isinstance(found, Failed):
        yield _Flaw(Level.UNKNOWN, f"spec.targetRef: {key} cannot be looked up: {found.message}")
    elif found is None or isinstance(found, Absent):
        names = {f"{one.kind}/{one.name}" for one in view.workloads}
        others = (
            where for where, one in written.snapshot.namespaces.items() if key in one.workloads
        )
        elsewhere = next((f"; it is in namespace {where}" for where in others), "")
        told = f"spec.targetRef: {key} is not among the objects of namespace {vpa.namespace}"
        yield _Flaw(Level.SERIOUS, told + (elsewhere or nearest(str(key), names)))
    elif found.owner is not None:
        told = f"spec.targetRef: {key} belongs to {found.owner.key}; name that"
        yield _Flaw(Level.WARNING, told)


def _found(key: ObjectKey, namespace: str, written: WrittenObjects) -> LookupResult | None:
    view = written.snapshot.of(namespace)
    return view.workloads.get(key) or written.looked_up.get(namespace, {}).get(key)


def _workload(key: ObjectKey, namespace: str, written: WrittenObjects) -> Workload | None:
    found = _found(key, namespace, written)
    return found if isinstance(found, Workload) else None


def _containers(vpa: Vpa, view: NamespaceView) -> Iterator[_Flaw]:
    """Look for policies of containers that neither the template nor any pod has."""
    known = _container_names(vpa, view)
    for index, policy in enumerate(vpa.policies or ()):
        if not known or policy.container in ("*", "", *known):
            continue
        told = f"{_POLICIES}[{index}].containerName: no container of the target is called "
        told += f'"{policy.container}"'
        meant = nearest(policy.container, known)
        if policy.is_off and not meant:
            continue  # of an injected container, for which nothing is recommended
        level = Level.SERIOUS if meant else Level.WARNING  # it may be injected
        yield _Flaw(level, told + (meant or f"; there are {', '.join(sorted(known))}"))


def _container_names(vpa: Vpa, view: NamespaceView) -> set[str]:
    if vpa.target is None:
        return set()
    workload = view.workloads.get(vpa.target.key)
    return set() if workload is None else _names(workload, _pods(workload, view))


def _pods(workload: Workload, view: NamespaceView) -> list[Pod]:
    selector: Selector = workload.selector
    return [pod for pod in view.pods.values() if selector.matches(pod.labels)]


def _names(workload: Workload, pods: Iterable[Pod]) -> set[str]:
    """Return the names of the containers of a template and of pods, empty if none is known."""
    running = {container.name for pod in pods for container in pod.containers}
    return {container.name for container in workload.template} | running


def _limit_ranges(vpa: Vpa, view: NamespaceView) -> Iterator[_Flaw]:
    limits = view.limits.container
    if limits is None:
        return
    whose = f"of LimitRange {', '.join(sorted(view.limit_ranges))}"
    for index, policy in enumerate(vpa.policies or ()):
        at = f"{_POLICIES}[{index}]"
        for resource in SIZED:
            most, least = limits.maximum.get(resource), limits.minimum.get(resource)
            low, high = _of(policy.min_allowed, resource), _of(policy.max_allowed, resource)
            if low is not None and most is not None and low > most:
                told = f"{at}.minAllowed.{resource}: {low} is above the maximum {most} {whose}"
                yield _Flaw(Level.WARNING, f"{told}, which holds")
            if high is not None and least is not None and high < least:
                told = f"{at}.maxAllowed.{resource}: {high} is below the minimum {least} {whose}"
                yield _Flaw(Level.WARNING, f"{told}, which holds")


def _of(amounts: Quantities | None, resource: str) -> Quantity | None:
    return (amounts or {}).get(resource)


def _roles_unknown(vpa: Vpa) -> Iterator[_Flaw]:
    """Tell that it is not known which pod leads; files that are to be applied hold no Leases."""
    reason, message = role_unknown(vpa) or ("", "")
    if reason not in ("", RoleProblem.NOT_READ):
        asked = role_lease_of(vpa.annotations)
        fix = f"kubectl -n {vpa.namespace} get lease {asked.lease} -o yaml" if asked else ""
        yield _Flaw(Level.WARNING, f"it is not known which pod leads: {message} ({reason})", fix)


# --- HorizontalPodAutoscalers and ScaledObjects


def _scaled(vpa: Vpa, view: NamespaceView, written: WrittenObjects) -> Iterator[_Flaw]:
    """Tell of resources that are left alone because replicas are scaled by them."""
    if vpa.is_off or vpa.target is None:
        return
    if len(rivals := _rivals(vpa.scaled_by, view)) > 1:
        told = f"{' and '.join(rivals)} scale the same pods, so none of them adds or removes any"
        yield _Flaw(Level.WARNING, f"{told} (AmbiguousSelector); keep one")
    for metric in vpa.scaled_by:
        if _changes(vpa, view, metric.container, metric.resource):
            yield _held(metric, view, written)


def _rivals(metrics: Iterable[ScaledMetric], view: NamespaceView) -> list[str]:
    """Return what makes an HPA of the workloads that these metrics scale."""
    targets = {view.scalers[metric.scaler].target for metric in metrics}
    found = (one for one in view.scalers.values() if one.target in targets)
    return sorted({one.origin for one in found if one.metrics or one.kind == HPA_KIND})


def _held(metric: ScaledMetric, view: NamespaceView, written: WrittenObjects) -> _Flaw:
    """Return that a resource is held, and what separates the two unless no pod tells the amount."""
    told, scaler = held_sentence([metric]), view.scalers[metric.scaler]
    workload, point = _workload(scaler.target, scaler.namespace, written), None
    if workload is not None:
        pods = _pods(workload, view)
        names = _names(workload, pods)
        if metric.container and names and metric.container not in names:
            return _misnamed(metric, scaler, names)
        point = scale_point(metric, pods, workload.template)
    if point is None:
        return _Flaw(Level.WARNING, told)
    if scaler.made_by:  # which is not known here, and would undo a change of what it made
        trigger = f"the trigger {metric.resource} of {scaler.origin}"
        how = f"metricType AverageValue and value {point} in {trigger} separate the two"
        return _Flaw(Level.WARNING, f"{told}; {how}")
    command = way_out(scaler.namespace, metric, point).command
    return _Flaw(Level.WARNING, f"{told}; this separates the two", command)


def _misnamed(metric: ScaledMetric, scaler: HorizontalScaler, names: Iterable[str]) -> _Flaw:
    """Return that a metric holds nothing, because the container that it names is not there."""
    told = f'{metric.by}: no container of the target is called "{metric.container}", so nothing '
    told += f"is held by its {metric.resource}; there are {', '.join(sorted(names))}"
    fix = f"kubectl -n {scaler.namespace} edit {scaler.origin.lower()}"
    return _Flaw(Level.WARNING, told, fix)


def _changes(vpa: Vpa, view: NamespaceView, container: str, resource: str) -> bool:
    """Whether a VPA changes a request of a container, or without a name of any."""
    names = {container} if container else _container_names(vpa, view)
    policies = [vpa.policy(name) for name in names] if names else [vpa.index.wildcard]
    return any(_controls(policy, resource) for policy in policies)


def _controls(policy: ContainerPolicy | None, resource: str) -> bool:
    if policy is None:
        return True
    named = policy.controlled_resources
    return not policy.is_off and (named is None or resource in named)
