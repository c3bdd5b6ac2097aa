"""Each process has the owners that it looked up read again, as time goes by."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Unpack

import pytest

from app.admission.flags import AdmissionSettings
from app.admission.knowledge import LiveKnowledge
from app.diagnosis.pod_preview import PodPreviewer
from app.flags.command_line import parse
from app.kube.manifests import documents
from app.recommender.flags import RecommenderSettings
from app.recommender.process import Process as RecommenderProcess
from app.run.simulated import SimulatedRuntime
from app.runtime.loop import Loop, LoopRules, Tick
from app.sandbox.sandbox import Sandbox
from app.sandbox.stepped_clock import SteppedClock
from app.updater.flags import UpdaterSettings
from app.updater.process import Process as UpdaterProcess
from tests.cases import cases
from tests.reached_limits import ReachedLimits

ADDRESS = ("--address=127.0.0.1:0",)


class RefreshRuntime(SimulatedRuntime):
    """A runtime that notes when owners are refreshed, or lets each refresh fail."""

    def __init__(self, sandbox: Sandbox, *, fails: bool) -> None:
        super().__init__(sandbox)
        self._fails = fails
        self.refreshed_at: list[float] = []

    def loop(self, name: str, tick: Tick, **rules: Unpack[LoopRules]) -> Loop:
        """Return a task that is noted if it refreshes owners."""

        def refresh(now: datetime) -> float:
            self.refreshed_at.append(self.clock.monotonic())
            if self._fails:
                raise ValueError("broken")
            return tick(now)

        return super().loop(name, refresh if name == "owners-refresh" else tick, **rules)


Start = Callable[[RefreshRuntime], Callable[[], None]]  # returns what ends it


def admission(runtime: RefreshRuntime) -> Callable[[], None]:
    """Start what the webhook knows."""
    settings = parse(AdmissionSettings, (), {})
    return LiveKnowledge(
        lambda: runtime.connect(settings.cluster), settings.scope, runtime, ReachedLimits()
    ).close


def updater(runtime: RefreshRuntime) -> Callable[[], None]:
    """Start an updater."""
    process = UpdaterProcess(parse(UpdaterSettings, ADDRESS, {}), runtime)
    process.start()
    return process.stop


def recommender(runtime: RefreshRuntime) -> Callable[[], None]:
    """Start a recommender."""
    settings = parse(RecommenderSettings, ADDRESS, {})
    process = RecommenderProcess(settings, runtime, PodPreviewer)
    process.start()
    return process.stop


@pytest.mark.parametrize("start", [admission, updater, recommender])
@cases(
    "fails refreshed_at",
    {"works": (False, [0.0, 5.0, 10.0, 15.0]), "fails": (True, [0.0, 1.0, 3.0, 7.0, 12.0, 17.0])},
)
def test_owners_are_refreshed_at_least_every_5_seconds(
    start: Start, fails: bool, refreshed_at: list[float]
) -> None:
    """Time alone has owners read again until the process ends, also after failures."""
    sandbox = Sandbox(SteppedClock())
    sandbox.apply(*documents.objects("crd"))
    runtime = RefreshRuntime(sandbox, fails=fails)
    stop = start(runtime)
    sandbox.advance(18)
    stop()
    sandbox.advance(18)

    assert runtime.refreshed_at == refreshed_at
