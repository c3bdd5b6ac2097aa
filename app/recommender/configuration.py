"""What a recommender works with: the rules that flags ask for, and the rest of its process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Final

from app.model.errors import BadSetting
from app.model.gates import FeatureGate
from app.model.snapshot import Snapshot
from app.ports import Clock, Owners
from app.recommender.checkpoint_store import CheckpointSource
from app.recommender.core.promql import PastRules
from app.recommender.core.rules import (
    AggregationRules,
    CapRules,
    EstimatorRules,
    FormatRules,
    RecommenderRules,
    ResourceRules,
)
from app.recommender.flags import (
    AggregationFlags,
    EstimationFlags,
    FormatFlags,
    ParityWith,
    PostProcessingFlags,
    RecommenderSettings,
)
from app.recommender.metrics import RecommenderMetrics
from app.recommender.past_reader import PastReader
from app.recommender.report import RoundReport
from app.recommender.upstream.variant import UPSTREAM
from app.recommender.usage_feed import UsageSource
from app.recommender.variants import OURS, Variant

_PROMETHEUS: Final = "prometheus"
_MOST_POINTS: Final = 100_000  # of each container


@dataclass(frozen=True, slots=True)
class RoundRules:
    """How rounds go."""

    model_rules: RecommenderRules
    variant: Variant = OURS
    interval_seconds: float = 60.0
    namespace: str = ""
    ignored_namespaces: frozenset[str] = frozenset()
    threads: int = 10
    keeps_checkpoints: bool = True
    checkpoint_seconds: float = 60.0
    orphans_seconds: float = 600.0
    checkpoints_per_minute: int = 300  # at least so many may be written


@dataclass(frozen=True, slots=True)
class RecommenderContext:
    """The rest of the process, as far as a recommender uses it."""

    snapshot: Callable[[], Snapshot]
    owners: Owners
    usage: UsageSource
    checkpoints: CheckpointSource
    clock: Clock
    metrics: RecommenderMetrics
    report: RoundReport
    past: PastReader | None = None  # instead of checkpoints
    server_now: Callable[[], datetime | None] = lambda: None  # the time by the API server's clock


def round_rules(settings: RecommenderSettings) -> RoundRules:
    """Return how rounds go."""
    loop, history, scope = settings.loop, settings.history, settings.scope
    variant = UPSTREAM if settings.likeness.parity is ParityWith.UPSTREAM else OURS
    return RoundRules(
        model_rules=variant.adjust_rules(_model_rules(settings)),
        variant=variant,
        interval_seconds=loop.interval.total_seconds(),
        namespace=scope.namespace,
        ignored_namespaces=frozenset(scope.ignored_namespaces),
        threads=loop.update_workers,
        keeps_checkpoints=not has_past(settings),
        checkpoint_seconds=history.checkpoints_timeout.total_seconds(),
        orphans_seconds=history.checkpoints_gc_interval.total_seconds(),
    )


def _model_rules(settings: RecommenderSettings) -> RecommenderRules:
    """Return the rules of the recommender's core."""
    loop = settings.loop
    return replace(
        amount_rules(
            settings.estimation, settings.aggregation, settings.format, settings.post_processing
        ),
        name=loop.name,
        memory_saver=loop.memory_saver,
        per_vpa_config=FeatureGate.PER_VPA_CONFIG in loop.gates,
        native_sidecars=loop.native_sidecars,
        cpu_startup_boost=FeatureGate.CPU_STARTUP_BOOST in loop.gates,
        expects_past=has_past(settings),
        gathers_quality=True,
    )


def amount_rules(
    estimation: EstimationFlags,
    aggregation: AggregationFlags,
    formatting: FormatFlags,
    caps: PostProcessingFlags,
) -> RecommenderRules:
    """Return the rules that make amounts of samples; the others are the usual ones."""
    return RecommenderRules(
        estimator=_estimator(estimation),
        aggregation=AggregationRules(**asdict(aggregation)),  # of the same names
        format=FormatRules(**asdict(formatting)),
        caps=CapRules(
            integer_cpu=caps.integer_cpu,
            max_allowed_cpu=caps.max_cpu,
            max_allowed_memory=caps.max_memory,
        ),
    )


def has_past(settings: RecommenderSettings) -> bool:
    """Whether the past is read from Prometheus; then there are no checkpoints."""
    return settings.history.storage == _PROMETHEUS


def past_rules(settings: RecommenderSettings) -> PastRules:
    """Return where the past is to be found.

    Raises:
        BadSetting: it has more points than can be read.
    """
    flags, past = settings.prometheus, settings.past
    if past.length.span > past.resolution.span * _MOST_POINTS:
        raise BadSetting(
            f"--history-length={past.length.text} has more than {_MOST_POINTS} points of "
            f"--history-resolution={past.resolution.text}"
        )
    return PastRules(
        cadvisor_job=flags.cadvisor_job,
        length=past.length,
        resolution=past.resolution,
        cpu_metric=flags.cpu_metric,
        memory_metric=flags.memory_metric,
        pod_labels_metric=past.pod_labels_metric,
        pod_label_prefix=past.pod_label_prefix,
        pod_namespace_label=past.pod_namespace_label,
        pod_name_label=past.pod_name_label,
        container_namespace_label=flags.container_namespace_label,
        container_pod_name_label=flags.container_pod_name_label,
        container_name_label=flags.container_name_label,
        sampling=settings.loop.interval,
    )


def _estimator(flags: EstimationFlags) -> EstimatorRules:
    return EstimatorRules(
        margin_fraction=flags.margin,
        min_cpu_millicores=flags.min_cpu_millicores,
        min_memory_mib=flags.min_memory_mib,
        cpu=ResourceRules(flags.target_cpu, flags.lower_cpu, flags.upper_cpu, flags.confidence_cpu),
        memory=ResourceRules(
            flags.target_memory, flags.lower_memory, flags.upper_memory, flags.confidence_memory
        ),
    )
