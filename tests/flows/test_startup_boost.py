"""A startup boost: from the creation of a pod to the end of its boost, and again."""

from __future__ import annotations

from collections.abc import Callable

from app.model.pods import BOOST_KEY_PREFIX
from app.ports import PODS, Json, Ref
from tests.flows.autoscaler import MINUTE, NAMESPACE, Autoscaler, autoscaler, vpa, workload

BOOST = {"cpu": {"type": "Factor", "factor": 4, "duration": "30s"}}
LONGEST_SECONDS = 300
LOAD = "noise: 0, startup: 2 20, cpu: constant 80m, memory: constant 200Mi"


def slow_start() -> tuple[Json, Json]:
    """Return a workload that needs much for its start, and a VPA that gives it."""
    return vpa(mode="Initial", startupBoost=BOOST), workload(load=LOAD, replicas=1)


def is_boosted(cluster: Autoscaler) -> bool:
    """Whether the pod carries the mark of a boost."""
    return f"{BOOST_KEY_PREFIX}app" in cluster.pods()[0]["metadata"]["annotations"]


def is_ready(cluster: Autoscaler) -> bool:
    """Whether the pod is Ready."""
    conditions = cluster.pods()[0]["status"]["conditions"]
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def seconds_until(cluster: Autoscaler, holds: Callable[[Autoscaler], bool]) -> int:
    """Let time pass until something holds; return how long that took."""
    passed = 0
    while not holds(cluster) and passed < LONGEST_SECONDS:
        cluster.run(1)
        passed += 1
    return passed


def test_a_boost_comes_and_goes() -> None:
    """More CPU until the pod is ready and so long after it; then what it would have had."""
    with autoscaler(*slow_start()) as cluster:
        cluster.run(1)
        boosted = cluster.requests()
        started = seconds_until(cluster, is_ready)
        over = seconds_until(cluster, lambda now: not is_boosted(now))

        assert (boosted, cluster.requests()) == (["400m"], ["100m"])
        assert 5 < started < LONGEST_SECONDS
        assert 30 <= over <= 32
        assert cluster.pods()[0]["status"]["containerStatuses"][0]["restartCount"] == 0


def test_a_boost_of_little_leaves_a_pod_its_own_request() -> None:
    """A pod whose boost is below its own request starts with that, and goes down afterwards."""
    little = {"cpu": {"type": "Factor", "factor": 2}}
    slow = "noise: 0, startup: 1 20, cpu: constant 20m, memory: constant 200Mi"
    things = vpa(mode="Initial", startupBoost=little), workload(load=slow, replicas=1)
    with autoscaler(*things) as cluster:
        cluster.run(5 * MINUTE)
        former = cluster.pods()[0]["metadata"]["name"]
        cluster.world.sandbox.cluster.delete(Ref(PODS, NAMESPACE, former))
        cluster.run(10)
        target = cluster.target("web")["cpu"]

        assert 2 * int(target.removesuffix("m")) < 100
        assert (cluster.requests(), is_boosted(cluster)) == (["100m"], True)
        seconds_until(cluster, lambda now: not is_boosted(now))
        assert cluster.requests() == [cluster.target("web")["cpu"]]
        assert cluster.pods()[0]["status"]["containerStatuses"][0]["restartCount"] == 0


def test_the_next_pod_is_boosted_too() -> None:
    """A pod that takes the place of another one starts as fast as that one did."""
    with autoscaler(*slow_start()) as cluster:
        cluster.run(5 * MINUTE)
        former = cluster.pods()[0]["metadata"]["name"]
        cluster.world.sandbox.cluster.delete(Ref(PODS, NAMESPACE, former))
        cluster.run(15)
        target = cluster.target("web")["cpu"]

        assert cluster.pods()[0]["metadata"]["name"] != former
        assert cluster.requests() == [f"{4 * int(target.removesuffix('m'))}m"]
        assert is_boosted(cluster)
