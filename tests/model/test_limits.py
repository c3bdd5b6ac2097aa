"""LimitRanges act together; disruption budgets and nodes say what room there is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.model.errors import BadObject
from app.model.fields import Json
from app.model.limits import (
    NO_LIMITS,
    LimitRange,
    Limits,
    combined_limits,
    read_disruption_budget,
    read_limit_range,
    read_node,
)
from tests import make
from tests.cases import cases
from tests.junk import objects_like

FULL = make.limit_range_json(
    make.limits_json(
        least={"cpu": "10m"}, most={"cpu": "2", "memory": "1Gi"}, default={"cpu": "1"}
    ),
    make.limits_json("Pod", most={"cpu": "4"}),
    make.limits_json("PersistentVolumeClaim", least={"storage": "1Gi"}),
)


def test_a_limit_range_keeps_its_order() -> None:
    """Every entry is read with its type, in the order of the object."""
    found = read_limit_range(FULL)
    assert (found.namespace, found.name) == ("default", "limits")
    assert [kind for kind, _ in found.items] == ["Container", "Pod", "PersistentVolumeClaim"]
    assert found.items[0][1] == Limits(
        make.quantities(cpu="10m"),
        make.quantities(cpu="2", memory="1Gi"),
        make.quantities(cpu="1"),
    )


def test_unset_limits_are_zero() -> None:
    """A resource without a limit has a minimum, maximum and default of nothing."""
    limits = Limits()
    for found in (limits.least, limits.most, limits.usual, limits.max_limit_request_ratio):
        assert found("cpu").is_zero
    limits = read_limit_range(FULL).items[0][1]
    assert [str(limits.least("cpu")), str(limits.most("cpu")), str(limits.usual("cpu"))] == [
        "10m",
        "2",
        "1",
    ]


@cases(
    "ranges expected",
    {
        "none": ([], None),
        "one that says nothing": ([make.limit_range()], None),
        "for pods alone": ([make.limit_range(make.limits_json("Pod", most={"cpu": "1"}))], None),
        "highest minimum and lowest maximum": (
            [
                make.limit_range(name="a", least={"cpu": "1"}, most={"cpu": "8", "memory": "1Gi"}),
                make.limit_range(name="b", least={"cpu": "2"}, most={"cpu": "4"}),
            ],
            Limits(make.quantities(cpu="2"), make.quantities(cpu="4", memory="1Gi")),
        ),
        "default of the last by name that has one": (
            [
                make.limit_range(name="b", default={"cpu": "2"}),
                make.limit_range(name="c", most={"cpu": "4"}),
                make.limit_range(name="a", default={"cpu": "1", "memory": "1Gi"}),
            ],
            Limits({}, make.quantities(cpu="4"), make.quantities(cpu="2")),
        ),
        "others are left out": ([make.limit_range(least={"ephemeral-storage": "1Gi"})], Limits()),
    },
)
def test_together(ranges: list[LimitRange], expected: Limits | None) -> None:
    """The strictest bounds of a namespace hold."""
    assert combined_limits(ranges).container == expected


def test_pods_and_containers_are_apart() -> None:
    """Limits for pods do not bind containers, nor the other way round."""
    limits = combined_limits([read_limit_range(FULL)])
    assert limits.pod == Limits({}, make.quantities(cpu="4"))
    assert limits.container == read_limit_range(FULL).items[0][1]
    assert combined_limits([]) == NO_LIMITS


@given(st.permutations([
    make.limit_range(name=name, default={"cpu": cpu}, least={"cpu": cpu}, most={"cpu": cpu})
    for name, cpu in (("a", "1"), ("b", "3"), ("c", "2"))
]))  # fmt: skip
def test_order_does_not_matter(ranges: list[LimitRange]) -> None:
    """Equal sets of LimitRanges give equal answers."""
    assert combined_limits(ranges).container == Limits(
        make.quantities(cpu="3"), make.quantities(cpu="1"), make.quantities(cpu="2")
    )


@given(objects_like(FULL))
def test_any_limit_range_is_read_or_refused(item: Json) -> None:
    """Whatever is sent as a LimitRange, it is one or a bad object."""
    try:
        found = read_limit_range(item)
    except BadObject:
        return
    assert combined_limits([found, found]) == combined_limits([found])


@pytest.mark.parametrize(
    ("generation", "observed", "current"),
    [(None, None, True), (1, 1, True), (2, 1, False), (1, None, False), (1, 2, True)],
)
def test_a_budget_is_current_once_observed(
    generation: int | None, observed: int | None, current: bool
) -> None:
    """A budget whose spec was not looked at yet does not count as current."""
    item = make.budget_json()
    item["metadata"]["generation"] = generation
    item["status"]["observedGeneration"] = observed
    budget = read_disruption_budget(item)
    assert budget.is_current is current
    assert (budget.namespace, budget.name) == ("default", "web")
    assert budget.disruptions_allowed == 1
    assert budget.selector.matches({"app": "web"})


def test_a_budget_without_selector_matches_nothing() -> None:
    """No selector selects no pods, an empty one all."""
    item = make.budget_json()
    del item["spec"]["selector"]
    assert not read_disruption_budget(item).selector.matches({})
    assert make.budget(labels={}).selector.matches({})


def test_a_node() -> None:
    """Name and allocatable resources are read."""
    node = make.node(cpu="2", memory="4Gi")
    assert node.name == "node-1"
    assert node.allocatable["memory"] == make.quantity("4Gi")


def test_an_empty_node() -> None:
    """A node that tells nothing has nothing to give."""
    assert read_node({}).allocatable == {}
