"""The rules of recommending that flags ask for."""

from __future__ import annotations

from typing import Any, Protocol

from app.model.gates import FeatureGate
from app.recommender.core.rules import (
    AggregationRules,
    CapRules,
    EstimatorRules,
    Extras,
    FormatRules,
    PublishRules,
    RecommenderRules,
    ResourceRules,
)
from app.recommender.flags import (
    Aggregation,
    Estimation,
    Format,
    Loop,
    PostProcessing,
)
from app.recommender.likeness import Likeness, ParityWith
from app.recommender.upstream.variant import UPSTREAM
from app.recommender.variants import OURS, Variant


class Tuned(Protocol):
    """Settings of whatever runs a recommender."""

    @property
    def loop(self) -> Loop:
        """The loop."""
        ...

    @property
    def estimation(self) -> Estimation:
        """How usage becomes a recommendation."""
        ...

    @property
    def format(self) -> Format:
        """How recommendations are written."""
        ...

    @property
    def aggregation(self) -> Aggregation:
        """How usage is gathered."""
        ...

    @property
    def post_processing(self) -> PostProcessing:
        """What happens to a recommendation before it is published."""
        ...

    @property
    def likeness(self) -> Likeness:
        """Likeness to upstream."""
        ...


def recommender_rules(settings: Tuned) -> RecommenderRules:
    """Return the rules of the recommender's core."""
    loop, caps = settings.loop, settings.post_processing
    extras: dict[str, Any] = dict.fromkeys(settings.likeness.extras, True)
    rules = RecommenderRules(
        name=loop.name,
        estimator=_estimator(settings.estimation),
        aggregation=_aggregation(settings.aggregation),
        format=FormatRules(
            round_cpu_millicores=settings.format.round_cpu_millicores,
            round_memory_bytes=settings.format.round_memory_bytes,
            humanize_memory=settings.format.humanize_memory,
        ),
        caps=CapRules(
            integer_cpu=caps.integer_cpu,
            max_allowed_cpu=caps.max_cpu,
            max_allowed_memory=caps.max_memory,
        ),
        publish=PublishRules(least_vpas=loop.update_workers),
        memory_saver=loop.memory_saver,
        per_vpa_config=FeatureGate.PER_VPA_CONFIG in loop.gates,
        cpu_startup_boost=FeatureGate.CPU_STARTUP_BOOST in loop.gates,
        extras=Extras(**extras),
    )
    return variant_of(settings.likeness).tuned(rules)


def variant_of(likeness: Likeness) -> Variant:
    """Return the way to recommend that flags ask for."""
    return UPSTREAM if likeness.parity is ParityWith.UPSTREAM else OURS


def _estimator(told: Estimation) -> EstimatorRules:
    return EstimatorRules(
        margin_fraction=told.margin,
        min_cpu_millicores=told.min_cpu_millicores,
        min_memory_mib=told.min_memory_mib,
        cpu=ResourceRules(told.target_cpu, told.lower_cpu, told.upper_cpu, told.confidence_cpu),
        memory=ResourceRules(
            told.target_memory, told.lower_memory, told.upper_memory, told.confidence_memory
        ),
    )


def _aggregation(told: Aggregation) -> AggregationRules:
    return AggregationRules(
        cpu_half_life=told.cpu_half_life,
        memory_half_life=told.memory_half_life,
        memory_interval=told.memory_interval,
        memory_interval_count=told.memory_interval_count,
        oom_bump_up_ratio=told.oom_bump_up_ratio,
        oom_min_bump_up_bytes=told.oom_min_bump_up_bytes,
    )
