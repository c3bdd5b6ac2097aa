"""Where the recommender reads usage, of now and of the past, as flags ask for."""

from __future__ import annotations

import logging
from typing import Final

from app.model.errors import BadSetting
from app.ports import Clock, Cluster
from app.recommender.backfill import Remembering
from app.recommender.core.promql import PastRules, Span
from app.recommender.core.usage import ExternalRules
from app.recommender.flags import RecommenderSettings
from app.recommender.metrics import RecommenderMetrics
from app.recommender.rules import variant_of
from app.recommender.usage import PodMetrics, UsageSource
from app.runtime.live import Runtime

log = logging.getLogger("recommender.usage")

_PROMETHEUS: Final = "prometheus"
_MOST_POINTS: Final = 100_000  # of each container


class PastReading:
    """The past, and the task that reads it."""

    def __init__(
        self,
        settings: RecommenderSettings,
        place: Runtime,
        metrics: RecommenderMetrics,
    ) -> None:
        from app.recommender.past_server import past_server  # large, and few need it

        server = past_server(settings, metrics)
        reading = variant_of(settings.likeness).history
        self.memory = Remembering(
            server, past_rules(settings), place.clock, settings.scope.namespace, reading
        )
        # Nobody else may close what the task is just using.
        self._task = place.loop("history", self.memory.tick, at_end=lambda _now: server.close())

    def start(self) -> None:
        """Begin."""
        self._task.start()

    def stop(self) -> None:
        """End, as soon as the question that is asked just now has been answered or given up."""
        self.memory.end()
        self._task.stop(1.0)


def past_reading(
    settings: RecommenderSettings,
    place: Runtime,
    metrics: RecommenderMetrics,
) -> PastReading | None:
    """Return the past if Prometheus is to tell of it, None if checkpoints are."""
    if not has_past(settings):
        return None
    return PastReading(settings, place, metrics)


def has_past(settings: RecommenderSettings) -> bool:
    """Whether Prometheus tells of the past; then there are no checkpoints."""
    return settings.history.storage == _PROMETHEUS


def usage_source(settings: RecommenderSettings, clock: Clock, cluster: Cluster) -> UsageSource:
    """Return where usage is read."""
    told = settings.external_metrics
    if not told.is_on:
        return PodMetrics(cluster, settings.scope.namespace)
    rules = ExternalRules(
        told.cpu_metric, told.memory_metric, settings.prometheus.container_name_label
    )
    if not rules.metrics:
        log.warning("no external metric is named, so no usage will be read")
    loop = settings.loop
    seconds = loop.interval.total_seconds()
    return variant_of(settings.likeness).external_usage(
        cluster, rules, clock, threads=loop.update_workers, seconds=seconds
    )


def past_rules(settings: RecommenderSettings) -> PastRules:
    """Return where the past is to be found.

    Raises:
        BadSetting: it has more points than anybody can read.
    """
    told = settings.prometheus
    if told.length.span > told.resolution.span * _MOST_POINTS:
        raise BadSetting(
            f"--history-length={told.length.text} has more than {_MOST_POINTS} points of "
            f"--history-resolution={told.resolution.text}"
        )
    return PastRules(
        cadvisor_job=told.cadvisor_job,
        length=Span(*told.length),
        resolution=Span(*told.resolution),
        cpu_metric=told.cpu_metric,
        memory_metric=told.memory_metric,
        pod_labels_metric=told.pod_labels_metric,
        pod_label_prefix=told.pod_label_prefix,
        pod_namespace_label=told.pod_namespace_label,
        pod_name_label=told.pod_name_label,
        container_namespace_label=told.container_namespace_label,
        container_pod_name_label=told.container_pod_name_label,
        container_name_label=told.container_name_label,
        sampling=settings.loop.interval,
    )
