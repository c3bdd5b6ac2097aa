"""VPAs are read so that missing, empty and zero stay three things."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import TypeVar

import pytest
from hypothesis import given

from app.model.errors import BadObject, BadQuantity
from app.model.fields import Json
from app.model.kinds import ObjectKey
from app.model.vpa import (
    ContainerPolicy,
    CpuBoost,
    EvictionRequirement,
    StartupBoost,
    UpdatePolicy,
    Vpa,
    read_vpa,
    without_status,
)
from app.sizing.capping import limits_follow
from tests import make
from tests.cases import cases
from tests.junk import objects_like

T = TypeVar("T")

BOOST = make.boost_json(factor=2, duration="15s")
FULL = make.vpa_json(
    mode="Recreate",
    min_replicas=3,
    policies=[
        make.policy_json(
            "app",
            mode="Auto",
            min_allowed={"cpu": "10m"},
            max_allowed={"memory": "1Gi"},
            resources=["cpu"],
            values="RequestsOnly",
            boost=make.boost_json(quantity="1", duration_seconds=30),
            oomBumpUpRatio="1.5",
            oomMinBumpUp="100Mi",
            memoryAggregationIntervalSeconds=60,
            memoryAggregationIntervalCount=2**40,
        ),
        make.policy_json(mode="Off"),
    ],
    boost=BOOST,
    selector={"matchLabels": {"tier": "front"}},
    recommendations=[
        make.recommendation_json(
            cpu="250m",
            memory="200Mi",
            lower=make.amounts(cpu="1m"),
            upper=make.amounts(cpu="2"),
            uncapped=make.amounts(cpu="3"),
        )
    ],
    annotations={"a": "b"},
    metadata={"deletionTimestamp": "2026-01-05T10:00:00Z", "generation": 2**40},
    spec={"recommenders": [{"name": "mine"}]},
    status={
        "conditions": [
            {
                "type": "RecommendationProvided",
                "status": "True",
                "lastTransitionTime": "2026-01-05T10:00:00Z",
                "observedGeneration": 1,
            }
        ],
        "observedGeneration": 4,
    },
)
FULL["spec"]["updatePolicy"] |= {
    "evictionRequirements": [
        {"resources": ["cpu", "memory"], "changeRequirement": "TargetHigherThanRequests"},
        {},
    ],
    "evictAfterOOMSeconds": 60,
}


def test_a_full_vpa() -> None:
    """Everything that is looked at is read."""
    vpa = read_vpa(FULL)
    assert (vpa.namespace, vpa.name, vpa.uid) == ("default", "web", "uid-web")
    assert vpa.generation == 2**40
    assert vpa.created == make.NOW - timedelta(days=30)
    assert vpa.deleted == make.NOW
    assert vpa.annotations == {"a": "b"}
    assert vpa.target is not None
    assert vpa.target.key == ObjectKey("", "StatefulSet", "web")
    assert str(vpa.selector) == "tier=front"
    assert vpa.update_policy == UpdatePolicy(
        "Recreate",
        3,
        (
            EvictionRequirement(("cpu", "memory"), "TargetHigherThanRequests"),
            EvictionRequirement((), ""),
        ),
        60,
    )
    assert vpa.policies is not None
    assert vpa.policies[0] == ContainerPolicy(
        container="app",
        mode="Auto",
        min_allowed=make.quantities(cpu="10m"),
        max_allowed=make.quantities(memory="1Gi"),
        controlled_resources=("cpu",),
        controlled_values="RequestsOnly",
        oom_bump_up_ratio=make.quantity("1.5"),
        oom_min_bump_up=make.quantity("100Mi"),
        memory_interval_seconds=60,
        memory_interval_count=2**40,
        startup_boost=StartupBoost(
            CpuBoost("Quantity", quantity=make.quantity("1"), duration_seconds=30)
        ),
    )
    assert vpa.startup_boost == StartupBoost(CpuBoost("Factor", factor=2, duration="15s"))
    assert vpa.recommenders == ("mine",)
    assert [(each.type, each.status) for each in vpa.conditions] == [
        ("RecommendationProvided", "True")
    ]
    assert vpa.observed_generation == 4


def test_an_empty_vpa() -> None:
    """Nothing at all is a VPA that asks for nothing."""
    vpa = read_vpa({})
    assert vpa.mode == "Recreate"
    assert not vpa.is_off
    for part in (vpa.target, vpa.selector, vpa.update_policy, vpa.policies, vpa.startup_boost):
        assert part is None
    assert vpa.recommendation is None
    assert vpa.recommended("app") is None
    assert vpa.policy("app") is None
    assert vpa.boost("app") is None
    assert not vpa.mentions_boost


@pytest.mark.parametrize(
    ("update_policy", "mode"),
    [
        (None, "Recreate"),
        ({}, "Recreate"),
        ({"updateMode": None}, "Recreate"),
        ({"updateMode": ""}, "Recreate"),
        ({"updateMode": "Off"}, "Off"),
        ({"updateMode": "Odd"}, "Odd"),
    ],
)
def test_mode(update_policy: dict[str, object] | None, mode: str) -> None:
    """What is not said means Recreate; what is unknown stays what it is."""
    vpa = make.vpa(spec={"updatePolicy": update_policy})
    assert vpa.mode == mode
    assert vpa.is_off is (mode == "Off")


@cases(
    "policies container expected",
    {
        "none": ([], "app", None),
        "another one's": (["other"], "app", None),
        "wildcard": (["*"], "app", "*"),
        "its own behind a wildcard": (["*", "app"], "app", "app"),
        "its own before a wildcard": (["app", "*"], "app", "app"),
    },
)
def test_policy(policies: list[str], container: str, expected: str | None) -> None:
    """A container's own policy outranks the wildcard, wherever it stands."""
    found = make.vpa(policies=[make.policy_json(name) for name in policies]).policy(container)
    assert (found and found.container) == expected


class Walked(tuple[T, ...]):
    """Entries that count how often something goes through them."""

    walks = 0

    def __iter__(self) -> Iterator[T]:
        """Begin to go through them."""
        self.walks += 1
        return super().__iter__()


def test_questions_about_many_containers_cost_as_much_as_about_one() -> None:
    """A tenant may write thousands of policies and containers: no question goes through them."""
    recommended = [make.recommendation_json(f"c{number}", cpu="1") for number in range(100)]
    policies = [make.policy_json(f"c{number}") for number in range(100)]
    read = make.vpa(policies=policies, recommendations=recommended)
    walked, recommendation = Walked(read.policies or ()), Walked(read.recommendation or ())
    vpa = replace(read, policies=walked, recommendation=recommendation)
    before = walked.walks, recommendation.walks
    for number in range(100):
        assert vpa.policy(f"c{number}") is not None
        assert vpa.recommended(f"c{number}") is not None
        assert vpa.boost(f"c{number}") is None
    assert (walked.walks, recommendation.walks) == before


def test_the_last_wildcard_counts() -> None:
    """Of several wildcards the last one holds."""
    vpa = make.vpa(policies=[make.policy_json(mode="Auto"), make.policy_json(mode="Off")])
    policy = vpa.policy("app")
    assert policy is not None
    assert policy.is_off


def test_questions_to_a_policy() -> None:
    """Off and RequestsOnly are asked for by name; nothing said is neither."""
    assert make.policy(values="RequestsOnly").requests_only
    assert make.policy(mode="Off").is_off
    assert not ContainerPolicy().requests_only
    assert not ContainerPolicy().is_off


@cases(
    "vpa factor mentions",
    {
        "none": (make.vpa(), None, False),
        "of the VPA": (make.vpa(boost=BOOST), 2, True),
        "an empty one of the VPA": (make.vpa(boost={}), None, True),
        "of the policy": (
            make.vpa(boost=BOOST, policies=[make.policy_json(boost=make.boost_json(factor=5))]),
            5,
            True,
        ),
        "an empty one of the policy says no boost here": (
            make.vpa(boost=BOOST, policies=[make.policy_json(boost={})]),
            None,
            True,
        ),
        "policy without one": (make.vpa(boost=BOOST, policies=[make.policy_json()]), 2, True),
        "of another": (make.vpa(policies=[make.policy_json("other", boost=BOOST)]), None, True),
    },
)
def test_boost(vpa: Vpa, factor: int | None, mentions: bool) -> None:
    """A policy that mentions a boost outranks the VPA's; an empty one switches it off."""
    boost = vpa.boost("app")
    assert (boost and boost.factor) == factor
    assert vpa.mentions_boost is mentions


@pytest.mark.parametrize(
    ("boost", "lasts"),
    [
        (CpuBoost(), timedelta(0)),
        (CpuBoost(duration="1m30s"), timedelta(seconds=90)),
        (CpuBoost(duration_seconds=0), timedelta(0)),
        (CpuBoost(duration_seconds=7), timedelta(seconds=7)),
        (CpuBoost(duration="soon"), timedelta(0)),
        (CpuBoost(duration="10s", duration_seconds=7), timedelta(seconds=10)),
    ],
)
def test_duration_of_a_boost(boost: CpuBoost, lasts: timedelta) -> None:
    """Both ways to tell a duration are understood; none, or one that cannot be read, is 0 s."""
    assert boost.lasts == lasts


def test_recommendations() -> None:
    """A recommendation is found by its container's name."""
    found = read_vpa(FULL).recommended("app")
    assert found is not None
    assert found.target == make.quantities(cpu="250m", memory="200Mi")
    assert found.lower_bound == make.quantities(cpu="1m")
    assert found.upper_bound == make.quantities(cpu="2")
    assert found.uncapped_target == make.quantities(cpu="3")
    assert read_vpa(FULL).recommended("other") is None


def test_without_bounds() -> None:
    """Whoever needs targets alone does not keep the bounds, but still has them checked."""
    found = read_vpa(FULL, with_bounds=False).recommended("app")
    assert found is not None
    assert found.target
    assert not found.lower_bound
    assert not found.uncapped_target
    wrong = make.with_value(
        FULL, "status.recommendation.containerRecommendations[0].lowerBound[cpu]", "?"
    )
    with pytest.raises(BadQuantity):
        read_vpa(wrong, with_bounds=False)


def test_no_recommendation_differs_from_an_empty_one() -> None:
    """A recommendation without containers is there."""
    assert make.vpa().recommendation is None
    assert make.vpa(recommendations=[]).recommendation == ()


def test_strength() -> None:
    """The oldest is the strongest, then the first by name; an unknown age is the oldest."""
    vpas = [
        make.vpa("a", created=None),
        make.vpa("d", created=timedelta(days=1)),
        make.vpa("c", created=timedelta(days=2)),
        make.vpa("b", created=timedelta(days=2)),
    ]
    assert [vpa.name for vpa in sorted(vpas, key=lambda vpa: vpa.precedence)] == [*"abcd"]


POLICY = "spec.resourcePolicy.containerPolicies[0]"
STATUS = "status.recommendation.containerRecommendations"


def test_a_bad_status_can_be_left_out() -> None:
    """A VPA whose status is garbage can be read without it."""
    garbage = {**FULL, "status": "?"}
    vpa = read_vpa(without_status(garbage))
    assert vpa.recommendation is None
    assert vpa.policies is not None
    with pytest.raises(BadObject):
        without_status([])


@given(objects_like(FULL))
def test_anything_is_read_or_refused(item: Json) -> None:
    """Whatever is sent as a VPA, it is a VPA or a bad object."""
    try:
        vpa = read_vpa(item)
    except BadObject:
        return
    assert vpa.precedence
    boost = vpa.boost("app")
    assert boost is None or boost.lasts >= timedelta(days=-(10**6))


@cases(
    "values expected",
    {
        "not said": (None, True),
        "both": ("RequestsAndLimits", True),
        "requests": ("RequestsOnly", False),
        "an empty word": ("", False),
        "an unknown word": ("LimitsOnly", False),
    },
)
def test_limits_follow(values: str | None, expected: bool) -> None:
    """Limits are written only by whoever asks for it, or does not say."""
    assert limits_follow(make.policy(values=values)) is expected
    assert limits_follow(None)
