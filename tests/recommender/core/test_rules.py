"""What flags and policies say of a container."""

from __future__ import annotations

from typing import Any

import pytest

from app.model.quantity import Quantity
from app.recommender.core.moments import DAY, HOUR
from app.recommender.core.rules import (
    Cap,
    CapRules,
    ContainerRules,
    RecommenderRules,
    container_rules,
)
from tests import make
from tests.cases import cases

RULES = RecommenderRules(per_vpa_config=True)
MAX_ALLOWED = RecommenderRules(
    caps=CapRules(max_allowed_cpu=Quantity.parse("2"), max_allowed_memory=Quantity.parse("1Gi"))
)


def rules_of(
    *policies: dict[str, Any],
    rules: RecommenderRules = RULES,
    annotations: dict[str, str] | None = None,
) -> ContainerRules:
    """Return what applies to container `app`."""
    vpa = make.vpa(policies=policies, annotations=annotations)
    return container_rules(vpa, "app", rules)


def cap(least: str = "", most: str = "") -> Cap:
    """Return a cap from texts."""
    return Cap(Quantity.parse(least) if least else None, Quantity.parse(most) if most else None)


def test_defaults() -> None:
    """Without a policy, both resources are sized and nothing caps."""
    found = rules_of()

    assert (found.is_off, found.controlled) == (False, ("cpu", "memory"))
    assert (found.cpu, found.memory) == (Cap(), Cap())
    assert found.aggregation.interval_ns == DAY
    assert found.aggregation.expiry_ns == 8 * DAY
    assert found.aggregation.bump_up_ratio == 1.2
    assert found.aggregation.min_bump_up_bytes == 104_857_600


@cases(
    "policies expected",
    {
        "completed by the flags": (
            [make.policy_json("app", max_allowed={"cpu": "1"})],
            (cap("", "1"), cap("", "1Gi")),
        ),
        "entries are not combined": (
            [make.policy_json("*", min_allowed={"memory": "1Gi"}), make.policy_json("app")],
            (cap("", "2"), cap("", "1Gi")),
        ),
        "zero caps nothing": (
            [make.policy_json("app", max_allowed={"cpu": "0"}, min_allowed={"cpu": "0"})],
            (cap(), cap("", "1Gi")),
        ),
    },
)
def test_caps(policies: list[dict[str, Any]], expected: tuple[Cap, Cap]) -> None:
    """A policy's caps go before those of the flags, resource by resource."""
    found = rules_of(*policies, rules=MAX_ALLOWED)

    assert (found.cpu, found.memory) == expected


@cases(
    "resources expected",
    {
        "default": (None, ("cpu", "memory")),
        "memory alone": (["memory"], ("memory",)),
        "none": ([], ()),
        "unknown ones do not count": (["gpu", "cpu"], ("cpu",)),
    },
)
def test_controlled(resources: list[str] | None, expected: tuple[str, ...]) -> None:
    """Only listed resources are sized."""
    assert rules_of(make.policy_json("app", resources=resources)).controlled == expected


def test_off() -> None:
    """Mode Off takes a container out."""
    assert rules_of(make.policy_json("*", mode="Off")).is_off


OWN = make.policy_json(
    "app",
    oomBumpUpRatio="2.5",
    oomMinBumpUp="1Mi",
    memoryAggregationIntervalSeconds=3600,
    memoryAggregationIntervalCount=4,
)


def test_own_aggregation() -> None:
    """With the gate, a policy sets its own aggregation."""
    found = rules_of(OWN).aggregation

    assert (found.bump_up_ratio, found.min_bump_up_bytes) == (2.5, 2**20)
    assert (found.interval_ns, found.expiry_ns) == (HOUR, 4 * HOUR)


@pytest.mark.parametrize("amount", ["5e999999", "-5e999999"])
def test_amounts_that_no_array_can_hold(amount: str) -> None:
    """An amount with a thousand digits is a very large one, and costs no round."""
    found = rules_of(
        make.policy_json("app", oomBumpUpRatio=amount, oomMinBumpUp=amount)
    ).aggregation

    assert abs(found.bump_up_ratio) == 2**62 / 1000
    assert abs(found.min_bump_up_bytes) == 2**62


def test_without_the_gate_own_aggregation_is_ignored() -> None:
    """Without the gate, the flags hold."""
    assert rules_of(OWN, rules=RecommenderRules()) == rules_of(rules=RecommenderRules())


@pytest.mark.parametrize("count", [0, -1])
def test_senseless_intervals_are_ignored(count: int) -> None:
    """Intervals and counts below one fall back to the defaults."""
    found = rules_of(
        make.policy_json(
            "app", memoryAggregationIntervalSeconds=count, memoryAggregationIntervalCount=count
        )
    ).aggregation

    assert (found.interval_ns, found.interval_count) == (DAY, 8)


def test_expiry_is_bounded() -> None:
    """Absurd counts do not overflow."""
    policy = make.policy_json("app", memoryAggregationIntervalCount=2**62)

    assert rules_of(policy).aggregation.expiry_ns == 2**62


@cases(
    "heeded value expected",
    {
        "asked for": (True, "true", True),
        "another word": (True, "True", False),
        "not heeded": (False, "true", False),
    },
)
def test_whole_cores(heeded: bool, value: str, expected: bool) -> None:
    """An annotation per container asks for whole cores, if the flag lets it."""
    rules = RecommenderRules(caps=CapRules(integer_cpu=heeded))
    annotations = {"vpa-post-processor.kubernetes.io/app_integerCPU": value}

    assert rules_of(rules=rules, annotations=annotations).whole_cores is expected


@cases(
    "within least most crossed",
    {
        "plain": (cap("1", "2"), 1000, 2000, False),
        "finer than thousandths": (cap("1n", "1n"), 1, 0, False),
        "crossed": (cap("2", "1"), 2000, 1000, True),
        "none": (cap(), 0, 2**62, False),
    },
)
def test_cap_in_thousandths(within: Cap, least: int, most: int, crossed: bool) -> None:
    """Whole thousandths compare with a cap as exact amounts would."""
    assert (within.least_milli, within.most_milli, within.is_crossed) == (least, most, crossed)
