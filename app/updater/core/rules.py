"""What decides about running pods besides the cluster's objects.

Strategy: every number is a field with its usual value; what users may change has a flag.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum


class Prove(StrEnum):
    """How a workload proves that evicting its pods helps, before more of them go."""

    CANARY = "canary"  # the first replacement must have the expected values
    DRY_RUN = "dry-run"  # and before it, a pod created on trial
    OFF = "off"  # nor is anything learnt from evictions that do not help


@dataclass(frozen=True, slots=True)
class UpdateRules:
    """The numbers behind every decision."""

    min_replicas: int = 2
    eviction_tolerance: float = 0.5  # share of an owner's pods that may be down because of us
    skip_disruption_budget: bool = False  # for resizes that restart nothing
    update_threshold: float = 0.1  # least difference for a pod within its bounds
    least_difference: float = 0.01  # least difference for a pod outside of them
    lifetime_threshold: timedelta = timedelta(hours=12)  # least age of a pod within its bounds
    quick_oom_within: timedelta = timedelta(minutes=10)  # a container killed that early needs help
    oom_stays_recent: timedelta = timedelta(minutes=7)  # at least so long after the kill
    deferred_timeout: timedelta = timedelta(minutes=5)  # before eviction
    resize_timeout: timedelta = timedelta(hours=1)  # before eviction
    revert_after: timedelta = timedelta(hours=1)  # a resize that does not come about
    infeasible_expiry: timedelta = timedelta(hours=6)
    rollout_patience: timedelta = timedelta(minutes=10)  # then a rollout counts as stuck
    unready_patience: timedelta = timedelta(minutes=10)  # then a pod counts as broken
    watch_lag: timedelta = timedelta(minutes=2)  # own actions are believed that long unseen
    upscale_only_in_place: bool = False
    role_settles: timedelta = timedelta(minutes=10)  # before a pod that follows is made smaller
    prove: Prove = Prove.CANARY
    proof_pause: timedelta = timedelta(minutes=5)  # after an eviction that did not help, doubling
    trial_pause: timedelta = timedelta(seconds=10)  # after a useless trial, which disturbed no pod
    longest_proof_pause: timedelta = timedelta(hours=6)
    before_outage: timedelta = timedelta(seconds=30)  # the webhook may have failed by then
    # After a start, in the whole cluster, until one helped; `breaker_least` in each namespace.
    first_evictions: int = 10
    breaker_share: float = 0.5  # of useless evictions, above which those of a namespace stop
    breaker_least: int = 4  # evictions of a namespace judged before the share means something
    breaker_namespaces: int = 3  # with useless evictions, and more than the share: all stop
    breaker_window: timedelta = timedelta(minutes=10)
    namespace: str = ""  # the only one that counts, empty for all
    ignored_namespaces: frozenset[str] = frozenset()

    def covers(self, namespace: str) -> bool:
        """Whether VPAs of a namespace are acted upon."""
        if self.namespace:
            return namespace == self.namespace
        return namespace not in self.ignored_namespaces


def is_fresh(
    created: datetime | None, renewed: datetime | None, timeout: timedelta, now: datetime
) -> bool:
    """Whether a Lease was created or renewed not longer ago than the timeout."""
    return any(moment is not None and now - moment < timeout for moment in (created, renewed))
