"""Whatever fails or is broken costs itself alone: the rest goes on, and nothing is lost."""

from __future__ import annotations

import pytest

from app.model.errors import (
    ClusterError,
    Conflict,
    Gone,
    Invalid,
    NotFound,
    Refused,
    TooMany,
    Unavailable,
)
from app.ports import CHECKPOINTS, VPAS, Json, Ref
from tests import make
from tests.flows.recommending import Stage, workload
from tests.flows.test_recommender_rows import orphan
from tests.updater.stage import Call

LOAD = "cpu: constant 0.1, memory: constant 300Mi, noise: 0"
ERRORS = [
    Refused("403"),
    NotFound("404"),
    Conflict("409"),
    Gone("410"),
    Invalid("422"),
    TooMany("429"),
    Unavailable("503"),
]


def staged() -> Stage:
    """Return a cluster with two Deployments and their VPAs, known for a while."""
    stage = Stage()
    stage.apply(*workload("web", load=LOAD), *workload("shop", load=LOAD))
    stage.run(305)
    return stage


@pytest.mark.parametrize("verb", ["list", "patch", "create", "delete", ""])
@pytest.mark.parametrize("error", ERRORS, ids=str)
def test_calls_that_fail(error: ClusterError, verb: str) -> None:
    """Ten minutes of errors wipe nothing out; afterwards everything is as if there were none."""
    stage = staged()
    before = {name: stage.recommended(name)["app"]["target"] for name in ("web", "shop")}
    counts = {
        name: item["status"]["totalSamplesCount"] for name, item in stage.checkpoints().items()
    }
    stage.apply(orphan())
    stage.replica.fail(error, verb)
    stage.run(600)
    told = {name: stage.recommended(name)["app"]["target"] for name in ("web", "shop")}
    assert told == before

    stage.apply(*workload("late", load=LOAD))
    stage.replica.faults.clear()
    stage.run(1200)
    assert stage.recommended("late")
    assert stage.checkpoints().keys() == {"web-app", "shop-app", "late-app"}
    for name, count in counts.items():
        assert stage.checkpoints()[name]["status"]["totalSamplesCount"] > count


GARBAGE = [
    pytest.param({"version": "v2"}, id="another version"),
    pytest.param({"version": "v3", "totalSamplesCount": -5}, id="count -5"),
    pytest.param({"version": "v3", "firstSampleStart": "2999-01-01T00:00:00Z"}, id="from 2999"),
    pytest.param(
        {
            "version": "v3",
            "cpuHistogram": {
                "referenceTimestamp": "2999-01-01T00:00:00Z",
                "bucketWeights": {"1": 10000},
                "totalWeight": 1,
            },
        },
        id="a reference of 2999",
    ),
]


def spoil(stage: Stage, status: Json) -> None:
    """Let garbage stand where the history of `web` belongs."""
    broken = orphan("web-app", owner="web")
    broken["status"] = {"cpuHistogram": {}, "memoryHistogram": {}, **status}
    stage.apply(broken)


@pytest.mark.parametrize("status", GARBAGE)
def test_garbage_for_history(status: Json, caplog: pytest.LogCaptureFixture) -> None:
    """A checkpoint that cannot be is told of once, and stops neither its VPA nor the others."""
    stage = Stage(replicas=0)
    stage.apply(*workload("web", load=LOAD), *workload("shop", load=LOAD))
    stage.run(305)
    spoil(stage, status)
    stage.begin()
    stage.run(305)
    stage.replica.stop()

    problems = [record for record in caplog.records if record.message == "checkpoint not used"]
    assert len(problems) == 1
    assert "default/web-app: " in problems[0].__dict__["problem"]
    name = "vpa_recommender_refused_checkpoints_total"
    assert stage.replica.registry.get_sample_value(name) == 1
    assert stage.recommended("web") == stage.recommended("shop") != {}
    assert stage.checkpoints()["web-app"]["status"]["totalSamplesCount"] == 6
    assert stage.checkpoints()["shop-app"]["status"]["totalSamplesCount"] == 6


@pytest.mark.parametrize("status", GARBAGE)
def test_garbage_lowers_no_recommendation(status: Json) -> None:
    """What was published before history broke is not taken back for want of it."""
    stage = Stage(replicas=0)
    stage.apply(*workload("web", load=LOAD), *workload("shop", load=LOAD))
    stage.run(65)
    amounts = make.amounts("3", "3Gi")
    stood = [make.recommendation_json("app", cpu="3", memory="3Gi", lower=amounts, upper=amounts)]
    status_then = {"recommendation": {"containerRecommendations": stood}}
    patch = [{"op": "add", "path": "/status", "value": status_then}]
    for name in ("web", "shop"):
        stage.sandbox.cluster.patch(Ref(VPAS, "default", name, subresource="status"), patch)
    spoil(stage, status)
    stage.begin()
    stage.run(305)

    assert str(stage.amount("memory", name="web")) == "3Gi"
    assert stage.amount("memory", name="shop").units < 2**30


def test_garbage_is_told_of_once(caplog: pytest.LogCaptureFixture) -> None:
    """However often checkpoints are read, what cannot be used is told of when it changes."""
    stage = Stage()
    stage.sandbox.cluster.create(
        Ref(CHECKPOINTS, "default"), orphan() | {"status": {"version": "v2"}}
    )
    for name in ("web", "shop"):
        stage.apply(*workload(name, load=LOAD))
        stage.run(65)

    assert stage.recommended("shop")
    assert [one.message for one in caplog.records].count("checkpoint not used") == 1


def test_garbage_that_goes_is_forgotten(caplog: pytest.LogCaptureFixture) -> None:
    """Of checkpoints that are gone nothing is kept: the same one is told of when it is back."""
    stage = Stage()
    garbage = orphan() | {"status": {"version": "v2"}}
    ref = Ref(CHECKPOINTS, "default")
    for number in range(3):
        if number != 1:
            stage.sandbox.cluster.create(ref, garbage)
        stage.apply(*workload(f"web-{number}", load=LOAD))
        stage.run(65)
        if number != 1:
            stage.sandbox.cluster.delete(ref._replace(name="gone-app"))

    assert [one.message for one in caplog.records].count("checkpoint not used") == 2


def test_a_new_vpa_has_the_checkpoints_of_its_namespace_read(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """However many checkpoints a cluster has, one namespace cannot have all of them read again."""
    stage = Stage()
    stage.apply(*workload("web", load=LOAD))
    stage.run(65)
    garbage = orphan(namespace="elsewhere") | {"status": {"version": "v2"}}
    stage.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "elsewhere"}})
    stage.sandbox.cluster.create(Ref(CHECKPOINTS, "elsewhere"), garbage)
    stage.apply(*workload("shop", load=LOAD))
    stage.run(65)

    assert stage.recommended("shop")
    assert "checkpoint not used" not in [one.message for one in caplog.records]


def test_a_vpa_that_goes_in_the_middle_of_a_round() -> None:
    """A VPA that is deleted just before its status is written disturbs nobody."""
    stage = Stage()
    stage.apply(*workload("web", load=LOAD), *workload("shop", load=LOAD))

    def delete(call: Call) -> None:
        if (call.verb, call.name) == ("patch", "web"):
            stage.replica.watched.before = lambda _call: None
            stage.sandbox.cluster.delete(Ref(VPAS, "default", "web"))

    stage.replica.watched.before = delete
    stage.run(125)

    assert stage.recommended("shop")
    assert stage.checkpoints().keys() == {"shop-app"}
