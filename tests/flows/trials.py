"""Deployments with VPAs whose recommendation a test writes, and what becomes of their pods."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from app.model.fields import Json
from app.ports import PODS, VPAS, PatchKind, Ref
from app.run.world import World
from app.sandbox.scheduler import NodeSize
from tests import make
from tests.flows.autoscaler import MINUTE, listeners, process_settings
from tests.sandbox_objects import pods_in

NAMESPACE: Final = "default"
REPLICAS: Final = 2
_NODES: Final = (NodeSize("node-1", "500", "500Gi"),)


@contextmanager
def cluster(*, recommends: bool) -> Iterator[World]:
    """Start a cluster with webhook and updater, and with the recommender if it is wanted."""
    world = World(process_settings("--role-leases"), listeners(), nodes=_NODES)
    try:
        world.await_webhook()
        if recommends:
            world.recommender.start()
        world.updater.start()
        yield world
    finally:
        world.stop()


@dataclass(frozen=True)
class Trial:
    """A Deployment and its VPA."""

    name: str
    spec: Mapping[str, object]  # of the VPA, without its target
    containers: Sequence[Json]
    targets: Mapping[str, tuple[int, int]]  # millicores and Mi that each container should have
    annotations: Mapping[str, str] = field(default_factory=dict)  # of the pods

    def deploy(self, world: World) -> None:
        """Create the Deployment."""
        item = make.workload_json(
            f"Deployment/{self.name}",
            labels={"app": self.name},
            replicas=REPLICAS,
            containers=self.containers,
        )
        item["spec"]["template"]["metadata"]["annotations"] = dict(self.annotations)
        assert world.sandbox.apply(item) == []

    def recommend(self, world: World) -> None:
        """Create the VPA, with its recommendation and bounds 10 % around that."""
        item = make.vpa_json(
            self.name,
            target=f"Deployment/{self.name}",
            created=None,
            spec=self.spec,
            recommendations=[_recommendation(*pair) for pair in self.targets.items()],
        )
        assert world.sandbox.apply(item) == []
        body = {"status": item["status"]}
        ref = Ref(VPAS, NAMESPACE, self.name, "status")
        world.sandbox.cluster.patch(ref, body, kind=PatchKind.MERGE)

    def pods(self, world: World) -> dict[str, Json]:
        """Return the pods by uid, without those that are being deleted."""
        found = pods_in(world.sandbox, NAMESPACE, f"app={self.name}")
        living = [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]
        return {pod["metadata"]["uid"]: pod for pod in living}

    def created(self, world: World) -> Json:
        """Delete a pod, and return the one that comes in its place."""
        before = self.pods(world)
        name = next(iter(before.values()))["metadata"]["name"]
        world.sandbox.cluster.delete(Ref(PODS, NAMESPACE, name))
        world.sandbox.advance(10)
        (uid,) = self.pods(world).keys() - before.keys()
        return self.pods(world)[uid]


def _recommendation(container: str, target: tuple[int, int]) -> Json:
    cpu, memory = target
    lower, upper = (
        make.amounts(f"{cpu * tenths // 10}m", f"{memory * tenths // 10}Mi") for tenths in (9, 11)
    )
    return make.recommendation_json(
        container, cpu=f"{cpu}m", memory=f"{memory}Mi", lower=lower, upper=upper
    )


def outcomes(world: World, trials: Sequence[Trial]) -> list[str]:
    """Return what is done about pods that run already: "evicted", "resized" or "unchanged"."""
    for trial in trials:
        trial.deploy(world)
    world.sandbox.advance(10)
    before = [trial.pods(world) for trial in trials]
    for trial in trials:
        trial.recommend(world)
    world.sandbox.advance(10 * MINUTE)
    after = [trial.pods(world) for trial in trials]
    return [_outcome(*pair) for pair in zip(before, after, strict=True)]


def _outcome(before: Mapping[str, Json], after: Mapping[str, Json]) -> str:
    assert len(before) == len(after) == REPLICAS
    if not before.keys() & after.keys():
        return "evicted"
    assert before.keys() == after.keys()
    is_same = all(before[uid]["spec"] == after[uid]["spec"] for uid in before)
    return "unchanged" if is_same else "resized"


def sizes(pod: Json, resource: str = "cpu") -> dict[str, tuple[str, str]]:
    """Return request and limit of each container of a pod."""
    found = {}
    for container in pod["spec"]["containers"]:
        resources = container["resources"]
        parts = (resources.get(part, {}).get(resource, "none") for part in ("requests", "limits"))
        request, limit = parts
        found[container["name"]] = (request, limit)
    return found
