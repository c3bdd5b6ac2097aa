"""Numbers of the updater."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Mapping
from contextlib import suppress
from enum import StrEnum
from functools import lru_cache
from typing import Final, NamedTuple

from prometheus_client import CollectorRegistry, Counter

from app.model.snapshot import Snapshot
from app.model.update_modes import mode_rules
from app.runtime.metric_families import EXECUTION, Families, size_log2
from app.updater.core.memory import NamespacedName

_VPA: Final = ("vpa_name", "vpa_namespace")
_PUBLISHED_SIZES: Final = range(20)  # also at zero, where the mode is no label


class RoundStep(StrEnum):
    """The steps of one round, as upstream labels its own."""

    LIST_VPAS = "ListVPAs"  # with us the look at the webhook's Lease
    LIST_PODS = "ListPods"  # the snapshot
    FILTER_PODS = "FilterPods"  # the plan
    ADMISSION_INIT = "AdmissionInit"  # its report
    EVICT_PODS = "EvictPods"
    TOTAL = "total"


class UpdaterLimit(StrEnum):
    """What of its reports waits, or is sent, at most."""

    WAITING_EVENTS = "waiting_events"
    OBJECT_EVENTS = "object_events"


class EvictionFailure(StrEnum):
    """Why a pod was not evicted."""

    ERROR = "EvictionError"
    RATE_LIMIT = "EvictionRateLimiterWaitFailed"


class ResizeFailure(StrEnum):
    """Why a pod was not resized."""

    ERROR = "InPlaceUpdateError"
    INFEASIBLE = "InPlaceUpdateInfeasible"
    RATE_LIMIT = "InPlaceUpdateRateLimiterWaitFailed"
    UNBOOST = "UnboostError"


class LeaseTrouble(StrEnum):
    """Why the webhook's Lease does not count as fresh."""

    ERROR = "error"
    INVALID = "invalid"


class BreakerScope(StrEnum):
    """What evictions stop in."""

    NAMESPACE = "namespace"
    CLUSTER = "cluster"


class PerRound(StrEnum):
    """What is published in each round."""

    CONTROLLED_PODS = "controlled_pods_total"
    EVICTABLE_PODS = "evictable_pods_total"
    VPAS_WITH_EVICTABLE_PODS = "vpas_with_evictable_pods_total"
    VPAS_WITH_EVICTED_PODS = "vpas_with_evicted_pods_total"
    IN_PLACE_UPDATABLE_PODS = "in_place_updatable_pods_total"
    VPAS_WITH_IN_PLACE_UPDATABLE_PODS = "vpas_with_in_place_updatable_pods_total"
    VPAS_WITH_IN_PLACE_UPDATED_PODS = "vpas_with_in_place_updated_pods_total"

    @property
    def has_mode(self) -> bool:
        """Whether the update mode is a label."""
        return "in_place" not in self


_MEANINGS: Final[Mapping[PerRound, str]] = {
    PerRound.CONTROLLED_PODS: "Pods under a VPA.",
    PerRound.EVICTABLE_PODS: "Pods that may be evicted.",
    PerRound.VPAS_WITH_EVICTABLE_PODS: "VPAs with a pod that may be evicted.",
    PerRound.VPAS_WITH_EVICTED_PODS: "VPAs with a pod that was evicted.",
    PerRound.IN_PLACE_UPDATABLE_PODS: "Pods that may be resized.",
    PerRound.VPAS_WITH_IN_PLACE_UPDATABLE_PODS: "VPAs with a pod that may be resized.",
    PerRound.VPAS_WITH_IN_PLACE_UPDATED_PODS: "VPAs with a pod that was resized.",
}


class VpaLabels(NamedTuple):
    """A VPA in labels: how many pods it has now, its update mode, its name."""

    pods: int
    mode: str
    name: str
    namespace: str


_Series = tuple[Counter, tuple[str, ...]]


class Round:
    """What one round found; published at its end, also at an early one."""

    def __init__(self) -> None:
        self.counts: dict[PerRound, Tally[tuple[str, ...]]] = {each: Tally() for each in PerRound}

    def add(self, what: PerRound, vpa: VpaLabels, amount: int = 1) -> None:
        """Add pods, or the VPA itself."""
        size = str(size_log2(vpa.pods))
        self.counts[what][(size, vpa.mode) if what.has_mode else (size,)] += amount


def _role_changes(registry: CollectorRegistry) -> Counter:
    meaning = "Changes of the pod that leads, by Leases that VPAs name."
    return Families(registry, "plumbline").counter("role_changes_total", meaning)


class UpdaterMetrics:
    """What the updater counts and times."""

    def __init__(self, registry: CollectorRegistry) -> None:
        families = Families(registry, "vpa_updater")
        by_size = ("vpa_size_log2",)
        by_mode = ("vpa_size_log2", "update_mode")
        self._per_round = {
            each: families.gauge(each, _MEANINGS[each], *(by_mode if each.has_mode else by_size))
            for each in PerRound
        }
        self._decisions = families.gauge(
            "pod_decisions", "Pods under a VPA by what was decided about them last.", "reason"
        )
        self._open_breakers = families.gauge(
            "open_breakers", "Open circuit breakers, which stop evictions.", "scope"
        )
        self._series: dict[NamespacedName, set[_Series]] = {}  # of each VPA
        self._shown: set[tuple[VpaLabels, bool, bool]] = set()
        self._reasons: set[str] = set()
        self._evicted = families.counter("evicted_pods_total", "Evicted pods.", *by_mode, *_VPA)
        self._failed_evictions = families.counter(
            "failed_eviction_attempts_total",
            "Evictions that did not succeed.",
            *(*by_mode, "reason", *_VPA),
        )
        self._resized = families.counter(
            "in_place_updated_pods_total", "Resized pods.", *by_size, *_VPA
        )
        self._failed_resizes = families.counter(
            "failed_in_place_update_attempts_total",
            "Resizes that did not succeed.",
            *(*by_size, "reason", *_VPA),
        )
        self._infeasible = families.counter(
            "in_place_infeasible_skip_pods_total",
            "Pods left alone because their node refused the same resize before.",
            *(*by_size, *_VPA),
        )
        self._lease_trouble = families.counter(
            "admission_controller_status_invalid_total",
            "Rounds without a fresh Lease of the webhook; they evict no pod.",
            "reason",
        )
        for trouble in LeaseTrouble:  # a rise is seen only where there was a zero before
            self._lease_trouble.labels(trouble)
        self._role_changes = _role_changes(registry)
        execution = families.histogram(
            "execution_latency_seconds", "Time of each step of a round.", EXECUTION, "step"
        )
        self._execution = lru_cache(execution.labels)

    def publish(self, found: Round) -> None:
        """Publish what a round found, and no more what an earlier one did."""
        for each, gauge in self._per_round.items():
            counts: dict[tuple[str, ...], int] = found.counts[each]
            if not each.has_mode:
                counts = {(str(size),): 0 for size in _PUBLISHED_SIZES} | counts
            gauge.clear()
            for labels, count in counts.items():
                gauge.labels(*labels).set(count)

    def decided(self, reasons: Mapping[str, int]) -> None:
        """Publish how many pods each reason stands for; one that is gone stays, at zero."""
        for reason in self._reasons.difference(reasons):
            self._decisions.labels(reason).set(0)
        for reason, count in reasons.items():
            self._decisions.labels(reason).set(count)
        self._reasons.update(reasons)

    def opened(self, scope: BreakerScope, breakers: int) -> None:
        """Publish how many breakers are open."""
        self._open_breakers.labels(scope).set(breakers)

    def show(self, vpa: VpaLabels, *, has_selector: bool, has_boost: bool) -> None:
        """Make a VPA's counters visible before they count anything: a rise begins at a zero.

        Failures are shown of what is done for it, where in a large cluster each series counts:
        modes that evict resize first the pods that came to a selector by their labels, and boosts
        end in all modes.
        """
        shown = (vpa, has_selector, has_boost)
        if shown in self._shown:
            return
        self._shown.add(shown)
        self.evicted(vpa, 0)
        self.resized(vpa, 0)
        rules = mode_rules(vpa.mode)
        may_resize = rules.may_resize or (rules.may_evict and has_selector)
        for failure in EvictionFailure if rules.may_evict else ():
            self.eviction_failed(vpa, failure, 0)
        for refusal in ResizeFailure:
            if has_boost if refusal is ResizeFailure.UNBOOST else may_resize:
                self.resize_failed(vpa, refusal, 0)
        if may_resize:
            self.skipped_infeasible(vpa, 0)

    def forget_gone(self, snapshot: Snapshot) -> None:
        """Publish no more of VPAs that are gone."""
        counted = list(self._series)  # ends of boosts may be counted meanwhile
        gone = {key for key in counted if key[1] not in snapshot.of(key[0]).vpas}
        for key in gone:
            for counter, labels in self._series.pop(key):
                with suppress(KeyError):
                    counter.remove(*labels)
        if gone:
            self._shown = {
                one for one in self._shown if (one[0].namespace, one[0].name) not in gone
            }

    def evicted(self, vpa: VpaLabels, amount: int = 1) -> None:
        """Count evictions."""
        self._count(self._evicted, vpa, vpa.mode, amount=amount)

    def eviction_failed(self, vpa: VpaLabels, reason: EvictionFailure, amount: int = 1) -> None:
        """Count evictions that did not succeed."""
        self._count(self._failed_evictions, vpa, vpa.mode, reason, amount=amount)

    def resized(self, vpa: VpaLabels, amount: int = 1) -> None:
        """Count resizes, also ends of boosts."""
        self._count(self._resized, vpa, amount=amount)

    def resize_failed(self, vpa: VpaLabels, reason: ResizeFailure, amount: int = 1) -> None:
        """Count resizes that did not succeed."""
        self._count(self._failed_resizes, vpa, reason, amount=amount)

    def skipped_infeasible(self, vpa: VpaLabels, amount: int = 1) -> None:
        """Count pods left alone because their node refused the same resize before."""
        self._count(self._infeasible, vpa, amount=amount)

    def without_webhook(self, reason: LeaseTrouble) -> None:
        """Count a round without a fresh Lease of the webhook, which evicts no pod."""
        self._lease_trouble.labels(reason).inc()

    def role_changed(self) -> None:
        """Count that another pod leads by a Lease, or none."""
        self._role_changes.inc()

    def step(self, step: RoundStep, seconds: float) -> None:
        """Time a step of a round."""
        self._execution(step).observe(seconds)

    def _count(self, counter: Counter, vpa: VpaLabels, *between: str, amount: int = 1) -> None:
        """Count in the series of a VPA; `between` are the labels between its size and its name."""
        labels = (str(size_log2(vpa.pods)), *between, vpa.name, vpa.namespace)
        counter.labels(*labels).inc(amount)
        self._series.setdefault((vpa.namespace, vpa.name), set()).add((counter, labels))
