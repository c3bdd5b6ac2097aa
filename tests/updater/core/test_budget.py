"""How many pods of one owner may go, one after another."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.updater.core.owners import Budget


def spent(budget: Budget, *, broken: bool = False) -> int:
    """Return how many pods can go one after another."""
    count = 0
    while budget.has_place(broken=broken) and count < 200:
        budget = budget.less_one(broken=broken)
        count += 1
    return count


@pytest.mark.parametrize(
    ("configured", "running", "tolerance", "tolerated", "expected"),
    [
        pytest.param(3, 3, 0.5, 1, 1, id="3 of 3 up, 50% may be down"),
        pytest.param(4, 4, 0.5, 2, 2, id="4 of 4 up, 50% may be down"),
        pytest.param(4, 3, 0.5, 2, 1, id="3 of 4 up, 50% may be down"),
        pytest.param(3, 3, 0.1, 0, 1, id="3 of 3 up, 10% may be down"),
        pytest.param(3, 2, 0.1, 0, 0, id="2 of 3 up, 10% may be down"),
        pytest.param(3, 2, 0.5, 1, 0, id="2 of 3 up, 50% may be down"),
        pytest.param(4, 1, 0.5, 2, 0, id="1 of 4 up, 50% may be down"),
        pytest.param(1, 1, 0.5, 0, 1, id="1 of 1 up, 50% may be down"),
        pytest.param(2, 2, 0.5, 1, 1, id="2 of 2 up, 50% may be down"),
        pytest.param(5, 5, 0.8, 4, 4, id="5 of 5 up, 80% may be down"),
        pytest.param(5, 5, 0.1, 0, 1, id="5 of 5 up, 10% may be down"),
        pytest.param(5, 5, 0.5, 2, 2, id="5 of 5 up, 50% may be down"),
        pytest.param(10, 10, 0.5, 5, 5, id="10 of 10 up, 50% may be down"),
        pytest.param(10, 8, 0.5, 5, 3, id="8 of 10 up, 50% may be down"),
        pytest.param(10, 5, 0.5, 5, 0, id="5 of 10 up, 50% may be down"),
        pytest.param(3, 3, 1.0, 3, 3, id="3 of 3 up, 100% may be down"),
        pytest.param(4, 3, 0.1, 0, 0, id="3 of 4 up, 10% may be down"),
        pytest.param(20, 17, 0.2, 4, 1, id="17 of 20 up, 20% may be down"),
        pytest.param(3, 5, 0.5, 1, 3, id="5 of 3 up, 50% may be down"),
        pytest.param(0, 5, 0.5, 0, 5, id="5 of 0 up, 50% may be down"),
        pytest.param(100, 100, 0.29, 28, 28, id="100 of 100 up, 29% may be down"),
    ],
)
def test_worked_cases(
    configured: int, running: int, tolerance: float, tolerated: int, expected: int
) -> None:
    """The share that may be down is cut off, not rounded, and one of a whole owner may go."""
    budget = Budget(configured, tolerance, running, running)
    assert budget.tolerated == tolerated
    assert spent(budget) == spent(budget, broken=True) == expected


def test_whatever_goes_takes_a_place() -> None:
    """After one accepted resize one eviction is left."""
    assert spent(Budget(4, 0.5, 4, 4).less_one()) == 1


def test_what_did_not_go_gives_its_place_back() -> None:
    """A refused call leaves the budget as it was."""
    budget = Budget(10, 0.5, 10, 10)
    for broken in (False, True):
        assert budget.less_one(broken=broken).plus_one(broken=broken) == budget


def test_unready_pods_are_down_already() -> None:
    """Ten pods, five of them not ready: no ready one may go, but the broken ones may."""
    budget = Budget(10, 0.5, 10, alive=5)
    assert spent(budget) == 0
    assert spent(budget, broken=True) == 5


def test_all_broken_can_be_repaired_one_by_one() -> None:
    """An owner all of whose pods are broken is not lost."""
    assert spent(Budget(3, 0.5, 3, alive=0), broken=True) == 1
    assert spent(Budget(1, 0.5, 1, alive=0), broken=True) == 1


SIZES = st.integers(0, 30)


@given(SIZES, SIZES, SIZES, st.floats(0, 1), st.lists(st.booleans(), max_size=40))
def test_never_more_than_tolerated(
    configured: int, running: int, unready: int, tolerance: float, order: list[bool]
) -> None:
    """However ready and broken pods take turns, no more are down than tolerance or one allow."""
    unready = min(unready, running)
    budget = Budget(configured, tolerance, running, running - unready)
    alive, up, broken_left = running - unready, running, unready
    for broken in order:
        if broken and not broken_left:
            continue
        if not budget.has_place(broken=broken):
            continue
        budget = budget.less_one(broken=broken)
        up -= 1
        alive -= not broken
        broken_left -= broken
        least = configured - max(budget.tolerated, 1)
        assert up >= least
        assert broken or alive >= least
