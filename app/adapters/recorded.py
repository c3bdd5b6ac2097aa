"""A cluster as it was recorded in files: its snapshot, and owners and VPAs by look-up."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from app.adapters.files import Document, Unreadable
from app.model.customs import CustomKind, ScalePaths, read_custom_kind, scale_custom
from app.model.errors import BadObject
from app.model.fields import Object
from app.model.kinds import ObjectKey, group_of, owner_key
from app.model.lookups import Absent, Failed, Found, Lookup
from app.model.objects import identity, reading, replacement
from app.model.snapshot import Replacement, Snapshot
from app.model.vpa import Vpa, without_status

Place = tuple[str, ObjectKey]


@dataclass(frozen=True, slots=True)
class Problem:
    """An object that could not be used, and why."""

    place: str
    message: str

    def __str__(self) -> str:
        return f"{self.place}: {self.message}"


class RecordedCluster:
    """What files tell of a cluster; answers owner and sibling look-ups from it."""

    def __init__(self, found: Iterable[Document | Unreadable]) -> None:
        self.problems: list[Problem] = []
        self.others: list[Object] = []  # of kinds that no snapshot holds
        self._kinds: dict[tuple[str, str], CustomKind] = {}
        self._customs: dict[Place, Object] = {}
        changes: list[Replacement] = []
        for document in found:
            if isinstance(document, Unreadable):
                self.problems.append(Problem(document.place, document.message))
                continue
            try:
                self._take(document.item, changes, document.place)
            except BadObject as error:
                self.problems.append(Problem(document.place, f"{_named(document.item)}: {error}"))
        self.snapshot = Snapshot().changed(changes)

    def _take(self, item: Object, changes: list[Replacement], place: str) -> None:
        api_version, kind, namespace, name = identity(item)
        if reading(api_version, kind) is not None:
            change = self._read(item, place)
            if change is not None:
                changes.append(change)
            return
        self.others.append(item)
        if kind == "CustomResourceDefinition":
            custom = read_custom_kind(item)
            self._kinds[custom.group, custom.kind] = custom
        else:
            self._customs[namespace, owner_key(api_version, kind, name)] = item

    def _read(self, item: Object, place: str) -> Replacement | None:
        """Read an object; a VPA whose status is broken still counts without it."""
        try:
            return replacement(item)
        except BadObject as error:
            if item.get("kind") != "VerticalPodAutoscaler" or not error.path.startswith("status"):
                raise
            self.problems.append(Problem(place, f"{_named(item)}: {error}; status left out"))
            return replacement(without_status(item))

    def find(self, lookup: Lookup, _deadline_seconds: float) -> Found:
        """Return what the files tell of an owner; that takes no time."""
        group = group_of(lookup.api_version)
        if lookup.key.is_built_in or not _is_custom(group):
            return Absent()
        custom = self._kinds.get((group, lookup.kind))
        if custom is None:
            return Failed(f"no CustomResourceDefinition of {lookup.kind}.{group} was given")
        item = self._customs.get((lookup.namespace, lookup.key))
        paths = _paths(custom, lookup.api_version)
        if item is None or paths is None:
            return Absent()
        try:
            return scale_custom(item, lookup.namespace, paths)
        except BadObject as error:
            return Failed(str(error))

    def of(self, namespace: str) -> tuple[Vpa, ...]:
        """Return the VPAs of a namespace."""
        return tuple(self.snapshot.of(namespace).vpas.values())


def _paths(custom: CustomKind, api_version: str) -> ScalePaths | None:
    version = api_version.rpartition("/")[2]
    return custom.scales.get(version) or next(filter(None, custom.scales.values()), None)


def _is_custom(group: str) -> bool:
    """Whether kinds of a group come from CustomResourceDefinitions; Kubernetes' own do not."""
    return "." in group and not group.endswith(".k8s.io")


def _named(item: Object) -> str:
    try:
        _, kind, namespace, name = identity(item)
    except BadObject:
        return "an object"
    return f"{kind} {namespace}/{name}"
