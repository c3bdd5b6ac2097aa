"""What may be tuned: estimation, aggregation, rounding, caps, publishing, extras.

Strategy: one frozen value per concern, with the defaults of the flags.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta

from app.model.quantity import Quantity

_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class ResourceRules:
    """Which percentiles are asked of one resource, and when history counts as one day's worth."""

    target: float = 0.9
    lower: float = 0.5
    upper: float = 0.95
    confidence_interval: timedelta = _DAY

    @property
    def fractions(self) -> tuple[float, float, float]:
        """The percentiles as target, lower, upper."""
        return (self.target, self.lower, self.upper)


@dataclass(frozen=True, slots=True)
class EstimatorRules:
    """From percentiles to amounts."""

    margin_fraction: float = 0.15
    min_cpu_millicores: float = 25.0  # of a pod, shared by its containers
    min_memory_mib: float = 250.0  # of a pod, shared by its containers
    cpu: ResourceRules = field(default_factory=ResourceRules)
    memory: ResourceRules = field(default_factory=ResourceRules)
    omit_unsampled: bool = True  # a resource without any sample has none, else the floor
    stale_after: timedelta | None = _DAY  # without a live container; None: never


@dataclass(frozen=True, slots=True)
class AggregationRules:
    """How samples become history."""

    cpu_half_life: timedelta = _DAY
    memory_half_life: timedelta = _DAY
    memory_interval: timedelta = _DAY  # one peak per container and interval
    memory_interval_count: int = 8  # history without samples for so many intervals expires
    oom_bump_up_ratio: float = 1.2
    oom_min_bump_up_bytes: float = 100.0 * 2**20


@dataclass(frozen=True, slots=True)
class FormatRules:
    """How amounts are rounded for publishing; 1 and less leave them alone."""

    round_cpu_millicores: int = 1
    round_memory_bytes: int = 1
    humanize_memory: bool = False


@dataclass(frozen=True, slots=True)
class CapRules:
    """What is applied after estimation, beside each VPA's own policy."""

    integer_cpu: bool = False  # heed the annotations that ask for whole cores
    max_allowed_cpu: Quantity | None = None
    max_allowed_memory: Quantity | None = None


@dataclass(frozen=True, slots=True)
class PublishRules:
    """What is worth a write."""

    bound_tolerance: float = 0.01  # bounds that moved by less wait for the refresh
    refresh: timedelta = timedelta(minutes=10)
    checkpoint_change: float = 0.01  # share of a histogram that moved
    checkpoint_pause: timedelta = timedelta(minutes=5)
    checkpoint_age: timedelta = timedelta(minutes=15)
    open_windows: int = 512  # running peaks told in one checkpoint
    least_vpas: int = 10  # whose checkpoints are written in any case


@dataclass(frozen=True, slots=True)
class Extras:
    """What is done only where it is asked for."""

    interpolate: bool = False  # answer inside of buckets instead of their ends
    repeat_oom_bump: bool = False  # several kills within one interval grow the peak further
    native_sidecars: bool = False  # treat restartable init containers as containers
    retain_unmatched: bool = False  # learn of pods without a VPA too, for one that may come
    seed_selectors: bool = False  # VPAs with a selector begin with a little of a former one's
    selector_move_memory_grace: timedelta = timedelta(0)  # after a move only OOMs count


@dataclass(frozen=True, slots=True)
class RecommenderRules:
    """Everything the recommender's core must be told."""

    name: str = "default"
    estimator: EstimatorRules = field(default_factory=EstimatorRules)
    aggregation: AggregationRules = field(default_factory=AggregationRules)
    format: FormatRules = field(default_factory=FormatRules)
    caps: CapRules = field(default_factory=CapRules)
    publish: PublishRules = field(default_factory=PublishRules)
    extras: Extras = field(default_factory=Extras)
    memory_saver: bool = False  # forget pods that no VPA matches
    per_vpa_config: bool = False  # gate PerVPAConfig
    cpu_startup_boost: bool = False  # gate CPUStartupBoost
    expects_past: bool = False  # what VPAs used before is told later, by `learn_past`
    gathers_quality: bool = False  # somebody will ask how usage compares with recommendations
