"""The updater's process on a cluster in memory: who may act, and when."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime

import pytest

from app.flags.command_line import parse
from app.kube.manifests import documents
from app.kube.watch_cache import WatchedResource, WatchState
from app.ports import POD_DISRUPTION_BUDGETS, PODS, VPAS, Cluster, PatchKind, Ref, Resource
from app.run.simulated import SimulatedRuntime, SteppedWatchCache
from app.runtime.live import Mirrored
from app.sandbox.clock import SteppedClock
from app.sandbox.sandbox import Sandbox
from app.updater.flags import UpdaterSettings
from app.updater.process import Process
from tests.sandbox.worlds import container, deployment
from tests.sandbox_objects import events_in
from tests.updater.core.scenes import recommended
from tests.updater.stage import vpa

FLAGS = ("--address=127.0.0.1:0", "--use-admission-controller-status=false")


class HardOfHearing(SimulatedRuntime):
    """A place where nothing was heard of some resource for a while."""

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
def sandbox() -> Sandbox:
    """A cluster with a Deployment of four pods that should be bigger."""
    found = Sandbox(SteppedClock())
    assert found.apply(*documents.objects("crd")) == []
    small = container(requests={"cpu": "100m", "memory": "100Mi"}, limits={})
    assert found.apply(deployment("web", small, replicas=4), vpa()) == []
    found.advance(60)
    status = {"recommendation": {"containerRecommendations": [recommended("200m/200Mi = =")]}}
    found.cluster.patch(
        Ref(VPAS, "default", "web", subresource="status"), {"status": status}, kind=PatchKind.MERGE
    )
    return found


@pytest.fixture
def place(sandbox: Sandbox) -> Iterator[HardOfHearing]:
    """Where the process works."""
    found = HardOfHearing(sandbox)
    process = Process(parse(UpdaterSettings, list(FLAGS), {}), found)
    process.start()
    yield found
    process.stop()


def evicted(sandbox: Sandbox) -> int:
    """Return how many pods were evicted so far."""
    return len(events_in(sandbox, reason="EvictedByVPA"))


@pytest.mark.parametrize(
    ("resource", "seconds", "goes"),
    [
        pytest.param(PODS, 120, True, id="own deeds are still believed"),
        pytest.param(PODS, 121, False, id="whose pods went since is not known"),
        pytest.param(VPAS, 121, False, id="what is wanted is not known"),
        pytest.param(POD_DISRUPTION_BUDGETS, 121, True, id="the API server knows better"),
    ],
)
def test_no_pod_is_evicted_unseen(
    sandbox: Sandbox, place: HardOfHearing, resource: Resource, seconds: float, goes: bool
) -> None:
    """A process that does not see the cluster for long does nothing, and goes on once seen."""
    place.silence[resource] = seconds
    sandbox.advance(30)
    assert (evicted(sandbox) > 0) is goes
    place.silence.clear()
    sandbox.advance(90)
    assert evicted(sandbox) > 0
