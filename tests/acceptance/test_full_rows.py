"""Usage that grows, and pods that grow with it: all processes together."""

from __future__ import annotations

from app.model.fields import Json
from app.model.quantity import Quantity
from app.ports import VPAS
from tests.acceptance.rows import Rows, row_test
from tests.acceptance.space import APP, Box, boost, vpa
from tests.acceptance.stage import LOAD, Stage
from tests.acceptance.test_updating_rows import FAST, FLAGS

__all__ = ["FLAGS"]

WEBHOOK = True
# Confidence comes with history, of which minutes must do here.
CONFIDENT = ("--confidence-interval-cpu=30m", "--confidence-interval-memory=30m")
WORKERS = {"updater": FAST, "recommender": ("--feature-gates=AllAlpha=true", *CONFIDENT)}
ROWS = Rows()
test_row = row_test(ROWS)

TINY = Box(requests="10m/10Mi")
IDLE = "cpu: constant 5m, memory: constant 10Mi"
BUSY_CPU = "cpu: constant 600m, memory: constant 10Mi"
BUSY_MEMORY = "cpu: constant 5m, memory: constant 1024M"
LOW, HIGH = (0.0, 0.12), (0.5, 1.3)  # cores
SEED = "250m/200Mi"


def amounts(stage: Stage, resource: str, box: str = APP, app: str = APP) -> list[float]:
    """Return what each pod's container asks for, in cores or bytes."""
    return [
        Quantity.read((each["resources"].get("requests") or {}).get(resource, "0")).nano / 1e9
        for pod in stage.pods(app)
        for each in pod["spec"]["containers"]
        if each["name"] == box
    ]


def are_within(low: float, high: float, found: list[float]) -> bool:
    """Say whether there are amounts, all of them in a range."""
    return bool(found) and all(low <= amount <= high for amount in found)


def reaches(
    stage: Stage,
    low: float,
    high: float,
    resource: str = "cpu",
    *,
    box: str = APP,
    app: str = APP,
    load: str = "",
) -> None:
    """All pods come to ask for an amount in a range; those that come meanwhile get the load."""

    def look() -> bool:
        if load:
            stage.burden(load, app)
        return are_within(low, high, amounts(stage, resource, box, app))

    stage.eventually(look, f"{low} <= {resource} <= {high}", seconds=400)


@ROWS.row("F-01", "F-02", "F-03", "F-04", "F-05")
def growing(stage: Stage) -> None:
    """Requests follow usage."""
    stage.start(TINY, replicas=2, annotations={LOAD: IDLE})
    mode = "InPlaceOrRecreate" if stage.name in ("F-01", "F-02") else "Recreate"
    spec: Json = {"recommenders": [{"name": "default"}]} if stage.name == "F-05" else {}
    stage.vpa(mode, recommended=SEED, **spec)
    if stage.name in ("F-02", "F-04"):
        reaches(stage, 0, 300 * 2**20, "memory")
        reaches(stage, 900 * 2**20, 4000 * 2**20, "memory", load=BUSY_MEMORY)
    else:
        reaches(stage, *LOW)
        reaches(stage, *HIGH, load=BUSY_CPU)


@ROWS.row("F-06")
def unknown_recommender(stage: Stage) -> None:
    """A VPA of another recommender is left as it is; one of ours beside it is not."""
    stage.start(TINY, replicas=2, annotations={LOAD: IDLE})
    stage.start(TINY, replicas=2, annotations={LOAD: IDLE}, name="control")
    stage.vpa("Recreate", recommended=SEED, recommenders=[{"name": "unknown"}])
    stage.vpa("Recreate", name="control", target="control")
    seeded = stage.admin.get(VPAS, stage.space.name, "vpa")["status"]
    stage.burden(BUSY_CPU)
    reaches(stage, *HIGH, app="control", load=BUSY_CPU)
    assert stage.admin.get(VPAS, stage.space.name, "vpa")["status"] == seeded
    assert all(amount < HIGH[0] for amount in amounts(stage, "cpu"))


def times_twenty(seconds: int) -> Json:
    """Return the spec of a VPA whose pods start with twenty times the cpu."""
    return boost(type="Factor", factor=20, durationSeconds=seconds)


@ROWS.row("F-07")
def boosted(stage: Stage) -> None:
    """A pod starts with much cpu, and gets along with little later."""
    stage.vpa("InPlaceOrRecreate", **times_twenty(20))
    stage.start(TINY, replicas=0, annotations={LOAD: IDLE})
    stage.scale(1)
    assert are_within(0.18, 0.22, amounts(stage, "cpu"))
    before = stage.uids()
    reaches(stage, *LOW)
    assert stage.uids() == before


@ROWS.row("F-08", "F-09")
def boosted_containers(stage: Stage) -> None:
    """Each container is boosted as its own policy says, and as long."""
    durations = {APP: 20} if stage.name == "F-08" else {APP: 20, "hamster2": 60}
    policies = [
        {"containerName": name, **times_twenty(seconds)} for name, seconds in durations.items()
    ]
    stage.vpa("InPlaceOrRecreate", resourcePolicy={"containerPolicies": policies})
    second = Box("hamster2", "20m/10Mi")
    stage.start(TINY, second, replicas=0, annotations={LOAD: IDLE})
    stage.scale(1)
    assert are_within(0.18, 0.22, amounts(stage, "cpu"))
    is_second = "hamster2" in durations
    low, high = (0.38, 0.42) if is_second else LOW
    assert are_within(low, high, amounts(stage, "cpu", "hamster2"))
    before = stage.uids()
    reaches(stage, *LOW)
    if is_second:
        assert are_within(low, high, amounts(stage, "cpu", "hamster2"))
    reaches(stage, *LOW, box="hamster2")
    assert stage.uids() == before


@ROWS.row("F-10")
def out_of_memory(stage: Stage) -> None:
    """Pods that are killed for memory come to have enough; the target's group may be wrong."""
    needy = {LOAD: "memory: constant 1025Mi"}
    stage.start(Box(requests="/1Gi", limits="/1Gi"), annotations=needy, ready=False)
    item = vpa()
    item["spec"]["targetRef"]["apiVersion"] = "v1"
    stage.space.create(item)
    reaches(stage, 1400 * 2**20, 10_000 * 2**20, "memory")
