"""Beside an HPA on the same resource: that resource stays as it is until the two are separated."""

from __future__ import annotations

import re

import orjson
import pytest
import yaml

from app.ports import (
    CHECKPOINTS,
    DEPLOYMENTS,
    HPAS,
    PODS,
    SCALED_OBJECTS,
    VPAS,
    Json,
    PatchKind,
    Ref,
)
from tests import make
from tests.cases import cases
from tests.flows.autoscaler import MINUTE, NAMESPACE, Autoscaler, autoscaler, vpa, workload
from tests.test_docs import BLOCK, ROOT

LOAD = "noise: 0, cpu: constant 300m, memory: constant 300Mi"
CPU_70 = make.metric_json("cpu", 70)
TARGET = "Deployment/web"
MODES = ["Recreate", "InPlaceOrRecreate"]


def hpa(*metrics: Json, least: int = 1, most: int = 10) -> Json:
    """Return an HPA on the workload."""
    return make.hpa_json(*metrics, namespace=NAMESPACE, target=TARGET, least=least, most=most)


def scaled_object(**annotations: str) -> Json:
    """Return a ScaledObject on the workload, by the share of its cpu."""
    trigger = {"type": "cpu", "metricType": "Utilization", "metadata": {"value": "70"}}
    return make.scaled_object_json(
        trigger, namespace=NAMESPACE, target=TARGET, annotations=annotations
    )


def small() -> Json:
    """Return a workload whose pods ask for far less than they use."""
    found = workload(load=LOAD, replicas=2)
    found["spec"]["template"]["spec"]["containers"][0]["resources"] = {
        "requests": {"cpu": "100m", "memory": "100Mi"}
    }
    return found


def recreate(cluster: Autoscaler) -> None:
    """Let all pods be replaced."""
    for pod in cluster.pods():
        cluster.world.sandbox.cluster.delete(Ref(PODS, NAMESPACE, pod["metadata"]["name"]))
    cluster.run(10)


def release(cluster: Autoscaler) -> None:
    """Let the HPA scale by an amount."""
    body = {"spec": {"metrics": [make.metric_json("cpu", "70m")]}}
    cluster.world.sandbox.cluster.patch(Ref(HPAS, NAMESPACE, "web"), body, kind=PatchKind.MERGE)


def condition(cluster: Autoscaler) -> str:
    """Return what the VPA says of being held, empty if it is not."""
    status = cluster.world.sandbox.cluster.get(Ref(VPAS, NAMESPACE, "web"))["status"]
    found = {one["type"]: one["message"] for one in status["conditions"] if one.get("message")}
    return str(found.get("ScaledHorizontally", ""))


def sized(cluster: Autoscaler, resource: str) -> bool:
    """Whether all pods ask for what is recommended."""
    return set(cluster.requests(resource)) == {cluster.target("web")[resource]}


@pytest.mark.parametrize("mode", MODES)
def test_held_by_webhook_and_updater(mode: str) -> None:
    """CPU is recommended and stays; memory is sized, in running pods and in new ones."""
    with autoscaler(vpa(mode=mode), small(), hpa(CPU_70)) as cluster:
        cluster.run(30 * MINUTE)
        assert cluster.target("web")["cpu"] != "100m"
        assert set(cluster.requests("cpu")) == {"100m"}
        assert sized(cluster, "memory")
        recreate(cluster)
        assert set(cluster.requests("cpu")) == {"100m"}
        assert sized(cluster, "memory")
        (told,) = {pod["metadata"]["annotations"]["vpaUpdates"] for pod in cluster.pods()}
        assert "cpu held: HorizontalPodAutoscaler/web scales by it" in told
        cluster.run(2 * MINUTE)
        assert cluster.reasons("web") == {"ScaledHorizontally"}
        assert condition(cluster) == (
            "Not changed by this VPA: HorizontalPodAutoscaler/web adds replicas above 70% of "
            "the pod's cpu request"
        )


@pytest.mark.parametrize("mode", MODES)
def test_released_by_the_patch(mode: str) -> None:
    """Once the HPA scales by an amount, all is sized: within a minute, with nothing else done."""
    with autoscaler(vpa(mode=mode), small(), hpa(CPU_70)) as cluster:
        cluster.run(30 * MINUTE)
        release(cluster)
        cluster.run(MINUTE)
        assert condition(cluster) == ""
        assert cluster.reasons("web") != {"ScaledHorizontally"}
        cluster.run(15 * MINUTE)
        assert sized(cluster, "cpu")


def test_released_after_a_deletion() -> None:
    """A deleted HPA may be created again: only after five minutes it counts as gone."""
    with autoscaler(vpa(mode="InPlaceOrRecreate"), small(), hpa(CPU_70)) as cluster:
        cluster.run(30 * MINUTE)
        cluster.world.sandbox.cluster.delete(Ref(HPAS, NAMESPACE, "web"))
        cluster.run(4 * MINUTE)
        assert set(cluster.requests("cpu")) == {"100m"}
        cluster.apply(hpa(CPU_70))
        cluster.run(4 * MINUTE)
        assert set(cluster.requests("cpu")) == {"100m"}
        cluster.world.sandbox.cluster.delete(Ref(HPAS, NAMESPACE, "web"))
        cluster.run(7 * MINUTE)
        assert sized(cluster, "cpu")


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(hpa(make.metric_json("cpu", "70m")), id="an amount"),
        pytest.param(hpa(CPU_70, least=3, most=3), id="a fixed number of replicas"),
        pytest.param(
            make.hpa_json(CPU_70, namespace=NAMESPACE, target="Deployment/x"), id="another target"
        ),
        pytest.param(make.hpa_json(CPU_70, target=TARGET), id="another namespace"),
        pytest.param(hpa(make.metric_json("cpu", 70, "side")), id="another container"),
    ],
)
def test_not_coupled(other: Json) -> None:
    """What does not scale this workload by a share of this request holds nothing."""
    with autoscaler(vpa(mode="InPlaceOrRecreate"), small(), other) as cluster:
        cluster.run(10 * MINUTE)
        assert sized(cluster, "cpu")


def test_a_vpa_that_leaves_the_resource_alone() -> None:
    """Beside an HPA on cpu a VPA of memory alone has nothing that is held, and says so."""
    policy = make.policy_json(container="*", controlledResources=["memory"])
    found = vpa(mode="InPlaceOrRecreate", resourcePolicy={"containerPolicies": [policy]})
    with autoscaler(found, small(), hpa(CPU_70)) as cluster:
        cluster.run(10 * MINUTE)
        assert sized(cluster, "memory")
        assert set(cluster.requests("cpu")) == {"100m"}
        assert condition(cluster) == ""


def test_upstreams_way() -> None:
    """With --horizontal=ignore, told to all three, both act on the same resource."""
    flags = ["--horizontal=ignore"]
    with autoscaler(vpa(mode="InPlaceOrRecreate"), small(), hpa(CPU_70), flags=flags) as cluster:
        cluster.run(10 * MINUTE)
        assert sized(cluster, "cpu")
        assert condition(cluster) == ""
        recreate(cluster)
        (told,) = {pod["metadata"]["annotations"]["vpaUpdates"] for pod in cluster.pods()}
        assert "held" not in told


def test_the_page_shows_what_its_commands_make() -> None:
    """Each command that is printed is accepted, and what it makes is what is shown below."""
    page = (ROOT / "docs" / "with-hpa.md").read_text("utf-8")
    items = yaml.safe_load_all((ROOT / "docs" / "examples" / "with-hpa.yaml").read_text("utf-8"))
    commands = re.findall(r"kubectl -n shop patch (\w+) (\w+) --type=json -p '(.*)'", page)
    resources = {"hpa": HPAS, "scaledobject": SCALED_OBJECTS}
    made = []
    with autoscaler(make.scaled_objects_definition_json(), *items) as cluster:
        for kind, name, patch in commands:
            ref = Ref(resources[kind], NAMESPACE, name)
            spec = cluster.world.sandbox.cluster.patch(ref, orjson.loads(patch))["spec"]
            made.append({key: spec[key] for key in ("metrics", "triggers") if key in spec})
    shown = [yaml.safe_load(body) for language, body in BLOCK.findall(page) if language == "yaml"]
    assert made == shown


def test_keda() -> None:
    """A ScaledObject couples as soon as its kind is served and it is there, but while paused."""
    with autoscaler(vpa(mode="InPlaceOrRecreate"), small()) as cluster:
        cluster.apply(make.scaled_objects_definition_json(), scaled_object())
        cluster.run(10 * MINUTE)
        assert set(cluster.requests("cpu")) == {"100m"}
        paused = {"metadata": {"annotations": {"autoscaling.keda.sh/paused": "true"}}}
        ref = Ref(SCALED_OBJECTS, NAMESPACE, "web")
        cluster.world.sandbox.cluster.patch(ref, paused, kind=PatchKind.MERGE)
        cluster.run(10 * MINUTE)
        assert sized(cluster, "cpu")


def scale(cluster: Autoscaler, replicas: int) -> None:
    """Want so many pods."""
    body = {"spec": {"replicas": replicas}}
    ref = Ref(DEPLOYMENTS, NAMESPACE, "web")
    cluster.world.sandbox.cluster.patch(ref, body, kind=PatchKind.MERGE)


def learned(cluster: Autoscaler) -> int:
    """Return from how many samples the recommendation is made."""
    (found,) = cluster.world.sandbox.cluster.list(CHECKPOINTS, NAMESPACE).items
    return int(found["status"]["totalSamplesCount"])


def test_history_outlives_scaling() -> None:
    """Scaled to zero over night and to many in the morning, a workload is as well known."""
    with autoscaler(vpa(mode="InPlaceOrRecreate"), small(), hpa(CPU_70)) as cluster:
        cluster.run(60 * MINUTE)
        target = cluster.target("web")
        scale(cluster, 0)
        cluster.run(10 * MINUTE)
        samples = learned(cluster)
        cluster.run(8 * 60 * MINUTE)
        assert cluster.pods() == []
        assert (cluster.target("web"), learned(cluster)) == (target, samples)
        scale(cluster, 9)
        cluster.run(MINUTE)
        assert len(cluster.pods()) >= 9
        assert set(cluster.requests("memory")) == {target["memory"]}
        cluster.run(30 * MINUTE)
        assert learned(cluster) > samples
        assert cluster.target("web") == target


@cases(
    "window stays",
    {"as long as an HPA looks back by default": (300, True), "none": (0, False)},
)
def test_a_boost_after_ready(window: int, stays: bool) -> None:
    """It makes pods look idle; an HPA that looks back for longer than it lasts removes none."""
    boost = {"cpu": {"type": "Factor", "factor": 5, "duration": "60s"}}
    found = workload(load="noise: 0, cpu: constant 600m, shared: cpu", replicas=4)
    found["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "200m"}}
    scaled = hpa(CPU_70)
    scaled["spec"]["behavior"] = {"scaleDown": {"stabilizationWindowSeconds": window}}
    with autoscaler(vpa(mode="Initial", startupBoost=boost), found, scaled) as cluster:
        cluster.run(10 * MINUTE)
        before = len(cluster.pods())
        recreate(cluster)
        assert set(cluster.requests("cpu")) == {"1"}
        counts = []
        for _ in range(12):
            cluster.run(10)
            counts.append(len(cluster.pods()))
        assert (min(counts) >= before) is stays
        cluster.run(10 * MINUTE)
        assert set(cluster.requests("cpu")) == {"200m"}
        assert len(cluster.pods()) == before


def test_a_boost_beside_an_hpa() -> None:
    """A held cpu is boosted for the start, and goes back to what its author asked for."""
    boost = {"cpu": {"type": "Factor", "factor": 3, "duration": "30s"}}
    items = vpa(mode="InPlaceOrRecreate", startupBoost=boost), small(), hpa(CPU_70)
    with autoscaler(*items) as cluster:
        cluster.run(10 * MINUTE)
        recreate(cluster)
        assert set(cluster.requests("cpu")) == {"300m"}
        cluster.run(2 * MINUTE)
        assert set(cluster.requests("cpu")) == {"100m"}
