"""Flags become the rules of updating."""

from __future__ import annotations

from dataclasses import fields
from datetime import timedelta

import pytest

from app.flags.command_line import parse
from app.updater.core.rules import Prove, UpdateRules
from app.updater.flags import UpdaterSettings, update_rules


def rules(*flags: str) -> UpdateRules:
    """Return the rules for some flags."""
    found = parse(UpdaterSettings, flags, {})
    return update_rules(
        found.deciding, found.disruption, found.thresholds, found.scope, found.loop.interval
    )


def test_without_flags_the_usual_rules_hold() -> None:
    """The defaults of the flags are those of the rules."""
    assert rules() == UpdateRules()


@pytest.mark.parametrize(
    ("flag", "field", "value"),
    [
        ("--min-replicas=5", "min_replicas", 5),
        ("--eviction-tolerance=0.2", "eviction_tolerance", 0.2),
        ("--in-place-skip-disruption-budget", "skip_disruption_budget", True),
        ("--pod-update-threshold=0.3", "update_threshold", 0.3),
        (
            "--in-recommendation-bounds-eviction-lifetime-threshold=1h",
            "lifetime_threshold",
            timedelta(hours=1),
        ),
        ("--evict-after-oom-threshold=1m", "quick_oom_within", timedelta(minutes=1)),
        ("--in-place-deferred-resize-timeout=1m", "deferred_timeout", timedelta(minutes=1)),
        ("--in-place-resize-timeout=10m", "resize_timeout", timedelta(minutes=10)),
        ("--upscale-only-in-place", "upscale_only_in_place", True),
        ("--prove=dry-run", "prove", Prove.DRY_RUN),
        ("--vpa-object-namespace=shop", "namespace", "shop"),
        ("--ignored-vpa-object-namespaces=a,b", "ignored_namespaces", frozenset({"a", "b"})),
        ("--updater-interval=10m", "oom_stays_recent", timedelta(minutes=30)),
    ],
)
def test_each_flag_reaches_its_rule(flag: str, field: str, value: object) -> None:
    """One flag, one number; the rest stays as it is."""
    found, usual = rules(flag), UpdateRules()
    assert getattr(found, field) == value
    others = [other.name for other in fields(UpdateRules) if other.name != field]
    assert [getattr(found, name) for name in others] == [getattr(usual, name) for name in others]
