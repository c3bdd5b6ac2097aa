"""Recommendations beside what is requested, as a report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Final

from app.commands.recommendations_flags import RecommendationsSettings
from app.commands.recommendations_table import ContainerRow, container_rows, containers_table
from app.commands.watching import watched
from app.commands.workload_names import VPA_WORDS, WorkloadName, full_name, some_of, workload_name
from app.diagnosis.core.comparisons import (
    RequestComparison,
    UsageAnswer,
    comparison_json,
    comparisons,
    histories,
)
from app.diagnosis.core.members import members
from app.diagnosis.core.uncovered import TopWorkload, top_workloads
from app.diagnosis.gathering import (
    GatheredObjects,
    GatherRequest,
    ask_with_lookups,
    chosen_namespace,
    gather_objects,
    is_absent,
    place,
)
from app.diagnosis.written_vpas import problems_of, sentences
from app.kube.files import RecordedCluster
from app.kube.splitting import STDIN
from app.model.errors import BadObject, BadSetting
from app.model.fields import labels_at, object_at
from app.model.selectors import Selector
from app.model.snapshot import Snapshot, object_identity
from app.model.times import rfc3339
from app.output import Report, Table, Text, Tone, line, table_lines
from app.ports import CHECKPOINTS, VPAS, Clock
from app.updater.flags import UNCHECKED
from app.updater.watches import HEALTHY

if TYPE_CHECKING:
    from app.diagnosis.recommendation_client import RecommendedVpas

_INIT: Final = "plumbline init{} | kubectl apply -f -"
_OR_RECORDED: Final = "for numbers from usage that Prometheus has: --prometheus-address=URL"
_NO_USAGE: Final = "Prometheus has no usage of its pods"
_NO_OBJECTS: Final = GatheredObjects(Snapshot(), RecordedCluster(()), HEALTHY)


def recommendations_reports(settings: RecommendationsSettings, clock: Clock) -> Iterator[Report]:
    """Yield what is recommended, and if it is watched again whenever that changes.

    Raises:
        BadSetting: what is watched can be read only once.
    """
    ask = partial(recommendations_report, settings, clock)
    if not settings.listing.watch:
        yield ask()
        return
    if any(str(path) == STDIN for path in settings.offline.objects):
        raise BadSetting("--watch: standard input can be read only once; name a file")
    for number, report in enumerate(watched(ask, clock)):
        yield replace(report, body=_at(clock.now(), report.body)) if number else report


def _at(now: datetime, body: Table | Text) -> Text:
    """Return a body below the time at which it became so."""
    lines = table_lines(body) if isinstance(body, Table) else body.lines
    return Text([(), line(rfc3339(now), Tone.FAINT), *lines])


def recommendations_report(settings: RecommendationsSettings, clock: Clock) -> Report:
    """Return what is recommended for each container, and how far it is from that."""
    now, knows_pods = clock.now(), _knows_pods(settings)
    namespace = settings.selection.namespace
    if knows_pods:
        namespace = chosen_namespace(settings.selection, settings.offline, settings.cluster)
    elif settings.selection.selector is not None:
        raise BadSetting("--selector needs --kubeconfig or --objects beside --from")
    elif settings.recorded.address:
        raise BadSetting("--prometheus-address needs --kubeconfig or --objects beside --from")
    told = _answered(settings, namespace)
    with _gathered(settings, namespace, clock) if knows_pods else nullcontext(_NO_OBJECTS) as seen:
        if told is not None:
            seen = seen.with_answers(told.vpas, told.problems)
        problems = problems_of(seen, clock)
        bare = _bare(seen, settings, namespace, clock)
        usage = _from_usage(seen, bare, settings, namespace, clock)
        seen = seen.with_answers(usage.vpas, (), are_all=False)
        pods = ask_with_lookups(seen.owners, clock, partial(members, seen.snapshot))
    known = {**histories(seen.objects_of(CHECKPOINTS)), **(told.histories if told else {})}
    chosen = _selected(seen, settings.selection.selector)
    added = {(vpa.namespace, vpa.name) for vpa in usage.vpas}
    all_of_them = [
        _without_vpa(one, now) if (one.namespace, one.vpa) in added else one
        for one in comparisons(seen.snapshot, pods, {**known, **usage.histories})
        if namespace in ("", one.namespace)
        and (chosen is None or (one.namespace, one.vpa) in chosen)
    ]
    wanted = _named(all_of_them, settings.vpas, namespace)
    order = settings.listing.order
    absence = _absence(seen.snapshot, wanted, settings, namespace)
    return comparisons_report(
        container_rows(wanted, order.by, is_reversed=order.is_reversed),
        now,
        has_namespaces=not namespace,
        notes=[*seen.notes, *usage.notes, *absence, *_advice(bare, settings, namespace)],
        problems=sentences(problems, {(one.namespace, one.vpa) for one in wanted}),
        is_partial=bool(seen.unread),
    )


def _answered(settings: RecommendationsSettings, namespace: str) -> RecommendedVpas | None:
    """Return what a recommender says, None if none is asked."""
    asking = settings.asking
    if not asking.url:
        return None
    # Only now, because httpx takes long to import.
    from app.diagnosis.recommendation_client import RecommenderAccess, recommended_vpas

    access = RecommenderAccess(
        asking.url, asking.token_file, asking.ca_file, asking.tokens_over_http
    )
    return recommended_vpas(access, namespace)


# --- workloads without a VPA


def _bare(
    seen: GatheredObjects, settings: RecommendationsSettings, namespace: str, clock: Clock
) -> Sequence[TopWorkload]:
    """Return the workloads without a VPA that are asked about; labels choose VPAs alone."""
    if settings.selection.selector is not None:
        return ()
    every = ask_with_lookups(seen.owners, clock, partial(top_workloads, seen.snapshot))
    names = [name for text in settings.vpas if (name := _workload(text)) is not None]
    return [
        one
        for one in every.found
        if not one.is_covered and namespace in ("", one.namespace)
        if any(name.means(one.key) for name in names) or not (settings.vpas or one.runs_once)
    ]


def _from_usage(
    seen: GatheredObjects,
    bare: Sequence[TopWorkload],
    settings: RecommendationsSettings,
    namespace: str,
    clock: Clock,
) -> UsageAnswer:
    """Return what recorded usage says of workloads without a VPA, if it is asked for."""
    if not settings.recorded.address or not bare:
        return UsageAnswer()
    # Only now, because the recommender takes long to import.
    from app.diagnosis.usage_history import UsageSettings, recommended_from_usage

    access = UsageSettings(settings.recorded, settings.recorded_access)
    return recommended_from_usage(seen, bare, access, namespace, clock)


def _without_vpa(one: RequestComparison, now: datetime) -> RequestComparison:
    """Return a comparison with what no VPA says."""
    problem = one.problem and _NO_USAGE
    return replace(
        one, has_vpa=False, problem=problem, as_of=None if problem else now.replace(microsecond=0)
    )


def _advice(
    bare: Sequence[TopWorkload], settings: RecommendationsSettings, namespace: str
) -> Iterator[str]:
    """Say which workloads have no VPA, and what to do, unless they are shown."""
    if settings.recorded.address or not bare:
        return
    at = f" -n {namespace}" if namespace else " -A"
    count = "1 workload has" if len(bare) == 1 else f"{len(bare)} workloads have"
    told = f"{count} no VPA ({some_of([one.key for one in bare])})"
    yield f"{told}; to get recommendations: {_INIT.format(at)}; {_OR_RECORDED}"


def _knows_pods(settings: RecommendationsSettings) -> bool:
    """Whether requests can be compared; a recommender alone does not tell them."""
    reach = settings.cluster
    return not settings.asking.url or bool(settings.offline.objects or reach.kubeconfig)


def _gathered(
    settings: RecommendationsSettings, namespace: str, clock: Clock
) -> AbstractContextManager[GatheredObjects]:
    keeps = (CHECKPOINTS, VPAS)
    wanted = GatherRequest(
        settings.offline,
        settings.cluster,
        namespace,
        UNCHECKED,
        keeps,
        needs_vpas=not settings.recorded.address,
    )
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
    """Return those of some VPAs and workloads, all if none is named.

    Raises:
        BadSetting: there is no VPA of a name, or none for a workload.
    """
    known = {one.vpa for one in found if one.has_vpa}
    chosen: list[RequestComparison] = []
    for name in names:
        workload = _workload(name)
        if workload is None:
            several = [one for one in found if one.has_vpa and one.vpa == name.rpartition("/")[2]]
        else:
            several = [one for one in found if one.target_key and workload.means(one.target_key)]
        if not several and workload is None:
            raise is_absent("VPA", name, namespace, known)
        if not several:
            at = f" -n {namespace}" if namespace else ""
            told = f"no VPA {place(namespace)} targets {name}"
            init = _INIT.format(f"{at} {name}")
            raise BadSetting(f"{told}; create one: {init}; {_OR_RECORDED}")
        chosen += several
    return [one for one in found if one in chosen] if names else found


def _workload(text: str) -> WorkloadName | None:
    """Return the workload that a text names, None for a VPA."""
    found = workload_name(text)
    return None if found is None or found.word in VPA_WORDS else found


def _absence(
    snapshot: Snapshot,
    found: Sequence[RequestComparison],
    settings: RecommendationsSettings,
    namespace: str,
) -> Iterator[str]:
    """Say what to do where there is nothing to show."""
    selector = settings.selection.selector
    if found:
        return
    there = f"in namespace {namespace}" if namespace else "anywhere"
    if selector is not None and any(view.vpas for view in snapshot.namespaces.values()):
        yield f"no VPA {f'{there} ' if namespace else ''}has the labels {selector}"
        return
    if namespace:
        there += "; -A looks at all namespaces"
    yield f"no VerticalPodAutoscaler was found {there}"


def comparisons_report(
    rows: Sequence[ContainerRow],
    now: datetime,
    *,
    has_namespaces: bool,
    notes: Sequence[str] = (),
    problems: Sequence[str] = (),
    is_partial: bool = False,
) -> Report:
    """Return comparisons as a table with an object for each resource of a container."""
    found = [one for row in rows for one in row.comparisons]
    body, wide = (
        containers_table(rows, now, has_namespaces=has_namespaces, is_wide=is_wide)
        for is_wide in (False, True)
    )
    names = list(map(_name, found))
    items = list(map(comparison_json, found))
    return Report(body, items, names, notes, problems, wide=wide, is_partial=is_partial)


def _name(one: RequestComparison) -> str:
    """Return how other commands call what is compared."""
    key = one.target_key
    if one.has_vpa or key is None:
        return f"verticalpodautoscaler.{VPAS.group}/{one.vpa}"
    return full_name(key)
