"""The page of a run tells of the run's own history what other settings would have requested."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.flags.command_line import parse
from app.model.kinds import owner_key
from app.model.snapshot import Snapshot
from app.page.core.charts import LevelKind
from app.page.core.past import WorkloadPast
from app.run.embedded_page import embedded_page
from app.run.flags import RunSettings
from app.run.run_history import RunHistory
from app.run.run_past import RunPast
from app.run.simulated import SimulatedRuntime
from app.sandbox.sandbox import Sandbox
from app.sandbox.stepped_clock import SteppedClock
from tests.commands.test_page_past import SETTING
from tests.sandbox.worlds import container, deployment

NOTHING = Snapshot({})
APP = container(requests={"cpu": "1", "memory": "1Gi"}, limits={})
LOAD = "cpu: constant 300m, memory: constant 200Mi"


class Played:
    """A cluster in memory, and what a page would say of its past."""

    def __init__(self, history: RunHistory, sandbox: Sandbox) -> None:
        self.sandbox = sandbox
        self.past = RunPast(history, [SETTING], SteppedClock())

    def play(self, hours: float) -> None:
        """Let time pass, then work on the past until nothing is left to do."""
        self.sandbox.advance(hours * 3600)
        while not self.past.tick(NOTHING):
            pass

    def about(self, name: str) -> WorkloadPast | None:
        """Return what is said of a Deployment."""
        return self.past.of("default", owner_key("apps/v1", "Deployment", name))


@pytest.fixture
def played() -> Iterator[Played]:
    """A cluster with one Deployment."""
    sandbox = Sandbox(SteppedClock())
    sandbox.apply(deployment("web", APP, load=LOAD))
    history = RunHistory(SimulatedRuntime(sandbox), sandbox.cluster)
    with history.watching():
        yield Played(history, sandbox)


def test_it_grows(played: Played) -> None:
    """Before an hour there is nothing; then requests are shown, and sums after three days."""
    played.play(0.9)
    first = played.about("web")
    assert first is not None
    assert "after an hour of the cluster's time" in first.about

    played.play(3)
    hours = played.about("web")
    assert hours is not None
    assert hours.about.startswith("This run: 0.2 days, ")
    assert hours.about.endswith("2.8 more days are needed to sum it up.")
    assert not hours.lines
    levels = hours.charts[0].levels
    assert levels[LevelKind.REQUEST].now == 1000
    assert levels[LevelKind.PRESENT].now == 1000  # within its bounds, which are still wide

    played.play(72)
    days = played.about("web")
    assert days is not None
    assert [one.setting for one in days.lines] == ["as it was", "the present flags"]
    assert days.lines[0].cpu_unused == pytest.approx(0.7, abs=0.05)
    assert 300 < days.charts[0].levels[LevelKind.PRESENT].now < 500


def test_what_came_later_is_in_the_next_walk(played: Played) -> None:
    """A workload that is new has its box after the next hour, and not before."""
    played.play(2)
    played.sandbox.apply(deployment("new", APP, load=LOAD))
    played.play(0.5)
    assert played.about("new") is None
    played.play(1)
    found = played.about("new")
    assert found is not None
    assert found.charts


def test_the_page_of_a_run_has_it(tmp_path: Path) -> None:
    """Without a recording the page tells of the run's own history."""
    sandbox = Sandbox(SteppedClock())
    runtime = SimulatedRuntime(sandbox)
    settings = parse(RunSettings, ["--page-port=0", "--host=127.0.0.1"], {})
    history = RunHistory(runtime, sandbox.cluster)
    page = embedded_page(settings, runtime, tmp_path, history)
    page.start()
    try:
        assert isinstance(page.past, RunPast)
    finally:
        page.stop()
