"""The answers of metrics.k8s.io."""

from __future__ import annotations

import pytest

from app.model.errors import Invalid, NotFound
from app.model.quantity import Quantity
from app.ports import POD_METRICS, Json, Ref
from tests.sandbox.worlds import SteppedSandbox, container, deployment, pod

QUIET = "cpu: constant 250m, memory: constant 64Mi, noise: 0"


def samples(world: SteppedSandbox) -> dict[str, Json]:
    """The containers of the pod that are listed, by name."""
    items = world.sandbox.cluster.list(POD_METRICS, "default").items
    return {found["name"]: found["usage"] for item in items for found in item["containers"]}


def used(world: SteppedSandbox) -> list[str]:
    """The cpu that each container that is listed uses, by size."""
    items = world.sandbox.cluster.list(POD_METRICS, "default").items
    amounts = [found["usage"]["cpu"] for item in items for found in item["containers"]]
    return sorted(amounts, key=lambda amount: Quantity.read(amount).nano)


def test_two_readings_make_a_sample() -> None:
    """A new pod is listed after the second turn; values are exact."""
    world = SteppedSandbox()
    world.run(pod(load=QUIET), seconds=20)
    assert samples(world) == {}
    world.step(12)
    item = world.sandbox.cluster.get(Ref(POD_METRICS, "default", "pod"))

    assert samples(world) == {"app": {"cpu": "250m", "memory": "64Mi"}}
    assert (item["timestamp"], item["window"]) == ("2026-01-05T10:00:30Z", "15.000s")


def test_a_change_shows_at_the_next_turn() -> None:
    """A sample is what was used since the turn before."""
    world = SteppedSandbox()
    world.run(pod(load="cpu: daily 0 1, memory: constant 64Mi, noise: 0"), seconds=50)
    seen = []
    for _ in range(3):
        world.step(600)
        seen.append(Quantity.read(samples(world)["app"]["cpu"]).nano)

    assert seen == sorted(seen)
    assert seen[0] != seen[1]


def test_a_node_is_shared() -> None:
    """More than a node has is nobody's."""
    world = SteppedSandbox()
    greedy = container("one", limits={}), container("two", limits={})
    world.run(pod("pod", *greedy, load="cpu: constant 8, noise: 0"), seconds=50)

    assert {found["cpu"] for found in samples(world).values()} == {"4"}


def test_a_load_is_shared_by_ready_pods() -> None:
    """All pods of a workload that are ready have an equal part, across a rollout; others none."""
    world = SteppedSandbox()
    slow = container(more={"readinessProbe": {"httpGet": {"port": 80}, "initialDelaySeconds": 90}})
    load = "cpu: constant 600m, noise: 0, shared: cpu"
    world.run(deployment("web", replicas=3, load=load), seconds=50)
    first = used(world)
    world.run(deployment("web", slow, replicas=3, load=load), seconds=60)
    during = used(world)
    world.step(180)
    world.run(pod("alone", load=load), deployment("web", replicas=2, load=load), seconds=60)

    assert first == ["200m"] * 3
    assert during == ["0", "200m", "200m", "200m"]
    assert used(world) == ["300m", "300m", "600m"]


def test_after_a_restart() -> None:
    """First without the container, then without the pod, then whole again."""
    world = SteppedSandbox()
    leaking = {"sandbox.plumbline/load.two": "memory: leaking 100Mi 3600Mi, noise: 0"}
    body = pod("pod", container("one"), container("two"), load=QUIET)
    body["metadata"]["annotations"] |= leaking
    world.run(body, seconds=91)
    before = set(samples(world))
    seen = []
    while world.status(index=1)["restartCount"] == 0:
        world.step(1)
    for _ in range(3):
        world.step(15)
        seen.append(set(samples(world)))

    assert before == {"one", "two"}
    assert seen == [{"one"}, set(), {"one", "two"}]


def test_the_order_of_containers_means_nothing() -> None:
    """It changes from call to call."""
    world = SteppedSandbox()
    world.run(pod("pod", container("one"), container("two")), seconds=50)
    first, second = (list(samples(world)) for _ in range(2))

    assert first != second
    assert sorted(first) == sorted(second)


def test_pods_that_are_gone_are_not_listed() -> None:
    """No sample is never a sample of nothing."""
    world = SteppedSandbox()
    world.run(pod(load=f"{QUIET}, exit: 40s", restartPolicy="Never"), seconds=35)
    assert samples(world)
    world.step(30)

    assert not samples(world)
    with pytest.raises(NotFound):
        world.sandbox.cluster.get(Ref(POD_METRICS, "default", "pod"))


def test_bad_selectors_are_refused() -> None:
    """As for any other list."""
    world = SteppedSandbox()

    with pytest.raises(Invalid):
        world.sandbox.cluster.list(POD_METRICS, label_selector="a in")
