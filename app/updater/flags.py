"""Settings of the updater, and the rules that they make."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, ClassVar, Final

from app.flags.flags import (
    ADDRESS,
    DURATION,
    DURATION_ABOVE_ZERO,
    FRACTION,
    NUMBER,
    SWITCH,
    TEXT,
    WHOLE,
    Flag,
    ListenAddress,
    RemovedFlag,
    chosen,
    whole,
)
from app.flags.shared import (
    OWN_NAMESPACE,
    ClusterAccess,
    LeaderElection,
    Logging,
    NativeSidecars,
    PortAccess,
    Profiling,
    Scope,
    feature_gates,
)
from app.model.gates import FeatureGates
from app.updater.core.rules import Prove, UpdateRules

_ROUNDS_A_KILL_IS_SEEN: Final = 3

Interval = Annotated[
    timedelta,
    Flag("updater-interval", DURATION_ABOVE_ZERO, "1m", "between two looks at the cluster"),
]


@dataclass(frozen=True, slots=True)
class RoundLoop:
    """The loop."""

    interval: Interval
    address: Annotated[
        ListenAddress, Flag("address", ADDRESS, ":8943", "where metrics and health are served")
    ]
    dry_run: Annotated[bool, Flag("dry-run", SWITCH, "false", "decide and tell, but touch nothing")]


@dataclass(frozen=True, slots=True)
class Deciding:
    """How it is decided."""

    removed: ClassVar = (
        RemovedFlag(
            "parity", "the updater", "0.2", "it has one behaviour; see docs/differences.md"
        ),
    )
    gates: Annotated[FeatureGates, feature_gates()]
    native_sidecars: NativeSidecars
    prove: Annotated[
        Prove,
        Flag(
            "prove",
            chosen(Prove),
            "canary",
            "how a workload shows that evicting helps before more of its pods go: by the first "
            "replacement, by a pod created on trial before that (needs the right to create "
            "pods), or not at all",
        ),
    ]
    breaker_share: Annotated[
        float,
        Flag(
            "useless-eviction-share",
            FRACTION,
            "0.5",
            "when more than this share of the evictions of ten minutes in a namespace changed "
            "nothing, they stop until one helps; in several namespaces, all do",
        ),
    ]
    deferred_timeout: Annotated[
        timedelta,
        Flag(
            "in-place-deferred-resize-timeout",
            DURATION_ABOVE_ZERO,
            "5m",
            "a resize that the node has no room for is waited for so long",
        ),
    ]
    resize_timeout: Annotated[
        timedelta,
        Flag(
            "in-place-resize-timeout",
            DURATION_ABOVE_ZERO,
            "1h",
            "a resize that goes on is waited for so long",
        ),
    ]
    upscale_only_in_place: Annotated[
        bool,
        Flag(
            "upscale-only-in-place",
            SWITCH,
            "false",
            "mode UpscaleOnly resizes where that is possible",
        ),
    ]


@dataclass(frozen=True, slots=True)
class Acting:
    """How it is carried out."""

    concurrency: Annotated[
        int,
        Flag("update-concurrency", whole(1, 256), "10", "workloads updated at the same time"),
    ]
    boost_workers: Annotated[
        int,
        Flag(
            "concurrent-cpu-startup-boost-syncs",
            whole(1),
            "1",
            "start-up boosts that may end at the same time; --update-concurrency counts if larger",
        ),
    ]
    namespace_rate_per_second: Annotated[
        float,
        Flag(
            "namespace-eviction-rate-limit",
            NUMBER,
            "-1",
            "evictions per second in each namespace, and as many resizes; "
            "zero or less for no limit",
        ),
    ]
    namespace_burst: Annotated[
        int,
        Flag(
            "namespace-eviction-rate-burst",
            WHOLE,
            "1",
            "evictions or resizes that may come at once in a namespace",
        ),
    ]
    summaries: Annotated[
        bool,
        Flag(
            "vpa-summaries",
            SWITCH,
            "false",
            "keep an annotation on each VPA that sums up what is done about its pods (needs the "
            "right to patch VPAs)",
        ),
    ]


@dataclass(frozen=True, slots=True)
class Disruption:
    """How much may be disturbed."""

    min_replicas: Annotated[
        int,
        Flag(
            "min-replicas",
            WHOLE,
            "2",
            "evict and restart no pods of smaller groups, unless a VPA says so",
        ),
    ]
    eviction_tolerance: Annotated[
        float,
        Flag(
            "eviction-tolerance", NUMBER, "0.5", "share of a group that may be down because of us"
        ),
    ]
    rate_per_second: Annotated[
        float,
        Flag(
            "eviction-rate-limit",
            NUMBER,
            "-1",
            "evictions per second, and as many resizes; zero or less for no limit",
        ),
    ]
    burst: Annotated[
        int, Flag("eviction-rate-burst", WHOLE, "1", "evictions or resizes that may come at once")
    ]
    skip_disruption_budget: Annotated[
        bool,
        Flag(
            "in-place-skip-disruption-budget",
            SWITCH,
            "false",
            "resizes that restart nothing need no budget",
        ),
    ]


@dataclass(frozen=True, slots=True)
class Thresholds:
    """When a pod is worth it."""

    update_threshold: Annotated[
        float,
        Flag("pod-update-threshold", NUMBER, "0.1", "least change of a pod within its bounds"),
    ]
    lifetime_threshold: Annotated[
        timedelta,
        Flag(
            "in-recommendation-bounds-eviction-lifetime-threshold",
            DURATION,
            "12h",
            "least age of a pod within its bounds",
        ),
    ]
    quick_oom: Annotated[
        timedelta,
        Flag(
            "evict-after-oom-threshold",
            DURATION,
            "10m",
            "a container killed for memory so soon after its start counts at once",
        ),
    ]


@dataclass(frozen=True, slots=True)
class AdmissionCheck:
    """The webhook's Lease: without a fresh heartbeat no pod is evicted."""

    is_on: Annotated[
        bool,
        Flag("use-admission-controller-status", SWITCH, "true", "wait for the webhook's Lease"),
    ]
    name: Annotated[
        str,
        Flag(
            "admission-controller-status-lease-name",
            TEXT,
            "vpa-admission-controller",
            "name of the Lease",
        ),
    ]
    namespace: Annotated[
        str,
        Flag(
            "admission-controller-status-lease-namespace",
            TEXT,
            OWN_NAMESPACE,
            "namespace of the Lease",
            "NAMESPACE",
        ),
    ]
    timeout: Annotated[
        timedelta,
        Flag(
            "admission-controller-status-lease-timeout",
            DURATION_ABOVE_ZERO,
            "1m",
            "a beat is fresh for so long",
        ),
    ]


UNCHECKED: Final = AdmissionCheck(is_on=False, name="", namespace="", timeout=timedelta())


@dataclass(frozen=True, slots=True)
class UpdaterElection(LeaderElection):
    """Leader election."""

    resource_name: Annotated[
        str, Flag("leader-elect-resource-name", TEXT, "vpa-updater", "name of the Lease")
    ]


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
        prove=deciding.prove,
        breaker_share=deciding.breaker_share,
        namespace=scope.namespace,
        ignored_namespaces=frozenset(scope.ignored_namespaces),
    )
