"""Turns: the most urgent first, and nobody waits for whoever has to wait."""

from __future__ import annotations

from app.model.kinds import ObjectKey
from app.updater.core.action_queue import ActionQueue, QueueStep
from app.updater.core.decisions import Action, Decision, Reason
from app.updater.core.owners import Budget
from app.updater.turns import Rate, Turn, Turns
from tests import make

ALL: Rate = (True, "")
SHOP: Rate = (True, "shop")


def queue(*steps: tuple[str, int]) -> ActionQueue:
    """Return the queue of one owner; steps are names and how urgent they are, the least first."""
    found = []
    for name, rank in steps:
        pod = make.pod(name=name)
        decision = Decision(pod.uid, "shop", name, "web", Action.RESIZE, Reason.UPDATED, "")
        urgency = (rank, 0.0, 0.0, "", name)
        found.append(QueueStep(pod, decision, False, False, (), urgency))
    key, budget = ObjectKey("", "StatefulSet", steps[0][0]), Budget(4, 0.5, 4, 4)
    return ActionQueue("shop", key, budget, tuple(found), frozenset(), frozenset())


def taken(turns: Turns, now: float = 0, *, is_over: bool = False) -> Turn:
    """Return the next turn."""
    found = turns.take(now, is_over=is_over)
    assert isinstance(found, Turn)
    return found


def name(turn: Turn) -> str:
    """Return whose turn it is."""
    return turn.step.pod.name


def test_the_most_urgent_first() -> None:
    """One at a time of each owner; what comes back takes its place by its next step."""
    turns = Turns([queue(("a", 2), ("b", 9)), queue(("c", 1), ("d", 3))])
    first = taken(turns)
    second = taken(turns)
    assert turns.take(0) is None
    turns.put_back(first)
    turns.put_back(second)
    found = [taken(turns), taken(turns)]
    assert list(map(name, (first, second, *found))) == ["c", "a", "d", "b"]
    for turn in found:
        turns.put_back(turn)
    assert len(turns.ended) == 2


def test_whoever_waits_holds_up_nobody() -> None:
    """Others come first; when there may be a token again the most urgent who waits gets it."""
    turns = Turns([queue(("a", 1)), queue(("b", 2)), queue(("c", 3))])
    for rate, not_before in ((ALL, 5.0), (ALL, 7.0)):
        turns.wait(taken(turns), rate, not_before)
    assert name(taken(turns)) == "c"
    assert turns.take(1) == 6
    back = taken(turns, 7)
    assert (name(back), back.has_waited) == ("a", True)
    turns.wait(back, ALL, 12)
    assert turns.take(8) == 4
    assert [name(taken(turns, 12)), name(taken(turns, 12))] == ["a", "b"]
    assert turns.take(12) is None


def test_each_rate_has_its_room() -> None:
    """Who waits for its namespace alone comes back when that one may."""
    turns = Turns([queue(("a", 1)), queue(("b", 2))])
    turns.wait(taken(turns), SHOP, 50)
    turns.wait(taken(turns), ALL, 5)
    assert turns.take(0) == 5
    assert name(taken(turns, 5)) == "b"
    assert turns.take(5) == 45


def test_at_the_end_nobody_waits() -> None:
    """All come back, to be told that they got no turn."""
    turns = Turns([queue(("a", 1)), queue(("b", 2))])
    for _ in range(2):
        turns.wait(taken(turns), ALL, 1000)
    assert [name(taken(turns, is_over=True)) for _ in range(2)] == ["a", "b"]
    assert turns.take(0, is_over=True) is None


def test_an_abandoned_walk_ends() -> None:
    """What was left of it gets no turn."""
    turns = Turns([queue(("a", 1), ("b", 2))])
    turn = taken(turns)
    turns.abandon(turn)
    turns.put_back(turn)
    assert turns.take(0) is None
    assert [step.pod.name for step, _ in turns.abandoned[0].rest()] == ["b"]
