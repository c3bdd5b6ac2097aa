"""The kinds of objects that the sandbox serves: how they differ, and how discovery shows them.

Strategy: what an API server does for every kind alike is written once, elsewhere; a kind is a
row of differences. Definitions of custom resources add rows while the sandbox runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial

from app import ports
from app.ports import POD_METRICS, Json, Resource
from app.sandbox import validation as rules
from app.sandbox.cel import NotUnderstood, compile_cel
from app.sandbox.objects import collection_of, dotted, member
from app.sandbox.refusals import (
    FieldProblem,
    not_allowed,
    required,
    unknown_path,
    unknown_resource,
    wrong,
)
from app.sandbox.scaling import fill_hpa, hpa_problems
from app.sandbox.schema import check_rules, fill, prune, schema_problems

Fill = Callable[[Json], object]
Check = Callable[[Json, Json | None], Iterator[FieldProblem]]

DEFINITIONS = collection_of(ports.CUSTOM_RESOURCE_DEFINITIONS)
SERVER_VERSION: Json = {"major": "1", "minor": "36", "gitVersion": "v1.36.3", "platform": "sandbox"}

_VERBS = ["create", "delete", "get", "list", "patch", "update", "watch"]
# Short names as kubectl knows them, by plural; a custom kind brings its own.
_SHORT_NAMES = {
    "pods": "po",
    "deployments": "deploy",
    "replicasets": "rs",
    "statefulsets": "sts",
    "replicationcontrollers": "rc",
    "daemonsets": "ds",
    "cronjobs": "cj",
    "poddisruptionbudgets": "pdb",
    "horizontalpodautoscalers": "hpa",
    "namespaces": "ns",
    "nodes": "no",
    "limitranges": "limits",
    "events": "ev",
    "customresourcedefinitions": "crd",
}
_SUB_KINDS = {"scale": ("autoscaling", "v1", "Scale"), "eviction": ("policy", "v1", "Eviction")}


def _leave(_item: Json) -> None:
    return


def _accept(_item: Json, _old: Json | None) -> Iterator[FieldProblem]:
    return iter(())


@dataclass(frozen=True, slots=True)
class ScaleFields:
    """Where an object keeps what its scale subresource shows."""

    replicas: str = "spec.replicas"
    status_replicas: str = "status.replicas"
    selector: str = ""  # of a text; empty: worked out from spec.selector


@dataclass(frozen=True, slots=True)
class ServedKind:
    """A resource that is served."""

    resource: Resource
    fill: Fill = _leave  # before admission, also of changes
    begin: Fill = _leave  # of new objects that have their name and uid
    check: Check = _accept
    has_status: bool = True
    has_generation: bool = True
    is_custom: bool = False
    needs_version: bool = False  # to be replaced
    orphans: bool = False  # what it owns stays behind when it is deleted
    scale: ScaleFields | None = None
    more: tuple[str, ...] = ()  # subresources beside status and scale
    short_names: tuple[str, ...] = ()  # of a custom kind

    @property
    def collection(self) -> str:
        """The name as errors tell it, `deployments.apps`."""
        return collection_of(self.resource)

    @property
    def word(self) -> str:
        """The kind as errors tell it, `Deployment.apps`."""
        return dotted(self.resource.kind, self.resource.group)

    @property
    def subresources(self) -> tuple[str, ...]:
        """All subresources."""
        status = ("status",) if self.has_status else ()
        return (*status, *(("scale",) if self.scale else ()), *self.more)


class Catalogue:
    """The kinds that are served now."""

    def __init__(self) -> None:
        self._kinds: dict[tuple[str, str, str], ServedKind] = {}
        for kind in _built_in():
            self.add(kind)

    def __iter__(self) -> Iterator[ServedKind]:
        return iter(tuple(self._kinds.values()))

    def find(self, resource: Resource) -> ServedKind:
        """Return a kind.

        Raises:
            NotFound: it is not served.
        """
        found = self._kinds.get(_place(resource))
        if found is not None:
            return found
        if any(kind.resource.group == resource.group for kind in self):
            raise unknown_resource()
        raise unknown_path()

    def by_kind(self, api_version: str, kind: str) -> ServedKind | None:
        """Return a kind by what objects carry, None if it is not served."""
        for found in self:
            if (found.resource.api_version, found.resource.kind) == (api_version, kind):
                return found
        return None

    def add(self, kind: ServedKind) -> None:
        """Serve a kind."""
        self._kinds[_place(kind.resource)] = kind

    def remove(self, kind: ServedKind) -> None:
        """Serve a kind no longer."""
        self._kinds.pop(_place(kind.resource), None)


def custom_kinds(definition: Json) -> Iterator[ServedKind]:
    """Yield the kinds that a definition of a custom resource makes."""
    spec = definition["spec"]
    names = spec["names"]
    for version in spec.get("versions") or ():
        if not version.get("served"):
            continue
        schema = (version.get("schema") or {}).get("openAPIV3Schema") or {}
        subresources = version.get("subresources") or {}
        scale = subresources.get("scale")
        yield ServedKind(
            Resource(
                spec["group"],
                version["name"],
                names["plural"],
                names["kind"],
                namespaced=spec.get("scope") == "Namespaced",
            ),
            fill=partial(_fill_custom, schema),
            check=partial(schema_problems, schema),
            has_status="status" in subresources,
            is_custom=True,
            needs_version=True,
            scale=scale and _custom_scale(scale),
            short_names=tuple(names.get("shortNames") or ()),
        )


def _fill_custom(schema: Json, item: Json) -> None:
    prune(schema, item)
    fill(schema, item)


def _custom_scale(scale: Json) -> ScaleFields:
    return ScaleFields(
        scale["specReplicasPath"].lstrip("."),
        scale["statusReplicasPath"].lstrip("."),
        scale.get("labelSelectorPath", "").lstrip(".") or "-",
    )


def _definition_problems(item: Json, _old: Json | None) -> Iterator[FieldProblem]:
    spec = item.get("spec") or {}
    missing = [path for path in ("group", "names.plural", "names.kind") if not member(spec, path)]
    if missing:
        yield from (required(f"spec.{path}") for path in missing)
        return
    wanted = f"{spec['names']['plural']}.{spec['group']}"
    if item["metadata"]["name"] != wanted:
        detail = f'must be spec.names.plural+"."+spec.group: "{wanted}"'
        yield wrong("metadata.name", item["metadata"]["name"], detail)
    try:
        check_rules([version.get("schema") for version in spec.get("versions") or ()])
    except NotUnderstood as error:
        yield wrong("spec.versions", "object", str(error))


def _webhook_problems(item: Json, _old: Json | None) -> Iterator[FieldProblem]:
    for index, webhook in enumerate(item.get("webhooks") or ()):
        for position, condition in enumerate(webhook.get("matchConditions") or ()):
            path = f"webhooks[{index}].matchConditions[{position}].expression"
            try:
                compile_cel(str(condition.get("expression")))
            except NotUnderstood as error:
                yield wrong(path, condition.get("expression"), f"compilation failed: {error}")


def _fill_webhooks(item: Json) -> None:
    for webhook in item.get("webhooks") or ():
        usual = {"failurePolicy": "Fail", "timeoutSeconds": 10, "matchPolicy": "Equivalent"}
        usual |= {"namespaceSelector": {}, "objectSelector": {}}
        if item["kind"].startswith("Mutating"):
            usual["reinvocationPolicy"] = "Never"
        for key, value in usual.items():
            if webhook.get(key) is None:
                webhook[key] = value
        for rule in webhook.get("rules") or ():
            rule.setdefault("scope", "*")
        service = (webhook.get("clientConfig") or {}).get("service")
        if service:
            service.setdefault("port", 443)


def _fill_secret(item: Json) -> None:
    item.setdefault("type", "Opaque")


def _begin_definition(item: Json) -> None:
    spec = item.get("spec") or {}
    established = {"status": "True", "lastTransitionTime": item["metadata"]["creationTimestamp"]}
    item["status"] = {
        "acceptedNames": spec.get("names"),
        "storedVersions": [
            found["name"] for found in spec.get("versions") or () if found.get("storage")
        ],
        "conditions": [
            {"type": "NamesAccepted", "reason": "NoConflicts", **established},
            {"type": "Established", "reason": "InitialNamesAccepted", **established},
        ],
    }


def _begin_namespace(item: Json) -> None:
    labels = {"kubernetes.io/metadata.name": item["metadata"]["name"]}
    item["metadata"]["labels"] = {**(item["metadata"].get("labels") or {}), **labels}
    item.setdefault("spec", {})["finalizers"] = ["kubernetes"]
    item["status"] = {"phase": "Active"}


def _built_in() -> Iterator[ServedKind]:
    scale = ScaleFields()
    long_lived = rules.controller_problems
    yield ServedKind(
        ports.PODS,
        rules.fill_pod,
        rules.begin_pod,
        rules.pod_problems,
        more=("eviction", "resize"),
    )
    yield ServedKind(ports.DEPLOYMENTS, rules.fill_deployment, check=long_lived, scale=scale)
    yield ServedKind(ports.REPLICA_SETS, rules.fill_controller, check=long_lived, scale=scale)
    yield ServedKind(ports.STATEFUL_SETS, rules.fill_stateful_set, check=long_lived, scale=scale)
    yield ServedKind(
        ports.REPLICATION_CONTROLLERS,
        rules.fill_replication_controller,
        check=long_lived,
        scale=scale,
        orphans=True,
    )
    yield ServedKind(ports.DAEMON_SETS, rules.fill_daemon_set, check=long_lived)
    yield ServedKind(
        ports.JOBS, rules.fill_job, rules.begin_job, check=rules.job_problems, orphans=True
    )
    yield ServedKind(ports.CRON_JOBS, rules.fill_cron_job, check=rules.cron_job_problems)
    yield ServedKind(ports.POD_DISRUPTION_BUDGETS, check=rules.budget_problems, needs_version=True)
    yield ServedKind(ports.HPAS, fill_hpa, check=hpa_problems, has_generation=False)
    yield ServedKind(ports.NAMESPACES, begin=_begin_namespace, has_generation=False)
    yield ServedKind(ports.NODES, has_generation=False)
    yield ServedKind(
        ports.CUSTOM_RESOURCE_DEFINITIONS,
        begin=_begin_definition,
        check=_definition_problems,
        needs_version=True,
    )
    for resource in (ports.MUTATING_WEBHOOKS, ports.VALIDATING_WEBHOOKS):
        yield ServedKind(
            resource, _fill_webhooks, check=_webhook_problems, has_status=False, needs_version=True
        )
    yield _plain(ports.LIMIT_RANGES, fill=rules.fill_limit_range)
    yield _plain(ports.LEASES, needs_version=True)
    yield _plain(ports.SECRETS, fill=_fill_secret)
    yield _plain(ports.EVENTS)


def _plain(resource: Resource, *, fill: Fill = _leave, needs_version: bool = False) -> ServedKind:
    return ServedKind(
        resource, fill, has_status=False, has_generation=False, needs_version=needs_version
    )


def _place(resource: Resource) -> tuple[str, str, str]:
    return resource.group, resource.version, resource.plural


def discovered(catalogue: Catalogue, method: str, path: str) -> Json:
    """Answer a plain request."""
    if method != "GET":
        raise not_allowed()
    parts = path.strip("/").split("/")
    match parts:
        case ["version"]:
            return dict(SERVER_VERSION)
        case ["api"]:
            return {"kind": "APIVersions", "versions": ["v1"]}
        case ["apis"]:
            return _groups(catalogue)
        case ["api", version]:
            return _resources(catalogue, "", version)
        case ["apis", group, version]:
            return _resources(catalogue, group, version)
        case ["apis", group]:
            for found in _groups(catalogue)["groups"]:
                if found["name"] == group:
                    return dict(found)
            raise unknown_resource()
        case _:
            raise unknown_path()


def _groups(catalogue: Catalogue) -> Json:
    found: dict[str, list[str]] = {}
    for resource in (*(kind.resource for kind in catalogue), POD_METRICS):
        versions = found.setdefault(resource.group, []) if resource.group else []
        if resource.version not in versions:
            versions.append(resource.version)
    groups = [_group(name, versions) for name, versions in sorted(found.items())]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def _group(name: str, versions: list[str]) -> Json:
    told = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": told, "preferredVersion": told[0]}


def _resources(catalogue: Catalogue, group: str, version: str) -> Json:
    kinds = [
        kind
        for kind in catalogue
        if (kind.resource.group, kind.resource.version) == (group, version)
    ]
    told = [entry for kind in kinds for entry in _entries(kind)]
    if (group, version) == (POD_METRICS.group, POD_METRICS.version):
        told = [_entry(POD_METRICS.plural, POD_METRICS.kind, ["get", "list"], namespaced=True)]
    if not told:
        raise unknown_resource()
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{group}/{version}" if group else version,
        "resources": told,
    }


def _entries(kind: ServedKind) -> Iterable[Json]:
    resource = kind.resource
    namespaced = resource.namespaced
    entry = _entry(resource.plural, resource.kind, _VERBS, namespaced=namespaced)
    usual = _SHORT_NAMES.get(resource.plural)
    shorts = kind.short_names or ((usual,) if usual and not kind.is_custom else ())
    yield {**entry, "shortNames": list(shorts)} if shorts else entry
    for name in kind.subresources:
        verbs = ["create"] if name == "eviction" else ["get", "patch", "update"]
        group, version, word = _SUB_KINDS.get(name, ("", "", resource.kind))
        entry = _entry(f"{resource.plural}/{name}", word, verbs, namespaced=namespaced)
        yield {**entry, "group": group, "version": version} if group else entry


def _entry(name: str, kind: str, verbs: list[str], *, namespaced: bool) -> Json:
    return {
        "name": name,
        "singularName": "" if "/" in name else kind.lower(),
        "namespaced": namespaced,
        "kind": kind,
        "verbs": verbs,
    }
