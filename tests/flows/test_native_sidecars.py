"""Native sidecars: recommended for, sized, resized, boosted and brought back as containers are."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from app.flags.command_line import parse
from app.model.quantity import Quantity
from app.ports import PODS, VPAS, Json, Ref
from app.run.view import ActivityKind
from app.updater.flags import UpdaterSettings
from tests import make
from tests.flows.autoscaler import (
    MINUTE,
    NAMESPACE,
    Autoscaler,
    autoscaler,
    in_memory,
    vpa,
    workload,
)

LOAD = "noise: 0, cpu: constant 80m, memory: constant 200Mi"
OFF = "--native-sidecars=false"


def policy(mode: str) -> Json:
    """Return a policy for workloads of a single pod."""
    return {"updateMode": mode, "minReplicas": 1}


def proxied() -> Json:
    """Return a workload whose pods have an init container and a native sidecar."""
    found = workload(load=LOAD, replicas=1)
    resources = {"requests": {"cpu": "10m", "memory": "20Mi"}}
    setup = make.container_json("setup", image="setup:1", resources=resources)
    proxy = make.container_json(
        "proxy", image="proxy:1", resources=resources, restartPolicy="Always"
    )
    found["spec"]["template"]["spec"]["initContainers"] = [setup, proxy]
    return found


def sidecar(cluster: Autoscaler) -> Json:
    """Return the sidecar of the pod."""
    found: Json = cluster.pods()[0]["spec"]["initContainers"][1]
    return found


def cpu(container: Json) -> int:
    """Return what a container requests, in millicores."""
    return Quantity.parse(container["resources"]["requests"]["cpu"]).milli


def targets(cluster: Autoscaler) -> dict[str, int]:
    """Return the recommended cpu by container, in millicores."""
    status = cluster.world.sandbox.cluster.get(Ref(VPAS, NAMESPACE, "web"))["status"]
    return {
        one["containerName"]: Quantity.parse(one["target"]["cpu"]).milli
        for one in status["recommendation"]["containerRecommendations"]
    }


def recreate(cluster: Autoscaler) -> None:
    """Let the pod be replaced."""
    name = cluster.pods()[0]["metadata"]["name"]
    cluster.world.sandbox.cluster.delete(Ref(PODS, NAMESPACE, name))


def test_resized_in_place() -> None:
    """A sidecar that needs more gets it without a restart, and others of its list nothing."""
    with autoscaler(vpa(updatePolicy=policy("InPlaceOrRecreate")), proxied()) as cluster:
        cluster.run(5)
        uid = cluster.pods()[0]["metadata"]["uid"]
        cluster.run(5 * MINUTE)
        found = targets(cluster)
        pod = cluster.pods()[0]
        setup, proxy = pod["spec"]["initContainers"]
        status = pod["status"]["initContainerStatuses"][1]

        assert found.keys() == {"app", "proxy"}
        assert (cpu(setup), cpu(proxy)) == (10, found["proxy"])
        assert pod["metadata"]["uid"] == uid
        assert (status["name"], status["restartCount"]) == ("proxy", 0)
        assert cpu(status) == found["proxy"]


def test_sized_boosted_and_brought_back() -> None:
    """A pod that is created has a sidecar of the size that is recommended, boosted at the start."""
    boost = {"cpu": {"type": "Factor", "factor": 3, "duration": "30s"}}
    with autoscaler(vpa(mode="Initial", startupBoost=boost), proxied()) as cluster:
        cluster.run(5 * MINUTE)
        recreate(cluster)
        cluster.run(10)
        annotations = cluster.pods()[0]["metadata"]["annotations"]
        boosted, wanted = cpu(sidecar(cluster)), 3 * targets(cluster)["proxy"]
        cluster.run(MINUTE)
        back = cluster.pods()[0]

        assert boosted == wanted
        assert annotations["vpaObservedContainers"] == "app, proxy"
        assert "vpaCpuStartupBoost/proxy" in annotations
        assert "vpaCpuStartupBoost/setup" not in annotations
        assert cpu(sidecar(cluster)) == targets(cluster)["proxy"]
        assert not any(key.startswith("vpaCpu") for key in back["metadata"]["annotations"])
        assert back["status"]["initContainerStatuses"][1]["restartCount"] == 0


def test_evicted_for_its_sidecar() -> None:
    """Where pods are not resized, one whose sidecar is too small is recreated with a larger one."""
    found = proxied()
    found["spec"]["replicas"] = 2
    with autoscaler(vpa(mode="Recreate"), found) as cluster:
        cluster.run(10 * MINUTE)

        assert cluster.events("EvictedByVPA")
        assert {cpu(pod["spec"]["initContainers"][1]) for pod in cluster.pods()} == {
            targets(cluster)["proxy"]
        }


@pytest.mark.parametrize("mode", ["InPlaceOrRecreate", "Recreate"])
def test_left_alone(mode: str) -> None:
    """One flag, told to all three, turns all of it off."""
    boost = {"cpu": {"type": "Factor", "factor": 3}}
    found = vpa(startupBoost=boost, updatePolicy=policy(mode))
    with autoscaler(found, proxied(), flags=[OFF]) as cluster:
        cluster.run(5 * MINUTE)
        recreate(cluster)
        cluster.run(5 * MINUTE)
        annotations = cluster.pods()[0]["metadata"]["annotations"]

        assert targets(cluster).keys() == {"app"}
        assert cpu(sidecar(cluster)) == 10
        assert annotations["vpaObservedContainers"] == "app"


def test_the_flag_of_one_process() -> None:
    """It is the same flag for all of them."""
    assert not parse(UpdaterSettings, [OFF], {}).deciding.native_sidecars


def test_the_feed_names_containers_where_there_are_several(tmp_path: Path) -> None:
    """The activities of `plumbline run` say which container a boost gave more to."""
    path = tmp_path / "objects.jsonl"
    boosting = vpa(startupBoost=make.boost_json(factor=3))
    path.write_bytes(b"\n".join(map(orjson.dumps, (proxied(), boosting))))
    with in_memory(path, "--feature-gates=CPUStartupBoost=true") as mode:
        mode.advance(30)
        (told,) = {one.why for one in mode.feed.news() if one.kind is ActivityKind.BOOST}

    assert told == "app cpu 100m -> 300m, proxy cpu 10m -> 30m"
