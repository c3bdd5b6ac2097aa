"""HPAs beside VPAs: the real HPA controller and metrics-server, and all three processes."""

from __future__ import annotations

import json
import shlex
import time
from typing import Final

from app.model.fields import Json
from app.ports import DEPLOYMENTS, HPAS, SCALED_OBJECTS, VPAS
from tests import make
from tests.acceptance.cluster import kubectl, plumbline
from tests.acceptance.definitions import install
from tests.acceptance.gadgets import GADGETS, gadget
from tests.acceptance.gadgets import install as install_gadgets
from tests.acceptance.rows import Rows, row_test
from tests.acceptance.space import (
    APP,
    SMALL,
    Box,
    annotation,
    boxes_of,
    canonical,
    item_of,
    workload,
)
from tests.acceptance.stage import LOAD, Stage
from tests.acceptance.test_updating_rows import FAST, FLAGS, GATES

__all__ = ["FLAGS"]

WEBHOOK = True
WORKERS = {"updater": FAST, "recommender": (GATES,)}
ROWS = Rows()
test_row = row_test(ROWS)

SEEDED: Final[Json] = {"recommenders": [{"name": "nobody"}]}  # what is recommended, a row says
TARGET: Final = f"apps/v1/Deployment/{APP}"
BY_CPU: Final = make.metric_json("cpu", 90)
NAMED: Final = f"HorizontalPodAutoscaler/{APP}"
SOON_SECONDS: Final = 60.0  # in which what is separated is released
LINGER_SECONDS: Final = 300.0  # for which a deleted HPA counts


def scale(stage: Stage, *metrics: Json, most: int = 4) -> None:
    """Let the workload be scaled by its HPA."""
    found = make.hpa_json(*metrics, target=TARGET, least=2, most=most)
    stage.space.create(item_of(HPAS, APP, spec=found["spec"]))


def scaled(stage: Stage, *metrics: Json) -> None:
    """Start a workload that is scaled."""
    stage.start(replicas=2)
    scale(stage, *metrics)


def stays(stage: Stage) -> None:
    """Nothing is done about the cpu of any pod, and why is told."""
    stage.quiet()
    assert stage.requests() == ["100m", "100m"]
    assert stage.reasons() == {"ScaledHorizontally"}


def separate(stage: Stage) -> None:
    """Run the command that is printed for the VPA."""
    words = ("explain", "vpa/vpa", "-n", stage.space.name, "-o", "json")
    (problem,) = json.loads(plumbline(stage.cluster.kubeconfig, *words).stdout)["problems"]
    kubectl(stage.cluster, *shlex.split(problem["fix"])[1:])


def released(stage: Stage, seconds: float = SOON_SECONDS) -> None:
    """The cpu comes to be as recommended."""
    stage.eventually(lambda: stage.requests() == ["200m", "200m"], "all have 200m", seconds)


@ROWS.row("HPA-01")
def held_at_admission(stage: Stage) -> None:
    """New pods get the memory that is recommended, and the cpu of their template."""
    scaled(stage, BY_CPU)
    stage.vpa("Initial", recommended="200m/200Mi", **SEEDED)
    told = f"cpu held: {NAMED} scales by it"
    stage.sizes(told)
    for pod in stage.space.replaced_pods(2):
        assert boxes_of(pod) == (canonical(Box(requests="100m/200Mi")),)
        assert told in annotation(pod, "vpaUpdates")


@ROWS.row("HPA-02", "HPA-03")
def held_by_the_updater(stage: Stage) -> None:
    """Pods are neither evicted nor resized for their cpu."""
    scaled(stage, BY_CPU)
    mode = "Recreate" if stage.name == "HPA-02" else "InPlaceOrRecreate"
    stage.vpa(mode, recommended="200m/", **SEEDED)
    stays(stage)


@ROWS.row("HPA-04")
def memory_goes_on(stage: Stage) -> None:
    """The memory beside a held cpu is resized in place."""
    scaled(stage, BY_CPU)
    stage.vpa("InPlaceOrRecreate", recommended="200m/200Mi", **SEEDED)
    stage.resizes(Box(requests="100m/200Mi"))


@ROWS.row("HPA-05")
def both_act(stage: Stage) -> None:
    """The HPA adds pods, which have their own cpu and the memory that they need; the VPA tells."""
    stage.start(replicas=2, annotations={LOAD: "cpu: constant 150m, memory: constant 300Mi"})
    scale(stage, BY_CPU, most=3)
    stage.vpa("Recreate")
    stage.wait_ready(3)

    def is_sized() -> bool:
        found = [boxes_of(pod)[0].requests.split("/") for pod in stage.pods()]
        return all(cpu == "100m" and int(memory) >= 300 * 2**20 for cpu, memory in found)

    stage.eventually(is_sized, "memory is sized, and cpu is not", seconds=400)
    assert stage.space.recommended()[APP]["target"]["cpu"] != "100m"
    conditions = stage.admin.get(VPAS, stage.space.name, "vpa")["status"]["conditions"]
    (told,) = (one["message"] for one in conditions if one["type"] == "ScaledHorizontally")
    assert f"{NAMED} adds replicas above 90% of the pod's cpu request" in told


@ROWS.row("HPA-06")
def scales_by_an_amount(stage: Stage) -> None:
    """After the printed command an HPA scales at the same amount, and the cpu is sized soon."""
    scaled(stage, BY_CPU)
    stage.vpa("InPlaceOrRecreate", recommended="200m/", **SEEDED)
    stays(stage)
    separate(stage)
    released(stage)
    (metric,) = stage.admin.get(HPAS, stage.space.name, APP)["spec"]["metrics"]
    assert metric["resource"]["target"] == {"type": "AverageValue", "averageValue": "90m"}


@ROWS.row("HPA-07")
def deleted(stage: Stage) -> None:
    """A deleted HPA counts for five minutes; one that is created again meanwhile was never gone."""
    scaled(stage, BY_CPU)
    stage.vpa("InPlaceOrRecreate", recommended="200m/", **SEEDED)
    stage.admin.delete(HPAS, stage.space.name, APP)
    stays(stage)
    scale(stage, BY_CPU)
    stays(stage)
    stage.admin.delete(HPAS, stage.space.name, APP)
    since = time.monotonic()
    released(stage, LINGER_SECONDS + SOON_SECONDS)
    assert time.monotonic() - since >= LINGER_SECONDS


@ROWS.row("HPA-08")
def one_container(stage: Stage) -> None:
    """What scales by one container leaves the others to the VPA."""
    sidecar = Box("hamster2", "100m/100Mi")
    stage.start(SMALL, sidecar, replicas=2)
    scale(stage, make.metric_json("cpu", 90, APP))
    stage.vpa("InPlaceOrRecreate", **SEEDED)
    stage.recommend("200m/", more={sidecar.name: "200m/"})
    stage.resizes(SMALL, Box(sidecar.name, "200m/100Mi"))


@ROWS.row("HPA-09")
def keda(stage: Stage) -> None:
    """A ScaledObject holds as its HPA would, until the printed command was run."""
    install(stage.admin, [make.scaled_objects_definition_json()])
    stage.start(replicas=2)
    trigger = {"type": "cpu", "metricType": "Utilization", "metadata": {"value": "90"}}
    found = make.scaled_object_json(trigger, target=TARGET)
    stage.space.create(item_of(SCALED_OBJECTS, APP, spec=found["spec"]))
    watched = 'watch_last_event_age_seconds{resource="scaledobjects"}'
    stage.eventually(lambda: watched in stage.updater.page("/metrics"), "the kind is watched")
    stage.vpa("InPlaceOrRecreate", recommended="200m/", **SEEDED)
    stays(stage)
    separate(stage)
    released(stage)
    (changed,) = stage.admin.get(SCALED_OBJECTS, stage.space.name, APP)["spec"]["triggers"]
    assert changed == {**trigger, "metricType": "AverageValue", "metadata": {"value": "90m"}}


@ROWS.row("HPA-10")
def what_the_target_owns(stage: Stage) -> None:
    """A VPA of a custom kind is held by an HPA on the Deployment that this kind owns."""
    install_gadgets(stage.admin)
    owner = stage.space.create(gadget())
    status = {"replicas": 2, "selector": f"app={APP}"}
    stage.admin.merge(GADGETS, stage.space.name, APP, {"status": status}, "status")
    made = workload("Deployment", [SMALL], replicas=2)
    reference = {"apiVersion": GADGETS.api_version, "kind": GADGETS.kind, "name": APP}
    uid = owner["metadata"]["uid"]
    made["metadata"]["ownerReferences"] = [{**reference, "uid": uid, "controller": True}]
    stage.space.create(made)
    stage.wait_ready(2)
    scale(stage, BY_CPU)
    stage.vpa("InPlaceOrRecreate", kind=GADGETS.kind, recommended="200m/", **SEEDED)
    stays(stage)
    separate(stage)
    released(stage)
    assert stage.admin.find(DEPLOYMENTS, stage.space.name, APP) is not None
