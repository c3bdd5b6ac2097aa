"""Numbers of the recommender: of its work, of the quality of recommendations, and these themselves.

Strategy: names, labels and buckets are upstream's, but where a comment says that a number is ours.
Usage is compared in arrays, for every sample of every container is. Recommendations as metrics may
be hundreds of thousands of series, so they are no part of /metrics: they have a path of their own,
and are written straight from what is known.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from functools import lru_cache
from itertools import product
from typing import Final

import numpy as np
from numpy.typing import ArrayLike
from prometheus_client import CollectorRegistry, Counter, Histogram

from app.model.update_modes import UpdateMode
from app.model.vpa import ContainerRecommendation, Vpa
from app.recommender.core.histograms import Flags, Floats
from app.recommender.core.rules import CPU, MEMORY
from app.recommender.core.status import ConditionType
from app.runtime.metric_families import (
    ANSWER,
    BYTES,
    CORES,
    EXECUTION,
    FIRST_RECOMMENDATION,
    RELATIVE,
    Buckets,
    Families,
    size_log2,
)

_STATE: Final = ("update_mode", "has_recommendation", "api", "matches_pods", "unsupported_config")
_TRUTH: Final = {True: "true", False: "false"}

_VERSIONS: Final = ("v1beta1", "v1beta2", "v1")


RECOMMENDATION: Final = "plumbline_recommendation"
RECOMMENDATION_LABELS: Final = ("namespace", "vpa", "container", "resource", "bound")
RECOMMENDATION_MEANING: Final = "What a VPA recommends for a container: cores, or bytes."


class RoundPhase(StrEnum):
    """The steps of one round."""

    LOAD_VPAS = "LoadVPAs"
    LOAD_PODS = "LoadPods"
    LOAD_METRICS = "LoadMetrics"
    DELETE_REMOVED_PODS = "DeleteRemovedPods"
    UPDATE_VPAS = "UpdateVPAs"
    MAINTAIN_CHECKPOINTS = "MaintainCheckpoints"
    GARBAGE_COLLECT = "GarbageCollect"
    TOTAL = "total"


class Written(StrEnum):
    """What is written."""

    STATUS = "status"
    CHECKPOINT = "checkpoint"


class ResourcesSource(StrEnum):
    """Where the resources of a container were read."""

    STATUS = "Pod.Status.ContainerStatuses"
    SPEC = "Pod.Spec.Containers"


# What is shown of VPAs even where there are none.
_ALWAYS_SHOWN: Final = tuple(
    product(UpdateMode, _TRUTH.values(), _VERSIONS, _TRUTH.values(), _TRUTH.values())
)


def state_labels(vpa: Vpa) -> tuple[str, ...]:
    """Return the labels by which a VPA is counted; no mode counts as Recreate."""
    conditions = {one.type for one in vpa.conditions if one.status == "True"}
    mode = vpa.update_policy.mode if vpa.update_policy is not None else None
    return (
        mode or UpdateMode.RECREATE,
        _TRUTH[bool(vpa.recommendation)],
        "v1",
        _TRUTH[ConditionType.NO_PODS_MATCHED not in conditions],
        _TRUTH[ConditionType.CONFIG_UNSUPPORTED in conditions],
    )


class RecommenderMetrics:
    """What the recommender counts and times."""

    def __init__(self, registry: CollectorRegistry) -> None:
        families = Families(registry, "vpa_recommender")
        self._objects = families.gauge("vpa_objects_count", "VPAs by their state.", *_STATE)
        self._first_recommendation = families.histogram(
            "recommendation_latency_seconds",
            "Time from the creation of a VPA to its first recommendation.",
            FIRST_RECOMMENDATION,
        )
        execution = families.histogram(
            "execution_latency_seconds", "Time of each step of a round.", EXECUTION, "step"
        )
        self._aggregates = families.gauge(
            "aggregate_container_states_count", "Container histories in memory."
        )
        self._usage_answers = families.counter(
            "metric_server_responses",
            "Responses of the metrics source.",
            "is_error",
            "client_name",
        )
        self._prometheus_requests, self._prometheus_seconds = _of_prometheus(families)
        resources = Families(registry, "vpa_resources").counter(
            "get_resources_count",
            "Reads of container resources, by source.",
            "source",
        )
        self._overlapping = families.gauge(  # ours
            "overlapping_pods",
            "Pods that several VPAs claim by selectors, by namespace.",
            "namespace",
        )
        self._fates = families.counter(  # ours
            "samples", "Usage samples and OOM kills, by outcome.", "fate"
        )
        self._failed_writes, self._late_writes = _of_writes(families)
        self._refused_checkpoints = families.counter(  # ours
            "refused_checkpoints",
            "Checkpoints that could not be used; each counts once per reason.",
        )
        self._left_out = families.counter(  # ours
            "left_out_objects",
            "Objects skipped because of a bug, each time; the log names them.",
        )
        self._execution = lru_cache(execution.labels)
        self._resources = lru_cache(resources.labels)

    def vpas(self, states: Iterable[tuple[str, ...]]) -> None:
        """Show how many VPAs have the same labels, in place of what was shown before."""
        counts = Tally(states)
        self._objects.clear()
        for labels in {*_ALWAYS_SHOWN, *counts}:
            self._objects.labels(*labels).set(counts[labels])

    def first_recommendation(self, seconds: float) -> None:
        """Time a VPA's first recommendation, from its creation."""
        self._first_recommendation.observe(seconds)

    def step(self, step: str, seconds: float) -> None:
        """Time a step of a round."""
        self._execution(step).observe(seconds)

    def aggregates(self, count: int) -> None:
        """Tell how many histories of usage are kept."""
        self._aggregates.set(count)

    def usage_answer(self, client: str, *, is_error: bool) -> None:
        """Count an answer to a question about usage."""
        self._usage_answers.labels(_TRUTH[is_error], client).inc()

    def prometheus_request(self, code: str, method: str, seconds: float) -> None:
        """Count and time a request to Prometheus."""
        self._prometheus_requests.labels(code, method).inc()
        self._prometheus_seconds.labels(code, method).observe(seconds)

    def resources_read(self, source: ResourcesSource, times: int = 1) -> None:
        """Count looks at the resources of containers."""
        self._resources(source).inc(times)

    def overlaps(self, pods: Mapping[str, int]) -> None:
        """Show how many pods of each namespace overlap, in place of what was shown before."""
        self._overlapping.clear()
        for namespace, count in pods.items():
            self._overlapping.labels(namespace).set(count)

    def write_failed(self, kind: Written) -> None:
        """Count what could not be written."""
        self._failed_writes.labels(kind).inc()

    def write_put_off(self, kind: Written) -> None:
        """Count what there was no time to write."""
        self._late_writes.labels(kind).inc()

    def checkpoint_refused(self) -> None:
        """Count a checkpoint that cannot be used."""
        self._refused_checkpoints.inc()

    def left_out(self, count: int) -> None:
        """Count objects at which our own code failed."""
        self._left_out.inc(count)

    def fates(self, counts: Mapping[str, int]) -> None:
        """Count samples and kills by what became of them."""
        for fate, count in counts.items():
            self._fates.labels(fate).inc(count)


def _of_prometheus(families: Families) -> tuple[Counter, Histogram]:
    """Return what counts and what times requests to Prometheus."""
    name, labels = "prometheus_client_api_requests", ("code", "method")
    counts = families.counter(f"{name}_count", "Requests to Prometheus.", *labels)
    seconds = families.histogram(
        f"{name}_duration_seconds", "Time of requests to Prometheus.", ANSWER, *labels
    )
    return counts, seconds


def _of_writes(families: Families) -> tuple[Counter, Counter]:
    """Return what counts writes that failed, and those that were put off; both are ours."""
    failed = families.counter(
        "failed_writes",
        "Statuses and checkpoints that could not be written; they are retried.",
        "object",
    )
    late = families.counter(
        "put_off_writes",
        "Statuses and checkpoints postponed for lack of time; they come first in the next round.",
        "object",
    )
    for kind in Written:  # a rise is seen only where there was a zero before
        failed.labels(kind)
        late.labels(kind)
    return failed, late


class QualityMetrics:
    """How usage compares with what was recommended; amounts are cores and bytes."""

    def __init__(self, registry: CollectorRegistry) -> None:
        families = Families(registry, "vpa_quality")
        histogram = families.histogram
        mode, missing = "update_mode", "recommendation_missing"
        over = "How far the recommendation was above usage."
        below = "How far usage was above the recommendation, or just at it."
        self._relative = histogram(
            "usage_recommendation_relative_diffs",
            "How far usage was from the recommendation, as a share of it.",
            RELATIVE,
            *(mode, "resource", "is_oom"),
        )
        self._missing = families.counter(
            "usage_sample_missing_recommendation_count",
            "Usage for which there was no recommendation.",
            *(mode, "resource", "is_oom"),
        )
        cpu_over = histogram(
            "cpu_recommendation_over_usage_diffs_cores", over, CORES, mode, missing
        )
        cpu_below = histogram(
            "cpu_recommendation_lower_equal_usage_diffs_cores", below, CORES, mode, missing
        )
        memory_over = histogram(
            "mem_recommendation_over_usage_diffs_bytes", over, BYTES, mode, missing, "is_oom"
        )
        memory_below = histogram(
            "mem_recommendation_lower_equal_usage_diffs_bytes",
            below,
            BYTES,
            *(mode, missing, "is_oom"),
        )
        cpu = histogram("cpu_recommendations_cores", "Recommended CPU.", CORES, mode)
        memory = histogram(
            "mem_recommendations_bytes", "Recommended memory.", BYTES, mode, "is_oom"
        )
        self._by_resource = {
            CPU: (cpu_over, cpu_below, cpu, CORES),
            MEMORY: (memory_over, memory_below, memory, BYTES),
        }
        self._changes = histogram(
            "relative_recommendation_changes",
            "How far a recommendation went from the one before it, as a share of that.",
            RELATIVE,
            *(mode, "resource", "vpa_size_log2"),
        )

    def compare(
        self,
        mode: str,
        resource: str,
        used: ArrayLike,
        recommended: ArrayLike,
        *,
        is_oom: bool = False,
    ) -> None:
        """Compare usage, or kills for memory, with what was recommended, 0 where nothing was."""
        over, below, amounts, bounds = self._by_resource[resource]
        found, asked, oom = _column(used), _column(recommended), _TRUTH[is_oom]
        ooms = (oom,) if resource == MEMORY else ()
        self._relate((mode, resource, oom), found, asked)
        for missing, lines in _by_truth(asked == 0):
            off = asked[lines] - found[lines]
            _observe(over, bounds, (mode, missing, *ooms), off[off > 0])
            _observe(below, bounds, (mode, missing, *ooms), -off[off <= 0])
        _observe(amounts, bounds, (mode, *ooms), asked[asked > 0])

    def changed(
        self, mode: str, resource: str, pods: int, before: ArrayLike, after: ArrayLike
    ) -> None:
        """Tell how far recommendations went; nothing of those that had none before."""
        old, new = _column(before), _column(after)
        known = old > 0
        labels = (mode, resource, str(size_log2(pods)))
        _observe(self._changes, RELATIVE, labels, new[known] / old[known] - 1)

    def _relate(self, labels: tuple[str, ...], used: Floats, recommended: Floats) -> None:
        known = recommended > 0
        found, asked = used[known], recommended[known]
        with np.errstate(over="ignore"):  # of next to nothing
            _observe(self._relative, RELATIVE, labels, (found - asked) / asked)
        if missing := int((~known).sum()):
            self._missing.labels(*labels).inc(missing)


def _column(amounts: ArrayLike) -> Floats:
    return np.atleast_1d(np.asarray(amounts, dtype=np.float64))


def _by_truth(flags: Flags) -> Iterable[tuple[str, Flags]]:
    return ((_TRUTH[True], flags), (_TRUTH[False], ~flags))


def _observe(
    histogram: Histogram, bounds: Buckets, labels: tuple[str, ...], values: Floats
) -> None:
    """Observe many values at once; without any, the series does not come to be."""
    if not len(values):
        return
    series = histogram.labels(*labels)
    counts = np.bincount(np.searchsorted(bounds, values), minlength=len(bounds) + 1)
    series._sum.inc(float(values.sum()))
    for bucket, count in zip(series._buckets, counts.tolist(), strict=True):
        if count:
            bucket.inc(count)


def exposition(vpas: Iterable[Vpa]) -> bytes:
    """Return the answer to a scrape."""
    head = f"# HELP {RECOMMENDATION} {RECOMMENDATION_MEANING}\n# TYPE {RECOMMENDATION} gauge\n"
    return "".join((head, *_lines(vpas))).encode()


def _lines(vpas: Iterable[Vpa]) -> Iterator[str]:
    for vpa in vpas:
        for one in vpa.recommendation or ():
            container = _escaped(one.container)
            yield from _series(
                f'namespace="{vpa.namespace}",vpa="{vpa.name}",container="{container}"', one
            )


def _series(owner: str, one: ContainerRecommendation) -> Iterator[str]:
    for bound, amounts in (
        ("target", one.target),
        ("lowerBound", one.lower_bound),
        ("upperBound", one.upper_bound),
        ("uncappedTarget", one.uncapped_target),
    ):
        for resource, amount in amounts.items():
            labels = f'{owner},resource="{_escaped(resource)}",bound="{bound}"'
            yield f"{RECOMMENDATION}{{{labels}}} {amount.milli / 1000:.15g}\n"


def _escaped(name: str) -> str:
    """Return a name as it may stand between quotes; a status may hold any text."""
    return name.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
