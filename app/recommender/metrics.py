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

from prometheus_client import CollectorRegistry, Counter, Histogram

from app.runtime.buckets import ANSWER, EXECUTION, FIRST_RECOMMENDATION
from app.runtime.families import Families

_STATE: Final = ("update_mode", "has_recommendation", "api", "matches_pods", "unsupported_config")
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
            "aggregate_container_states_count", "Histories of usage that are kept."
        )
        self._usage_answers = families.counter(
            "metric_server_responses",
            "Answers to questions about usage.",
            "is_error",
            "client_name",
        )
        self._prometheus_requests, self._prometheus_seconds = _of_prometheus(families)
        resources = Families(registry, "vpa_resources").counter(
            "get_resources_count",
            "Looks at the resources of containers, by where they were read.",
            "source",
        )
        self._overlapping = families.gauge(  # ours
            "overlapping_pods",
            "Pods that several VPAs claim by selectors, by namespace.",
            "namespace",
        )
        self._fates = families.counter(  # ours
            "samples", "Samples and kills for memory, by what became of them.", "fate"
        )
        self._failed_writes, self._late_writes = _of_writes(families)
        self._refused_checkpoints = families.counter(  # ours
            "refused_checkpoints",
            "Checkpoints that could not be used, each for the same reason once.",
        )
        self._left_out = families.counter(  # ours
            "left_out_objects",
            "Objects that were left out by a defect of ours, each time; the log names them.",
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
        "Statuses and checkpoints that could not be written, and are tried again.",
        "object",
    )
    late = families.counter(
        "put_off_writes",
        "Statuses and checkpoints that there was no time to write; they come first next time.",
        "object",
    )
    for kind in Written:  # a rise is seen only where there was a zero before
        failed.labels(kind)
        late.labels(kind)
    return failed, late
