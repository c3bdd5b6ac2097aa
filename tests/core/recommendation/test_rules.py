"""Defaults are those of the flags; parity turns every departure back."""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import timedelta

from app.core.recommendation.rules import (
    UPSTREAM,
    Departures,
    PublishRules,
    RecommenderRules,
    ResourceRules,
    as_upstream,
)

SAME = {  # switches that are off here too
    "interpolate",
    "native_sidecars",
    "repeat_oom_bump",
    "retain_unmatched",
    "seed_selectors",
    "selector_move_memory_grace",
}


def test_upstream_turns_every_departure_back() -> None:
    """Each departure differs from upstream, except those that are off by default."""
    same = {
        one.name
        for one in fields(Departures)
        if getattr(Departures(), one.name) == getattr(UPSTREAM, one.name)
    }

    assert same == SAME


def test_as_upstream_keeps_what_flags_set() -> None:
    """Parity changes neither flags nor gates."""
    publish = PublishRules(least_vpas=3)
    rules = RecommenderRules(name="perf", publish=publish, per_vpa_config=True, memory_saver=True)

    found = as_upstream(rules)

    assert (found.name, found.per_vpa_config, found.memory_saver) == ("perf", True, True)
    assert (found.publish.least_vpas, found.publish.refresh) == (3, timedelta(0))
    assert replace(found, departures=rules.departures, publish=publish) == rules


def test_percentiles() -> None:
    """Percentiles are asked in the order of all columns."""
    assert ResourceRules().fractions == (0.9, 0.5, 0.95)
