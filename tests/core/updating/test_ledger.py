"""What all owners share while one plan is made."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from app.core.updating.groups import Rolling
from app.core.updating.infeasible import Infeasible
from app.core.updating.ledger import Ledger
from app.core.updating.memory import Memory, PodMemory, RolloutSight
from app.core.updating.proof import Breaker
from app.core.updating.wishes import Assessment, Terms
from app.model.gates import NO_GATES
from tests import make
from tests.core.updating.scenes import NOW, OURS

POD, VPA = make.pod(), make.vpa()


def ledger(memory: Memory | None = None, *, is_partial: bool = False) -> Ledger:
    """Return a fresh ledger."""
    return Ledger(Terms(OURS, NO_GATES, memory or Memory(), NOW, is_partial=is_partial))


def test_budgets_are_used_up() -> None:
    """By name, across owners; a broken pod is tried all the same."""
    found = ledger()
    guard = (make.budget(allowed=2),)
    assert [found.takes(guard, broken=False) for _ in range(3)] == [True, True, False]
    assert found.takes(guard, broken=True)
    assert found.takes((), broken=False)


def test_guards_are_found_by_labels() -> None:
    """In a fixed order."""
    items = [make.budget_json(name) for name in ("b", "a")]
    other = make.budget_json("c", labels={"app": "other"})
    view = make.snapshot(*items, other).of("default")
    assert [guard.name for guard in ledger().guards(POD, view)] == ["a", "b"]


def test_the_breaker_counts() -> None:
    """Closed: any number; open: one, or none while a canary is out."""
    assert all(ledger().takes_eviction() for _ in range(9))
    opened = Memory(breaker=Breaker(is_open=True))
    found = ledger(opened)
    assert [found.takes_eviction() for _ in range(3)] == [True, False, False]
    out = Breaker(is_open=True, canary="x", until=NOW + timedelta(minutes=1))
    waiting = replace(opened, breaker=out)
    assert not ledger(waiting).takes_eviction()


def test_what_is_learnt_is_added() -> None:
    """To what was remembered before; nothing learnt changes nothing."""
    before = PodMemory("default", "web-0", unboosted=NOW, resizing_since=NOW)
    memory = Memory(pods={POD.uid: before})
    found = ledger(memory)
    found.remember(Assessment(POD, VPA))
    assert found.memory() == memory
    past = Infeasible({}, frozenset(), NOW, None)
    found.remember(Assessment(POD, VPA, infeasible=past))
    assert found.memory().pods[POD.uid] == replace(before, infeasible=past)


def test_rollouts_are_seen_while_they_last() -> None:
    """A whole plan forgets those that are over, a part of one does not."""
    place = ("default", "ReplicaSet/web")
    memory = Memory(rollouts={place: RolloutSight("a", NOW)})
    assert ledger(memory).memory().rollouts == {}
    assert ledger(memory, is_partial=True).memory().rollouts == memory.rollouts
    found = ledger(memory)
    assert not found.seems_stuck(place, Rolling("b", ""))
    assert found.memory().rollouts == {place: RolloutSight("b", NOW)}
