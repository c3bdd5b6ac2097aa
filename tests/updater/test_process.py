"""The updater's process on a cluster in memory: who may act, and when."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime

import pytest

from app.flags.command_line import parse
from app.kube.watch_cache import WatchedResource, WatchState
from app.ports import POD_DISRUPTION_BUDGETS, PODS, VPAS, Cluster, Resource
from app.run.simulated import SimulatedRuntime, SteppedWatchCache
from app.runtime.live import Mirrored
from app.sandbox.sandbox import Sandbox
from app.updater.flags import UpdaterSettings
from app.updater.process import Process
from tests.cases import cases
from tests.updater.stage import Stage, staged

FLAGS = ("--address=127.0.0.1:0", "--use-admission-controller-status=false")


class StaleRuntime(SimulatedRuntime):
    """A runtime in which nothing was heard of some resource for a while."""

    def __init__(self, sandbox: Sandbox) -> None:
        super().__init__(sandbox)
        self.silence: dict[Resource, float] = {}

    def mirror(self, _cluster: Cluster, sources: Iterable[WatchedResource], /) -> Mirrored:
        """Return a mirror that tells of the silence."""
        return _Mirror(self._sandbox, sources, self.silence)


class _Mirror(SteppedWatchCache):
    def __init__(
        self, sandbox: Sandbox, sources: Iterable[WatchedResource], silence: dict[Resource, float]
    ) -> None:
        super().__init__(sandbox, sources)
        self._silence = silence

    def standings(self, now: datetime, /) -> Sequence[WatchState]:
        return [
            replace(found, stale_seconds=self._silence.get(found.resource, 0.0), problem="cut off")
            for found in super().standings(now)
        ]


@pytest.fixture
def stage() -> Stage:
    """A cluster with a Deployment of four pods that should be bigger."""
    return staged()


@pytest.fixture
def runtime(stage: Stage) -> Iterator[StaleRuntime]:
    """Where the process works."""
    found = StaleRuntime(stage.sandbox)
    process = Process(parse(UpdaterSettings, FLAGS, {}), found)
    process.start()
    yield found
    process.stop()


@cases(
    "resource seconds goes",
    {
        "own actions are still believed": (PODS, 120, True),
        "whose pods went since is not known": (PODS, 121, False),
        "what is wanted is not known": (VPAS, 121, False),
        "the API server knows better": (POD_DISRUPTION_BUDGETS, 121, True),
    },
)
def test_no_pod_is_evicted_while_watches_are_stale(
    stage: Stage, runtime: StaleRuntime, resource: Resource, seconds: float, goes: bool
) -> None:
    """A process that does not see the cluster for long does nothing, and goes on once seen."""
    runtime.silence[resource] = seconds
    stage.sandbox.advance(30)
    assert bool(stage.events("EvictedByVPA")) is goes
    runtime.silence.clear()
    stage.sandbox.advance(90)
    assert stage.events("EvictedByVPA")
