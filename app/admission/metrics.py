"""Metrics of the admission webhook."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import StrEnum
from functools import cache, partial

from prometheus_client import CollectorRegistry, Counter, Histogram

from app.runtime.metric_families import ANSWER, EXECUTION, Buckets, Count, Families, HistogramSeries


class Step(StrEnum):
    """The steps of answering a review."""

    READ_REQUEST = "read_request"
    ADMIT = "admit"
    BUILD_RESPONSE = "build_response"
    WRITE_RESPONSE = "write_response"
    TOTAL = "total"


class Drop(StrEnum):
    """Why nothing was done about a review."""

    CLIENT_GONE = "ClientGone"
    TIME_OVER = "TimeOver"


class ReviewLimit(StrEnum):
    """What of reviews is taken, or remembered, at most."""

    REVIEW_BYTES = "review_bytes"
    PENDING_VPAS = "pending_vpas"


class AdmissionMetrics:
    """What the webhook counts and times; failures start at 0, so alerts see the first one."""

    def __init__(self, registry: CollectorRegistry, failures: Iterable[str] = ()) -> None:
        families = Families(registry, "vpa_admission_controller")
        pods = families.counter(
            "admission_pods_total",
            "Pods that were reviewed, by whether a VPA applies to them.",
            "applied",
        )
        latency = families.histogram(
            "admission_latency_seconds",
            "Time to answer a review, by how it ended and what it was about.",
            ANSWER,
            "status",
            "resource",
        )
        execution = families.histogram(
            "execution_latency_seconds",
            "Time of each step of answering a review.",
            EXECUTION,
            "step",
        )
        skipped = families.counter(
            "skipped_pods_total", "Pods that no VPA applies to, by reason.", "reason"
        )
        failed_open = families.counter(
            "failed_open_pods_total",
            "Pods admitted unchanged because of an error (fail open), by reason.",
            "reason",
        )
        refused = families.counter(
            "refused_vpas_total", "VPAs that were refused, by reason.", "reason"
        )
        dropped = families.counter(
            "dropped_reviews_total",
            "Reviews dropped because their client had gone or their time was over.",
            "reason",
        )
        # Each is put aside once, so the caches keep all; labels are words of the program.
        self._unsettled: list[Count | HistogramSeries] = []
        self._pods = {True: self._count(pods, "true"), False: self._count(pods, "false")}
        self._latency = cache(lambda *labels: self._tally(latency.labels(*labels), ANSWER))
        self._steps = {step.value: self._tally(execution.labels(step), EXECUTION) for step in Step}
        self._skipped = cache(partial(self._count, skipped))
        self._failed_open = cache(partial(self._count, failed_open))
        self._refused = cache(refused.labels)
        self._dropped = {drop: dropped.labels(drop.value) for drop in Drop}
        for reason in failures:  # these start at 0, so that the first failure is a visible increase
            self._failed_open(reason)

    def pod(self, *, applied: bool) -> None:
        """Count a pod that was reviewed."""
        self._pods[applied].add()

    def review(self, status: str, resource: str, seconds: float) -> None:
        """Time a review by how it ended and what it was about."""
        self._latency(status, resource).add(seconds)

    def timer(self, step: str) -> Callable[[float], object]:
        """Return a function that records the seconds of a step of each review."""
        return self._steps[step].add

    def settle(self) -> None:
        """Let a scrape see all that was counted and timed."""
        for number in self._unsettled:
            number.settle()

    def _tally(self, series: Histogram, bounds: Buckets) -> HistogramSeries:
        tally = HistogramSeries(series, bounds)
        self._unsettled.append(tally)
        return tally

    def _count(self, counter: Counter, label: str) -> Count:
        count = Count(counter.labels(label))
        self._unsettled.append(count)
        return count

    def pod_skipped(self, reason: str) -> None:
        """Count a pod that no VPA changes."""
        self._skipped(reason).add()

    def pod_failed_open(self, reason: str) -> None:
        """Count a pod that went through unchanged because something was wrong."""
        self._failed_open(reason).add()

    def review_dropped(self, reason: Drop) -> None:
        """Count a review that nothing was done about."""
        self._dropped[reason].inc()

    def vpa_refused(self, reason: str) -> None:
        """Count a VPA that was refused."""
        self._refused(reason).inc()


class WorkerLoss(StrEnum):
    """Why a worker had to be replaced."""

    ENDED = "ended"
    HUNG = "hung"


class WorkerMetrics:
    """What the supervisor of workers counts; both reasons start at 0."""

    def __init__(self, registry: CollectorRegistry) -> None:
        families = Families(registry, "vpa_admission_controller")
        self._replaced = families.counter(
            "replaced_workers_total",
            "Workers that were replaced, by reason; only with several workers.",
            "reason",
        )
        for reason in WorkerLoss:
            self._replaced.labels(reason)

    def lost(self, reason: WorkerLoss) -> None:
        """Count a worker that is replaced."""
        self._replaced.labels(reason).inc()
