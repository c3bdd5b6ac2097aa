"""Controllers where only nodes show what they do, and what they do not keep."""

from __future__ import annotations

import gc

from app.ports import DAEMON_SETS, NODES, PODS, STATEFUL_SETS, Json, PatchKind, Ref
from app.sandbox.controllers.manager import ENDED_PODS_KEPT
from app.sandbox.objects import is_ready
from app.sandbox.scheduler import NodeSize
from tests.sandbox.worlds import SteppedSandbox, pod
from tests.sandbox_objects import pods_in

LABELS = {"app": "daemon"}


def daemon_set(labels: Json = LABELS) -> Json:
    """A DaemonSet."""
    template = pod("", metadata={"labels": labels})
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "daemon"},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": template["spec"]},
        },
    }


def places(world: SteppedSandbox) -> list[str]:
    """The nodes of all pods."""
    return sorted(found["spec"]["nodeName"] for found in pods_in(world.sandbox))


def test_a_daemon_is_on_every_node() -> None:
    """Also on nodes that come later, and not where it does not suit."""
    world = SteppedSandbox()
    world.run(daemon_set())
    assert places(world) == ["node-1", "node-2"]
    cluster = world.sandbox.cluster
    cluster.create(Ref(NODES), NodeSize("node-3").item())
    world.step(2)
    assert places(world) == ["node-1", "node-2", "node-3"]

    status = cluster.get(Ref(DAEMON_SETS, "default", "daemon"))["status"]
    assert (status["desiredNumberScheduled"], status["numberAvailable"]) == (3, 3)
    cluster.delete(Ref(NODES, "", "node-3"))
    world.step(2)
    assert (
        cluster.get(Ref(DAEMON_SETS, "default", "daemon"))["status"]["desiredNumberScheduled"] == 2
    )


def test_daemons_are_replaced_one_by_one() -> None:
    """Never more are away than may be."""
    world = SteppedSandbox()
    world.run(daemon_set())
    image = {"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "app:2"}
    world.sandbox.cluster.patch(Ref(DAEMON_SETS, "default", "daemon"), [image])
    least = 2
    for _ in range(200):
        world.step(0.1)
        ready = [found for found in pods_in(world.sandbox) if is_ready(found)]
        least = min(least, len(ready))
    images = {found["spec"]["containers"][0]["image"] for found in pods_in(world.sandbox)}

    assert least == 1
    assert images == {"app:2"}
    assert places(world) == ["node-1", "node-2"]


def test_ended_pods_are_forgotten() -> None:
    """Failed pods stay to be looked at, but not without end."""
    world = SteppedSandbox()
    names = [f"p-{number}" for number in range(ENDED_PODS_KEPT + 20)]
    world.run(*(pod(name, schedulerName="nobody") for name in names))
    failed = {"status": {"phase": "Failed"}}
    for name in names:
        world.sandbox.cluster.patch(
            Ref(PODS, "default", name, subresource="status"), failed, kind=PatchKind.MERGE
        )
    world.step(1)

    assert len(pods_in(world.sandbox)) == ENDED_PODS_KEPT


def test_stateful_sets_that_are_gone_are_forgotten() -> None:
    """Nothing keeps the template of a StatefulSet that was deleted."""
    world = SteppedSandbox()
    labels = {"app": "forgotten"}
    body = daemon_set(labels) | {"kind": "StatefulSet", "metadata": {"name": "web"}}
    world.run(body)
    del body
    world.sandbox.cluster.delete(Ref(STATEFUL_SETS, "default", "web"))
    world.step(2 * 3600)
    gc.collect()
    found = [item for item in gc.get_objects() if type(item) is dict]

    assert [item for item in found if item.get("labels") == labels] == []
