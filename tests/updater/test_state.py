"""Several threads remember together, and none acts where another did."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import timedelta

import pytest

from app.model.errors import Unavailable
from app.updater.core.action_queue import ActionQueue, QueueStep
from app.updater.core.memory import Memory, after_absence
from app.updater.core.outcomes import Outcome
from app.updater.core.rules import UpdateRules
from app.updater.state import Entry, Lesson, Notebook
from tests.stepped_clock import SteppedClock
from tests.updater.core.scenes import NOW, Scene, container, running, several
from tests.updater.set_clock import SetClock

SCENE = Scene(several(running(container("app", "100m/100Mi")), 4))


def queue() -> ActionQueue:
    """Return a queue with evictions of four pods."""
    (found,) = SCENE.plan().queues
    return found


def evicted(step: QueueStep) -> Lesson:
    """Return what is learnt from an eviction."""
    return Lesson(Outcome(queue(), step, NOW), SCENE.snapshot())


def uids(memory: Memory) -> set[str]:
    """Return the pods whose eviction is remembered."""
    return {uid for uid, found in memory.pods.items() if found.evicted is not None}


def test_what_is_learnt_during_a_plan_comes_on_top() -> None:
    """A plan that began before a call ended takes nothing away from what the call taught."""
    notebook, (first, second, *_) = Notebook(UpdateRules(), SteppedClock(NOW)), queue().steps
    notebook.learn(evicted(first))
    memory, _ = notebook.begin("rounds")
    assert uids(memory) == {first.pod.uid}
    notebook.learn(evicted(second))
    planned = replace(memory, pods={})  # as if the watch had shown the first one
    notebook.planned(planned)
    assert uids(notebook.look("boosts")[0]) == {second.pod.uid}
    assert uids(notebook.begin("rounds")[0]) == {second.pod.uid}


HOUR = timedelta(hours=1)


@pytest.mark.parametrize("by", [HOUR, -HOUR], ids=["forward", "back"])
def test_when_the_clock_is_set_memory_moves_along(by: timedelta) -> None:
    """What was learnt before, during and after a plan counts as long as ever."""
    clock = SetClock(SteppedClock(NOW))
    notebook, (first, second, third, *_) = Notebook(UpdateRules(), clock), queue().steps

    def learn(step: QueueStep) -> None:
        notebook.learn(Lesson(Outcome(queue(), step, clock.now()), SCENE.snapshot()))

    learn(first)
    memory, _ = notebook.begin("rounds")
    learn(second)
    clock.ahead += by
    learn(third)
    notebook.planned(memory)
    found = notebook.begin("rounds")[0]
    assert {pod.evicted for pod in found.pods.values()} == {NOW + by}
    assert len(found.pods) == 3
    clock.ahead += timedelta(seconds=1)
    assert notebook.look("boosts")[0] is found


def test_changes_are_remembered_in_their_order() -> None:
    """A change is made to what was learnt before it."""
    notebook, (first, *_) = Notebook(UpdateRules(), SteppedClock(NOW)), queue().steps
    notebook.learn(evicted(first), Lesson(change=lambda memory: replace(memory, pods={})))
    assert uids(notebook.look("any")[0]) == set()
    notebook.learn(evicted(first))
    assert uids(notebook.look("any")[0]) == {first.pod.uid}
    notebook.forget()
    assert notebook.look("any")[0] == after_absence(Memory())


def test_no_two_act_on_one_pod() -> None:
    """Neither at the same time, nor upon a plan from before the other acted; the same one may."""
    notebook, found = Notebook(UpdateRules(), SteppedClock(NOW)), queue()
    step = replace(found.steps[0], takes_place=False)
    _, one = notebook.look("one")
    _, other = notebook.look("other")
    assert notebook.enter(step, found, one) is Entry.FREE
    assert notebook.enter(step, found, other) is Entry.ACTED
    notebook.leave(step, found, one, took_place=False)
    assert notebook.enter(step, found, other) is Entry.ACTED
    assert notebook.enter(step, found, one) is Entry.FREE
    notebook.leave(step, found, one, took_place=False)
    assert notebook.enter(step, found, notebook.look("other")[1]) is Entry.FREE


@pytest.mark.parametrize("took_place", [True, False])
def test_a_place_that_others_took_makes_a_plan_stale(took_place: bool) -> None:
    """Who planned before another took a place of the owner has to plan anew."""
    notebook, found = Notebook(UpdateRules(), SteppedClock(NOW)), queue()
    first, second, *_ = found.steps
    _, rounds = notebook.begin("rounds")
    _, boosts = notebook.look("boosts")
    assert notebook.enter(first, found, boosts) is Entry.FREE
    notebook.leave(first, found, boosts, took_place=took_place)
    expected = Entry.STALE if took_place else Entry.FREE
    assert notebook.enter(second, found, rounds) is expected


def test_an_owner_is_served_one_call_at_a_time() -> None:
    """Who needs a place waits until the other's call is over."""
    notebook, found = Notebook(UpdateRules(), SteppedClock(NOW)), queue()
    first, second, *_ = found.steps
    _, actor = notebook.begin("rounds")
    assert notebook.enter(first, found, actor) is Entry.FREE
    entered = threading.Event()

    def enter() -> None:
        notebook.enter(second, found, actor)
        entered.set()

    thread = threading.Thread(target=enter, daemon=True)
    thread.start()
    assert not entered.is_set()
    notebook.leave(first, found, actor, took_place=True)
    assert entered.wait(10)
    thread.join()


def test_old_traces_are_dropped() -> None:
    """What is older than two rounds holds nobody back."""
    notebook, found = Notebook(UpdateRules(), SteppedClock(NOW)), queue()
    step = found.steps[0]
    _, boosts = notebook.look("boosts")
    notebook.enter(step, found, boosts)
    notebook.leave(step, found, boosts, took_place=True)
    for _ in range(3):
        _, rounds = notebook.begin("rounds")
    assert notebook.enter(step, found, replace(rounds, mark=0)) is Entry.FREE


def test_deeds() -> None:
    """The last deed for each pod is kept, for pods that are gone an hour."""
    notebook, (first, second, *_) = Notebook(UpdateRules(), SteppedClock(NOW)), queue().steps
    failed = Outcome(queue(), second, NOW, Unavailable("no answer"))
    notebook.learn(evicted(first), Lesson(failed, SCENE.snapshot()))
    deeds = notebook.deeds()
    assert [deeds[step.pod.uid].error for step in (first, second)] == ["", "no answer"]
    notebook.forget_deeds({second.pod.uid}, NOW + timedelta(minutes=59))
    assert len(notebook.deeds()) == 2
    notebook.forget_deeds({second.pod.uid}, NOW + timedelta(minutes=61))
    assert set(notebook.deeds()) == {second.pod.uid}
