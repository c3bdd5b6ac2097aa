"""A term begins with what the last one stored."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from threading import Event, Thread

import pytest

from app.ports import CHECKPOINTS, Ref
from app.recommender.leader_loop import LeaderLoop
from app.recommender.recommender import Recommender
from tests.recommender.scenes import Scene
from tests.updater.stage import Call


class Office:
    """A tenure whose leadership is switched by hand."""

    def __init__(self) -> None:
        self.scene = Scene()
        self.leads, self.finishes, self.knows, self.term = True, True, True, 1
        self.calls_end_at = inf
        self.begun: list[Recommender] = []
        self.rights: list[Callable[[], bool]] = []
        self.tenure = LeaderLoop(self, lambda: self.knows, self._begin, self.scene.clock, 300.0)

    def is_leading(self) -> bool:
        """Say who leads."""
        return self.leads

    def may_finish(self) -> bool:
        """Say whether nobody followed yet."""
        return self.finishes

    def _begin(self, may_continue: Callable[[], bool]) -> Recommender:
        self.begun.append(self.scene.started(may_continue))
        self.rights.append(may_continue)
        return self.begun[-1]

    def minutes(self, count: int) -> None:
        """Let minutes go by."""
        for _ in range(count):
            self.tenure.tick(self.scene.clock.now())
            self.scene.sandbox.advance(60)

    def samples(self) -> int:
        """Return how many samples are stored."""
        found = self.scene.sandbox.cluster.get(Ref(CHECKPOINTS, "default", "web-app"))
        count: int = found["status"]["totalSamplesCount"]
        return count


@pytest.fixture
def office() -> Office:
    """A leader that knows its cluster."""
    return Office()


def test_a_lost_term_is_stored_and_taken_up_again(office: Office) -> None:
    """Whoever leads next has all samples, and counts on."""
    office.minutes(3)
    office.leads = False
    office.minutes(2)
    assert office.samples() == 3

    office.leads = True
    office.minutes(1)
    office.tenure.close(office.scene.clock.now())
    assert office.samples() == 4
    assert len(office.begun) == 2


def test_what_comes_too_late_is_not_stored(office: Office) -> None:
    """Once somebody may have followed, nothing is written over what they wrote."""
    office.minutes(3)
    before = office.samples()
    office.leads = office.finishes = False
    office.minutes(2)

    assert office.samples() == before < 3


def test_a_term_that_was_somebody_elses(office: Office) -> None:
    """Who leads again after another begins anew, from what the other stored."""
    office.minutes(3)
    before, old = office.samples(), office.begun[-1]
    office.term = 2
    old.flush(office.scene.clock.now(), 5, office.rights[0])  # as a long round would
    assert office.samples() == before

    office.minutes(1)
    assert len(office.begun) == 2
    assert office.begun[1].model.tally.cpu == 1


def test_an_end_while_usage_is_read(office: Office) -> None:
    """Told to end, a round does not wait for usage, and its history is stored all the same."""
    office.minutes(2)
    scene, is_asked, answer = office.scene, Event(), Event()

    def hang(call: Call) -> None:
        if call.verb == "list":
            is_asked.set()
            answer.wait(30)

    scene.watched.before = hang
    work = Thread(target=office.tenure.tick, args=(scene.clock.now(),), daemon=True)
    work.start()
    assert is_asked.wait(20)
    office.tenure.hurry()
    work.join(20)
    assert not work.is_alive()

    office.tenure.close(scene.clock.now())
    answer.set()
    assert office.samples() == 2


def test_an_end_takes_no_longer_than_it_may(office: Office) -> None:
    """The time to store history counts from when we were told to end."""
    office.minutes(2)
    office.tenure.hurry()
    office.scene.sandbox.advance(20)
    office.tenure.close(office.scene.clock.now())

    assert office.samples() == 1


def test_a_standby_and_a_stranger_do_nothing(office: Office) -> None:
    """Without the Lease, or without knowledge of the cluster, there is no recommender."""
    office.leads = False
    office.minutes(1)
    office.leads, office.knows = True, False
    office.minutes(10)

    assert office.begun == []
    assert office.tenure.problem() == ""


def test_health_is_the_age_of_the_last_round(office: Office) -> None:
    """Five intervals without a finished round are too many."""
    office.minutes(1)
    office.scene.sandbox.advance(240)
    assert office.tenure.problem() == ""

    office.scene.sandbox.advance(1)
    assert office.tenure.problem() == "no round was finished for 301 s"
