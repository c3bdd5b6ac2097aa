"""Controllers where only nodes show what they do, and schedules."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from app.ports import (
    DAEMON_SETS,
    NODES,
    PODS,
    Json,
    PatchKind,
)
from app.sandbox.conditions import is_ready
from app.sandbox.controllers.schedules import BadSchedule, Schedule
from app.sandbox.garbage import ENDED_PODS_KEPT
from app.sandbox.nodes import NodeSize
from tests.sandbox.worlds import World, pod

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


def test_a_cron_job_without_a_time() -> None:
    """A CronJob of which nobody knows when says so, and makes nothing."""
    world = World()
    body = pod("", restartPolicy="Never")
    job = {"spec": {"template": {"spec": body["spec"]}}}
    cron_job = {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "long"},
        "spec": {"schedule": "whenever", "jobTemplate": job},
    }
    world.run(cron_job, seconds=70)

    assert world.sandbox.pods() == []
    assert world.reasons()[0] == "UnparseableSchedule"
