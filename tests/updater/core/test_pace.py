"""Rounds keep their distance, but for what comes within seconds."""

from __future__ import annotations

from app.updater.core.decisions import Reason
from app.updater.core.pace import Pace
from tests.cases import cases

AWAY = Pace(is_webhook_away=True)
NOTHING: set[Reason] = {Reason.NO_CHANGE}
PROOF = {Reason.NO_CHANGE, Reason.PROOF_PENDING}
BUDGET = {Reason.BUDGET_EXHAUSTED}


def after(pace: Pace, *rounds: tuple[set[Reason], bool], is_healthy: bool = True) -> Pace:
    """Return the pace after rounds with these reasons, in which something was done or not."""
    for reasons, has_acted in rounds:
        pace = pace.after_round(reasons, webhook_is_healthy=is_healthy, has_acted=has_acted)
    return pace


@cases(
    "pace seconds",
    {
        "at first": (Pace(), 60),
        "nothing to do": (after(Pace(), (NOTHING, False)), 60),
        "a wave": (after(Pace(), (PROOF, True)), 1),
        "a proof that is not there yet": (after(Pace(), (PROOF, True), (PROOF, False)), 2),
        "that takes long": (after(Pace(), *[(PROOF, False)] * 5), 32),
        "that does not come": (after(Pace(), *[(PROOF, False)] * 99), 60),
        "and comes": (after(Pace(), *[(PROOF, False)] * 99, (PROOF, True)), 1),
        "a plan that came too late": (after(Pace(), ({Reason.PLAN_OUTDATED}, True)), 1),
        "a budget": (after(Pace(), (BUDGET, True)), 60),
        "no webhook": (after(Pace(), (PROOF, True), is_healthy=False), 60),
        "after an outage, held up": (after(AWAY, (BUDGET, True)), 1),
        "after an outage, done": (after(AWAY, (NOTHING, False)), 60),
        "after an outage, all on its way": (after(AWAY, (NOTHING, True)), 1),
        "caught up": (after(AWAY, (BUDGET, True), (NOTHING, False)), 60),
        "an outage and a budget for ever": (after(AWAY, *[(BUDGET, False)] * 6), 60),
        "for ever and a day": (after(AWAY, *[(BUDGET, False)] * 6, (BUDGET, True)), 60),
    },
)
def test_when_the_next_round_begins(pace: Pace, seconds: float) -> None:
    """Soon after a round that awaits a proof, or after an outage; else after the interval."""
    assert pace.seconds(60) == seconds


def test_no_later_than_usual() -> None:
    """An interval shorter than the pauses counts."""
    assert after(Pace(), *[(PROOF, False)] * 3).seconds(1.5) == 1.5
