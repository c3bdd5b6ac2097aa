"""Several threads remember together, and none acts where another did."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from app.updater.core.action_queue import ActionQueue, QueueStep
from app.updater.core.memory import Memory, after_absence
from app.updater.core.outcomes import Outcome
from app.updater.core.rules import UpdateRules
from app.updater.state import ClaimResult, UpdaterState
from tests.stepped_clock import SteppedClock
from tests.updater.core.scenes import NOW, Scene, container, running, several
from tests.updater.set_clock import SetClock

SCENE = Scene(several(running(container("app", "100m/100Mi")), 4))


@pytest.fixture
def state() -> UpdaterState:
    """What threads share, of which nothing is known yet."""
    return UpdaterState(UpdateRules(), SteppedClock(NOW))


def queue() -> ActionQueue:
    """Return a queue with evictions of four pods."""
    (found,) = SCENE.plan().queues
    return found


def learn(state: UpdaterState, step: QueueStep, now: datetime = NOW) -> None:
    """Let an eviction be remembered."""
    state.record(Outcome(queue(), step, now), state.boot_time())


def uids(memory: Memory) -> set[str]:
    """Return the pods whose eviction is remembered."""
    return {uid for uid, found in memory.pods.items() if found.evicted is not None}


def test_what_is_learnt_during_a_plan_comes_on_top(state: UpdaterState) -> None:
    """A plan that began before a call ended takes nothing away from what the call taught."""
    first, second, *_ = queue().steps
    learn(state, first)
    memory, _ = state.begin_plan("rounds")
    assert uids(memory) == {first.pod.uid}
    learn(state, second)
    planned = replace(memory, pods={})  # as if the watch had shown the first one
    state.finish_plan(planned)
    assert uids(state.read("boosts")[0]) == {second.pod.uid}
    assert uids(state.begin_plan("rounds")[0]) == {second.pod.uid}


HOUR = timedelta(hours=1)


@pytest.mark.parametrize("by", [HOUR, -HOUR], ids=["forward", "back"])
def test_when_the_clock_is_set_memory_moves_along(by: timedelta) -> None:
    """What was learnt before, during and after a plan counts as long as ever."""
    clock = SetClock(SteppedClock(NOW))
    state, (first, second, third, *_) = UpdaterState(UpdateRules(), clock), queue().steps
    learn(state, first, clock.now())
    memory, _ = state.begin_plan("rounds")
    learn(state, second, clock.now())
    clock.ahead += by
    learn(state, third, clock.now())
    state.finish_plan(memory)
    found = state.begin_plan("rounds")[0]
    assert {pod.evicted for pod in found.pods.values()} == {NOW + by}
    assert len(found.pods) == 3
    clock.ahead += timedelta(seconds=1)
    assert state.read("boosts")[0] is found


def test_changes_are_remembered_in_their_order(state: UpdaterState) -> None:
    """A change is made to what was learnt before it."""
    first, *_ = queue().steps
    learn(state, first)
    state.change(lambda memory: replace(memory, pods={}), state.boot_time())
    assert uids(state.read("any")[0]) == set()
    learn(state, first)
    assert uids(state.read("any")[0]) == {first.pod.uid}
    state.forget()
    assert state.read("any")[0] == after_absence(Memory())


def test_a_plan_of_an_earlier_term_is_worth_nothing(state: UpdaterState) -> None:
    """After another process led it claims no pod, and what it learnt is not taken over."""
    found = queue()
    memory, version = state.begin_plan("rounds")
    state.forget()
    breakers = replace(memory.breakers, is_trusted=not memory.breakers.is_trusted)
    state.finish_plan(replace(memory, breakers=breakers))
    assert state.claim(found.steps[0], found, version) is ClaimResult.OWNER_CHANGED
    memory, version = state.begin_plan("rounds")
    assert memory == after_absence(Memory())
    assert state.claim(found.steps[0], found, version) is ClaimResult.GRANTED


def test_no_two_act_on_one_pod(state: UpdaterState) -> None:
    """Neither at the same time, nor upon a plan from before the other acted; the same one may."""
    found = queue()
    step = replace(found.steps[0], needs_slot=False)
    _, one = state.read("one")
    _, other = state.read("other")
    assert state.claim(step, found, one) is ClaimResult.GRANTED
    assert state.claim(step, found, other) is ClaimResult.POD_TAKEN
    state.release(step, found, one, took_slot=False)
    assert state.claim(step, found, other) is ClaimResult.POD_TAKEN
    assert state.claim(step, found, one) is ClaimResult.GRANTED
    state.release(step, found, one, took_slot=False)
    assert state.claim(step, found, state.read("other")[1]) is ClaimResult.GRANTED


@pytest.mark.parametrize("took_slot", [True, False])
def test_a_slot_that_others_took_makes_a_plan_stale(state: UpdaterState, took_slot: bool) -> None:
    """A plan from before another loop took a slot of the owner has to be made again."""
    found = queue()
    first, second, *_ = found.steps
    _, rounds = state.begin_plan("rounds")
    _, boosts = state.read("boosts")
    assert state.claim(first, found, boosts) is ClaimResult.GRANTED
    state.release(first, found, boosts, took_slot=took_slot)
    expected = ClaimResult.OWNER_CHANGED if took_slot else ClaimResult.GRANTED
    assert state.claim(second, found, rounds) is expected


def test_an_owner_is_served_one_call_at_a_time(state: UpdaterState) -> None:
    """A call that needs a slot waits until the other one is over."""
    found = queue()
    first, second, *_ = found.steps
    _, actor = state.begin_plan("rounds")
    assert state.claim(first, found, actor) is ClaimResult.GRANTED
    entered = threading.Event()

    def enter() -> None:
        state.claim(second, found, actor)
        entered.set()

    thread = threading.Thread(target=enter, daemon=True)
    thread.start()
    assert not entered.is_set()
    state.release(first, found, actor, took_slot=True)
    assert entered.wait(10)
    thread.join()


def test_old_traces_are_dropped(state: UpdaterState) -> None:
    """What is older than two rounds holds nothing back."""
    found = queue()
    step = found.steps[0]
    _, boosts = state.read("boosts")
    state.claim(step, found, boosts)
    state.release(step, found, boosts, took_slot=True)
    for _ in range(3):
        _, rounds = state.begin_plan("rounds")
    assert state.claim(step, found, replace(rounds, calls=0)) is ClaimResult.GRANTED
