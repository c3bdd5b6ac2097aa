"""VPAs in mode Off for workloads that have none, to be applied: recommendations, and no change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from app.commands.flags import InitSettings
from app.commands.workload_names import (
    WorkloadName,
    absent_workload,
    known_workloads,
    some_of,
    workload_name,
)
from app.diagnosis.core.uncovered import TopWorkload, top_workloads
from app.diagnosis.gathering import (
    GatheredObjects,
    GatherRequest,
    ask_with_lookups,
    chosen_namespace,
    gather_objects,
    place,
)
from app.model.errors import BadObject, BadSetting
from app.model.fields import labels_at, object_at
from app.model.kinds import ObjectKey, owner_key
from app.model.snapshot import object_identity
from app.output import Piece, Report, Table
from app.ports import VPAS, WORKLOADS, Clock
from app.updater.flags import UNCHECKED

_COLUMNS: Final = ("NAMESPACE", "VPA", "WORKLOAD")
_MOST_TOLD: Final = 3  # names of one note


def init_report(settings: InitSettings, clock: Clock) -> Report:
    """Return a VPA for each workload that has none.

    Raises:
        BadSetting: a workload that is named does not exist.
    """
    offline, reach = settings.offline, settings.cluster
    namespace = chosen_namespace(settings.selection, offline, reach)
    wanted = GatherRequest(offline, reach, namespace, UNCHECKED, WORKLOADS)
    with gather_objects(wanted, clock, clock.now()) as seen:
        every = ask_with_lookups(seen.owners, clock, partial(top_workloads, seen.snapshot))
    here = [one for one in every.found if namespace in ("", one.namespace)]
    asked = list(_asked(here, settings, seen, namespace))
    bare = [one for one in asked if not one.is_covered]
    wanting = [one for one in bare if not one.runs_once or settings.workloads]
    rows = [
        (Piece(one.namespace), Piece(one.vpa_name), Piece(str(one.key).lower())) for one in wanting
    ]
    return Report(
        Table(_COLUMNS, rows),
        [one.vpa for one in wanting],
        [f"verticalpodautoscaler.{VPAS.group}/{one.vpa_name}" for one in wanting],
        [
            *seen.notes,
            *(f"left out: {told}" for told in every.unknown.values() if not settings.workloads),
            *_notes(asked, bare, wanting, namespace),
        ],
        is_partial=bool(seen.unread),
    )


def _asked(
    found: Sequence[TopWorkload], settings: InitSettings, seen: GatheredObjects, namespace: str
) -> Iterator[TopWorkload]:
    """Yield the workloads that are named and have the labels, in their order."""
    names = [_name(text) for text in settings.workloads]
    for name in names:
        if not any(name.means(one.key) for one in found):
            raise _not_top(name, found, seen, namespace)
    labels = _labels(seen) if settings.selection.selector is not None else {}
    for one in found:
        if names and not any(name.means(one.key) for name in names):
            continue
        selector = settings.selection.selector
        if selector is None or selector.matches(labels.get((one.namespace, one.key), {})):
            yield one


def _not_top(
    name: WorkloadName, found: Sequence[TopWorkload], seen: GatheredObjects, namespace: str
) -> BadSetting:
    """Return the error about a workload that is not there, or that another one owns."""
    views = (view for where, view in seen.snapshot.namespaces.items() if namespace in ("", where))
    if any(name.means(key) for view in views for key in known_workloads(view)):
        return BadSetting(f"{name} {place(namespace)} has an owner; name the topmost one")
    return absent_workload(name, namespace, {one.key for one in found})


def _name(text: str) -> WorkloadName:
    found = workload_name(text)
    if found is None:
        raise BadSetting(f'"{text}": say deploy/{text}, sts/{text} and so on')
    return found


def _labels(seen: GatheredObjects) -> Mapping[tuple[str, ObjectKey], Mapping[str, str]]:
    found = {}
    for item in seen.kept:
        try:
            version, kind, namespace, name = object_identity(item)
            labels = labels_at(object_at(item, "metadata", ""), "labels", "metadata")
        except BadObject:
            continue  # which has no labels that anything could select
        found[namespace, owner_key(version, kind, name)] = labels
    return found


def _notes(
    asked: Sequence[TopWorkload],
    bare: Sequence[TopWorkload],
    wanting: Sequence[TopWorkload],
    namespace: str,
) -> Iterator[str]:
    if once := [one for one in bare if one not in wanting]:
        told = some_of([one.key for one in once])
        yield f"left out, because they run once: {told}; name them to have them"
    if wanting:
        return
    if asked and not bare:
        vpas = "its VPA is" if len(asked) == 1 else "their VPAs are"
        told = ", ".join(one.vpa_name for one in asked[:_MOST_TOLD])
        more = f" and {len(asked) - _MOST_TOLD} more" if len(asked) > _MOST_TOLD else ""
        workloads = some_of([one.key for one in asked])
        yield f"nothing is missing: {workloads}: {vpas} {told}{more}"
    elif not asked:
        there = f"in namespace {namespace}; -A looks at all" if namespace else "anywhere"
        yield f"no workload was found {there}"
