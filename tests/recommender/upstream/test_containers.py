"""Running containers, their aggregates, and the kills that upstream sees."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from app.recommender.core.rules import RecommenderRules
from app.recommender.upstream.containers import Aggregate, kills_by_transition
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
