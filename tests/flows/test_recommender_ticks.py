"""From usage to status, and at once after a kill for memory."""

from __future__ import annotations

from app.model.quantity import Quantity
from tests import make
from tests.cases import cases
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


@cases(
    "flags seconds",
    {"at once": ((), 1.0), "as upstream: with the next round": (("--parity=upstream",), 60.0)},
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


def test_a_boost_that_never_ends() -> None:
    """CPU is learned from when a boost is due, and until then a condition says why it is not."""
    stage = Stage("--feature-gates=CPUStartupBoost=true")
    boosted = deployment("web", container(limits=LIMITS), load=LOAD)
    boosted["spec"]["template"]["metadata"]["annotations"] |= {"vpaCpuStartupBoost/app": "{}"}
    stage.apply(boosted, vpa(startupBoost=make.boost_json(factor=3, duration="3m")))
    stage.run(130)
    early, told = stage.recommended()["app"]["target"], stage.conditions()
    stage.run(240)

    assert early.keys() == {"memory"}
    provided = told["RecommendationProvided"]
    assert (provided["status"], provided["reason"]) == ("False", "StartupBoost")
    assert provided["message"] == (
        "No target for cpu of app: nothing is learned of it before the startup boost is over"
    )
    assert stage.recommended()["app"]["target"].keys() == {"cpu", "memory"}
    assert stage.conditions()["RecommendationProvided"]["status"] == "True"
