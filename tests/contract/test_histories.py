"""What controllers do over time: they replace, wait, come again, and forget."""

from __future__ import annotations

from datetime import datetime
from itertools import pairwise

import pytest

from app.ports import CRON_JOBS, DAEMON_SETS, DEPLOYMENTS, EVENTS, JOBS, REPLICA_SETS, Clock, Json
from tests.cases import cases
from tests.contract.building import add, template, workload
from tests.contract.conftest import KUBECONFIG
from tests.contract.crowds import Pods, cron_job, idle
from tests.contract.running import LOAD, SCHEDULER, NodePods
from tests.contract.space import Space

IMAGE = "/spec/template/spec/containers/0/image"
takes_long = pytest.mark.skipif(bool(KUBECONFIG), reason="a real cluster needs minutes or hours")


def ending(load: str) -> Json:
    """A template of pods that get a node, and whose program ends."""
    found = template(schedulerName=SCHEDULER, restartPolicy="Never")
    found["metadata"]["annotations"] = {LOAD: load}
    return found


def revision(replica_set: Json) -> int:
    """The number that a Deployment gave to a state of its template."""
    return int(replica_set["metadata"]["annotations"]["deployment.kubernetes.io/revision"])


def test_old_replica_sets_are_forgotten(pods: Pods) -> None:
    """Only so many of them are kept, and going back to one of them makes it the newest."""
    body = workload(template=idle(), revisionHistoryLimit=1)
    pods.create(DEPLOYMENTS, body)
    pods.await_status(DEPLOYMENTS, "web", observedGeneration=1, availableReplicas=1)
    for generation, image in ((2, "app:2"), (3, "app:3"), (4, "app:2")):
        pods.patch(DEPLOYMENTS, "web", [add(IMAGE, image)])
        done = {"updatedReplicas": 1, "replicas": 1, "availableReplicas": 1}
        pods.await_status(DEPLOYMENTS, "web", observedGeneration=generation, **done)

    def kept() -> list[Json]:
        return list(pods.items(REPLICA_SETS))

    pods.eventually(lambda: len(kept()) == 2)
    in_use = max(kept(), key=revision)
    assert revision(in_use) == 4
    assert in_use["spec"]["replicas"] == 1
    assert in_use["spec"]["template"]["spec"]["containers"][0]["image"] == "app:2"


@pytest.mark.usefixtures("node")
def test_daemons_are_replaced(pods: Pods) -> None:
    """A changed template reaches the pods of all nodes."""
    body = workload(template=template(schedulerName=SCHEDULER))
    del body["spec"]["replicas"]
    pods.create(DAEMON_SETS, body)

    def is_done(generation: int) -> bool:
        status = pods.get(DAEMON_SETS, "web").get("status", {})
        wanted = status.get("desiredNumberScheduled", 0)
        new, available = (status.get(key) for key in ("updatedNumberScheduled", "numberAvailable"))
        seen = status.get("observedGeneration") == generation
        return bool(seen and wanted == new == available != 0)

    pods.eventually(lambda: is_done(1))
    old = set(pods.names())
    pods.patch(DAEMON_SETS, "web", [add(IMAGE, "other:2")])
    pods.eventually(lambda: is_done(2))

    assert not old & set(pods.names())
    assert len(pods.names()) == len(old)
    assert {item["spec"]["containers"][0]["image"] for item in pods.all()} == {"other:2"}


@pytest.mark.usefixtures("node")
def test_failed_job_pods_come_again_later_and_later(pods: Pods) -> None:
    """Each failure makes the pause longer, until the limit ends the Job."""
    spec = {"backoffLimit": 2, "template": ending("exit: 1s 1")}
    pods.create(JOBS, {"metadata": {"name": "work"}, "spec": spec})

    def failure() -> Json | None:
        found = pods.get(JOBS, "work")["status"].get("conditions") or ()
        return next((entry for entry in found if entry["type"] == "Failed"), None)

    reason = pods.eventually(failure, seconds=180)["reason"]
    created = sorted(
        datetime.fromisoformat(item["metadata"]["creationTimestamp"]) for item in pods.all()
    )
    first, second = ((later - sooner).total_seconds() for sooner, later in pairwise(created))

    assert reason == "BackoffLimitExceeded"
    assert 9 < first < 25
    assert 19 < second < 45


@takes_long
@pytest.mark.usefixtures("node")
def test_cron_jobs_keep_a_few_jobs(pods: Pods, clock: Clock) -> None:
    """Those that ended long ago go, with their pods."""
    often = cron_job("often", {"schedule": "*/2 * * * *"}, ending("exit: 5s"))
    pods.create(CRON_JOBS, often)
    clock.wait(3610)
    status = pods.get(CRON_JOBS, "often")["status"]

    assert len(pods.items(JOBS)) == 3
    assert len(pods.all()) == 3
    assert status["lastScheduleTime"]
    assert not status.get("active")


@takes_long
@cases(
    "spec count",
    {
        "side by side": ({}, 5),
        "one after the other": ({"concurrencyPolicy": "Forbid"}, 1),
        "the last alone": ({"concurrencyPolicy": "Replace"}, 1),
        "suspended": ({"suspend": True}, 0),
    },
)
def test_cron_jobs_that_take_long(pods: Pods, clock: Clock, spec: Json, count: int) -> None:
    """The policy tells what becomes of a Job that still runs when it is time again."""
    pods.create(CRON_JOBS, cron_job("long", spec))
    clock.wait(5 * 60 + 10)
    status = pods.get(CRON_JOBS, "long").get("status", {})
    active: list[Json] = status.get("active") or []

    assert len(pods.all()) == len(active) == count
    if spec.get("concurrencyPolicy") == "Replace":
        assert active[0]["name"].endswith(str(int(clock.now().timestamp()) // 60))


@takes_long
@pytest.mark.usefixtures("node")
def test_events_live_for_an_hour(space: Space, clock: Clock) -> None:
    """What is not told again is forgotten."""
    NodePods(space.cluster, space.namespace, space.eventually).run()
    reasons = {event["reason"] for event in space.items(EVENTS)}
    clock.wait(3700)

    assert {"Scheduled", "Started"} <= reasons
    assert not space.items(EVENTS)
