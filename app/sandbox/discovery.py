"""What an API server tells of itself: its version and the resources that it serves."""

from __future__ import annotations

from collections.abc import Iterable

from app.ports import POD_METRICS, Json
from app.sandbox.kinds import Catalogue, Kind
from app.sandbox.refusals import not_allowed, unknown_path, unknown_resource

VERSION: Json = {"major": "1", "minor": "36", "gitVersion": "v1.36.3", "platform": "sandbox"}

_VERBS = ["create", "delete", "get", "list", "patch", "update", "watch"]
_SUB_KINDS = {"scale": ("autoscaling", "v1", "Scale"), "eviction": ("policy", "v1", "Eviction")}


def answer(catalogue: Catalogue, method: str, path: str) -> Json:
    """Answer a plain request."""
    if method != "GET":
        raise not_allowed()
    parts = path.strip("/").split("/")
    match parts:
        case ["version"]:
            return dict(VERSION)
        case ["api"]:
            return {"kind": "APIVersions", "versions": ["v1"]}
        case ["apis"]:
            return _groups(catalogue)
        case ["api", version]:
            return _resources(catalogue, "", version)
        case ["apis", group, version]:
            return _resources(catalogue, group, version)
        case ["apis", group]:
            return (
                next(
                    (found for found in _groups(catalogue)["groups"] if found["name"] == group),
                    None,
                )
                or _nothing()
            )
        case _:
            raise unknown_path()


def _nothing() -> Json:
    raise unknown_resource()


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


def _entries(kind: Kind) -> Iterable[Json]:
    resource = kind.resource
    namespaced = resource.namespaced
    yield _entry(resource.plural, resource.kind, _VERBS, namespaced=namespaced)
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
