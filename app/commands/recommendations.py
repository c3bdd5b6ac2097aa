"""Recommendations beside what is requested, as a report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from contextlib import AbstractContextManager, nullcontext, suppress
from datetime import datetime
from functools import partial
from typing import Final

from app.commands.flags import RecommendationsSettings
from app.diagnosis.core.comparisons import (
    RequestComparison,
    comparison_json,
    comparisons,
    histories,
)
from app.diagnosis.core.members import members
from app.diagnosis.gathering import (
    GatheredObjects,
    GatherRequest,
    ask_with_lookups,
    chosen_namespace,
    gather_objects,
)
from app.kube.files import RecordedCluster
from app.model.errors import BadObject, BadSetting
from app.model.fields import labels_at, object_at
from app.model.quantity import Quantity
from app.model.selectors import Selector
from app.model.snapshot import Snapshot, object_identity
from app.model.text import amount, nearest, percent, span
from app.output import Piece, Report, Table, Tone
from app.ports import CHECKPOINTS, VPAS, Clock
from app.updater.flags import UNCHECKED
from app.updater.webhook_lease import HEALTHY

_COLUMNS: Final = (
    "WORKLOAD",
    "CONTAINER",
    "RESOURCE",
    "REQUEST",
    "TARGET",
    "BOUNDS",
    "DIFFERENCE",
    "CONFIDENCE",
    "AGE",
)
_NOTHING: Final = Piece("-", Tone.FAINT)
_NO_OBJECTS: Final = GatheredObjects(Snapshot(), RecordedCluster(()), HEALTHY)
_CERTAIN: Final = 1.0  # days of history; with less a target may still move


def recommendations_report(settings: RecommendationsSettings, clock: Clock) -> Report:
    """Return what is recommended for each container, and how far it is from that."""
    now, knows_pods = clock.now(), _knows_pods(settings)
    namespace = settings.selection.namespace
    if knows_pods:
        namespace = chosen_namespace(settings.selection, settings.offline, settings.cluster)
    elif settings.selection.selector is not None:
        raise BadSetting("--selector needs --kubeconfig or --objects beside --from")
    asking, told = settings.asking, None
    if asking.url:
        # Only now, because httpx takes long to import.
        from app.diagnosis.recommendation_client import RecommenderAccess, recommended_vpas

        access = RecommenderAccess(
            asking.url, asking.token_file, asking.ca_file, asking.tokens_over_http
        )
        told = recommended_vpas(access, namespace)
    with _gathered(settings, namespace, clock) if knows_pods else nullcontext(_NO_OBJECTS) as seen:
        if told is not None:
            seen = seen.with_answers(told.vpas, told.problems)
        pods = ask_with_lookups(seen.owners, clock, partial(members, seen.snapshot))
    known = {**histories(seen.objects_of(CHECKPOINTS)), **(told.histories if told else {})}
    chosen = _selected(seen, settings.selection.selector)
    all_of_them = [
        one
        for one in comparisons(seen.snapshot, pods, known)
        if namespace in ("", one.namespace)
        and (chosen is None or (one.namespace, one.vpa) in chosen)
    ]
    wanted = _named(all_of_them, settings.vpas, namespace)
    return comparisons_report(
        wanted, now, is_wide=not namespace, notes=_notes(seen, wanted, namespace)
    )


def _knows_pods(settings: RecommendationsSettings) -> bool:
    """Whether requests can be compared; a recommender alone does not tell them."""
    reach = settings.cluster
    return not settings.asking.url or bool(settings.offline.objects or reach.kubeconfig)


def _gathered(
    settings: RecommendationsSettings, namespace: str, clock: Clock
) -> AbstractContextManager[GatheredObjects]:
    keeps = (CHECKPOINTS, VPAS) if settings.selection.selector else (CHECKPOINTS,)
    wanted = GatherRequest(settings.offline, settings.cluster, namespace, UNCHECKED, keeps)
    return gather_objects(wanted, clock, clock.now())


def _selected(seen: GatheredObjects, selector: Selector | None) -> Set[tuple[str, str]] | None:
    """Return the VPAs whose own labels are selected, None for all."""
    if selector is None:
        return None
    found = set()
    for item in seen.objects_of(VPAS):
        with suppress(BadObject):  # which is not chosen
            _, _, namespace, name = object_identity(item)
            if selector.matches(labels_at(object_at(item, "metadata", ""), "labels", "metadata")):
                found.add((namespace, name))
    return found


def _named(
    found: Sequence[RequestComparison], names: Sequence[str], namespace: str
) -> Sequence[RequestComparison]:
    """Return those of some VPAs, all if none is named.

    Raises:
        BadSetting: one of them is not there.
    """
    known = {one.vpa for one in found}
    for name in names:
        if name not in known:
            where = f"in namespace {namespace}" if namespace else "anywhere"
            raise BadSetting(f'there is no VPA "{name}" {where}{nearest(name, known)}')
    return [one for one in found if not names or one.vpa in names]


def _notes(seen: GatheredObjects, found: Sequence[RequestComparison], namespace: str) -> list[str]:
    notes = list(map(str, seen.problems))
    if not found:
        where = f"in namespace {namespace}; -A looks at all namespaces" if namespace else "anywhere"
        notes.append(f"no VerticalPodAutoscaler was found {where}")
    return notes


def comparisons_report(
    found: Sequence[RequestComparison], now: datetime, *, is_wide: bool, notes: Sequence[str] = ()
) -> Report:
    """Return comparisons as a table with an object for each line."""
    has_problems = any(one.problem for one in found)
    columns = (
        *(("NAMESPACE",) if is_wide else ()),
        *_COLUMNS,
        *(("NOTE",) if has_problems else ()),
    )
    rows = [
        (
            *((Piece(one.namespace),) if is_wide else ()),
            *_row(one, now),
            *((Piece(one.problem, Tone.CAREFUL),) if has_problems else ()),
        )
        for one in found
    ]
    names = [f"verticalpodautoscaler.{VPAS.group}/{one.vpa}" for one in found]
    return Report(Table(columns, rows), list(map(comparison_json, found)), names, notes)


def _row(one: RequestComparison, now: datetime) -> Iterator[Piece]:
    yield _workload(one)
    yield Piece(one.container) if one.container else _NOTHING
    yield Piece(one.resource) if one.resource else _NOTHING
    yield _range(one.resource, one.lowest, one.highest)
    yield _amount(one.resource, one.target)
    yield _range(one.resource, one.lower, one.upper)
    yield _difference(one)
    yield _confidence(one.confidence)
    yield Piece(span(now - one.as_of)) if one.as_of else _NOTHING


def _workload(one: RequestComparison) -> Piece:
    """Return what a VPA is for; where its name says something else, that as well."""
    kind, _, name = one.workload.partition("/")
    shown = f"{kind.lower()}/{name}" if name else "-"
    return Piece(shown if name == one.vpa else f"{shown} ({one.vpa})")


def _amount(resource: str, quantity: Quantity | None) -> Piece:
    return _NOTHING if quantity is None else Piece(amount(resource, quantity))


def _range(resource: str, low: Quantity | None, high: Quantity | None) -> Piece:
    if high is None:
        return _NOTHING if low is None else Piece(f"{amount(resource, low)}-")
    least = "none" if low is None else amount(resource, low)
    most = amount(resource, high)
    return Piece(most if least == most else f"{least}-{most}")


def _difference(one: RequestComparison) -> Piece:
    if one.gap is None or one.gap.amount.is_zero:
        return _NOTHING
    told, share = amount(one.resource, one.gap.size), one.gap.share
    told += f" ({percent(abs(share))})" if share is not None else ""
    if one.is_short:
        return Piece(f"short {told}", Tone.BAD if one.is_outside else Tone.CAREFUL)
    return Piece(f"saves {told}", Tone.GOOD)


def _confidence(days: float | None) -> Piece:
    if days is None:
        return _NOTHING
    return Piece(percent(min(days, _CERTAIN)), Tone.PLAIN if days >= _CERTAIN else Tone.CAREFUL)
