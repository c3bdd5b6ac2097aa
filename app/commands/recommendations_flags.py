"""Settings of the list of recommendations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final, NamedTuple

from app.flags.flags import PATH, SWITCH, TEXT, FlagKind, flag, optional, rest
from app.flags.shared import ClusterAccess, Demo, Offline, OutputFormat, Selection
from app.recommender.source_flags import KubeletPrometheusFlags, PrometheusAccessFlags


@dataclass(frozen=True, slots=True)
class AskedRecommender:
    """A recommender to ask instead of a cluster."""

    url: str = flag("from", TEXT, "", "URL of a recommender, such as http://localhost:8942")
    token_file: Path | None = flag(
        "token-file", optional(PATH), "", "file with a bearer token for it"
    )
    ca_file: Path | None = flag(
        "ca-file", optional(PATH), "", "file with the CA of its certificate"
    )
    tokens_over_http: bool = flag(
        "tokens-over-http",
        SWITCH,
        "false",
        "send the token also over plain HTTP to another machine, where something else encrypts",
    )


class SortKey(StrEnum):
    """By what rows are sorted."""

    NAME = "name"
    PODS = "pods"  # most first
    CPU = "cpu"  # what is saved most first, what is most short last
    MEMORY = "memory"
    AGE = "age"  # the oldest first


class SortOrder(NamedTuple):
    """By what rows are sorted, and whether the last one comes first."""

    by: SortKey
    is_reversed: bool


def _sort_order(texts: Sequence[str]) -> SortOrder:
    text = texts[-1]
    return SortOrder(SortKey(text.removeprefix("-")), text.startswith("-"))


_SORTS: Final = ", ".join(SortKey)
SORT_ORDER: Final = FlagKind("COLUMN", f"{_SORTS}, each also behind a dash", _sort_order)


@dataclass(frozen=True, slots=True)
class ListFlags:
    """How recommendations are listed."""

    order: SortOrder = flag(
        "sort-by",
        SORT_ORDER,
        SortKey.NAME,
        f"sort by {_SORTS}: most pods, most saved or oldest first; a dash before the word "
        "turns the order round, so --sort-by=-memory shows first what is most short of memory",
    )
    watch: bool = flag("watch", SWITCH, "false", "show them again whenever they change", short="w")


@dataclass(frozen=True, slots=True)
class RecordedUsageFlags(KubeletPrometheusFlags):
    """Workloads without a VPA, from usage in Prometheus.

    Defaults are the names that current kubelets and kube-state-metrics use.
    """

    address: str = flag(
        "prometheus-address",
        TEXT,
        "",
        "URL of a Prometheus, such as http://localhost:9090: also show what would be recommended "
        "for workloads without a VPA, from the usage recorded there",
    )
    pod_label_prefix: str = flag(
        "pod-label-prefix", TEXT, "label_", "prefix of pod labels in the metric"
    )
    pod_labels_metric: str = flag(
        "metric-for-pod-labels", TEXT, "kube_pod_labels", "metric with pod labels"
    )
    pod_namespace_label: str = flag(
        "pod-namespace-label", TEXT, "namespace", "its label for the namespace"
    )
    pod_name_label: str = flag("pod-name-label", TEXT, "pod", "its label for the pod")


@dataclass(frozen=True, slots=True)
class RecommendationsSettings:
    """All that listing recommendations can be told."""

    selection: Selection
    showing: OutputFormat
    listing: ListFlags
    offline: Offline
    asking: AskedRecommender
    recorded: RecordedUsageFlags
    recorded_access: PrometheusAccessFlags
    demo: Demo
    cluster: ClusterAccess
    vpas: tuple[str, ...] = rest(
        "[VPA|WORKLOAD...]",
        "names of VPAs, or workloads such as deploy/web; without any all are shown",
    )
