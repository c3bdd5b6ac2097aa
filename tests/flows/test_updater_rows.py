"""What users of the upstream autoscaler rely on, on a whole cluster in memory.

The rows UP and ACT are the cases of its own end-to-end suites for the updater, alone and with the
webhook; SX are cases that its design papers promise. Rows that a decision alone makes true are
cases of `tests/updater/core`; all of them are played on a real cluster, see docs/acceptance.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import pytest

from app.model.errors import Invalid
from app.ports import PODS, VPAS, Json, PatchKind, Ref
from tests.acceptance.table import KINDS
from tests.cases import cases
from tests.faults import Fault
from tests.sandbox.worlds import container, deployment
from tests.updater.stage import Stage, vpa

SMALL: Final = {"cpu": "100m", "memory": "100Mi"}
LARGE: Final = {"cpu": "500m", "memory": "500Mi"}
ONLY_UP: Final = {"resources": ["cpu"], "changeRequirement": "TargetHigherThanRequests"}
BUSY: Final = "cpu: constant 10m, memory: constant 20Mi, noise: 0"


def app(name: str = "app", requests: Mapping[str, str] = SMALL, **more: object) -> Json:
    """Return a container without limits."""
    return container(name, requests, {}, more)


def owner(kind: str, replicas: int, *containers: Json, name: str = "web") -> Json:
    """Return a controller of such pods; its VPA is called the same."""
    found = deployment(name, *(containers or (app(),)), replicas=replicas, load=BUSY)
    template = found["spec"]["template"]
    match kind:
        case "ReplicationController":
            found |= {"apiVersion": "v1"}
            found["spec"]["selector"] = {"app": name}
        case "Job":
            found |= {"apiVersion": "batch/v1"}
            found["spec"] = {"parallelism": replicas, "completions": 100, "template": template}
            template["spec"]["restartPolicy"] = "Never"
        case "CronJob":
            job = {"parallelism": replicas, "completions": 100, "template": template}
            template["spec"]["restartPolicy"] = "Never"
            found |= {"apiVersion": "batch/v1"}
            found["spec"] = {"schedule": "*/2 * * * *", "jobTemplate": {"spec": job}}
        case "StatefulSet":
            found["spec"]["serviceName"] = name
    return found | {"kind": kind}


def staged(
    *,
    kind: str = "Deployment",
    replicas: int = 3,
    webhook: bool = True,
    containers: Sequence[Json] = (),
    mode: str = "Recreate",
    policy: Json | None = None,
) -> Stage:
    """Return a cluster with one workload and its VPA, running for a while."""
    stage = Stage()
    stage.webhook_works = webhook
    stage.apply(
        owner(kind, replicas, *containers), vpa(target=f"{kind}/web", mode=mode, policy=policy)
    )
    stage.run(150 if kind == "CronJob" else 30)
    return stage


def evicts(stage: Stage, seconds: float) -> bool:
    """Whether a pod is evicted within some time."""
    before = len(stage.events("EvictedByVPA"))
    stage.run(seconds)
    return len(stage.events("EvictedByVPA")) > before


def resizes(stage: Stage, seconds: float) -> bool:
    """Whether a pod is resized in place within some time, and none is evicted."""
    before, uids = len(stage.events("InPlaceResizedByVPA")), stage.uids()
    stage.run(seconds)
    return len(stage.events("InPlaceResizedByVPA")) > before and stage.uids() == uids


# --- the updater alone


@cases(
    "requests mode webhook_beats policy expected",
    {
        "UP-01": (SMALL, "Recreate", True, {}, "evicts"),
        "UP-02": (LARGE, "Recreate", True, {}, "evicts"),
        "UP-03": (LARGE, "Recreate", True, {"evictionRequirements": [ONLY_UP]}, "nothing"),
        "no lease": (SMALL, "Recreate", False, {}, "nothing"),
        "UP-05": (SMALL, "InPlaceOrRecreate", True, {}, "resizes"),
        "UP-06": (LARGE, "InPlaceOrRecreate", True, {}, "resizes"),
        "UP-07": (SMALL, "InPlace", True, {}, "resizes"),
        "UP-08": (LARGE, "InPlace", True, {}, "resizes"),
    },
)
def test_updater_alone(
    requests: Mapping[str, str], mode: str, webhook_beats: bool, policy: Json, expected: str
) -> None:
    """Pods outside of their bounds are evicted or resized, or left alone for a reason."""
    stage = Stage()
    stage.webhook_works, stage.webhook_beats = False, webhook_beats
    stage.apply(owner("Deployment", 3, app(requests=requests)), vpa(mode=mode, policy=policy))
    stage.run(30)
    stage.recommend("200m/200Mi = =")
    if expected == "resizes":
        assert resizes(stage, 180)
        assert set(stage.requests()) == {"200m"}
    else:
        assert evicts(stage, 180) is (expected == "evicts")


def test_up_09() -> None:
    """A pod that was resized is resized again when the recommendation moves on."""
    stage = staged(mode="InPlace", webhook=False)
    stage.recommend("200m/200Mi = =")
    assert resizes(stage, 180)
    stage.recommend("300m/200Mi = =")
    assert resizes(stage, 180)
    assert set(stage.requests()) == {"300m"}


@cases("seconds evicted", {"UP-10": (1, False), "UP-11": (600, True)})
def test_out_of_memory(seconds: int, evicted: bool) -> None:
    """A container killed soon after its start is helped at once, if that is soon enough."""
    stage = Stage()
    stage.webhook_works = False
    leaking = container(requests={"memory": "1Gi"}, limits={"memory": "1Gi"})
    stage.apply(
        deployment("web", leaking, replicas=3, load="memory: leaking 100Mi 120Gi"),
        vpa(policy={"evictAfterOOMSeconds": seconds}),
    )
    stage.recommend("-/2Gi -/500Mi -/3Gi")
    assert evicts(stage, 300) is evicted


# --- the updater and the webhook


def test_act_01() -> None:
    """A resize leaves pods where they are, and a pod that is killed comes back bigger."""
    stage = staged(mode="InPlaceOrRecreate")
    stage.recommend("200m/- = =")
    assert not evicts(stage, 180)
    stage.sandbox.cluster.delete(Ref(PODS, "default", stage.pods()[0]["metadata"]["name"]))
    stage.run(60)
    assert stage.requests() == ["200m"] * 3


def test_act_02() -> None:
    """Two containers are resized together."""
    stage = staged(mode="InPlaceOrRecreate", containers=(app("one"), app("two")))
    stage.recommend("200m/200Mi = = for one; 200m/200Mi = = for two")
    assert resizes(stage, 360)
    for container_status in [
        status for found in stage.pods() for status in found["status"]["containerStatuses"]
    ]:
        assert container_status["resources"]["requests"] == {"cpu": "200m", "memory": "200Mi"}


def test_act_03() -> None:
    """More than any node has cannot be done in place, so a pod is evicted."""
    stage = staged(mode="InPlaceOrRecreate", replicas=2)
    stage.recommend("999/- 200m/- 200m/-")
    assert evicts(stage, 180)


def crowded(mode: str) -> Stage:
    """Return a cluster with something else on each node, so that a whole node is too much."""
    stage = staged(mode=mode, replicas=2)
    others = owner("DaemonSet", 1, name="other")
    del others["spec"]["replicas"]
    stage.apply(others)
    stage.run(10)
    return stage


def test_act_04() -> None:
    """A resize that waits for room is waited for, then the pod is evicted."""
    stage = crowded("InPlaceOrRecreate")
    stage.recommend("8/- 200m/- 200m/-")
    assert not evicts(stage, 240)
    conditions = [item for pod in stage.pods() for item in pod["status"]["conditions"]]
    assert "Deferred" in [item.get("reason") for item in conditions]
    assert evicts(stage, 240)


def test_act_05() -> None:
    """One pod that fits nowhere is one too many; no other is evicted for it."""
    stage = staged()
    stage.recommend("9999/- = =")
    stage.run(300)
    phases = [found["status"]["phase"] for found in stage.pods()]
    assert phases.count("Pending") == 1
    stage.run(120)
    assert phases == [found["status"]["phase"] for found in stage.pods()]


@cases("mode resized", {"ACT-06": ("Off", 0), "ACT-07": ("Initial", 1)})
def test_modes_that_wait(mode: str, resized: int) -> None:
    """Off never changes a pod, Initial only new ones."""
    stage = staged(mode=mode)
    stage.recommend("200m/- = =")
    assert not evicts(stage, 180)
    stage.sandbox.cluster.delete(Ref(PODS, "default", stage.pods()[0]["metadata"]["name"]))
    stage.run(60)
    assert stage.requests().count("200m") == resized


@pytest.mark.parametrize("kind", KINDS)
@cases(
    "replicas policy evicted",
    {
        "ACT-08 to 13": (3, {}, True),
        "ACT-14 to 19": (1, {}, False),
        "ACT-20 to 25": (1, {"minReplicas": 1}, True),
    },
)
def test_all_controllers(kind: str, replicas: int, policy: Json, evicted: bool) -> None:
    """Whoever controls the pods, enough of them must be there."""
    stage = staged(kind=kind, replicas=replicas, policy=policy)
    stage.recommend("200m/- = =")
    assert evicts(stage, 60) is evicted


@pytest.mark.parametrize("mode", ["InPlaceOrRecreate", "InPlace"])
@cases(
    "restarts resized",
    {"nothing restarts": ({}, True), "it restarts": ({"cpu": "RestartContainer"}, False)},
)
def test_a_singleton(mode: str, restarts: Mapping[str, str], resized: bool) -> None:
    """With default flags it gets its size in place, where that restarts nothing; never evicted."""
    policy = [{"resourceName": name, "restartPolicy": word} for name, word in restarts.items()]
    item = app(resizePolicy=policy) if policy else app()
    stage = staged(kind="StatefulSet", replicas=1, containers=[item], mode=mode)
    stage.recommend("200m/- = =")
    uids = stage.uids()
    assert resizes(stage, 180) is resized
    assert stage.requests() == ["200m" if resized else "100m"]
    stage.recommend("900/- = =")
    stage.run(7200)
    assert (stage.uids(), stage.events("EvictedByVPA")) == (uids, [])
    assert stage.pods()[0]["status"]["containerStatuses"][0]["restartCount"] == 0


LIMITED: Final = container(
    "one", {"cpu": "100m", "memory": "200Mi"}, {"cpu": "300m", "memory": "400Mi"}
)


@cases(
    "containers cpu limits",
    {
        "ACT-27": (1, "200m", {"type": "Container", "max": {"cpu": "300m", "memory": "1T"}}),
        "ACT-28": (1, "50m", {"type": "Container", "min": {"cpu": "100m", "memory": "0"}}),
        "ACT-29": (2, "200m", {"type": "Pod", "max": {"cpu": "600m", "memory": "2T"}}),
        "ACT-30": (2, "50m", {"type": "Pod", "min": {"cpu": "200m", "memory": "0"}}),
    },
)
def test_limit_ranges(containers: int, cpu: str, limits: Json) -> None:
    """What a LimitRange caps to the present size is no reason to evict."""
    names = ("one", "two")[:containers]
    stage = Stage()
    stage.apply({
        "apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "limits"},
        "spec": {"limits": [limits]},
    })  # fmt: skip
    found = [LIMITED | {"name": name} for name in names]
    stage.apply(owner("Deployment", 3, *found), vpa())
    stage.run(30)
    stage.recommend("; ".join(f"{cpu}/- = = for {name}" for name in names))
    assert not evicts(stage, 180)


# --- promised by design papers


def set_mode(stage: Stage, mode: str, name: str = "web") -> None:
    """Change the mode of a VPA."""
    body = {"spec": {"updatePolicy": {"updateMode": mode}}}
    stage.sandbox.cluster.patch(Ref(VPAS, "default", name), body, kind=PatchKind.MERGE)


def test_sx_03() -> None:
    """A change of the mode is obeyed in the next round, there and back."""
    stage = staged(mode="UpscaleOnly", containers=(app(requests=LARGE),), replicas=6)
    stage.recommend("200m/200Mi = =")
    assert not evicts(stage, 120)
    set_mode(stage, "Recreate")
    assert evicts(stage, 61)
    set_mode(stage, "UpscaleOnly")
    assert not evicts(stage, 120)


def boosted(containers: Sequence[Json] = (), spec: Json | None = None) -> Stage:
    """Return a cluster whose pods start with three times the cpu that is recommended."""
    usual = {"startupBoost": {"cpu": {"type": "Factor", "factor": 3}}}
    containers = containers or (app(),)
    stage = Stage()
    stage.apply(vpa(spec=spec or usual))
    stage.recommend("; ".join(f"100m/100Mi = = for {item['name']}" for item in containers))
    stage.apply(owner("Deployment", 2, *containers))
    return stage


@pytest.mark.parametrize("names", [("app",), ("app", "second")])
def test_sx_15(names: tuple[str, ...]) -> None:
    """A boost of some containers, or of all, ends in place."""
    policies = [{"containerName": name, "startupBoost": {"cpu": {"type": "Factor", "factor": 3}}}
                for name in names]  # fmt: skip
    stage = boosted(
        spec={"resourcePolicy": {"containerPolicies": policies}},
        containers=(app("app"), app("second")),
    )
    stage.run(0.5)
    for index, name in enumerate(("app", "second")):
        assert stage.requests(container=index) == ["300m" if name in names else "100m"] * 2
    stage.run(20)
    assert stage.requests() == stage.requests(container=1) == ["100m", "100m"]


def test_sx_16() -> None:
    """A pod whose boost cannot be ended is never evicted for it, and is told of."""
    stage = boosted()
    stage.faults.order(Fault(Invalid("never"), "patch", PODS, subresource="resize", times=10_000))
    stage.run(1200)
    assert stage.requests() == ["300m", "300m"]
    assert set(stage.reasons()) == {"UnboostStuck"}
    assert stage.events("EvictedByVPA") == []
    assert len(stage.events("UnboostStuck")) == 2
    stage.faults.clear()
    stage.run(400)
    assert stage.requests() == ["100m", "100m"]


def test_sx_18() -> None:
    """A container that takes no part otherwise is boosted and unboosted all the same."""
    policy = {
        "containerName": "app",
        "mode": "Off",
        "startupBoost": {"cpu": {"type": "Quantity", "quantity": "2", "durationSeconds": 30}},
    }
    stage = boosted(spec={"resourcePolicy": {"containerPolicies": [policy]}})
    stage.run(5)
    assert stage.requests() == ["2100m", "2100m"]
    stage.run(60)
    assert stage.requests() == ["100m", "100m"]
    stage.recommend("900m/900Mi = =")
    stage.run(300)
    assert stage.requests() == ["100m", "100m"]


def test_sx_19() -> None:
    """A factor of one switches the boost off for a container."""
    policy = {"containerName": "second", "startupBoost": {"cpu": {"type": "Factor", "factor": 1}}}
    spec = {
        "startupBoost": {"cpu": {"type": "Factor", "factor": 3, "durationSeconds": 60}},
        "resourcePolicy": {"containerPolicies": [policy]},
    }
    stage = boosted(spec=spec, containers=(app("app"), app("second")))
    stage.run(5)
    assert stage.requests() == ["300m", "300m"]
    assert stage.requests(container=1) == ["100m", "100m"]


def test_sx_26() -> None:
    """The numbers move with what is done."""
    stage = staged(replicas=3)
    stage.recommend("200m/200Mi = =")
    stage.run(90)
    assert stage.metric("evicted_pods_total", vpa_name="web") >= 1
    assert stage.metric("controlled_pods_total", update_mode="Recreate") == 3
    assert stage.metric("execution_latency_seconds_count", step="EvictPods") >= 2
    assert stage.metric("pod_decisions") == 3


def test_sx_30() -> None:
    """In mode InPlace what a node cannot give is not asked for again, less of it is."""
    stage = staged(mode="InPlace", replicas=2)
    stage.recommend("999/100Mi 200m/100Mi 200m/100Mi")
    assert not evicts(stage, 600)
    tries = stage.metric("failed_in_place_update_attempts_total", reason="InPlaceUpdateInfeasible")
    assert tries == 2
    assert stage.metric("in_place_infeasible_skip_pods_total") > 2
    stage.recommend("1/100Mi = =")
    assert resizes(stage, 120)
    assert stage.requests() == ["1", "1"]
