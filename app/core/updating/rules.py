"""What decides about running pods beside the cluster's objects.

Strategy: every number is a field with its usual value, every place where we differ from the
upstream autoscaler in what its users see is a switch of `Upstream`. All switches off is ours,
all on is upstream.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from datetime import timedelta
from enum import StrEnum

from app.core.capping import SizingRules
from app.core.sizing import OURS


class Prove(StrEnum):
    """How a workload proves that evicting its pods helps, before more of them go."""

    CANARY = "canary"  # the first replacement must have the expected values
    DRY_RUN = "dry-run"  # and before it, a pod created on trial
    OFF = "off"  # nor is anything learnt from evictions that do not help


@dataclass(frozen=True, slots=True)
class Upstream:
    """Where to do as the upstream autoscaler does."""

    requirements_per_container: bool = False  # one container must meet all requirements alone
    requirements_gate_resizes: bool = False  # eviction requirements hold back resizes too
    unsized_custom_owners: bool = False  # custom owners count as wanting no pods: no budget
    resizes_without_budget: bool = False  # mode InPlace patches also when it should wait
    evicts_on_any_resize_error: bool = False  # also after a timeout or a conflict
    differences_cancel: bool = False  # what containers gain and lose is netted before it is judged
    lease_gates_resizes: bool = False  # a stale webhook holds back resizes too
    stops_at_rate_limit: bool = False  # one pod too many for the rate ends the whole round
    alive_by_phase: bool = False  # a running pod counts for the budget even if it is not ready
    budget_per_vpa: bool = False  # VPAs of one owner do not share its budget
    resize_time_from_first_sight: bool = False  # by name, never forgotten
    boost_lifts_min_replicas: bool = False  # one boosted pod frees its whole group
    restarts_below_min_replicas: bool = False  # with the budget skipped, for disruptive resizes
    updates_without_change: bool = False  # outside the bounds is enough, whatever the difference
    first_condition_decides: bool = False  # of two resize conditions
    ignores_unscheduled: bool = False  # pods without a node are not seen
    unboosts_everything: bool = False  # memory and other containers too, not only boosted cpu
    unboost_needs_budget: bool = False  # each pod against fresh numbers
    unboost_is_forgotten: bool = False  # once accepted; a pod that stays boosted may be evicted
    boost_blocks_oom: bool = False  # a boosted pod that never gets ready is never touched
    removed_boost_is_ordinary: bool = False  # a marked pod whose VPA lost its boost may be evicted
    ignores_disruption_budgets: bool = False  # they are the API server's business alone
    ignores_rollouts: bool = False  # evict while a rollout is going on
    patches_everything: bool = False  # also values that stay as they are
    limits_from_current: bool = False  # ratios from the pod itself, not from its template
    infeasible_until_lower: bool = False  # any lower value retries, nothing else does
    no_rest_after_resize: bool = False  # the age for small changes counts from the pod's start
    oom_from_last_state: bool = False  # the kill before the last counts, and forces again and again
    idle_vpas_step_aside: bool = False  # of several VPAs, one that updates nothing does not count
    unknown_mode_recreates: bool = False  # for VPAs with a boost
    keeps_stuck_resizes: bool = False  # never replaced or taken back, and hopeless ones are tried
    plain_order: bool = False  # VPA by VPA, without the urgent ones first

    @staticmethod
    def everything() -> Upstream:
        """Return all switches on."""
        return Upstream(**{switch.name: True for switch in fields(Upstream)})


NOWHERE = Upstream()


@dataclass(frozen=True, slots=True)
class UpdateRules:
    """The numbers and switches behind every decision."""

    min_replicas: int = 2
    eviction_tolerance: float = 0.5  # share of an owner's pods that may be down because of us
    skip_disruption_budget: bool = False  # for resizes that restart nothing
    update_threshold: float = 0.1  # least difference for a pod within its bounds
    least_difference: float = 0.01  # least difference for a pod outside of them
    lifetime_threshold: timedelta = timedelta(hours=12)  # least age of a pod within its bounds
    quick_oom: timedelta = timedelta(minutes=10)  # a container killed that early needs help
    oom_stays_recent: timedelta = timedelta(minutes=7)  # at least so long after the kill
    deferred_timeout: timedelta = timedelta(minutes=5)  # before eviction
    resize_timeout: timedelta = timedelta(hours=1)  # before eviction
    give_back_timeout: timedelta = timedelta(hours=1)  # before a wanted size is taken back
    infeasible_expiry: timedelta = timedelta(hours=6)
    rollout_patience: timedelta = timedelta(minutes=10)  # then a rollout counts as stuck
    unready_patience: timedelta = timedelta(minutes=10)  # then a pod counts as broken
    watch_lag: timedelta = timedelta(minutes=2)  # own actions are believed that long unseen
    upscale_only_in_place: bool = False
    prove: Prove = Prove.CANARY
    proof_pause: timedelta = timedelta(minutes=5)  # after an eviction that did not help, doubling
    trial_pause: timedelta = timedelta(seconds=10)  # after a useless trial, which disturbed nobody
    longest_proof_pause: timedelta = timedelta(hours=6)
    first_evictions: int = 10  # after a start, in the whole cluster, until one of them helped
    breaker_share: float = 0.5  # of useless evictions, above which all evictions stop
    breaker_least: int = 4  # evictions judged before the share means something
    breaker_window: timedelta = timedelta(minutes=10)
    namespace: str = ""  # the only one that counts, empty for all
    ignored_namespaces: frozenset[str] = frozenset()
    sizing: SizingRules = OURS
    upstream: Upstream = NOWHERE

    def as_upstream(self) -> UpdateRules:
        """Return the same numbers with everything as upstream does it."""
        return replace(
            self,
            prove=Prove.OFF,
            sizing=SizingRules(
                spares_off_containers=False,
                keeps_fixed_limits=False,
                orders_bounds=False,
                fits_pod_resources=False,
            ),
            upstream=Upstream.everything(),
        )

    def covers(self, namespace: str) -> bool:
        """Whether VPAs of a namespace are acted upon."""
        if self.namespace:
            return namespace == self.namespace
        return namespace not in self.ignored_namespaces
