"""Who is next, and who follows when a call failed."""

from __future__ import annotations

from app.core.updating.budget import Budget
from app.core.updating.carrying import Queue, Step, Walk
from app.core.updating.decisions import Action, Decision, Reason
from app.core.updating.memory import Place
from app.model.kinds import ObjectKey
from tests import make

PDB: Place = ("default", "web")


def step(
    name: str,
    action: Action = Action.EVICT,
    *,
    needs: bool = True,
    broken: bool = False,
    guards: tuple[Place, ...] = (),
    may_evict: bool = False,
    vpa: str = "web",
) -> Step:
    """Return a step."""
    pod = make.pod(name=name)
    decision = Decision(
        pod.uid, "default", name, vpa, action, Reason.EVICTED, "", may_evict_instead=may_evict
    )
    return Step(pod, decision, needs, needs, broken, guards)


def walk(*steps: Step, running: int = 4, unproven: frozenset[str] = frozenset()) -> Walk:
    """Return a walk through an owner of four, half of which may be down."""
    budget = Budget(4, 0.5, running, running)
    key = ObjectKey("", "StatefulSet", "web")
    pods = frozenset(item.pod.uid for item in steps)
    return Walk(Queue("default", key, budget, steps, unproven, pods))


def names(found: Walk) -> list[str]:
    """Return the names of all that may go now."""
    taken = []
    while (item := found.next()) is not None:
        taken.append(item.pod.name)
    return taken


def test_as_many_as_there_are_places() -> None:
    """B2: two of four; whoever needs no place goes as well."""
    assert names(walk(*map(step, "abcd"))) == ["a", "b"]
    assert names(walk(step("a"), step("b"), step("c"), step("d", needs=False))) == ["a", "b", "d"]
    assert names(walk(step("a"), step("b", broken=True), running=3)) == ["a"]


def test_a_failed_call_makes_room_for_the_next() -> None:
    """B26: refusals cost nothing, every pod is tried."""
    found = walk(*map(step, "abcd"))
    tried = []
    while (item := found.next()) is not None:
        tried.append(item.pod.name)
        found.came_to_nothing(item)
    assert tried == ["a", "b", "c", "d"]
    assert found.budget == Budget(4, 0.5, 4, 4)
    free = walk(step("a", needs=False))
    taken = free.next()
    assert taken is not None
    free.came_to_nothing(taken)
    assert free.budget == Budget(4, 0.5, 4, 4)


def test_a_budget_that_refused_is_not_asked_again() -> None:
    """Its pods are skipped, the others go on."""
    found = walk(step("a", guards=(PDB,)), step("b", guards=(PDB,)), step("c"))
    first = found.next()
    assert first is not None
    found.came_to_nothing(first)
    found.close(first.guards)
    assert names(found) == ["c"]


def test_resizes_pass_closed_budgets() -> None:
    """They are none of a PodDisruptionBudget's business."""
    found = walk(step("a", Action.RESIZE, guards=(PDB,)))
    found.close((PDB,))
    assert names(found) == ["a"]


def test_a_canary_goes_alone() -> None:
    """Per VPA, and another one follows if it could not go."""
    found = walk(step("a"), step("b"), step("c", vpa="other"), unproven=frozenset({"web"}))
    first = found.next()
    assert first is not None
    assert names(found) == ["c"]
    assert found.waits_for_canary(step("b"))
    assert not found.waits_for_canary(step("b", Action.RESIZE))
    found.came_to_nothing(first)
    assert names(found) == ["b"]


def test_a_refused_resize_may_become_an_eviction() -> None:
    """If it may, and there is a place, and no canary is out; then it takes the place."""
    wanting = step("a", Action.RESIZE, may_evict=True, guards=(PDB,))
    found = walk(wanting, step("b", Action.RESIZE), running=3)
    assert found.next() is wanting
    found.came_to_nothing(wanting)
    assert found.may_evict_instead(wanting)
    assert found.next() is None
    assert not found.may_evict_instead(wanting)
    assert not walk().may_evict_instead(step("c", Action.RESIZE))
    closed = walk()
    closed.close((PDB,))
    assert not closed.may_evict_instead(wanting)
    alone = walk(wanting, unproven=frozenset({"web"}))
    assert alone.may_evict_instead(wanting)
    assert not alone.may_evict_instead(wanting)
