"""Conditions are read alike for pods and VPAs."""

from __future__ import annotations

import pytest

from app.model.conditions import Condition, read_conditions
from app.model.errors import BadObject
from tests import make

FULL = {
    "type": "Ready",
    "status": "False",
    "reason": "ContainersNotReady",
    "message": "wait",
    "lastTransitionTime": "2026-01-05T10:00:00Z",
    "observedGeneration": 2**40,
}


def test_conditions_keep_their_order() -> None:
    """Every condition is read, the first one first; nothing said is nothing."""
    assert read_conditions({"conditions": [FULL, {}]}) == (
        Condition("Ready", "False", "ContainersNotReady", "wait", make.NOW, 2**40),
        Condition("", ""),
    )
    assert read_conditions({}) == ()


@pytest.mark.parametrize("field", FULL)
def test_wrong_values(field: str) -> None:
    """What is wrong in a condition is told with its path."""
    with pytest.raises(BadObject) as caught:
        read_conditions({"conditions": [{}, FULL | {field: []}]})
    assert caught.value.path == f"status.conditions[1].{field}"
