"""The updater's process on a cluster in memory: who may act, and when."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import cast

import pytest

from app.flags.command_line import parse
from app.kube.watch_cache import WatchState
from app.kube.watched_resources import WatchedResource
from app.model.errors import Unavailable
from app.ports import (
    HPAS,
    LEASES,
    LIMIT_RANGES,
    NAMESPACES,
    NODES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    SCALED_OBJECTS,
    VPAS,
    Cluster,
    Resource,
)
from app.run.simulated import SimulatedRuntime, SteppedWatchCache
from app.runtime.live import Mirrored
from app.sandbox.sandbox import Sandbox
from app.sandbox.scheduler import NodeSize
from app.updater.flags import UpdaterSettings
from app.updater.process import Process
from tests.cases import cases
from tests.faults import Fault, Faults
from tests.paced_runtime import PacedRuntime
from tests.sandbox_objects import pods_in
from tests.updater.stage import Call, Stage, Watched, gone, in_other, small, staged, vpa

ANY_PORT = "--address=127.0.0.1:0"
ONE_THREAD = "--update-concurrency=1"  # the one that moves the clock
FLAGS = (ANY_PORT, "--use-admission-controller-status=false")


class StaleRuntime(SimulatedRuntime):
    """A runtime in which nothing was heard of some resource for a while."""

    def __init__(self, sandbox: Sandbox) -> None:
        super().__init__(sandbox)
        self.silence: dict[Resource, float] = {}
        self.unread: dict[Resource, float] = {}  # for how long we are told to have no right

    def mirror(self, _cluster: Cluster, sources: Iterable[WatchedResource], /) -> Mirrored:
        """Return a mirror that tells of the silence."""
        return _Mirror(self._sandbox, sources, self)


class _Mirror(SteppedWatchCache):
    def __init__(
        self, sandbox: Sandbox, sources: Iterable[WatchedResource], runtime: StaleRuntime
    ) -> None:
        super().__init__(sandbox, sources)
        self._runtime = runtime

    def standings(self, now: datetime, /) -> Sequence[WatchState]:
        return [
            replace(
                found,
                synced=found.resource not in self._runtime.unread,
                stale_seconds=self._runtime.silence.get(found.resource, 0.0),
                refused_seconds=self._runtime.unread.get(found.resource, 0.0),
                problem="cut off",
            )
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
        "what is allowed is not known": (LIMIT_RANGES, 121, False),
        "who is paused is not known": (NAMESPACES, 121, False),
        "the API server knows better": (POD_DISRUPTION_BUDGETS, 121, True),
        "what scales counts as it was": (HPAS, 121, True),
        "another's webhook is broken": (SCALED_OBJECTS, 121, True),
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


@cases(
    "resource refused_seconds goes",
    {
        "limits, the server is busy": (LIMIT_RANGES, 0, False),
        "budgets, the server is busy": (POD_DISRUPTION_BUDGETS, 0, False),
        "nodes, the server is busy": (NODES, 0, False),
        "roles may not be read yet": (LIMIT_RANGES, 10, False),
        "no right to read limits": (LIMIT_RANGES, 11, True),
        "no right to read budgets": (POD_DISRUPTION_BUDGETS, 11, True),
        "who is paused, the server is busy": (NAMESPACES, 0, False),
        "no right to read namespaces": (NAMESPACES, 11, True),
        "no right to read pods": (PODS, 11, False),
        "no right to read what scales": (HPAS, 11, True),
    },
)
def test_no_pod_is_evicted_before_all_is_read(
    stage: Stage,
    runtime: StaleRuntime,
    caplog: pytest.LogCaptureFixture,
    resource: Resource,
    refused_seconds: float,
    goes: bool,
) -> None:
    """Limits, budgets and nodes are waited for however long that takes, unless by right unread."""
    runtime.unread[resource] = refused_seconds
    stage.sandbox.advance(150)
    assert bool(stage.events("EvictedByVPA")) is goes
    waited = [record for record in caplog.records if record.name == "updater.process"]
    assert len(waited) == (0 if goes else 3)
    runtime.unread.clear()
    stage.sandbox.advance(90)
    assert stage.events("EvictedByVPA")


@pytest.mark.parametrize("rate", [1.0, 0.2, 0.06, 0.05])
def test_a_deposed_leader_evicts_nothing(stage: Stage, rate: float) -> None:
    """A leader that cannot renew makes no call beside the next one, however long calls wait."""
    faults, sandbox = Faults(), stage.sandbox
    flags = [*FLAGS, "--leader-elect=true", "--prove=off", "--min-replicas=1", ONE_THREAD]
    flags += [f"--kube-api-qps={rate}", "--kube-api-burst=1"]
    begun: list[tuple[str, float]] = []

    def begin(name: str, cluster: Cluster) -> Process:
        def note(call: Call) -> None:
            begun.extend([(name, now())] if call.verb == "evict" else [])

        watched = Watched(cluster)
        watched.before = note
        place = PacedRuntime(sandbox, cast("Cluster", watched), "evict")
        process = Process(parse(UpdaterSettings, flags, {}), place)
        process.start()
        return process

    now = sandbox.clock.monotonic
    broken = Unavailable("internal error", status=500)
    faults.order(Fault(broken, "replace", LEASES, times=10**6))
    one = begin("one", faults.before(sandbox.cluster))
    two = begin("two", sandbox.cluster)
    sandbox.advance(300)
    began = min(at for name, at in begun if name == "two")
    assert not [at for name, at in begun if name == "one" and at >= began]
    one.stop()
    two.stop()


@cases("namespaces canaries", {"in one namespace": (1, 4), "in fifty": (50, 10)})
def test_five_hundred_pods_that_are_alone(namespaces: int, canaries: int) -> None:
    """Few go first; once one came back sized all others do, as fast as requests may follow."""
    stage = Stage()
    large = NodeSize("large", cpu="100", memory="1Ti", pods=1000).item()
    stage.apply({"apiVersion": "v1", "kind": "Node", **large})
    workloads = [(f"team-{number % namespaces}", f"app-{number}") for number in range(500)]
    for namespace, name in workloads:
        policy = {"minReplicas": 1}
        scaled = vpa(name, target=f"Deployment/{name}", policy=policy)
        stage.apply(*(in_other(item, namespace) for item in (small(name, replicas=1), scaled)))
    stage.sandbox.advance(10)
    for namespace, name in workloads:
        stage.recommend("200m/200Mi = =", name, namespace)
    stage.beat()
    watched = Watched(stage.sandbox.cluster)
    runtime = PacedRuntime(stage.sandbox, cast("Cluster", watched), "evict")
    process = Process(parse(UpdaterSettings, (ANY_PORT, ONE_THREAD), {}), runtime)
    process.start()
    stage.sandbox.advance(0.9)
    assert watched.count("evict") == canaries
    stage.sandbox.advance(9.1)
    process.stop()
    assert watched.count("evict") == 500
    assert requests_of(stage) == {"200m": 500}


def requests_of(stage: Stage) -> Counter[str]:
    """Return how many pods of all namespaces that are to stay ask for how much CPU."""
    pods = [pod for pod in pods_in(stage.sandbox) if not gone(pod)]
    return Counter(pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] for pod in pods)
