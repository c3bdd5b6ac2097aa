"""What is recommended for pods whose usage a real metrics-server tells; nothing is updated."""

from __future__ import annotations

from app.model.fields import Json
from app.model.quantity import Quantity
from app.ports import CHECKPOINTS, VPAS
from tests.acceptance.rows import Rows, row_test
from tests.acceptance.space import APP, SMALL, Box, item_of, policy
from tests.acceptance.stage import LOAD, Stage
from tests.acceptance.worker import Worker
from tests.cluster.programs import during

QUICK = ("--feature-gates=AllAlpha=true", "--checkpoints-gc-interval=5s")
WORKERS = {"recommender": QUICK}
ROWS = Rows()
test_row = row_test(ROWS)

TWO = (SMALL, Box("hamster2", "100m/100Mi"))
FIRST_OFF: Json = {
    "resourcePolicy": {
        "containerPolicies": [
            {"containerName": APP, "mode": "Off"},
            {"containerName": "hamster2", "mode": "Auto"},
        ]
    }
}
WATCHED_SECONDS = 60.0


def recommended(stage: Stage) -> dict[str, Json]:
    """Return the recommendation for each container, as soon as there is one."""
    stage.eventually(lambda: stage.space.recommended(), "a recommendation")
    return stage.space.recommended()


def cpu(found: Json, member: str = "target") -> float:
    """Return an amount of cpu in cores."""
    return Quantity.read(found[member]["cpu"]).nano / 1e9


def memory(found: Json, member: str = "target") -> float:
    """Return an amount of memory in MiB."""
    return Quantity.read(found[member]["memory"]).nano / 1e9 / 2**20


@ROWS.row("RE-01", "GI-01")
def orphans(stage: Stage) -> None:
    """A checkpoint of a VPA that does not exist goes."""
    spec = {"vpaObjectName": "nobody", "containerName": APP}
    stage.space.create(item_of(CHECKPOINTS, "orphan", spec=spec))
    stage.eventually(
        lambda: stage.admin.find(CHECKPOINTS, stage.space.name, "orphan") is None,
        "the checkpoint goes",
        seconds=30,
    )


@ROWS.row("RE-02", "RE-03")
def first_recommendation(stage: Stage) -> None:
    """A VPA gets a recommendation, whoever controls the pods."""
    kind, replicas = ("CronJob", 3) if stage.name == "RE-02" else ("Deployment", 1)
    stage.vpa(kind=kind)
    stage.start(kind=kind, replicas=replicas)
    assert recommended(stage)[APP]["target"].keys() == {"cpu", "memory"}


@ROWS.row("RE-04", alone=True)
def restarts_change_little(stage: Stage) -> None:
    """After a restart no recommendation disappears, and no bound moves away from the target."""
    worker = recommending(stage)
    before = recommended(stage)[APP]
    worker.program.kill()
    worker.restart()
    seen = [before]

    def look() -> None:
        found = recommended(stage)[APP]
        for amount in (cpu, memory):
            assert amount(found, "lowerBound") >= amount(seen[-1], "lowerBound")
            assert amount(found, "upperBound") <= amount(seen[-1], "upperBound")
        if found != seen[-1]:
            seen.append(found)

    during(WATCHED_SECONDS, look)
    assert len(seen) > 1, "it goes on"


@ROWS.row("RE-05", alone=True)
def restarts_forget_nothing(stage: Stage) -> None:
    """After a restart a checkpoint goes on where it was."""

    def checkpoint() -> Json:
        (found,) = stage.admin.list(CHECKPOINTS, stage.space.name) or ({"status": {}},)
        status: Json = found.get("status") or {}
        return status

    worker = recommending(stage)
    recommended(stage)
    seen = []
    for _ in range(3):
        worker.wait_rounds(25)  # in which two or more samples come
        assert worker.stop() == 0
        seen.append(checkpoint())
        worker.restart()
    first, second, third = seen
    assert first["totalSamplesCount"] < second["totalSamplesCount"] < third["totalSamplesCount"]
    assert first["firstSampleStart"] == third["firstSampleStart"]
    assert first["lastUpdateTime"] < third["lastUpdateTime"]


def recommending(stage: Stage) -> Worker:
    """Start a recommender of the row's own, and something to recommend for."""
    found = stage.worker("recommender", *QUICK)
    stage.vpa()
    stage.start(replicas=1)
    return found


@ROWS.row("RE-06", "RE-07")
def allowed(stage: Stage) -> None:
    """What is allowed caps the target, and the uncapped target tells what it would be."""
    is_least = stage.name == "RE-06"
    bounds = {"minAllowed": {"cpu": "10000"}} if is_least else {"maxAllowed": {"cpu": "1m"}}
    stage.vpa(**policy(**bounds))
    stage.start(replicas=1)
    found = recommended(stage)[APP]
    if is_least:
        assert cpu(found) >= 10 > cpu(found, "uncappedTarget")
    else:
        assert cpu(found) <= 0.001 < cpu(found, "uncappedTarget")


@ROWS.row("RE-08", "RE-09")
def containers(stage: Stage) -> None:
    """Each container has a recommendation, but for those that are switched off."""
    stage.vpa(**(FIRST_OFF if stage.name == "RE-09" else {}))
    stage.start(*TWO, replicas=1)
    names = {"hamster2"} if stage.name == "RE-09" else {APP, "hamster2"}
    stage.eventually(lambda: recommended(stage).keys() == names, f"recommendations for {names}")


@ROWS.row("RE-10")
def own_bump(stage: Stage) -> None:
    """A kill for memory raises the target as much as the VPA says."""
    stage.vpa("Off", **policy(oomBumpUpRatio="3"))
    leaking = {LOAD: "memory: leaking 900Mi 100Gi"}
    stage.start(Box(requests="/1Gi", limits="/1Gi"), replicas=1, annotations=leaking, ready=False)
    stage.eventually(stage.was_killed, "a container was killed")
    stage.eventually(lambda: memory(recommended(stage)[APP]) >= 3 * 1024, "three times as much")


@ROWS.row("SX-27")
def answers(stage: Stage) -> None:
    """Who asks over HTTP is told what the status says."""
    stage.vpa()
    stage.start(*TWO, replicas=1)
    stage.eventually(lambda: len(recommended(stage)) == 2, "both have a recommendation")

    def look() -> bool:
        found = stage.recommender.recommendation(stage.space.name, "vpa", stage.admin.token)
        told = {each["container"]: each["target"] for each in found["containers"]}
        return told == {name: each["target"] for name, each in recommended(stage).items()}

    stage.eventually(look, "the answer is the status")


@ROWS.row("LI-01", "LI-02", alone=True)
def one_namespace_only(stage: Stage) -> None:
    """A recommender that is told of namespaces leaves the others alone."""
    other = stage.other()
    ours, theirs = stage.space.name, other.space.name
    flag = f"--vpa-object-namespace={ours}"
    if stage.name == "LI-02":
        others = {*map(ROWS.namespace, ROWS), *ROWS.alone()} - {ours}
        assert theirs in others
        flag = f"--ignored-vpa-object-namespaces={','.join(sorted(others))}"
    for place in (other, stage):
        place.vpa(**FIRST_OFF)
        place.start(*TWO, replicas=1)
    stage.worker("recommender", *QUICK, flag, everywhere=True)
    assert recommended(stage).keys() == {"hamster2"}
    assert "conditions" not in stage.admin.get(VPAS, theirs, "vpa").get("status", {})


@ROWS.row("LI-03", alone=True)
def least_memory(stage: Stage) -> None:
    """The least memory of a pod is what a flag says."""
    stage.worker("recommender", *QUICK, "--pod-recommendation-min-memory-mb=500")
    stage.vpa()
    stage.start(replicas=1)
    assert memory(recommended(stage)[APP]) >= 500


@ROWS.row("GI-02")
def generations(stage: Stage) -> None:
    """A VPA's status tells which state of it was looked at."""
    stage.vpa()

    def look() -> bool:
        found = stage.admin.get(VPAS, stage.space.name, "vpa")
        seen = found.get("status", {}).get("observedGeneration")
        return bool(seen == found["metadata"]["generation"])

    stage.eventually(look, "the generation is observed", seconds=30)
