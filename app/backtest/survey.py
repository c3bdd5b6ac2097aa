"""What a Prometheus has for a recording: how metrics are called, and how large namespaces are."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final

from app.backtest.patient_prometheus import PatientPrometheus, TooMuch
from app.backtest.pieces import NamespaceSizes, RecordingSpan
from app.backtest.prometheus_queries import (
    CLUSTER_LABELS,
    MetricNames,
    clusters_query,
    requests_probe,
    sizes_query,
    state_probe,
    usage_probe,
)
from app.model.errors import BadSetting
from app.recommender.core.promql import Flaws, quoted, read_series
from app.recommender.core.reading import Question

_HOUR_SECONDS: Final = 3600
_MOST_CLUSTERS: Final = 5  # that are named
_NAMESPACE: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_SHOWN_OF_NAME: Final = 60
_PREFIXES: Final = ("exported_", "")
_NO_OWNERS: Final = "Prometheus has no kube_pod_owner of kube-state-metrics: owners are not known"
_NO_REQUESTS: Final = (
    "Prometheus has no kube_pod_container_resource_requests of kube-state-metrics: requests and "
    "limits are not known"
)


@dataclass(frozen=True, slots=True)
class PrometheusSurvey:
    """What was found."""

    names: MetricNames
    notes: Sequence[str]
    sizes: Mapping[str, NamespaceSizes]  # by namespace


def survey(
    server: PatientPrometheus, names: MetricNames, namespace: str, span: RecordingSpan
) -> PrometheusSurvey:
    """Look at what there is; labels may be those of older or of newer versions.

    Raises:
        BadSetting: there is nothing to record.
        ClusterError: a question is refused, or there is no answer.
    """
    looks = [_moment(span.end), _moment(span.time(span.count // 2))]

    def has(query: str) -> bool:
        return any(_has_series(server, Question(query, look)) for look in looks)

    newer = replace(names, cadvisor_job="", pod="pod", container="container", namespace="namespace")
    usual = next((one for one in (names, newer) if has(usage_probe(one))), None)
    if usual is None:
        query = usage_probe(names)
        raise BadSetting(f"Prometheus has no usage of containers: nothing answers {query}")
    notes = []
    if usual != names:
        notes.append(
            f"nothing has the labels {names.pod} and {names.container} of job "
            f"{names.cadvisor_job}, so pod and container of any job are read"
        )
    for look in looks:
        _check_clusters(server, usual, look)
    prefix = next((one for one in _PREFIXES if has(state_probe(usual, one))), None)
    has_requests = has(requests_probe(usual))
    notes += [_NO_OWNERS] if prefix is None else []
    notes += [] if has_requests else [_NO_REQUESTS]
    found = replace(usual, state_prefix=prefix or "", has_requests=has_requests)
    sizes = _sizes(server, found, namespace, span)
    for name in [one for one in sizes if not _NAMESPACE.fullmatch(one)]:
        del sizes[name]
        notes.append(f"{name[:_SHOWN_OF_NAME]!a} is no name of a namespace, so it is left out")
    if not sizes:
        where = f"in namespace {namespace}" if namespace else "in any namespace"
        raise BadSetting(f"Prometheus has no usage of containers {where} within that time")
    return PrometheusSurvey(found, notes, sizes)


def _has_series(server: PatientPrometheus, question: Question) -> bool:
    return any(True for _ in read_series(server.ask(question), Flaws()))


def _check_clusters(server: PatientPrometheus, names: MetricNames, look: datetime) -> None:
    """Check that pods of one name are the same ones.

    Raises:
        BadSetting: there are several clusters, whose pods would be added up.
    """
    found: dict[str, set[str]] = {label: set() for label in CLUSTER_LABELS}
    for series in read_series(server.ask(Question(clusters_query(names), look)), Flaws()):
        for label, known in found.items():
            known.add(series.labels.get(label, ""))
    for label, known in found.items():
        clusters = sorted(known - {""})
        if len(clusters) > 1:
            told = ", ".join(clusters[:_MOST_CLUSTERS])
            choice = f"{label}={quoted(clusters[0])}"
            raise BadSetting(
                f"Prometheus has containers of {len(clusters)} clusters ({told}): choose one, as "
                f"with --prometheus-selector='{choice}'"
            )


def _sizes(
    server: PatientPrometheus, names: MetricNames, namespace: str, span: RecordingSpan
) -> dict[str, NamespaceSizes]:
    over = max(_HOUR_SECONDS // span.step, 1)
    query = sizes_query(names, namespace, over * span.step)
    found: dict[str, NamespaceSizes] = {}
    columns = range(span.count % over or over, span.count + 1, over)
    for one, time, number in _counted(server, query, span, columns):
        size = found.setdefault(one.get(names.namespace, ""), NamespaceSizes(over))
        size.counts[round((time - span.start) / span.step)] = int(number)
    found.pop("", None)
    return found


def _counted(
    server: PatientPrometheus, query: str, span: RecordingSpan, columns: range
) -> Iterator[tuple[Mapping[str, str], float, float]]:
    """Yield labels, time and value of each point; what is too much is asked for in halves."""
    first, last = _moment(span.time(columns[0])), _moment(span.time(columns[-1]))
    step = timedelta(seconds=columns.step * span.step)
    try:
        body = server.ask(Question(query, last, first, step))
    except TooMuch:
        half = len(columns) // 2
        if not half:
            raise
        yield from _counted(server, query, span, columns[:half])
        yield from _counted(server, query, span, columns[half:])
        return
    for series in read_series(body, Flaws()):
        for time, value in zip(series.times, series.values, strict=True):
            yield series.labels, time, value


def _moment(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
