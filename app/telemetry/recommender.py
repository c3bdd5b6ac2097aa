"""Numbers of the recommender.

Strategy: names, labels and buckets are upstream's, but where a comment says that a number is ours.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterable, Mapping
from enum import StrEnum
from functools import lru_cache
from itertools import product
from typing import Final, NamedTuple

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from app.telemetry.buckets import ANSWER, EXECUTION, FIRST_RECOMMENDATION

_PREFIX: Final = "vpa_recommender"
_TRUTH: Final = {True: "true", False: "false"}

# What is told of VPAs even where there are none.
_MODES: Final = ("Off", "Initial", "Recreate", "Auto", "InPlaceOrRecreate", "InPlace")
_VERSIONS: Final = ("v1beta1", "v1beta2", "v1")


class Step(StrEnum):
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


class Source(StrEnum):
    """Where the resources of a container were read."""

    STATUS = "Pod.Status.ContainerStatuses"
    SPEC = "Pod.Spec.Containers"


class VpaState(NamedTuple):
    """A VPA as it is counted."""

    update_mode: str  # unset counts as Recreate
    has_recommendation: bool
    version: str  # of the API
    matches_pods: bool
    unsupported_config: bool

    @property
    def labels(self) -> tuple[str, ...]:
        """The values of the labels."""
        return (
            self.update_mode,
            _TRUTH[self.has_recommendation],
            self.version,
            _TRUTH[self.matches_pods],
            _TRUTH[self.unsupported_config],
        )


_ALWAYS_TOLD: Final = tuple(
    VpaState(*words).labels
    for words in product(_MODES, (True, False), _VERSIONS, (True, False), (True, False))
)


class RecommenderMetrics:
    """What the recommender counts and times."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._objects = Gauge(
            f"{_PREFIX}_vpa_objects_count",
            "VPAs by their state.",
            ["update_mode", "has_recommendation", "api", "matches_pods", "unsupported_config"],
            registry=registry,
        )
        self._first_recommendation = Histogram(
            f"{_PREFIX}_recommendation_latency_seconds",
            "Time from the creation of a VPA to its first recommendation.",
            buckets=FIRST_RECOMMENDATION,
            registry=registry,
        )
        execution = Histogram(
            f"{_PREFIX}_execution_latency_seconds",
            "Time of each step of a round.",
            ["step"],
            buckets=EXECUTION,
            registry=registry,
        )
        self._aggregates = Gauge(
            f"{_PREFIX}_aggregate_container_states_count",
            "Histories of usage that are kept.",
            registry=registry,
        )
        self._usage_answers = Counter(
            f"{_PREFIX}_metric_server_responses",
            "Answers to questions about usage.",
            ["is_error", "client_name"],
            registry=registry,
        )
        self._prometheus_requests, self._prometheus_seconds = _of_prometheus(registry)
        resources = Counter(
            "vpa_resources_get_resources_count",
            "Looks at the resources of containers, by where they were read.",
            ["source"],
            registry=registry,
        )
        self._overlapping = Gauge(  # ours
            f"{_PREFIX}_overlapping_pods",
            "Pods that several VPAs claim by selectors, by namespace.",
            ["namespace"],
            registry=registry,
        )
        self._fates = Counter(  # ours
            f"{_PREFIX}_samples",
            "Samples and kills for memory, by what became of them.",
            ["fate"],
            registry=registry,
        )
        self._failed_writes, self._late_writes = _of_writes(registry)
        self._refused_checkpoints = Counter(  # ours
            f"{_PREFIX}_refused_checkpoints",
            "Checkpoints that could not be used, each for the same reason once.",
            registry=registry,
        )
        self._execution = lru_cache(execution.labels)
        self._resources = lru_cache(resources.labels)

    def vpas(self, states: Iterable[VpaState]) -> None:
        """Tell how many VPAs there are of each state, and no more what was told before."""
        counts = Tally(state.labels for state in states)
        self._objects.clear()
        for labels in {*_ALWAYS_TOLD, *counts}:
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

    def resources_read(self, source: Source, times: int = 1) -> None:
        """Count looks at the resources of containers."""
        self._resources(source).inc(times)

    def overlaps(self, pods: Mapping[str, int]) -> None:
        """Tell how many pods of each namespace overlap, and no more what was told before."""
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

    def fates(self, counts: Mapping[str, int]) -> None:
        """Count samples and kills by what became of them."""
        for fate, count in counts.items():
            self._fates.labels(fate).inc(count)


def _of_prometheus(registry: CollectorRegistry) -> tuple[Counter, Histogram]:
    """Return what counts and what times requests to Prometheus."""
    prefix, labels = f"{_PREFIX}_prometheus_client_api_requests", ["code", "method"]
    counts = Counter(f"{prefix}_count", "Requests to Prometheus.", labels, registry=registry)
    seconds = Histogram(
        f"{prefix}_duration_seconds",
        "Time of requests to Prometheus.",
        labels,
        buckets=ANSWER,
        registry=registry,
    )
    return counts, seconds


def _of_writes(registry: CollectorRegistry) -> tuple[Counter, Counter]:
    """Return what counts writes that failed, and those that were put off; both are ours."""
    failed = Counter(
        f"{_PREFIX}_failed_writes",
        "Statuses and checkpoints that could not be written, and are tried again.",
        ["object"],
        registry=registry,
    )
    late = Counter(
        f"{_PREFIX}_put_off_writes",
        "Statuses and checkpoints that there was no time to write; they come first next time.",
        ["object"],
        registry=registry,
    )
    for kind in Written:  # a rise is seen only where there was a zero before
        failed.labels(kind)
        late.labels(kind)
    return failed, late
