"""Settings of the recommender."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Annotated, ClassVar, Final

from app.flags.flags import (
    ADDRESS,
    DURATION,
    DURATION_ABOVE_ZERO,
    FRACTION,
    NUMBER,
    QUANTITY,
    SWITCH,
    TEXT,
    WHOLE,
    Flag,
    FlagKind,
    ListenAddress,
    RemovedFlag,
    chosen,
    number,
    optional,
    whole,
)
from app.flags.shared import (
    NO_EFFECT,
    ClusterAccess,
    LeaderElection,
    Logging,
    NativeSidecars,
    PortAccess,
    Profiling,
    Scope,
    feature_gates,
)
from app.model.errors import BadSetting
from app.model.gates import FeatureGates
from app.model.quantity import Quantity
from app.recommender.source_flags import (
    ExternalMetricsFlags,
    PrometheusAccessFlags,
    PrometheusFlags,
)


@dataclass(frozen=True, slots=True)
class RoundFlags:
    """The loop."""

    name: Annotated[
        str,
        Flag("recommender-name", TEXT, "default", "serve the VPAs that ask for this recommender"),
    ]
    interval: Annotated[
        timedelta,
        Flag("recommender-interval", DURATION_ABOVE_ZERO, "1m", "between two recommendations"),
    ]
    update_workers: Annotated[
        int, Flag("update-worker-count", whole(1), "10", "VPAs that are written at the same time")
    ]
    memory_saver: Annotated[
        bool,
        Flag(
            "memory-saver",
            SWITCH,
            "false",
            "with --parity=upstream: skip pods that no VPA selects; else such pods never have a "
            "history",
        ),
    ]
    address: Annotated[
        ListenAddress, Flag("address", ADDRESS, ":8942", "where metrics and health are served")
    ]
    gates: Annotated[FeatureGates, feature_gates()]
    native_sidecars: NativeSidecars


@dataclass(frozen=True, slots=True)
class HistoryFlags:
    """Where usage is remembered."""

    storage: Annotated[
        str, Flag("storage", TEXT, "", "prometheus, or checkpoints for anything else")
    ]
    checkpoints_timeout: Annotated[
        timedelta,
        Flag("checkpoints-timeout", DURATION, "1m", "longest time for checkpoints in one round"),
    ]
    checkpoints_gc_interval: Annotated[
        timedelta,
        Flag("checkpoints-gc-interval", DURATION, "10m", "between two searches for orphans"),
    ]
    min_checkpoints: Annotated[int, Flag("min-checkpoints", WHOLE, "10", NO_EFFECT)]


@dataclass(frozen=True, slots=True)
class EstimationFlags:
    """How usage becomes a recommendation."""

    margin: Annotated[
        float,
        Flag("recommendation-margin-fraction", NUMBER, "0.15", "safety margin on top of usage"),
    ]
    min_cpu_millicores: Annotated[
        float,
        Flag("pod-recommendation-min-cpu-millicores", NUMBER, "25", "least CPU of a pod"),
    ]
    min_memory_mib: Annotated[
        float,
        Flag("pod-recommendation-min-memory-mb", NUMBER, "250", "least memory of a pod, in MiB"),
    ]
    target_cpu: Annotated[
        float, Flag("target-cpu-percentile", FRACTION, "0.9", "share of CPU usage to be met")
    ]
    lower_cpu: Annotated[
        float,
        Flag("recommendation-lower-bound-cpu-percentile", FRACTION, "0.5", "for the lower bound"),
    ]
    upper_cpu: Annotated[
        float,
        Flag("recommendation-upper-bound-cpu-percentile", FRACTION, "0.95", "for the upper bound"),
    ]
    confidence_cpu: Annotated[
        timedelta,
        Flag(
            "confidence-interval-cpu",
            DURATION_ABOVE_ZERO,
            "24h",
            "history of CPU usage that gives a confidence of one",
        ),
    ]
    target_memory: Annotated[
        float, Flag("target-memory-percentile", FRACTION, "0.9", "share of memory peaks to be met")
    ]
    lower_memory: Annotated[
        float,
        Flag(
            "recommendation-lower-bound-memory-percentile", FRACTION, "0.5", "for the lower bound"
        ),
    ]
    upper_memory: Annotated[
        float,
        Flag(
            "recommendation-upper-bound-memory-percentile", FRACTION, "0.95", "for the upper bound"
        ),
    ]
    confidence_memory: Annotated[
        timedelta,
        Flag(
            "confidence-interval-memory",
            DURATION_ABOVE_ZERO,
            "24h",
            "history of memory usage that gives a confidence of one",
        ),
    ]


@dataclass(frozen=True, slots=True)
class FormatFlags:
    """How recommendations are written."""

    humanize_memory: Annotated[
        bool,
        Flag(
            "humanize-memory", SWITCH, "false", "memory with two decimals and a suffix; deprecated"
        ),
    ]
    round_cpu_millicores: Annotated[
        int, Flag("round-cpu-millicores", WHOLE, "1", "CPU is a multiple of this; below 2: of 1")
    ]
    round_memory_bytes: Annotated[
        int, Flag("round-memory-bytes", WHOLE, "1", "memory is a multiple of this; below 2: of 1")
    ]


@dataclass(frozen=True, slots=True)
class AggregationFlags:
    """How usage is gathered."""

    memory_interval: Annotated[
        timedelta,
        Flag("memory-aggregation-interval", DURATION_ABOVE_ZERO, "24h", "one memory peak each"),
    ]
    memory_interval_count: Annotated[
        int,
        Flag("memory-aggregation-interval-count", whole(1), "8", "intervals that are remembered"),
    ]
    memory_half_life: Annotated[
        timedelta,
        Flag(
            "memory-histogram-decay-half-life",
            DURATION_ABOVE_ZERO,
            "24h",
            "a memory peak so old counts half",
        ),
    ]
    cpu_half_life: Annotated[
        timedelta,
        Flag(
            "cpu-histogram-decay-half-life",
            DURATION_ABOVE_ZERO,
            "24h",
            "CPU usage so old counts half",
        ),
    ]
    oom_bump_up_ratio: Annotated[
        float,
        Flag("oom-bump-up-ratio", number(1), "1.2", "memory grows so much after a kill for memory"),
    ]
    oom_min_bump_up_bytes: Annotated[
        float,
        Flag("oom-min-bump-up-bytes", number(0), "104857600", "and at least by so many bytes"),
    ]


@dataclass(frozen=True, slots=True)
class PostProcessingFlags:
    """What happens to a recommendation before it is published."""

    integer_cpu: Annotated[
        bool,
        Flag(
            "cpu-integer-post-processor-enabled",
            SWITCH,
            "false",
            "whole cores for containers whose VPA asks for them",
        ),
    ]
    max_cpu: Annotated[
        Quantity | None,
        Flag(
            "container-recommendation-max-allowed-cpu",
            optional(QUANTITY),
            "",
            "most CPU of any container",
        ),
    ]
    max_memory: Annotated[
        Quantity | None,
        Flag(
            "container-recommendation-max-allowed-memory",
            optional(QUANTITY),
            "",
            "most memory of any container",
        ),
    ]


_NO_SINGLE_WORDS: Final = (
    "since 0.2 there are no single words: --parity=upstream does everything as upstream does, "
    "--parity=none nothing"
)


class ParityWith(StrEnum):
    """With whom the recommender agrees, number by number."""

    NONE = "none"
    UPSTREAM = "upstream"


def _parity(texts: Sequence[str]) -> ParityWith:
    try:
        return _CHOSEN.read([texts[-1] or ParityWith.NONE])
    except ValueError:
        raise BadSetting(_NO_SINGLE_WORDS) from None


_CHOSEN: Final = chosen(ParityWith)
_PARITY: Final = FlagKind(_CHOSEN.word, _CHOSEN.wanted, _parity)


@dataclass(frozen=True, slots=True)
class VariantFlags:
    """Likeness to upstream."""

    removed: ClassVar = (
        RemovedFlag(
            "extras",
            "the recommender",
            "0.2",
            "native_sidecars and repeat_oom_bump are always on, the others do not exist any more; "
            "see docs/differences.md",
        ),
    )
    parity: Annotated[
        ParityWith, Flag("parity", _PARITY, "none", "upstream: recommend as upstream does")
    ]


@dataclass(frozen=True, slots=True)
class RecommenderElection(LeaderElection):
    """Leader election."""

    resource_name: Annotated[
        str, Flag("leader-elect-resource-name", TEXT, "vpa-recommender-lease", "name of the Lease")
    ]


@dataclass(frozen=True, slots=True)
class RecommenderSettings:
    """All settings of the recommender."""

    loop: RoundFlags
    access: PortAccess
    history: HistoryFlags
    estimation: EstimationFlags
    format: FormatFlags
    aggregation: AggregationFlags
    post_processing: PostProcessingFlags
    prometheus: PrometheusFlags
    prometheus_access: PrometheusAccessFlags
    external_metrics: ExternalMetricsFlags
    likeness: VariantFlags
    election: RecommenderElection
    scope: Scope
    cluster: ClusterAccess
    profiling: Profiling
    logging: Logging
