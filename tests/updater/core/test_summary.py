"""What is told of one VPA."""

from __future__ import annotations

import pytest

from app.updater.core.decisions import Action, Decision, Reason
from app.updater.core.events import Summary, summary


def decisions(*words: tuple[Action, Reason]) -> list[Decision]:
    """Return decisions about several pods."""
    return [
        Decision(str(number), "default", str(number), "web", action, reason, "")
        for number, (action, reason) in enumerate(words)
    ]


EVICT = (Action.EVICT, Reason.EVICTED)
WAIT = (Action.WAIT, Reason.BUDGET_EXHAUSTED)
PDB = (Action.WAIT, Reason.PDB_BLOCKED)
CALM = (Action.NONE, Reason.NO_CHANGE)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ((), Summary("False", "NoPods", "no pods")),
        ((CALM,), Summary("False", "NoChange", "1 pod: 1 NoChange")),
        (
            (CALM, EVICT, WAIT, WAIT),
            Summary("True", "Evicted", "4 pods: 2 BudgetExhausted, 1 Evicted, 1 NoChange"),
        ),
        (
            (CALM, CALM, WAIT),
            Summary("False", "BudgetExhausted", "3 pods: 1 BudgetExhausted, 2 NoChange"),
        ),
        (
            (PDB, WAIT),
            Summary("False", "BudgetExhausted", "2 pods: 1 BudgetExhausted, 1 PDBBlocked"),
        ),
    ],
)
def test_summary(words: tuple[tuple[Action, Reason], ...], expected: Summary) -> None:
    """What is done comes before what waits, and that before what needs nothing."""
    assert summary(decisions(*words)) == expected
