"""Settings of the recommender."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import ClassVar, Final

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
    FlagKind,
    ListenAddress,
    RemovedFlag,
    chosen,
    flag,
    number,
    optional,
    whole,
)
from app.flags.shared import (
    NO_EFFECT,
    ClusterAccess,
    Horizontal,
    LeaderElection,
    Logging,
    PortAccess,
    Profiling,
    Scope,
    gates_flag,
    horizontal_flag,
    native_sidecars_flag,
    role_leases_flag,
)
from app.model.errors import BadSetting
from app.model.gates import FeatureGates
from app.model.quantity import Quantity
from app.recommender.source_flags import (
    ExternalMetricsFlags,
    PastFlags,
    PrometheusAccessFlags,
    PrometheusFlags,
)


@dataclass(frozen=True, slots=True)
class RoundFlags:
    """The loop."""

    name: str = flag(
        "recommender-name", TEXT, "default", "handle the VPAs that name this recommender"
    )
    interval: timedelta = flag(
        "recommender-interval", DURATION_ABOVE_ZERO, "1m", "time between two rounds"
    )
    update_workers: int = flag("update-worker-count", whole(1), "10", "VPAs written in parallel")
    memory_saver: bool = flag(
        "memory-saver",
        SWITCH,
        "false",
        "with --parity=upstream: skip pods that no VPA selects; else such pods never have a "
        "history",
    )
    address: ListenAddress = flag("address", ADDRESS, ":8942", "address of metrics, health and API")
    gates: FeatureGates = gates_flag()
    native_sidecars: bool = native_sidecars_flag()
    horizontal: Horizontal = horizontal_flag()
    role_leases: bool = role_leases_flag()


@dataclass(frozen=True, slots=True)
class HistoryFlags:
    """History."""

    storage: str = flag("storage", TEXT, "", "prometheus, or checkpoints for anything else")
    checkpoints_timeout: timedelta = flag(
        "checkpoints-timeout", DURATION, "1m", "time limit for writing checkpoints in one round"
    )
    checkpoints_gc_interval: timedelta = flag(
        "checkpoints-gc-interval",
        DURATION,
        "10m",
        "time between two searches for orphaned checkpoints",
    )
    min_checkpoints: int = flag("min-checkpoints", WHOLE, "10", NO_EFFECT)


@dataclass(frozen=True, slots=True)
class EstimationFlags:
    """Estimation."""

    margin: float = flag(
        "recommendation-margin-fraction",
        number(0),
        "0.15",
        "safety margin on top of usage, as a fraction of it",
    )
    min_cpu_millicores: float = flag(
        "pod-recommendation-min-cpu-millicores", NUMBER, "25", "minimum CPU of a pod"
    )
    min_memory_mib: float = flag(
        "pod-recommendation-min-memory-mb", NUMBER, "250", "minimum memory of a pod, in MiB"
    )
    target_cpu: float = flag(
        "target-cpu-percentile", FRACTION, "0.9", "percentile of CPU usage for the target"
    )
    lower_cpu: float = flag(
        "recommendation-lower-bound-cpu-percentile",
        FRACTION,
        "0.5",
        "percentile for the lower bound",
    )
    upper_cpu: float = flag(
        "recommendation-upper-bound-cpu-percentile",
        FRACTION,
        "0.95",
        "percentile for the upper bound",
    )
    confidence_cpu: timedelta = flag(
        "confidence-interval-cpu",
        DURATION_ABOVE_ZERO,
        "24h",
        "length of CPU history at which confidence reaches 1",
    )
    target_memory: float = flag(
        "target-memory-percentile", FRACTION, "0.9", "percentile of memory peaks for the target"
    )
    lower_memory: float = flag(
        "recommendation-lower-bound-memory-percentile",
        FRACTION,
        "0.5",
        "percentile for the lower bound",
    )
    upper_memory: float = flag(
        "recommendation-upper-bound-memory-percentile",
        FRACTION,
        "0.95",
        "percentile for the upper bound",
    )
    confidence_memory: timedelta = flag(
        "confidence-interval-memory",
        DURATION_ABOVE_ZERO,
        "24h",
        "length of memory history at which confidence reaches 1",
    )


@dataclass(frozen=True, slots=True)
class FormatFlags:
    """Rounding."""

    humanize_memory: bool = flag(
        "humanize-memory", SWITCH, "false", "memory with two decimals and a suffix; deprecated"
    )
    round_cpu_millicores: int = flag(
        "round-cpu-millicores", WHOLE, "1", "CPU is a multiple of this; below 2: of 1"
    )
    round_memory_bytes: int = flag(
        "round-memory-bytes", WHOLE, "1", "memory is a multiple of this; below 2: of 1"
    )


@dataclass(frozen=True, slots=True)
class AggregationFlags:
    """Aggregation and OOM kills."""

    memory_interval: timedelta = flag(
        "memory-aggregation-interval",
        DURATION_ABOVE_ZERO,
        "24h",
        "memory is aggregated to one peak per such interval",
    )
    memory_interval_count: int = flag(
        "memory-aggregation-interval-count",
        whole(1),
        "8",
        "number of intervals that memory history covers",
    )
    memory_half_life: timedelta = flag(
        "memory-histogram-decay-half-life",
        DURATION_ABOVE_ZERO,
        "24h",
        "age at which a memory peak counts half",
    )
    cpu_half_life: timedelta = flag(
        "cpu-histogram-decay-half-life",
        DURATION_ABOVE_ZERO,
        "24h",
        "age at which a CPU sample counts half",
    )
    oom_bump_up_ratio: float = flag(
        "oom-bump-up-ratio",
        number(1),
        "1.2",
        "factor by which memory is raised after an OOM kill",
    )
    oom_min_bump_up_bytes: float = flag(
        "oom-min-bump-up-bytes",
        number(0),
        "104857600",
        "minimum number of bytes by which memory is raised after an OOM kill",
    )


@dataclass(frozen=True, slots=True)
class PostProcessingFlags:
    """Caps and post-processing."""

    integer_cpu: bool = flag(
        "cpu-integer-post-processor-enabled",
        SWITCH,
        "false",
        "round CPU up to whole cores where the VPA asks for it",
    )
    max_cpu: Quantity | None = flag(
        "container-recommendation-max-allowed-cpu",
        optional(QUANTITY),
        "",
        "maximum CPU of any container",
    )
    max_memory: Quantity | None = flag(
        "container-recommendation-max-allowed-memory",
        optional(QUANTITY),
        "",
        "maximum memory of any container",
    )


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
    """Parity with upstream."""

    removed: ClassVar = (
        RemovedFlag(
            "extras",
            "the recommender",
            "0.2",
            "native_sidecars and repeat_oom_bump are always on, the others do not exist any more; "
            "see docs/differences.md",
        ),
    )
    parity: ParityWith = flag(
        "parity", _PARITY, "none", "upstream: same numbers as the upstream recommender"
    )


@dataclass(frozen=True, slots=True)
class RecommenderElection(LeaderElection):
    """Leader election."""

    resource_name: str = flag(
        "leader-elect-resource-name", TEXT, "vpa-recommender-lease", "name of the Lease"
    )


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
    past: PastFlags
    external_metrics: ExternalMetricsFlags
    likeness: VariantFlags
    election: RecommenderElection
    scope: Scope
    cluster: ClusterAccess
    profiling: Profiling
    logging: Logging
