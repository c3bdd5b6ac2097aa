"""The most urgent step first, and a step that waits for a token delays no other."""

from __future__ import annotations

from datetime import timedelta
from operator import attrgetter

import pytest

from app.model.kinds import ObjectKey
from app.updater.core.action_queue import ActionQueue, QueueStep
from app.updater.core.decisions import Action, Decision, Reason
from app.updater.core.owners import OwnerBudget
from app.updater.core.proof import ProofVersion
from app.updater.work_queue import (
    Bucket,
    RateLimiter,
    RateLimits,
    TokenWait,
    WorkItem,
    WorkQueue,
    within_rates,
)
from tests import make
from tests.cases import cases
from tests.stepped_clock import SteppedClock
from tests.updater.core.scenes import Scene, container, running, several

ALL: Bucket = (True, "")
SHOP: Bucket = (True, "shop")


def queue(*steps: tuple[str, int]) -> ActionQueue:
    """Return the queue of one owner; steps are names and how urgent they are, the least first."""
    found = []
    for name, rank in steps:
        pod = make.pod(name=name)
        decision = Decision(pod.uid, "shop", name, "web", Action.RESIZE, Reason.UPDATED, "")
        urgency = (rank, 0.0, 0.0, "", name)
        found.append(QueueStep(pod, decision, False, False, (), urgency, ProofVersion("", 0, ())))
    key, budget = ObjectKey("", "StatefulSet", steps[0][0]), OwnerBudget(4, 0.5, 4, 4)
    return ActionQueue("shop", key, budget, tuple(found), frozenset(), frozenset())


class Work:
    """A queue and a clock; the queues are given by their steps."""

    def __init__(self, *queues: ActionQueue) -> None:
        self.clock = SteppedClock()
        self.is_over = False
        self.queue = WorkQueue(queues, self.clock, lambda: self.is_over)

    def take(self) -> WorkItem:
        """Return the next item."""
        found = self.queue.take()
        assert found is not None
        return found

    def names(self, count: int) -> list[str]:
        """Return whose the next items are."""
        return [self.take().step.pod.name for _ in range(count)]


def test_the_most_urgent_first() -> None:
    """One at a time of each owner; what comes back takes its place by its next step."""
    work = Work(queue(("a", 2), ("b", 9)), queue(("c", 1), ("d", 3)))
    found = [work.take(), work.take()]
    assert work.queue.take() is None
    for item in found:
        work.queue.put_back(item)
    found += [work.take(), work.take()]
    assert [item.step.pod.name for item in found] == ["c", "a", "d", "b"]
    for item in found[2:]:
        work.queue.put_back(item)
    assert work.queue.take() is None


def test_a_step_that_waits_delays_no_other() -> None:
    """Others come first; when there may be a token again the most urgent who waits gets it."""
    work = Work(queue(("a", 1)), queue(("b", 2)), queue(("c", 3)))
    for not_before in (5.0, 7.0):
        work.queue.wait(work.take(), ALL, not_before)
    assert (work.names(1), work.clock.monotonic()) == (["c"], 0)
    back = work.take()
    assert (back.step.pod.name, back.has_waited) == ("a", True)
    assert work.clock.monotonic() == pytest.approx(7)
    work.queue.wait(back, ALL, 12)
    assert work.names(2) == ["a", "b"]
    assert work.clock.monotonic() == pytest.approx(12)


def test_each_rate_has_its_room() -> None:
    """A step that waits for its namespace alone comes back when that one may."""
    work = Work(queue(("a", 1)), queue(("b", 2)))
    work.queue.wait(work.take(), SHOP, 50)
    work.queue.wait(work.take(), ALL, 5)
    for name, seconds in (("b", 5), ("a", 50)):
        assert work.names(1) == [name]
        assert work.clock.monotonic() == pytest.approx(seconds)


def test_at_the_end_no_step_waits() -> None:
    """All come back, to be told that they got no token."""
    work = Work(queue(("a", 1)), queue(("b", 2)))
    for _ in range(2):
        work.queue.wait(work.take(), ALL, 1000)
    work.is_over = True
    assert work.names(2) == ["a", "b"]
    assert (work.queue.take(), work.clock.monotonic()) == (None, 0)


def token_seconds(rules: RateLimits, *namespaces: str, seconds: float = 60) -> list[int]:
    """Return at which seconds tokens were had if each waits for its own, -1 for never."""
    clock = SteppedClock()
    limiter = RateLimiter(rules, clock)
    found = []
    for namespace in namespaces:
        while (wait := limiter.take(namespace)) is not None and clock.monotonic() < seconds:
            clock.wait(min(wait.seconds, seconds))
        found.append(-1 if wait is not None else round(clock.monotonic()))
    return found


@cases(
    "rules namespaces expected",
    {
        "no limit": (RateLimits(), "aaaa", [0, 0, 0, 0]),
        "zero is no limit": (RateLimits(0, 0), "aa", [0, 0]),
        "for all": (RateLimits(0.1, 1), "abab", [0, 10, 20, 30]),
        "a burst": (RateLimits(0.1, 3), "aaaaa", [0, 0, 0, 10, 20]),
        "too late": (RateLimits(0.01, 1), "aa", [0, -1]),
        "never": (RateLimits(1, 0), "a", [-1]),
        "in each": (RateLimits(-1, 1, 0.1, 1), "abab", [0, 0, 10, 10]),
        "never in any": (RateLimits(-1, 1, 1, 0), "a", [-1]),
        "both": (RateLimits(0.1, 1, 0.05, 1), "abab", [0, 10, 20, 30]),
    },
)
def test_tokens(rules: RateLimits, namespaces: str, expected: list[int]) -> None:
    """There is a token when the later of two buckets has one."""
    assert token_seconds(rules, *namespaces) == expected


def test_no_token_is_reserved() -> None:
    """Without a token it is said which bucket to wait for, and nothing is taken of the other."""
    clock = SteppedClock()
    limiter = RateLimiter(RateLimits(0.5, 2, 0.1, 1), clock)
    assert limiter.take("a") is None
    assert limiter.take("a") == TokenWait(10, "a")
    assert limiter.take("b") is None
    assert limiter.take("c") == TokenWait(2, "")
    clock.wait(2)
    assert limiter.take("c") is None


@cases(
    "rules late",
    {
        "no limit": (RateLimits(), 0),
        "the burst": (RateLimits(0.001, 1), 1),
        "one more in a minute": (RateLimits(1 / 60, 1), 0),
        "never": (RateLimits(1, 0), 2),
        "in a namespace": (RateLimits(-1, 1, 0.001, 1), 1),
    },
)
def test_what_a_round_would_reach(rules: RateLimits, late: int) -> None:
    """A plan tells which pods would find no token within a round; the most urgent find theirs."""
    made = Scene(several(running(container("app", "100m/100Mi")), 4)).plan()
    found = list(within_rates(made.decisions, made.queues, rules, timedelta(minutes=1)))
    assert [decision.pod for decision in found] == [decision.pod for decision in made.decisions]
    assert sum(decision.reason is Reason.RATE_LIMITED for decision in found) == late
    planned = [decision.uid for decision in made.decisions if decision.action is Action.EVICT]
    steps = sorted((step for queue in made.queues for step in queue.steps), key=attrgetter("rank"))
    urgent = [step.pod.uid for step in steps if step.pod.uid in planned]
    evicted = [decision.uid for decision in found if decision.action is Action.EVICT]
    assert sorted(evicted) == sorted(urgent[: 2 - late])
