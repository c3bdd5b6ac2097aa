"""What may be tuned, and what a VPA's policy says of one container.

Strategy: one frozen value per concern, with the defaults of the flags. Caps are held as whole
thousandths on the side where comparing them with whole thousandths is exact, beside the quantities
themselves, which are published as they were written.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Final

from app.model.quantity import Quantity
from app.model.vpa import ContainerPolicy, Vpa
from app.recommender.core.moments import SECOND, span

_DAY = timedelta(days=1)

CPU: Final = "cpu"
MEMORY: Final = "memory"
RESOURCES: Final = (CPU, MEMORY)

NO_MOST: Final = 2**62  # thousandths
_INTEGER_CPU_PREFIX: Final = "vpa-post-processor.kubernetes.io/"
_INTEGER_CPU_SUFFIX: Final = "_integerCPU"
_NANO_PER_MILLI: Final = 10**6
_MOST_NUMBER: Final = 2**62


class RecommenderLimit(StrEnum):
    """What of tenants is followed at most, as metrics name it."""

    VPA_CONTAINERS = "vpa_containers"
    DETACHED_HISTORIES = "detached_histories"  # of a namespace
    EVENT_BYTES = "event_bytes"


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
    open_windows: int = 512  # running peaks in one checkpoint


@dataclass(frozen=True, slots=True)
class RecommenderRules:
    """All rules of the recommender's core."""

    name: str = "default"
    estimator: EstimatorRules = field(default_factory=EstimatorRules)
    aggregation: AggregationRules = field(default_factory=AggregationRules)
    format: FormatRules = field(default_factory=FormatRules)
    caps: CapRules = field(default_factory=CapRules)
    publish: PublishRules = field(default_factory=PublishRules)
    memory_saver: bool = False  # upstream's model skips pods that no VPA selects
    per_vpa_config: bool = False  # gate PerVPAConfig
    cpu_startup_boost: bool = False  # gate CPUStartupBoost
    native_sidecars: bool = True  # else they have no history
    expects_past: bool = False  # what VPAs used before comes later, by `learn_past`
    gathers_quality: bool = False  # keep how usage compares with recommendations


@dataclass(frozen=True, slots=True)
class Cap:
    """Between what one resource is held."""

    least: Quantity | None = None
    most: Quantity | None = None

    @property
    def least_milli(self) -> int:
        """The smallest whole thousandths that are not below the least."""
        return 0 if self.least is None else min(-(-self.least.nano // _NANO_PER_MILLI), NO_MOST)

    @property
    def most_milli(self) -> int:
        """The largest whole thousandths that are not above the most."""
        return NO_MOST if self.most is None else min(self.most.nano // _NANO_PER_MILLI, NO_MOST)

    @property
    def is_crossed(self) -> bool:
        """Whether the least is above the most, which then wins."""
        return self.least is not None and self.most is not None and self.least > self.most


@dataclass(frozen=True, slots=True)
class ContainerAggregation:
    """How one container's memory is aggregated."""

    interval_ns: int
    interval_count: int
    bump_up_ratio: float
    min_bump_up_bytes: float

    @property
    def expiry_ns(self) -> int:
        """How long history lives on without samples."""
        return min(self.interval_ns * self.interval_count, 2**62)


@dataclass(frozen=True, slots=True)
class ContainerRules:
    """All that applies to one container of one VPA."""

    is_off: bool
    controlled: tuple[str, ...]  # resources, each once, as listed
    cpu: Cap
    memory: Cap
    whole_cores: bool
    aggregation: ContainerAggregation


NO_RULES: Final = ContainerRules(
    True, (), Cap(), Cap(), False, ContainerAggregation(1, 0, 0.0, 0.0)
)


def container_rules(vpa: Vpa, container: str, rules: RecommenderRules) -> ContainerRules:
    """Read what applies to a container of a VPA."""
    policy, caps = vpa.policy(container), rules.caps
    whole_cores = f"{_INTEGER_CPU_PREFIX}{container}{_INTEGER_CPU_SUFFIX}"
    return ContainerRules(
        is_off=policy is not None and policy.is_off,
        controlled=_controlled(policy),
        cpu=_cap(policy, CPU, caps.max_allowed_cpu),
        memory=_cap(policy, MEMORY, caps.max_allowed_memory),
        whole_cores=caps.integer_cpu and vpa.annotations.get(whole_cores) == "true",
        aggregation=aggregation_of(policy if rules.per_vpa_config else None, rules.aggregation),
    )


def aggregation_of(policy: ContainerPolicy | None, rules: AggregationRules) -> ContainerAggregation:
    """Return the policy's settings, each completed by the default."""
    found = policy or ContainerPolicy()
    ratio, bump = found.oom_bump_up_ratio, found.oom_min_bump_up
    seconds = _positive(found.memory_interval_seconds)
    return ContainerAggregation(
        interval_ns=seconds * SECOND if seconds else span(rules.memory_interval),
        interval_count=_positive(found.memory_interval_count) or rules.memory_interval_count,
        bump_up_ratio=rules.oom_bump_up_ratio if ratio is None else _number(ratio.milli) / 1000.0,
        min_bump_up_bytes=rules.oom_min_bump_up_bytes if bump is None else _number(bump.units),
    )


def _number(amount: int) -> float:
    """Return an amount, which may have a thousand digits, as what an array can hold."""
    return float(max(-_MOST_NUMBER, min(amount, _MOST_NUMBER)))


def _positive(count: int | None) -> int | None:
    return count if count is not None and count > 0 else None


def _controlled(policy: ContainerPolicy | None) -> tuple[str, ...]:
    listed = policy.controlled_resources if policy is not None else None
    if listed is None:
        return RESOURCES
    return tuple(name for name in RESOURCES if name in listed)


def _cap(policy: ContainerPolicy | None, resource: str, most_of_all: Quantity | None) -> Cap:
    least = (policy.min_allowed or {}).get(resource) if policy is not None else None
    most = (policy.max_allowed or {}).get(resource) if policy is not None else None
    return Cap(_unless_zero(least), _unless_zero(most if most is not None else most_of_all))


def _unless_zero(amount: Quantity | None) -> Quantity | None:
    return None if amount is None or amount.is_zero else amount
