"""Two thousand VPAs cost few writes while little changes, and nothing waits that matters.

Strategy: nothing runs in this cluster. Objects are there as if it did, with ten days of history
behind them, and usage is made up.
"""

from __future__ import annotations

import random
from typing import cast

import pytest

from app.kube.manifests import documents
from app.model.quantity import Quantity
from app.ports import (
    CHECKPOINTS,
    POD_METRICS,
    PODS,
    Clock,
    Cluster,
    Json,
    ListPage,
    PatchKind,
    Ref,
    Resource,
)
from app.recommender.core.checkpoints import Checkpoint, StoredHistogram, own_annotations, to_json
from app.recommender.core.moments import DAY, MINUTE, nanoseconds
from app.sandbox.sandbox import Sandbox
from app.sandbox.stepped_clock import SteppedClock
from tests.flows.recommending import Stage, vpa
from tests.sandbox.worlds import container, deployment, pod

VPA_COUNT = 2000
NAMESPACES = 10
CONTAINERS = ("app", "log")
MOST_WRITES = 600  # in a minute


class Metered:
    """A cluster of which the usage is made up; memory of some pods may be told to grow."""

    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock
        self.growing: frozenset[str] = frozenset()

    def __getattr__(self, verb: str) -> object:
        return getattr(self._cluster, verb)

    def list(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        limit: int = 0,
        continue_token: str = "",
        **more: str,
    ) -> ListPage:
        """Answer metrics from here, everything else from the cluster."""
        if resource != POD_METRICS:
            return self._cluster.list(
                resource, namespace, limit=limit, continue_token=continue_token, **more
            )
        stamp = self._clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
        dice = random.Random(stamp)
        return ListPage([self._usage(number, stamp, dice) for number in range(VPA_COUNT)], "1")

    def _usage(self, number: int, stamp: str, dice: random.Random) -> Json:
        namespace, name = place(number)
        memory = 4000 if name in self.growing else 100 + number % 100
        usage = {"cpu": f"{dice.randrange(50, 400)}m", "memory": f"{memory}Mi"}
        containers = [{"name": one, "usage": usage} for one in CONTAINERS]
        metadata = {"namespace": namespace, "name": name}
        return {"metadata": metadata, "timestamp": stamp, "window": "30s", "containers": containers}


def place(number: int) -> tuple[str, str]:
    """Return namespace and name of a VPA, its Deployment and its pod."""
    return f"team-{number % NAMESPACES}", f"service-{number}"


def objects(number: int) -> tuple[Json, Json]:
    """Return a Deployment that makes no pods itself, and its VPA."""
    namespace, name = place(number)
    owner = deployment(name, replicas=0)
    owner["metadata"]["namespace"] = namespace
    return owner, vpa(name, namespace=namespace)


def lone_pod(number: int) -> Json:
    """Return a pod as its Deployment would have made it."""
    namespace, name = place(number)
    metadata = {"namespace": namespace, "labels": {"app": name}}
    return pod(name, *(container(one) for one in CONTAINERS), metadata=metadata)


def history(number: int, container_name: str, dice: random.Random, now_ns: int) -> Json:
    """Return ten days of history, as we have stored it before."""
    namespace, name = place(number)
    weights = {dice.randrange(4, 26): dice.randrange(1, 10_000) for _ in range(15)}
    item = to_json(
        Checkpoint(
            namespace,
            f"{name}-{container_name}",
            name,
            container_name,
            cpu=StoredHistogram(now_ns, weights, 200_000.0),
            memory=StoredHistogram(now_ns, {10: 10_000}, 1.0),
            first_ns=now_ns - 10 * DAY,
            last_ns=now_ns,
            count=14_400,
            updated_ns=now_ns - number % 15 * MINUTE,
        )
    )
    item["metadata"]["annotations"] = own_annotations(item)
    return item


class Crowd:
    """All VPAs with their history, and a recommender that has been at work for a round."""

    def __init__(self) -> None:
        self.stage = stage = Stage(replicas=0, sandbox=Sandbox(SteppedClock(), nodes=[]))
        assert stage.sandbox.apply(*documents.objects("crd")) == []
        now_ns, cluster = nanoseconds(stage.clock.now()), stage.sandbox.cluster
        dice = random.Random(1)
        for number in range(VPA_COUNT):
            namespace, name = place(number)
            stage.apply(*objects(number), lone_pod(number))
            running = {"status": {"phase": "Running"}}
            cluster.patch(
                Ref(PODS, namespace, name, subresource="status"), running, kind=PatchKind.MERGE
            )
            for one in CONTAINERS:
                cluster.create(Ref(CHECKPOINTS, namespace), history(number, one, dice, now_ns))
        self.cluster = Metered(cluster, stage.clock)
        self.replica = stage.begin(cluster=cast("Cluster", self.cluster))
        stage.run(65)


@pytest.fixture(scope="module")
def crowd() -> Crowd:
    """The same crowd for all tests; each of them is content with what the last one left."""
    return Crowd()


def test_steady_state(crowd: Crowd) -> None:
    """While targets stay, statuses and checkpoints together are below the limit, every minute."""
    for _ in range(6):
        before = len(crowd.replica.writes())
        crowd.stage.run(60)
        written = crowd.replica.writes()[before:]
        assert len(written) < MOST_WRITES
        assert {call.verb for call in written} == {"patch"}


def test_targets_that_change(crowd: Crowd) -> None:
    """However many targets change, all of them are visible with the next round."""
    numbers = range(0, VPA_COUNT, 4)
    crowd.cluster.growing = frozenset(place(number)[1] for number in numbers)
    crowd.stage.run(60)

    for number in numbers:
        namespace, name = place(number)
        for told in crowd.stage.recommended(name, namespace).values():
            assert Quantity.parse(told["target"]["memory"]) > Quantity.parse("4000Mi")
