"""Running containers, their aggregates and histograms, and the kills that upstream sees."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.recommender.core.checkpoints import StoredHistogram
from app.recommender.core.histograms import CPU_GRID, MEMORY_GRID, Bank
from app.recommender.core.moments import DAY, HOUR, MINUTE, nanoseconds
from app.recommender.core.rules import RecommenderRules
from app.recommender.upstream.containers import Aggregate, Histogram, bucket_of, kills_by_transition
from tests import make
from tests.recommender.core.test_oom import pod, status, transitions

RULES = RecommenderRules(per_vpa_config=True)


OWN: dict[str, Any] = {
    "memoryAggregationIntervalSeconds": 3600,
    "memoryAggregationIntervalCount": 2,
    "oomBumpUpRatio": "3",
    "oomMinBumpUp": "1",
}


@pytest.mark.parametrize("field", list(OWN))
def test_what_a_policy_set_stays(field: str) -> None:
    """A field that is taken out of a policy keeps its last value."""
    found = Aggregate(RULES.aggregation, 0)
    default = found.settings

    def follow(fields: dict[str, Any]) -> None:
        vpa = make.vpa(policies=[make.policy_json("app", **fields)])
        found.follow(vpa.policy("app"), RULES)

    follow({field: OWN[field]})
    changed = found.settings
    follow({})
    found.follow(None, RULES)

    assert changed != default
    assert found.settings == changed


def test_without_the_gate_policies_set_nothing() -> None:
    """The flags hold."""
    found = Aggregate(RULES.aggregation, 0)
    default = found.settings
    vpa = make.vpa(policies=[make.policy_json("app", **OWN)])
    found.follow(vpa.policy("app"), replace(RULES, per_vpa_config=False))

    assert found.settings == default


@transitions
def test_transitions(before: dict[str, Any], after: dict[str, Any], expected: list[int]) -> None:
    """What a transition tells of kills counts."""
    found = kills_by_transition(pod(before, "1024"), pod(after, "2048"))
    assert [record.memory_bytes for record in found] == expected


def test_first_sight() -> None:
    """What a pod tells at first sight, or a status that appears, does not."""
    first = pod(status("terminated", restarts=1, last="OOMKilled", finished=None))
    assert kills_by_transition(None, first) == []
    before = make.pod(status={"phase": "Running"})
    assert kills_by_transition(before, pod(status("terminated"))) == []


START = nanoseconds(datetime(2026, 1, 5, tzinfo=UTC))


def filled(*samples: tuple[int, float, int], half_life_ns: int = DAY) -> Histogram:
    """Return a histogram of (bucket, weight, time) samples."""
    found = Histogram(half_life_ns)
    for bucket, weight, time_ns in samples:
        found.add(bucket, weight, time_ns)
    return found


@given(st.integers(0, 2**62))
def test_bucket(amount: int) -> None:
    """One amount falls where many do."""
    for grid in (CPU_GRID, MEMORY_GRID):
        assert bucket_of(grid, amount) == grid.bucket(np.array([amount]))[0]


@given(st.lists(st.tuples(st.integers(0, 175), st.integers(0, 140_000)), max_size=30))
def test_samples_weigh_as_in_a_bank(samples: list[tuple[int, int]]) -> None:
    """Added samples weigh the same to the last bit."""
    bank, one = Bank(DAY, 1), Histogram(DAY)
    for bucket, minute in [(0, 0), *samples]:
        time_ns = START + minute * MINUTE
        bank.add(np.array([0]), np.array([bucket]), np.array([time_ns]), 0.1)
        one.add(bucket, 0.1, time_ns)

    assert (one.reference_ns, one.total) == (bank.references[0], bank.totals[0])
    assert one.weights.tolist() == bank.weights[0].tolist()


def test_odd_references_shift_by_whole_half_lives() -> None:
    """A stored reference that is no multiple of the half-life loses a fraction."""
    live = filled((8, 1.0, START + 36 * HOUR), half_life_ns=36 * HOUR)
    stored = Histogram(36 * HOUR)
    stored.load(StoredHistogram(START + 24 * HOUR, {8: 1}, 100.0))
    live.reference_ns = START + 36 * HOUR

    live.merge(stored)

    assert live.weights[8] == pytest.approx(100.0 + 1.0, abs=1.0)
    assert stored.total == 100.0


def test_merging_shifts_the_older_whichever_it_is() -> None:
    """Reading changes what is read: the older of two references gives way."""
    old, young = filled((8, 0.1, START + 10 * HOUR)), filled((22, 0.1, START + 82 * HOUR))
    view = Histogram(DAY)
    view.merge(young)
    view.merge(old)

    assert old.reference_ns == young.reference_ns == START + 3 * DAY
    assert view.weights[[8, 22]] == pytest.approx([0.016685498177, 0.133483985417], rel=1e-11)


def test_an_unset_reference_is_taken_over() -> None:
    """A histogram without samples keeps the reference it was merged behind."""
    view, empty = filled((8, 0.1, START)), Histogram(DAY)
    view.merge(empty)

    assert (empty.reference_ns, empty.total, view.total) == (START, 0.0, 0.1)


def test_taking_away_what_was_never_added() -> None:
    """The total shrinks although no bucket does, and never below nothing."""
    one = filled((8, 3.0, START))
    one.subtract(9, 1.0, START)
    assert (one.total, one.weights.sum(), one.first, one.last) == (2.0, 3.0, 8, 8)

    one.subtract(8, 4.0, START)

    assert (one.total, one.weights.sum(), one.first, one.last) == (0.0, 0.0, 175, 0)


def test_what_leaves_the_filled_range_does_not_age() -> None:
    """Scaling looks at the filled range only."""
    one = filled((3, 0.00005, START), (8, 0.1, START))

    one.add(8, 0.1, START + 101 * DAY)

    assert one.weights[3] == 0.00005
    assert one.weights[8] == pytest.approx(0.1, rel=1e-9)
