"""Settings of the updater, and the rules that they make."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import ClassVar, Final

from app.flags.flags import (
    ADDRESS,
    DURATION,
    DURATION_ABOVE_ZERO,
    FRACTION,
    NUMBER,
    SWITCH,
    TEXT,
    WHOLE,
    ListenAddress,
    RemovedFlag,
    chosen,
    flag,
    whole,
)
from app.flags.shared import (
    OWN_NAMESPACE,
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
from app.model.gates import FeatureGates
from app.updater.core.rules import Prove, UpdateRules

_ROUNDS_A_KILL_IS_SEEN: Final = 3


def interval_flag() -> timedelta:
    """Return the field for the time between two rounds."""
    return flag("updater-interval", DURATION_ABOVE_ZERO, "1m", "time between two rounds")


@dataclass(frozen=True, slots=True)
class RoundLoop:
    """The loop."""

    interval: timedelta = interval_flag()
    address: ListenAddress = flag("address", ADDRESS, ":8943", "address of metrics, health and API")
    dry_run: bool = flag("dry-run", SWITCH, "false", "only report what would be done")


@dataclass(frozen=True, slots=True)
class Deciding:
    """Decisions."""

    removed: ClassVar = (
        RemovedFlag(
            "parity", "the updater", "0.2", "it has one behaviour; see docs/differences.md"
        ),
    )
    gates: FeatureGates = gates_flag()
    native_sidecars: bool = native_sidecars_flag()
    horizontal: Horizontal = horizontal_flag()
    role_leases: bool = role_leases_flag()
    role_settles: timedelta = flag(
        "former-leader-shrinks-after",
        DURATION,
        "10m",
        "time after a change of leader, by a Lease, until a pod that follows is made smaller",
    )
    prove: Prove = flag(
        "prove",
        chosen(Prove),
        "canary",
        "how a workload shows that evicting helps before more of its pods go: by the first "
        "replacement, by a pod created on trial before that (needs the right to create "
        "pods), or not at all",
    )
    breaker_share: float = flag(
        "useless-eviction-share",
        FRACTION,
        "0.5",
        "when more than this share of the evictions of ten minutes in a namespace changed "
        "nothing, they stop until one helps; in several namespaces, all do",
    )
    deferred_timeout: timedelta = flag(
        "in-place-deferred-resize-timeout",
        DURATION_ABOVE_ZERO,
        "5m",
        "how long to wait for a deferred resize",
    )
    resize_timeout: timedelta = flag(
        "in-place-resize-timeout",
        DURATION_ABOVE_ZERO,
        "1h",
        "how long to wait for a resize in progress",
    )
    upscale_only_in_place: bool = flag(
        "upscale-only-in-place",
        SWITCH,
        "false",
        "mode UpscaleOnly resizes in place where possible",
    )


@dataclass(frozen=True, slots=True)
class Acting:
    """Pace."""

    concurrency: int = flag(
        "update-concurrency", whole(1, 256), "10", "workloads updated in parallel"
    )
    boost_workers: int = flag(
        "concurrent-cpu-startup-boost-syncs",
        whole(1),
        "1",
        "startup boosts ended in parallel; --update-concurrency counts if larger",
    )
    namespace_rate_per_second: float = flag(
        "namespace-eviction-rate-limit",
        NUMBER,
        "-1",
        "evictions per second in each namespace, and as many resizes; zero or less for no limit",
    )
    namespace_burst: int = flag(
        "namespace-eviction-rate-burst",
        WHOLE,
        "1",
        "evictions or resizes in a burst in each namespace",
    )
    summaries: bool = flag(
        "vpa-summaries",
        SWITCH,
        "false",
        "keep an annotation on each VPA that sums up what is done about its pods (needs the "
        "right to patch VPAs)",
    )


@dataclass(frozen=True, slots=True)
class Disruption:
    """Disruption budget."""

    min_replicas: int = flag(
        "min-replicas",
        WHOLE,
        "2",
        "do not evict or restart pods of workloads with fewer replicas, unless "
        "their VPA sets minReplicas",
    )
    eviction_tolerance: float = flag(
        "eviction-tolerance",
        FRACTION,
        "0.5",
        "fraction of a workload's replicas that may be disrupted at once",
    )
    rate_per_second: float = flag(
        "eviction-rate-limit",
        NUMBER,
        "-1",
        "evictions per second, and as many resizes; zero or less for no limit",
    )
    burst: int = flag("eviction-rate-burst", WHOLE, "1", "evictions or resizes in a burst")
    skip_disruption_budget: bool = flag(
        "in-place-skip-disruption-budget",
        SWITCH,
        "false",
        "resizes that restart no container do not count against the budget",
    )


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Thresholds."""

    update_threshold: float = flag(
        "pod-update-threshold",
        NUMBER,
        "0.1",
        "minimum relative change before a pod within its bounds is updated",
    )
    lifetime_threshold: timedelta = flag(
        "in-recommendation-bounds-eviction-lifetime-threshold",
        DURATION,
        "12h",
        "minimum age before a pod within its bounds is updated",
    )
    quick_oom: timedelta = flag(
        "evict-after-oom-threshold",
        DURATION,
        "10m",
        "an OOM kill this soon after the container's start triggers an update at once",
    )


@dataclass(frozen=True, slots=True)
class AdmissionCheck:
    """Webhook heartbeat: no evictions without a fresh Lease."""

    is_on: bool = flag(
        "use-admission-controller-status",
        SWITCH,
        "true",
        "evict only while the webhook's Lease is fresh",
    )
    name: str = flag(
        "admission-controller-status-lease-name",
        TEXT,
        "vpa-admission-controller",
        "name of the Lease",
    )
    namespace: str = flag(
        "admission-controller-status-lease-namespace",
        TEXT,
        OWN_NAMESPACE,
        "namespace of the Lease",
        "NAMESPACE",
    )
    timeout: timedelta = flag(
        "admission-controller-status-lease-timeout",
        DURATION_ABOVE_ZERO,
        "1m",
        "age up to which the Lease is fresh",
    )


UNCHECKED: Final = AdmissionCheck(is_on=False, name="", namespace="", timeout=timedelta())


@dataclass(frozen=True, slots=True)
class UpdaterElection(LeaderElection):
    """Leader election."""

    resource_name: str = flag(
        "leader-elect-resource-name", TEXT, "vpa-updater", "name of the Lease"
    )


@dataclass(frozen=True, slots=True)
class UpdaterSettings:
    """All that the updater can be told."""

    loop: RoundLoop
    access: PortAccess
    deciding: Deciding
    acting: Acting
    disruption: Disruption
    thresholds: Thresholds
    admission: AdmissionCheck
    election: UpdaterElection
    scope: Scope
    cluster: ClusterAccess
    profiling: Profiling
    logging: Logging


def update_rules(
    deciding: Deciding,
    disruption: Disruption,
    thresholds: Thresholds,
    scope: Scope,
    interval: timedelta,
) -> UpdateRules:
    """Return what decides about running pods."""
    usual = UpdateRules()
    return UpdateRules(
        min_replicas=disruption.min_replicas,
        eviction_tolerance=disruption.eviction_tolerance,
        skip_disruption_budget=disruption.skip_disruption_budget,
        update_threshold=thresholds.update_threshold,
        lifetime_threshold=thresholds.lifetime_threshold,
        quick_oom_within=thresholds.quick_oom,
        oom_stays_recent=max(usual.oom_stays_recent, interval * _ROUNDS_A_KILL_IS_SEEN),
        deferred_timeout=deciding.deferred_timeout,
        resize_timeout=deciding.resize_timeout,
        upscale_only_in_place=deciding.upscale_only_in_place,
        role_settles=deciding.role_settles,
        prove=deciding.prove,
        breaker_share=deciding.breaker_share,
        namespace=scope.namespace,
        ignored_namespaces=frozenset(scope.ignored_namespaces),
    )
