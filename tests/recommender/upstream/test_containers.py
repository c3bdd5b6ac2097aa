"""Running containers, their aggregates, and the kills that upstream sees."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from app.recommender.core.checkpoints import Checkpoint, StoredHistogram
from app.recommender.core.moments import DAY, HOUR, UNSET
from app.recommender.core.rules import RecommenderRules
from app.recommender.upstream.containers import Aggregate, kills_by_transition
from tests import make
from tests.recommender.core.test_oom import TRANSITIONS, pod, status, transition

RULES = RecommenderRules(per_vpa_config=True)

MI = 2**20
START = 20_000 * DAY + 10 * HOUR


def sampled(*days: int) -> Aggregate:
    """Return an aggregate with CPU samples of some days."""
    found = Aggregate(RULES.aggregation, 0)
    for day in days:
        found.add_cpu(100, day * DAY)
    return found


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        pytest.param((), (), (UNSET, UNSET, 0), id="nothing and nothing"),
        pytest.param((3,), (), (3 * DAY, 3 * DAY, 1), id="something and nothing"),
        pytest.param((), (3,), (3 * DAY, 3 * DAY, 1), id="nothing and something"),
        pytest.param((3, 5), (4, 9), (3 * DAY, 9 * DAY, 4), id="older first"),
        pytest.param((4, 9), (3, 5), (3 * DAY, 9 * DAY, 4), id="younger first"),
    ],
)
def test_merge(one: tuple[int, ...], other: tuple[int, ...], expected: tuple[int, ...]) -> None:
    """The first of the first, the last of the last, and all samples."""
    found = sampled(*one)
    found.merge(sampled(*other))

    assert (found.first_ns, found.last_ns, found.count) == expected


def test_load() -> None:
    """A checkpoint becomes an aggregate."""
    found = Aggregate(RULES.aggregation, 0)
    histogram = StoredHistogram(DAY, {8: 10000}, 5.0)
    found.load(Checkpoint("n", "v-c", "v", "c", histogram, histogram, DAY, 2 * DAY, 7))

    assert (found.cpu.total, found.memory.total, found.count) == (5.0, 5.0, 7)
    assert (found.first_ns, found.last_ns) == (DAY, 2 * DAY)


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


@pytest.mark.parametrize(
    ("days", "now", "expected"),
    [
        pytest.param((), 8 * DAY - HOUR, False, id="nothing yet"),
        pytest.param((), 8 * DAY, True, id="nothing for too long"),
        pytest.param((7,), 15 * DAY - HOUR, False, id="seven days"),
        pytest.param((7,), 15 * DAY, True, id="eight days"),
    ],
)
def test_expiry(days: tuple[int, ...], now: int, expected: bool) -> None:
    """An aggregate is as young as its last CPU sample, or as it is."""
    assert sampled(*days).is_expired(now) is expected


@pytest.mark.parametrize(("before", "after", "other", "expected"), TRANSITIONS)
def test_transitions(
    before: dict[str, Any], after: dict[str, Any], other: str, expected: list[int]
) -> None:
    """What a transition tells of kills counts."""
    found = kills_by_transition(*transition(before, after, other, expected))
    assert [record.memory_bytes for record in found] == expected


def test_first_sight() -> None:
    """What a pod tells at first sight, or a status that appears, does not."""
    first = pod(status("terminated", restarts=1, last="OOMKilled", finished=None))
    assert kills_by_transition(None, first) == []
    before = make.pod(status={"phase": "Running"})
    assert kills_by_transition(before, pod(status("terminated"))) == []
