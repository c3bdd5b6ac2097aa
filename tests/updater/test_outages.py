"""The webhook goes and comes back: what was evicted for nothing is tried again at once."""

from __future__ import annotations

from app.updater.core.decisions import Reason
from tests.updater.stage import Stage, staged

QUICK = "--updater-interval=5s"


def failing(stage: Stage, *, beats: bool) -> Stage:
    """Return the stage after the webhook was away for a while, and a pod came back unchanged."""
    stage.webhook_works = False
    stage.webhook_beats = beats
    stage.restart()
    stage.run(20)
    assert (len(stage.evicted()), stage.requests()) == (1, ["100m"] * 4)
    assert str(Reason.RECREATED_WITHOUT_CHANGE) in stage.reasons()
    return stage


def test_all_are_sized_soon_after_a_webhook_is_back() -> None:
    """The pause that began just before its Lease was stale does not go on when it is fresh."""
    stage = failing(staged(QUICK), beats=False)
    stage.run(90)
    assert set(stage.reasons()) == {Reason.LEASE_STALE}
    stage.webhook_works = stage.webhook_beats = True
    stage.run(30)
    assert stage.requests() == ["200m"] * 4
    assert len(stage.evicted()) <= 5


def test_a_short_outage_of_which_the_webhook_tells() -> None:
    """Its Lease was never stale, but says that its beats were interrupted."""
    stage = failing(staged(QUICK), beats=True)
    stage.webhook_works = True
    stage.acquired = stage.clock.now()
    stage.run(40)
    assert stage.requests() == ["200m"] * 4


def test_the_webhook_is_not_at_fault() -> None:
    """Whose replacement came unchanged while it was alive all the time waits for five minutes."""
    stage = failing(staged(QUICK), beats=True)
    stage.webhook_works = True
    stage.run(200)
    assert stage.requests() == ["100m"] * 4
    stage.run(200)
    assert stage.requests() == ["200m"] * 4
