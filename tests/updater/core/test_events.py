"""What users are told by Events."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.model.errors import Unavailable
from app.updater.core.decisions import Action, Decision, PodChange, Reason
from app.updater.core.events import (
    Severity,
    UpdateEvent,
    decision_events,
    headline,
    outcome_events,
    summary,
)
from app.updater.core.outcomes import Outcome
from tests.cases import cases
from tests.updater.core import boosts
from tests.updater.core.scenes import NOW, UNPROVEN, Scene, container, running, several

POD = running(container("app", "100m/100Mi"))


def outcome(mode: str) -> Outcome:
    """Return the first step of a scene as carried out."""
    plan = Scene(several(POD, 3), mode=mode, rules=UNPROVEN).plan()
    queue = plan.queues[0]
    return Outcome(queue, queue.steps[0], NOW)


def test_evictions_are_told_to_pod_and_vpa() -> None:
    """With the reasons that upstream gives."""
    why = "cpu 100m is below its lower bound 200m: 100m -> 200m; memory 100Mi -> 200Mi"
    told = f"evicted to apply the recommendation of VPA web: {why}"
    assert list(outcome_events(outcome("Recreate"))) == [
        UpdateEvent(
            "Pod",
            "default",
            "web-0",
            "uid-web-0",
            Severity.NORMAL,
            "EvictedByVPA",
            f"Pod was {told}",
        ),
        UpdateEvent(
            "VerticalPodAutoscaler",
            "default",
            "web",
            "",
            Severity.NORMAL,
            "EvictedPod",
            f"Pod web-0 was {told}",
        ),
    ]


def test_resizes_and_ends_of_boosts_are_told_to_the_pod() -> None:
    """Once they are accepted; what only takes a mark away is no news."""
    (resized,) = outcome_events(outcome("InPlaceOrRecreate"))
    assert (resized.kind, resized.reason) == ("Pod", "InPlaceResizedByVPA")
    queue = boosts.scene(boosts.boosted()).plan().queues[0]
    step = queue.steps[0]
    (back,) = outcome_events(Outcome(queue, step, NOW))
    assert back.reason == "InPlaceResizedByVPA"
    unmarked = replace(step, decision=replace(step.decision, change=PodChange()))
    assert list(outcome_events(Outcome(queue, unmarked, NOW))) == []
    nothing = replace(step, decision=replace(step.decision, change=None))
    assert list(outcome_events(Outcome(queue, nothing, NOW))) == []


def test_refusals_are_told_by_the_next_decision() -> None:
    """Not here."""
    assert list(outcome_events(replace(outcome("Recreate"), error=Unavailable("no")))) == []


def decision(reason: Reason) -> Decision:
    """Return a decision that waits."""
    return Decision("u", "default", "web-0", "web", Action.WAIT, reason, "why")


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        (Reason.INFEASIBLE_REMEMBERED, (Severity.NORMAL, "InPlaceResizeSkipped")),
        (Reason.UNBOOST_STUCK, (Severity.WARNING, "UnboostStuck")),
        (Reason.RECREATED_WITHOUT_CHANGE, (Severity.WARNING, "RecreatedWithoutChange")),
        (Reason.BUDGET_EXHAUSTED, None),
    ],
)
def test_troubles_are_told_when_they_begin(
    reason: Reason, expected: tuple[Severity, str] | None
) -> None:
    """And not again in every round."""
    found = [(item.severity, item.reason) for item in decision_events([decision(reason)], {})]
    assert found == ([] if expected is None else [expected])
    assert list(decision_events([decision(reason)], {"u": reason})) == []


@cases(
    "words expected",
    {
        "nothing": ((), ""),
        "one each": (
            (("Evict", "OutsideBounds"), ("Resize", "OOMKilled"), ("Wait", "ProofPending")),
            "would evict 1, would resize 1, waiting 1 (ProofPending)",
        ),
        "several": (
            (
                ("Wait", "PDBBlocked"),
                ("None", "NoChange"),
                ("Wait", "ProofPending"),
                ("Wait", "ProofPending"),
                ("Unboost", "BoostOver"),
            ),
            "would end the boost of 1, waiting 3 (2 ProofPending, 1 PDBBlocked), "
            "unchanged 1 (NoChange)",
        ),
    },
)
def test_a_headline_says_what_would_be_done(
    words: tuple[tuple[str, str], ...], expected: str
) -> None:
    """Nothing reads as done; what waits and what is left alone has its reasons."""
    assert headline(words) == expected


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
        ((), "False, NoPods: no pods"),
        ((CALM,), "False, NoChange: 1 pod: 1 NoChange"),
        (
            (CALM, EVICT, WAIT, WAIT),
            "True, Evicted: 4 pods: 2 BudgetExhausted, 1 Evicted, 1 NoChange",
        ),
        (
            (CALM, CALM, WAIT),
            "False, BudgetExhausted: 3 pods: 1 BudgetExhausted, 2 NoChange",
        ),
        ((PDB, WAIT), "False, BudgetExhausted: 2 pods: 1 BudgetExhausted, 1 PDBBlocked"),
    ],
)
def test_summary(words: tuple[tuple[Action, Reason], ...], expected: str) -> None:
    """What is done comes before what waits, and that before what needs nothing."""
    assert summary(decisions(*words)) == expected
