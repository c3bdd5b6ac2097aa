"""The sandbox as a whole: put together, stepped, running."""

from __future__ import annotations

import random
from contextlib import suppress
from threading import Thread

import pytest

from app.kube.manifests import documents
from app.model.errors import ClusterError, Conflict, Invalid, TooMany
from app.ports import (
    DEPLOYMENTS,
    EVENTS,
    POD_DISRUPTION_BUDGETS,
    PODS,
    SECRETS,
    VPAS,
    Json,
    PatchKind,
    Ref,
)
from app.sandbox.objects import is_ready
from app.sandbox.sandbox import RefusedManifest, Sandbox
from app.sandbox.stepped_clock import SteppedClock
from tests.cases import cases
from tests.contract.building import vpa
from tests.sandbox.worlds import SteppedSandbox, container, deployment, pod, snapshot_of
from tests.sandbox_objects import pods_in

YAML = """
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Pod
  metadata: {name: one, namespace: far-away}
  spec: {containers: [{name: app, image: "app:1"}]}
---
---
apiVersion: example.com/v1
kind: Unknown
metadata: {name: what}
---
apiVersion: v1
kind: Pod
metadata: {name: two}
spec: {containers: []}
"""


def test_apply() -> None:
    """Objects of YAML and lists go in, and what does not is told and stops nothing."""
    sandbox = Sandbox(SteppedClock())
    refusals = sandbox.apply(YAML, *documents.objects("crd"))

    assert refusals == [
        RefusedManifest("Unknown", "what", "the sandbox knows no example.com/v1 Unknown"),
        RefusedManifest("Pod", "two", 'Pod "two" is invalid: spec.containers: Required value'),
    ]
    assert [found["metadata"]["name"] for found in pods_in(sandbox, "far-away")] == ["one"]
    assert not sandbox.cluster.list(VPAS).items


@cases(
    "item why",
    {
        "a budget of no pods": (
            {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "it"}},
            [],
        ),
        "a definition of nothing": (
            {
                "apiVersion": "apiextensions.k8s.io/v1",
                "kind": "CustomResourceDefinition",
                "metadata": {"name": "it"},
            },
            [
                "[spec.group: Required value, spec.names.plural: Required value, "
                "spec.names.kind: Required value]"
            ],
        ),
    },
)
def test_objects_without_a_spec(item: Json, why: list[str]) -> None:
    """What says nothing of itself is taken as empty or refused; all else goes on."""
    world = SteppedSandbox()
    refused = world.sandbox.apply(item, pod())
    world.step(2)

    assert [one.why.partition("invalid: ")[2] for one in refused] == why
    assert world.is_ready()


def test_apply_again() -> None:
    """What is there is replaced, and stays what it is."""
    sandbox = Sandbox(SteppedClock())
    sandbox.apply(deployment("web"))
    before = sandbox.cluster.get(Ref(DEPLOYMENTS, "default", "web"))
    assert sandbox.apply(deployment("web", replicas=4)) == []
    after = sandbox.cluster.get(Ref(DEPLOYMENTS, "default", "web"))

    assert after["spec"]["replicas"] == 4
    assert after["metadata"]["uid"] == before["metadata"]["uid"]


def budget(least: int) -> Json:
    """Return a budget of the Deployment `web`."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web"},
        "spec": {"minAvailable": least, "selector": {"matchLabels": {"app": "web"}}},
    }


def history(seed: int) -> list[Json]:
    """Everything that is to be seen after a busy hour."""
    world = SteppedSandbox(seed=seed)
    world.run(
        deployment("web", replicas=3, load="memory: leaking 100Mi 400Mi, cpu: spiky 0 1 5m 20s"),
        deployment("big", container(requests={"cpu": "3"}, limits={}), replicas=6),
        budget(2),
    )
    for step in range(12):
        for found in pods_in(world.sandbox, selector="app=web")[: step % 3]:
            try:
                world.sandbox.cluster.evict("default", found["metadata"]["name"])
            except TooMany:
                continue
        world.step(300)
    cluster = world.sandbox.cluster
    kinds = (PODS, DEPLOYMENTS, POD_DISRUPTION_BUDGETS, EVENTS)
    return [item for kind in kinds for item in cluster.list(kind).items]


def test_the_same_seed_makes_the_same_history() -> None:
    """Two sandboxes that are stepped alike are alike to the last letter."""
    first = history(1)

    assert first == history(1)
    assert first != history(2)


def test_server_side_apply_is_not_offered() -> None:
    """A patch of a kind that the sandbox does not take is refused as an API server does."""
    cluster = Sandbox(SteppedClock()).cluster
    cluster.create(Ref(SECRETS, "default"), {"metadata": {"name": "it"}})

    with pytest.raises(Invalid, match="takes no application/apply-patch") as refused:
        cluster.patch(Ref(SECRETS, "default", "it"), {}, kind=PatchKind.APPLY)

    assert (refused.value.status, refused.value.reason) == (415, "UnsupportedMediaType")


def kept(sandbox: Sandbox) -> int:
    """Return how many objects the cluster holds."""
    kinds = (PODS, DEPLOYMENTS, POD_DISRUPTION_BUDGETS, EVENTS)
    return sum(len(sandbox.cluster.list(kind).items) for kind in kinds)


def test_memory_is_bounded() -> None:
    """However long it runs, only so much of the past is kept."""
    sandbox = Sandbox(SteppedClock())
    sandbox.apply(
        deployment("web", replicas=3, load="memory: leaking 100Mi 2000Mi, noise: 0"),
        deployment("sick", load="exit: 3s 1"),
    )
    sandbox.advance(3 * 3600)
    first = kept(sandbox)
    sandbox.advance(12 * 3600)

    assert kept(sandbox) <= first * 1.2


@pytest.mark.parametrize("seed", range(5))
def test_a_budget_is_never_broken(seed: int) -> None:
    """Whatever is evicted, deleted and stepped in which order, enough pods stay Ready."""
    choose = random.Random(seed)
    world = SteppedSandbox(seed=seed)
    world.run(deployment("web", replicas=5), budget(3))
    for _ in range(200):
        pods = pods_in(world.sandbox, selector="app=web")
        target = choose.choice(pods)["metadata"]
        uid = choose.choice([target["uid"], "", "another"])
        with suppress(ClusterError):
            world.sandbox.cluster.evict("default", target["name"], uid=uid)
        world.step(choose.choice([0, 0.01, 0.5, 3, 150]))
        ready = [
            found
            for found in pods_in(world.sandbox, selector="app=web")
            if "deletionTimestamp" not in found["metadata"] and is_ready(found)
        ]

        assert len(ready) >= 3


def test_a_pod_may_be_patched_while_all_runs() -> None:
    """Writes of many threads do not undo one another."""
    world = SteppedSandbox()
    world.run(pod())
    for number in range(10):
        patch = {"metadata": {"labels": {f"l-{number}": "x"}}}
        world.sandbox.cluster.patch(Ref(PODS, "default", "pod"), patch, kind=PatchKind.MERGE)
        world.resize(cpu=f"{110 + number}m")
        world.step(0.03)
    world.step(1)

    assert len(world.pod()["metadata"]["labels"]) == 10
    assert world.status()["resources"]["requests"]["cpu"] == "119m"


def test_writes_of_many_threads_are_not_lost() -> None:
    """Whoever names the version read is told when another was faster, and tries again."""
    sandbox = Sandbox(SteppedClock())
    cluster = sandbox.cluster
    cluster.create(Ref(SECRETS, "default"), {"metadata": {"name": "count"}, "data": {"n": "0"}})
    conflicts: list[int] = []

    def count_up() -> None:
        done = 0
        while done < 50:
            found = cluster.get(Ref(SECRETS, "default", "count"))
            found["data"]["n"] = str(int(found["data"]["n"]) + 1)
            try:
                cluster.replace(Ref(SECRETS, "default", "count"), found)
                done += 1
            except Conflict:
                conflicts.append(1)

    threads = [Thread(target=count_up) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert cluster.get(Ref(SECRETS, "default", "count"))["data"]["n"] == "200"


def test_a_snapshot_for_decisions() -> None:
    """Pods, controllers, nodes and VPAs as decisions see them; what cannot be read is left out."""
    sandbox = Sandbox(SteppedClock())
    odd = {"matchExpressions": [{"key": "a", "operator": "Odd"}]}
    vpas = (vpa("good"), vpa("broken", selector=odd))
    refusals = sandbox.apply(*documents.objects("crd"), deployment("web"), *vpas)
    sandbox.advance(2)
    view = snapshot_of(sandbox).of("default")

    assert refusals == []
    assert set(view.vpas) == {"good"}
    assert [pod.phase for pod in view.pods.values()] == ["Running"]
    assert {key.kind for key in view.workloads} == {"Deployment", "ReplicaSet"}
    assert set(snapshot_of(sandbox).nodes) == {"node-1", "node-2"}
