"""Numbers of the recommender, and of how good its recommendations are."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterable
from enum import StrEnum
from functools import lru_cache
from itertools import product
from typing import Final, NamedTuple

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from app.telemetry.buckets import ANSWER, BYTES, CORES, EXECUTION, FIRST_RECOMMENDATION, RELATIVE
from app.telemetry.sizes import size_log2

_PREFIX: Final = "vpa_recommender"
_QUALITY: Final = "vpa_quality"
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


class Source(StrEnum):
    """Where the resources of a container were read."""

    STATUS = "Pod.Status.ContainerStatuses"
    INIT_STATUS = "Pod.Status.InitContainerStatuses"
    SPEC = "Pod.Spec.Containers"
    INIT_SPEC = "Pod.Spec.InitContainers"


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
        self._prometheus_requests = Counter(
            f"{_PREFIX}_prometheus_client_api_requests_count",
            "Requests to Prometheus.",
            ["code", "method"],
            registry=registry,
        )
        self._prometheus_seconds = Histogram(
            f"{_PREFIX}_prometheus_client_api_requests_duration_seconds",
            "Time of requests to Prometheus.",
            ["code", "method"],
            buckets=ANSWER,
            registry=registry,
        )
        resources = Counter(
            "vpa_resources_get_resources_count",
            "Looks at the resources of containers, by where they were read.",
            ["source"],
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

    def resources_read(self, source: Source) -> None:
        """Count a look at the resources of a container."""
        self._resources(source).inc()


class QualityMetrics:
    """How usage compares with what was recommended; amounts are cores and bytes."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def histogram(
            name: str, meaning: str, buckets: tuple[float, ...], *labels: str
        ) -> Histogram:
            return Histogram(
                f"{_QUALITY}_{name}",
                meaning,
                ("update_mode", *labels),
                buckets=buckets,
                registry=registry,
            )

        over = "How far the recommendation was above usage."
        below = "How far usage was above the recommendation, or just at it."
        self._relative = histogram(
            "usage_recommendation_relative_diffs",
            "How far usage was from the recommendation, as a share of it.",
            RELATIVE,
            "resource",
            "is_oom",
        )
        self._missing = Counter(
            f"{_QUALITY}_usage_sample_missing_recommendation_count",
            "Usage for which there was no recommendation.",
            ["update_mode", "resource", "is_oom"],
            registry=registry,
        )
        missing = "recommendation_missing"
        self._cpu_over = histogram(
            "cpu_recommendation_over_usage_diffs_cores", over, CORES, missing
        )
        self._cpu_below = histogram(
            "cpu_recommendation_lower_equal_usage_diffs_cores", below, CORES, missing
        )
        self._memory_over = histogram(
            "mem_recommendation_over_usage_diffs_bytes", over, BYTES, missing, "is_oom"
        )
        self._memory_below = histogram(
            "mem_recommendation_lower_equal_usage_diffs_bytes", below, BYTES, missing, "is_oom"
        )
        self._cpu = histogram("cpu_recommendations_cores", "Recommended CPU.", CORES)
        self._memory = histogram(
            "mem_recommendations_bytes", "Recommended memory.", BYTES, "is_oom"
        )
        self._changes = histogram(
            "relative_recommendation_changes",
            "How far a recommendation went from the one before it, as a share of that.",
            RELATIVE,
            "resource",
            "vpa_size_log2",
        )

    def cpu(self, mode: str, used: float, recommended: float) -> None:
        """Compare a sample of CPU usage with the recommendation, 0 if there is none."""
        self._compare(mode, "cpu", used, recommended, is_oom=False)
        missing = _TRUTH[not recommended]
        compared = self._cpu_over if recommended > used else self._cpu_below
        compared.labels(mode, missing).observe(abs(recommended - used))
        if recommended:
            self._cpu.labels(mode).observe(recommended)

    def memory(self, mode: str, used: float, recommended: float, *, is_oom: bool) -> None:
        """Compare a memory peak, or a kill for memory, with the recommendation, 0 if none."""
        self._compare(mode, "memory", used, recommended, is_oom=is_oom)
        missing, oom = _TRUTH[not recommended], _TRUTH[is_oom]
        compared = self._memory_over if recommended > used else self._memory_below
        compared.labels(mode, missing, oom).observe(abs(recommended - used))
        if recommended:
            self._memory.labels(mode, oom).observe(recommended)

    def changed(self, mode: str, resource: str, pods: int, before: float, after: float) -> None:
        """Tell how far a recommendation went; nothing if there was none before."""
        if before:
            labels = self._changes.labels(mode, resource, size_log2(pods))
            labels.observe(after / before - 1)

    def _compare(
        self, mode: str, resource: str, used: float, recommended: float, *, is_oom: bool
    ) -> None:
        if recommended:
            labels = self._relative.labels(mode, resource, _TRUTH[is_oom])
            labels.observe((used - recommended) / recommended)
        else:
            self._missing.labels(mode, resource, _TRUTH[is_oom]).inc()
