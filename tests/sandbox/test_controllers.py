"""Controllers where only nodes show what they do, and schedules."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise

import pytest

from app.ports import (
    CRON_JOBS,
    DAEMON_SETS,
    DEPLOYMENTS,
    JOBS,
    NODES,
    PODS,
    REPLICA_SETS,
    Json,
    PatchKind,
)
from app.sandbox.conditions import is_ready
from app.sandbox.controllers.schedules import BadSchedule, Schedule
from app.sandbox.garbage import ENDED_PODS_KEPT
from app.sandbox.nodes import NodeSize
from tests.sandbox.worlds import World, deployment, pod

LABELS = {"app": "daemon"}


def daemon_set() -> Json:
    """A DaemonSet."""
    template = pod("", metadata={"labels": LABELS})
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "daemon"},
        "spec": {
            "selector": {"matchLabels": LABELS},
            "template": {"metadata": {"labels": LABELS}, "spec": template["spec"]},
        },
    }


def places(world: World) -> list[str]:
    """The nodes of all pods."""
    return sorted(found["spec"]["nodeName"] for found in world.sandbox.pods())


def test_a_daemon_is_on_every_node() -> None:
    """Also on nodes that come later, and not where it does not suit."""
    world = World()
    world.run(daemon_set())
    assert places(world) == ["node-1", "node-2"]
    cluster = world.sandbox.cluster
    cluster.create(NODES, "", NodeSize("node-3").item())
    world.step(2)
    assert places(world) == ["node-1", "node-2", "node-3"]

    status = cluster.get(DAEMON_SETS, "default", "daemon")["status"]
    assert (status["desiredNumberScheduled"], status["numberAvailable"]) == (3, 3)
    cluster.delete(NODES, "", "node-3")
    world.step(2)
    assert cluster.get(DAEMON_SETS, "default", "daemon")["status"]["desiredNumberScheduled"] == 2


def test_daemons_are_replaced_one_by_one() -> None:
    """Never more are away than may be."""
    world = World()
    world.run(daemon_set())
    image = {"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "app:2"}
    world.sandbox.cluster.patch(DAEMON_SETS, "default", "daemon", [image])
    least = 2
    for _ in range(200):
        world.step(0.1)
        ready = [found for found in world.sandbox.pods() if is_ready(found)]
        least = min(least, len(ready))
    images = {found["spec"]["containers"][0]["image"] for found in world.sandbox.pods()}

    assert least == 1
    assert images == {"app:2"}
    assert places(world) == ["node-1", "node-2"]


def test_old_replica_sets_are_forgotten() -> None:
    """Only so many of them are kept, and going back to one of them makes it the newest."""
    world = World()
    body = deployment("web")
    body["spec"]["revisionHistoryLimit"] = 2
    world.run(body)
    cluster = world.sandbox.cluster
    for number in (2, 3, 4, 5, 4):
        patch = [{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": ""}]
        patch[0]["value"] = f"app:{number}"
        cluster.patch(DEPLOYMENTS, "default", "web", patch)
        world.step(5)
    sets = cluster.list(REPLICA_SETS, "default").items
    in_use = [found for found in sets if found["spec"]["replicas"]]

    assert len(sets) == 3
    assert [found["spec"]["template"]["spec"]["containers"][0]["image"] for found in in_use] == [
        "app:4"
    ]
    revisions = {
        found["metadata"]["annotations"]["deployment.kubernetes.io/revision"] for found in sets
    }
    assert max(map(int, revisions)) == 6


def test_ended_pods_are_forgotten() -> None:
    """Failed pods stay to be looked at, but not without end."""
    world = World()
    names = [f"p-{number}" for number in range(ENDED_PODS_KEPT + 20)]
    world.run(*(pod(name, schedulerName="nobody") for name in names))
    failed = {"status": {"phase": "Failed"}}
    for name in names:
        world.sandbox.cluster.patch(
            PODS, "default", name, failed, kind=PatchKind.MERGE, subresource="status"
        )
    world.step(1)

    assert len(world.sandbox.pods()) == ENDED_PODS_KEPT


def test_events_live_for_an_hour() -> None:
    """What nobody tells again is forgotten."""
    world = World()
    world.run(pod())
    assert world.reasons() == ["Scheduled", "Started"]
    world.step(3700)

    assert world.reasons() == []


def test_cron_jobs_keep_a_few_jobs() -> None:
    """Those that ended long ago go, with their pods."""
    world = World()
    template = pod("", load="exit: 5s", restartPolicy="Never")
    del template["metadata"]["name"]
    job = {"template": {"metadata": template["metadata"], "spec": template["spec"]}}
    cron_job = {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "often"},
        "spec": {"schedule": "*/2 * * * *", "jobTemplate": {"spec": job}},
    }
    world.run(cron_job, seconds=3610)
    jobs = world.sandbox.cluster.list(JOBS, "default").items
    status = world.sandbox.cluster.get(CRON_JOBS, "default", "often")["status"]

    assert len(jobs) == 3
    assert len(world.sandbox.pods()) == 3
    assert status["lastScheduleTime"] == "2026-01-05T11:00:00Z"
    assert not status["active"]


MONDAY = datetime(2026, 1, 5, 10, 0, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("* * * * *", "2026-01-05T10:01"),
        ("*/15 * * * *", "2026-01-05T10:15"),
        ("5,10 * * * *", "2026-01-05T10:05"),
        ("0 8-18/5 * * *", "2026-01-05T13:00"),
        ("0 9 * * *", "2026-01-06T09:00"),
        ("@hourly", "2026-01-05T11:00"),
        ("@weekly", "2026-01-11T00:00"),
        ("0 0 1 * *", "2026-02-01T00:00"),
        ("0 0 * * sun", "2026-01-11T00:00"),
        ("0 0 * * 7", "2026-01-11T00:00"),
        ("0 0 13 * fri", "2026-01-09T00:00"),
        ("0 0 29 feb *", "2028-02-29T00:00"),
        ("30 10 * mar mon-wed", "2026-03-02T10:30"),
    ],
)
def test_schedules(text: str, expected: str) -> None:
    """The next time is the first that all fields allow."""
    due = Schedule.parse(text).after(MONDAY)

    assert due is not None
    assert due.isoformat(timespec="minutes") == f"{expected}+00:00"


@pytest.mark.parametrize(
    "text", ["", "* * * *", "61 * * * *", "*/0 * * * *", "5-2 * * * *", "a * * * *", "* * * xyz *"]
)
def test_bad_schedules(text: str) -> None:
    """What is no schedule is refused."""
    with pytest.raises(BadSchedule):
        Schedule.parse(text)


def test_a_schedule_that_never_comes() -> None:
    """There is no 31st of February."""
    assert Schedule.parse("0 0 31 feb *").after(MONDAY) is None


@pytest.mark.parametrize(
    ("spec", "running"),
    [
        pytest.param({}, 5, id="side by side"),
        pytest.param({"concurrencyPolicy": "Forbid"}, 1, id="one after the other"),
        pytest.param({"concurrencyPolicy": "Replace"}, 1, id="the last alone"),
        pytest.param({"suspend": True}, 0, id="suspended"),
        pytest.param({"schedule": "whenever"}, 0, id="nobody knows when"),
    ],
)
def test_cron_jobs_that_take_long(spec: Json, running: int) -> None:
    """The policy tells what becomes of a Job that still runs when it is time again."""
    world = World()
    body = pod("", restartPolicy="Never")
    cron_job = {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "long"},
        "spec": {
            "schedule": "* * * * *",
            "jobTemplate": {"spec": {"template": {"spec": body["spec"]}}},
            **spec,
        },
    }
    world.run(cron_job, seconds=5 * 60 + 10)
    status = world.sandbox.cluster.get(CRON_JOBS, "default", "long")["status"]
    active: list[Json] = status.get("active") or []

    assert len(world.sandbox.pods()) == len(active) == running
    if spec.get("concurrencyPolicy") == "Replace":
        assert active[0]["name"].endswith(str(int(world.sandbox.clock.now().timestamp()) // 60))
    if "schedule" in spec:
        assert world.reasons()[0] == "UnparseableSchedule"


def test_failed_job_pods_come_again_later_and_later() -> None:
    """Each failure makes the pause longer, until the limit ends the Job."""
    world = World()
    body = pod("", load="exit: 1s 1", restartPolicy="Never")
    del body["metadata"]["name"]
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "work"},
        "spec": {
            "backoffLimit": 3,
            "template": {"metadata": body["metadata"], "spec": body["spec"]},
        },
    }
    world.run(job, seconds=300)
    created = sorted(
        datetime.fromisoformat(found["metadata"]["creationTimestamp"])
        for found in world.sandbox.pods()
    )
    pauses = [(later - earlier).total_seconds() for earlier, later in pairwise(created)]

    assert pauses == [pytest.approx(seconds + 2, abs=1) for seconds in (10, 20, 40)]
    (condition,) = world.sandbox.cluster.get(JOBS, "default", "work")["status"]["conditions"]
    assert (condition["type"], condition["reason"]) == ("Failed", "BackoffLimitExceeded")
