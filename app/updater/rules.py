"""The updater's rules that flags ask for."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from app.flags.shared import Scope
from app.updater.core.rules import UpdateRules
from app.updater.flags import AdmissionCheck, Deciding, Disruption, Thresholds
from app.updater.webhook_lease import LeaseRules

_ROUNDS_A_KILL_IS_SEEN: Final = 3


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
        eviction_tolerance=disruption.tolerance,
        skip_disruption_budget=disruption.in_place_skips_budget,
        update_threshold=thresholds.min_change,
        lifetime_threshold=thresholds.min_age,
        quick_oom=thresholds.oom_window,
        oom_stays_recent=max(usual.oom_stays_recent, interval * _ROUNDS_A_KILL_IS_SEEN),
        deferred_timeout=deciding.deferred_timeout,
        resize_timeout=deciding.resize_timeout,
        upscale_only_in_place=deciding.upscale_in_place,
        prove=deciding.prove,
        breaker_share=deciding.useless_share,
        namespace=scope.namespace,
        ignored_namespaces=frozenset(scope.ignored_namespaces),
    )


def lease_rules(admission: AdmissionCheck) -> LeaseRules:
    """Return how the webhook is seen to be alive."""
    return LeaseRules(
        admission.lease_namespace, admission.lease_name, admission.timeout, admission.is_on
    )
