"""What users of the upstream autoscaler rely on, on a whole cluster in memory.

RE, LI and GI are the cases of its own end-to-end and integration suites for the recommender; SX are
cases that its design papers promise. RE-03 and GI-02 are with the tests of ticks, RE-04 and RE-05
with those of restarts, SX-24 with those of promotion.
"""

from __future__ import annotations

from collections.abc import Sequence

from app.model.errors import Unavailable
from app.model.quantity import Quantity
from app.ports import CHECKPOINTS, Json
from tests.cases import cases
from tests.faults import Fault
from tests.flows.recommending import BIG, Stage, vpa
from tests.sandbox.worlds import container, deployment

LOAD = "cpu: constant 0.1, memory: constant 100Mi, noise: 0"


def orphan(name: str = "gone-app", namespace: str = "default", owner: str = "gone") -> Json:
    """Return a checkpoint of a VPA that does not exist."""
    return {
        "apiVersion": "autoscaling.k8s.io/v1",
        "kind": "VerticalPodAutoscalerCheckpoint",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"vpaObjectName": owner, "containerName": "app"},
        "status": {"version": "v3", "cpuHistogram": {}, "memoryHistogram": {}},
    }


def staged(*containers: Json, flags: tuple[str, ...] = (), policies: Sequence[Json] = ()) -> Stage:
    """Return a cluster with a Deployment and its VPA; a round has read what it uses."""
    stage = Stage(*flags)
    stage.apply(deployment("web", *(containers or (container(limits=BIG),)), load=LOAD))
    stage.apply(vpa(policies=policies))
    stage.run(65)
    return stage


@cases(
    "flags seconds",
    {
        "RE-01": ((), 15 * 60),
        "GI-01": (("--recommender-interval=1s", "--checkpoints-gc-interval=1s"), 30),
    },
)
def test_orphans(flags: tuple[str, ...], seconds: int) -> None:
    """A checkpoint of a VPA that does not exist goes as often as the flag says."""
    stage = Stage(*flags)
    stage.apply(orphan())
    stage.run(seconds)

    assert stage.checkpoints() == {}


def test_re_02() -> None:
    """A CronJob whose pods come and go gets a recommendation."""
    stage = Stage()
    job = deployment("web", load=f"{LOAD}, exit: 100s")["spec"]["template"]
    job["spec"]["restartPolicy"] = "Never"
    stage.apply(
        {
            "apiVersion": "batch/v1",
            "kind": "CronJob",
            "metadata": {"name": "web"},
            "spec": {
                "schedule": "*/5 * * * *",
                "jobTemplate": {"spec": {"parallelism": 3, "completions": 3, "template": job}},
            },
        },
        vpa(target="CronJob/web"),
    )
    stage.run(12 * 60)

    assert stage.amount("cpu") > Quantity.parse("100m")
    assert "NoPodsMatched" not in stage.conditions()


@cases(
    "policy target is_raised",
    {
        "RE-06": ({"minAllowed": {"cpu": "10000"}}, "10000", True),
        "RE-07": ({"maxAllowed": {"cpu": "1m"}}, "1m", False),
    },
)
def test_capped_targets(policy: Json, target: str, is_raised: bool) -> None:
    """A target is raised to minAllowed and lowered to maxAllowed, the uncapped target is not."""
    stage = staged(policies=[{"containerName": "app"} | policy])
    usual = stage.amount("cpu", "uncappedTarget")

    assert stage.amount("cpu") == Quantity.parse(target)
    assert usual < Quantity.parse("10000m") if is_raised else usual > Quantity.parse("1m")


@cases(
    "policies expected",
    {"RE-08": ([], {"app", "log"}), "RE-09": ([{"containerName": "app", "mode": "Off"}], {"log"})},
)
def test_two_containers(policies: list[Json], expected: set[str]) -> None:
    """Each container gets a recommendation, unless its policy is off."""
    stage = staged(container(limits=BIG), container("log", limits=BIG), policies=policies)

    assert stage.recommended().keys() == expected


def test_re_10() -> None:
    """A policy's own ratio decides how much a container gets that ran out of memory."""
    stage = Stage("--feature-gates=PerVPAConfig=true")
    tight = {"cpu": "1", "memory": "1Gi"}
    stage.apply(
        deployment(
            "web", container(requests=tight, limits=tight), load="memory: constant 1025Mi, noise: 0"
        ),
        vpa(policies=[{"containerName": "app", "oomBumpUpRatio": "3"}]),
    )
    stage.run(120)

    assert stage.amount("memory") >= Quantity.parse("3Gi")


@cases(
    "flag",
    {"LI-01": ("--vpa-object-namespace=a",), "LI-02": ("--ignored-vpa-object-namespaces=b",)},
)
def test_namespaces(flag: str) -> None:
    """VPAs of other namespaces are left as they are, without any condition."""
    stage = Stage(flag)
    for namespace in ("b", "a"):
        web = deployment("web", container(limits=BIG), container("log", limits=BIG), load=LOAD)
        web["metadata"]["namespace"] = namespace
        off = [{"containerName": "app", "mode": "Off"}]
        stage.apply(web, vpa(namespace=namespace, policies=off))
    stage.run(125)

    assert stage.recommended("web", "a").keys() == {"log"}
    assert stage.status("web", "b") == {}


def test_li_03() -> None:
    """No container gets less than its share of the least memory of a pod."""
    stage = staged(flags=("--pod-recommendation-min-memory-mb=500",))

    assert stage.amount("memory") >= Quantity.parse("500Mi")


def test_an_orphan_that_cannot_be_deleted() -> None:
    """It is counted out for itself alone, and tried again."""
    stage = Stage("--checkpoints-gc-interval=1m")
    stage.apply(*(orphan(f"{place}-app", place) for place in ("a", "b", "c")))
    fault = Fault(Unavailable("500"), "delete", CHECKPOINTS, "b-app", times=1)
    stage.replica.faults.order(fault)
    stage.run(65)
    assert stage.checkpoints().keys() == {"b-app"}

    stage.run(61)
    assert stage.checkpoints() == {}


@cases(
    "flags item",
    {
        "its namespace is ignored": (("--ignored-vpa-object-namespaces=b",), orphan(namespace="b")),
        "outside": (("--vpa-object-namespace=a",), orphan(namespace="b")),
        "a VPA of another recommender": ((), orphan("others-app", owner="others")),
    },
)
def test_checkpoints_that_stay(flags: tuple[str, ...], item: Json) -> None:
    """Checkpoints that are none of ours are kept, as are those of another recommender's VPAs."""
    stage = Stage(*flags)
    stage.apply(vpa("others", target="Deployment/web", recommenders=[{"name": "another"}]), item)
    stage.run(25 * 60)

    assert item["metadata"]["name"] in stage.checkpoints()


def roles() -> list[Json]:
    """Return a Deployment, and a VPA for its leaders and one for its followers."""
    web = deployment("web", container(limits=BIG), replicas=3)
    web["spec"]["template"]["metadata"]["annotations"] = {
        "sandbox.plumbline/load": "cpu: constant 100m, memory: constant 300Mi, noise: 0;"
        " role=leader -> cpu: constant 1, memory: constant 2Gi, noise: 0"
    }
    in_place = {"updateMode": "InPlaceOrRecreate"}
    vpas = [
        vpa(
            role,
            target="Deployment/web",
            selector={"matchLabels": {"role": role}},
            updatePolicy=in_place,
        )
        for role in ("leader", "follower")
    ]
    return [web, *vpas]


def test_sx_25() -> None:
    """A pod that no selector matches teaches nobody anything."""
    stage = Stage()
    stage.apply(*roles())
    stage.run(200)
    assert stage.recommended("leader") == stage.recommended("follower") == {}
    assert stage.conditions("leader").keys() == {"NoPodsMatched", "RecommendationProvided"}
    assert stage.checkpoints() == {}
