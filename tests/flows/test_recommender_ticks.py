"""From usage to status, and at once after a kill for memory."""

from __future__ import annotations

import pytest

from app.model.quantity import Quantity
from app.ports import DEPLOYMENTS, VPAS, Ref
from tests.flows.recommending import Stage, evict, vpa, workload
from tests.sandbox.worlds import container, deployment
from tests.sandbox_objects import pods_in

LOAD = "cpu: constant 0.2, memory: constant 300Mi, noise: 0"
LIMITS = {"cpu": "1", "memory": "4Gi"}
TIGHT = {"cpu": "1", "memory": "1Gi"}


def staged(*flags: str, load: str = LOAD, replicas: int = 1) -> Stage:
    """Return a cluster with a Deployment and its VPA."""
    stage = Stage(*flags)
    stage.apply(*workload(load=load, replicas=replicas, limits=LIMITS))
    return stage


def test_from_usage_to_status() -> None:
    """A VPA recommends what its pods use, with all that belongs to it."""
    stage = staged(replicas=2)
    stage.run(125)

    told = stage.recommended()["app"]
    amounts = {"cpu": "247m", "memory": "380258472"}
    assert (told["target"], told["uncappedTarget"]) == (amounts, amounts)
    assert Quantity.parse(told["lowerBound"]["cpu"]) < Quantity.parse("247m")
    assert Quantity.parse(told["upperBound"]["cpu"]) > Quantity.parse("247m")
    assert stage.conditions().keys() == {"RecommendationProvided"}
    assert stage.status()["observedGeneration"] == 1


def test_the_first_round_does_not_wait() -> None:
    """With usage there, a recommendation stands a moment after the start."""
    stage = Stage(replicas=0)
    stage.apply(deployment("web", load=LOAD), vpa())
    stage.run(60)
    stage.begin()
    stage.run(0.5)

    assert stage.recommended()


def test_usage_that_grows_is_followed() -> None:
    """A new peak of memory raises the target in the round that reads it."""
    stage = staged(load="cpu: constant 0.2, memory: leaking 100Mi 6Gi, noise: 0")
    stage.run(61)
    before = stage.amount("memory")
    stage.run(600)

    assert stage.amount("memory") > before
    assert stage.amount("cpu") == Quantity.parse("247m")


@pytest.mark.parametrize(
    ("flags", "seconds"),
    [
        pytest.param((), 1.0, id="at once"),
        pytest.param(("--parity=upstream",), 60.0, id="as upstream: with the next round"),
    ],
)
def test_an_oom_kill(flags: tuple[str, ...], seconds: float) -> None:
    """A container that the kernel killed gets more as soon as its status tells of it."""
    stage = Stage(*flags)
    app = container(requests=TIGHT, limits=TIGHT)
    load = "cpu: constant 0.2, memory: leaking 500Mi 60Gi, noise: 0"
    stage.apply(deployment("web", app, load=load), vpa())
    killed = stage.run_until(
        lambda: any(
            "terminated" in one.get("lastState", {}) or "terminated" in one["state"]
            for pod in pods_in(stage.sandbox, "default")
            for one in pod["status"].get("containerStatuses", [])
        ),
        120,
    )
    took = stage.run_until(
        lambda: stage.recommended() and stage.amount("memory") > Quantity.parse("1.2Gi"), 90
    )

    assert killed < 60
    assert took <= seconds


def test_an_eviction() -> None:
    """A kubelet's eviction for memory counts at once, and once, however often it is told."""
    stage = staged()
    stage.run(70)
    (pod,) = pods_in(stage.sandbox, "default")
    evict(stage.sandbox, pod, "2Gi")
    stage.run(0.5)
    after = stage.amount("memory")
    evict(stage.sandbox, pod, "2Gi")
    stage.run(0.5)

    assert after > Quantity.parse("2Gi")
    assert stage.amount("memory") == after
    assert stage.replica.begun[0].model.tally.kills_repeated == 1


def test_a_kill_publishes_its_own_vpa_alone() -> None:
    """Between rounds only what a kill changed is written."""
    stage = staged()
    stage.apply(deployment("other", load=LOAD), vpa("other"))
    stage.run(70)
    (pod,) = pods_in(stage.sandbox, "default", "app=web")
    now = stage.clock.monotonic()
    evict(stage.sandbox, pod, "2Gi")
    stage.run(5)

    assert [(one.verb, one.name) for one in stage.replica.writes(since=now)] == [("patch", "web")]


def test_a_target_that_goes_and_comes() -> None:
    """While its target is gone a VPA keeps what it recommends, says so, and forgets nothing."""
    stage = staged()
    stage.run(130)
    before = stage.recommended()
    stage.sandbox.cluster.delete(Ref(DEPLOYMENTS, "default", "web"))
    stage.run(61)
    gone = stage.conditions()["ConfigUnsupported"]["message"]
    assert "Deployment" in gone
    assert "does not exist" in gone
    assert stage.recommended()["app"]["target"] == before["app"]["target"]

    stage.apply(workload(load=LOAD, limits=LIMITS)[0])
    stage.run(130)
    assert "ConfigUnsupported" not in stage.conditions()
    assert stage.recommended()["app"]["target"] == before["app"]["target"]


def test_a_vpa_that_changes() -> None:
    """What a policy asks for is in the next round's status, with its generation."""
    stage = staged()
    stage.run(70)
    policy = {"containerName": "app", "minAllowed": {"cpu": "2"}}
    found = stage.sandbox.cluster.get(Ref(VPAS, "default", "web"))
    found["spec"] = vpa(policies=[policy])["spec"]
    stage.sandbox.cluster.replace(Ref(VPAS, "default", "web"), found)
    stage.run(61)

    assert stage.amount("cpu") == Quantity.parse("2")
    assert stage.amount("cpu", "uncappedTarget") == Quantity.parse("247m")
    assert stage.status()["observedGeneration"] == 2
