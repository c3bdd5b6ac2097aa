"""A cluster as it was recorded in files: its snapshot, and owners and VPAs by look-up.

Strategy: of two objects with the same name the last one counts, as if it had been applied later.
What a snapshot has no place for is kept for look-ups: custom objects, and the definitions that
say how they are scaled.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from app.kube.files import Document, Unreadable
from app.model.errors import BadObject
from app.model.fields import Object, object_at, text_at
from app.model.kinds import ObjectKey, group_of, owner_key
from app.model.snapshot import (
    Replacement,
    Snapshot,
    object_identity,
    replacement,
    without_broken_status,
)
from app.model.vpa import Vpa
from app.model.workloads import (
    Absent,
    CustomKind,
    Failed,
    Lookup,
    LookupResult,
    ScalePaths,
    read_custom_kind,
    scale_custom,
)


@dataclass(frozen=True, slots=True)
class RecordedProblem:
    """An object that could not be used, or not whole, and why."""

    place: str
    message: str

    def __str__(self) -> str:
        return f"{self.place}: {self.message}"


class RecordedCluster:
    """What files tell of a cluster; answers owner and sibling look-ups from it."""

    def __init__(self, found: Iterable[Document | Unreadable]) -> None:
        self.problems: list[RecordedProblem] = []
        self._kinds: dict[tuple[str, str], CustomKind] = {}
        self._customs: dict[tuple[str, ObjectKey], Object] = {}  # namespace as written
        changes: list[Replacement] = []
        for document in found:
            if isinstance(document, Unreadable):
                self.problems.append(RecordedProblem(document.place, document.message))
                continue
            try:
                self._take(document, changes)
            except BadObject as error:
                message = f"{_shown(document.item)}: {error}"
                self.problems.append(RecordedProblem(document.place, message))
        self.snapshot = Snapshot().changed(changes)

    def find(self, lookup: Lookup, _deadline_seconds: float, /) -> LookupResult:
        """Return what the files tell of an owner; that takes no time."""
        group = group_of(lookup.api_version)
        custom = self._kinds.get((group, lookup.kind))
        if custom is None:
            if lookup.key.is_built_in or not _is_custom(group):
                return Absent()
            return Failed(f"no CustomResourceDefinition of {lookup.kind}.{group} was given")
        item, paths = self._custom(custom, lookup), _paths(custom, lookup.api_version)
        if item is None or paths is None:
            return Absent()
        try:
            return scale_custom(item, lookup.namespace, paths)
        except BadObject as error:
            return Failed(str(error))

    def of(self, namespace: str) -> tuple[Vpa, ...]:
        """Return the VPAs of a namespace."""
        return tuple(self.snapshot.of(namespace).vpas.values())

    def _take(self, document: Document, changes: list[Replacement]) -> None:
        item = document.item
        try:
            change = replacement(item)
        except BadObject as error:
            change = replacement(without_broken_status(item, error))
            message = f"{_shown(item)}: {error}; status left out"
            self.problems.append(RecordedProblem(document.place, message))
        if change is not None:
            changes.append(change)
            return
        api_version, kind, _, name = object_identity(item)
        if not kind:
            raise BadObject("", "nobody knows what it is")
        if kind == "CustomResourceDefinition":
            custom = read_custom_kind(item)
            self._kinds[custom.group, custom.kind] = custom
        elif "." in group_of(api_version):
            self._customs[_namespace(item), owner_key(api_version, kind, name)] = item

    def _custom(self, kind: CustomKind, lookup: Lookup) -> Object | None:
        namespaces = [lookup.namespace] if kind.is_namespaced else [""]
        if lookup.namespace == "default":
            namespaces.append("")  # where an object lives that does not say
        found = (self._customs.get((namespace, lookup.key)) for namespace in namespaces)
        return next((item for item in found if item is not None), None)


def _paths(custom: CustomKind, api_version: str) -> ScalePaths | None:
    version = api_version.rpartition("/")[2]
    return custom.scales.get(version) or next(filter(None, custom.scales.values()), None)


def _is_custom(group: str) -> bool:
    """Whether kinds of a group come from CustomResourceDefinitions; Kubernetes' own do not."""
    return "." in group and not group.endswith(".k8s.io")


def _namespace(item: Object) -> str:
    return text_at(object_at(item, "metadata", ""), "namespace", "metadata")


def _shown(item: Object) -> str:
    try:
        _, kind, _, name = object_identity(item)
    except BadObject:
        return "an object"
    if not kind:
        return "an object without kind"
    namespace = _namespace(item)
    return f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}"
