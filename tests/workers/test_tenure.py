"""A term begins with what the last one stored."""

from __future__ import annotations

import pytest

from app.ports import CHECKPOINTS
from app.workers.recommender import Recommender
from app.workers.tenure import Tenure, Terms
from tests.workers.test_recommender import Scene


class Office:
    """A tenure whose leadership is switched by hand."""

    def __init__(self) -> None:
        self.scene = Scene()
        self.leads, self.knows = True, True
        self.begun: list[Recommender] = []
        terms = Terms(lambda: self.leads, lambda: self.knows, 300.0)
        self.tenure = Tenure(terms, self._begin, self.scene.sandbox.clock)

    def _begin(self) -> Recommender:
        self.begun.append(self.scene.started(lambda: self.leads))
        return self.begun[-1]

    def minutes(self, count: int) -> None:
        """Let minutes go by."""
        for _ in range(count):
            self.tenure.tick(self.scene.sandbox.clock.now())
            self.scene.sandbox.advance(60)

    def samples(self) -> int:
        """Return how many samples are stored."""
        found = self.scene.sandbox.cluster.get(CHECKPOINTS, "default", "web-app")
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
    office.tenure.close(office.scene.sandbox.clock.now())
    assert office.samples() == 4
    assert len(office.begun) == 2


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
