"""What is remembered of resizes that a node cannot grant."""

from __future__ import annotations

from datetime import timedelta

import pytest

from app.updater.core.decisions import Pair
from app.updater.core.memory import (
    Infeasible,
    Wanted,
    blamed_resources,
    is_remembered,
    wanted_requests,
)
from tests import make
from tests.updater.core.scenes import NOW, OURS, amounts

NODE = make.quantities(cpu="4", memory="8Gi")


def wanted(text: str, container: str = "app") -> Wanted:
    """Read `cpu/memory` of one container."""
    return {(container, name): make.quantity(word) for name, word in amounts(text).items()}


@pytest.mark.parametrize(
    ("past", "now", "blamed", "expected"),
    [
        ("1/1Gi", "1/1Gi", "", True),
        ("1/1Gi", "2/2Gi", "", True),
        ("1/1Gi", "900m/2Gi", "", False),
        ("1/1Gi", "900m/2Gi", "memory", True),
        ("1/1Gi", "2/900Mi", "memory", False),
        ("1/1Gi", "999m/1Gi", "", True),
        ("1", "-/900Mi", "", True),
    ],
)
def test_only_clearly_less_is_worth_a_try(past: str, now: str, blamed: str, expected: bool) -> None:
    """Less of what was blamed, and not just a little."""
    remembered = Infeasible(wanted(past), frozenset(filter(None, [blamed])), NOW, NODE)
    assert is_remembered(remembered, wanted(now), NODE, OURS, NOW) is expected


def test_containers_are_compared_with_themselves() -> None:
    """A container that is less than another one once was tells nothing."""
    remembered = Infeasible(wanted("1/1Gi"), frozenset(), NOW, NODE)
    assert is_remembered(remembered, wanted("1m/1Mi", "b"), NODE, OURS, NOW)


def test_time_and_another_node_make_forget() -> None:
    """After a while, or when the node changed, it is tried again."""
    past = Infeasible(wanted("1/1Gi"), frozenset(), NOW, NODE)
    later = NOW + timedelta(hours=6)
    bigger = make.quantities(cpu="8", memory="8Gi")
    assert is_remembered(past, wanted("1/1Gi"), NODE, OURS, later - timedelta(seconds=1))
    assert not is_remembered(past, wanted("1/1Gi"), NODE, OURS, later)
    assert not is_remembered(past, wanted("1/1Gi"), bigger, OURS, NOW)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (
            "node didn't have enough allocatable resources: cpu, requested: 16050, allocatable: 8",
            {"cpu"},
        ),
        ("Node didn't have enough resource: memory, requested: 6050, used: 52", {"memory"}),
        ("Node didn't have enough capacity: cpu, requested: 9, capacity: 8", {"cpu"}),
        ("In-place resize of containers with swap is not supported", set()),
    ],
)
def test_blamed_resources(message: str, expected: set[str]) -> None:
    """A refusal may name what is missing."""
    assert blamed_resources(message) == expected


def test_what_is_asked_for() -> None:
    """Capped targets of cpu and memory."""
    amount = make.quantity("1")
    pairs = [
        Pair("app", name, None, amount, None, None, is_controlled=True)
        for name in ("cpu", "example.com/gpu")
    ]
    assert wanted_requests(pairs) == {("app", "cpu"): amount}
