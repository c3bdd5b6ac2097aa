"""In-place resizes as a real kubelet was seen to do them."""

from __future__ import annotations

from app.ports import PODS, Json, Ref
from app.sandbox.scheduler import NodeSize
from tests.cases import cases
from tests.sandbox.worlds import SteppedSandbox, container, pod

PENDING, IN_PROGRESS = "PodResizePending", "PodResizeInProgress"
SMALL = [NodeSize("small", cpu="4", memory="8Gi")]


def test_the_steps_in_order() -> None:
    """The spec at once, then what is set aside, then what the runtime applies."""
    world = SteppedSandbox()
    world.run(pod())
    old = world.status()["resources"]
    world.resize(cpu="200m")

    seen = []
    for _ in range(3):
        status, found = world.status(), world.pod()
        seen.append(
            (
                found["status"]["observedGeneration"],
                status["allocatedResources"]["cpu"],
                status["resources"]["requests"]["cpu"],
                IN_PROGRESS in world.conditions(),
            )
        )
        world.step(0.021)

    assert old["requests"]["cpu"] == "100m"
    assert seen == [
        (1, "100m", "100m", False),
        (2, "200m", "100m", True),
        (2, "200m", "200m", False),
    ]
    assert world.status()["restartCount"] == 0
    assert world.reasons()[-2:] == ["ResizeStarted", "ResizeCompleted"]


def test_in_progress_says_nothing_more() -> None:
    """The condition has the generation, and neither reason nor message."""
    world = SteppedSandbox()
    world.run(pod())
    world.resize(cpu="200m")
    world.step(0.025)
    condition = world.conditions()[IN_PROGRESS]

    assert (condition["status"], condition["observedGeneration"]) == ("True", 2)
    assert not condition.keys() & {"reason", "message"}


def test_memory_below_what_is_used() -> None:
    """It is allocated, but not applied until usage falls; the reason comes later."""
    world = SteppedSandbox()
    load = "role=big -> memory: constant 150Mi; role=small -> memory: constant 50Mi, noise: 0"
    world.run(pod(load=load, metadata={"labels": {"role": "big"}}))
    world.resize(memory_limit="120Mi")
    world.step(1)
    first = world.conditions()[IN_PROGRESS]
    world.step(20)
    second = world.conditions()[IN_PROGRESS]
    status = world.status()
    role = {"op": "replace", "path": "/metadata/labels/role", "value": "small"}
    world.sandbox.cluster.patch(Ref(PODS, "default", "pod"), [role])
    world.step(20)

    assert "reason" not in first
    assert second["reason"] == "Error"
    assert 'set container "app" memory limit (125829120) below current' in second["message"]
    assert status["resources"]["limits"]["memory"] == "200Mi"
    assert IN_PROGRESS not in world.conditions()
    assert world.status()["resources"]["limits"]["memory"] == "120Mi"
    assert world.reasons().count("ResizeError") == 1


def test_memory_of_a_pod_without_a_limit() -> None:
    """If one container has no limit, only the others are told of."""
    world = SteppedSandbox()
    world.run(
        pod(
            "pod",
            container(),
            container("free", limits={}),
            load="memory: constant 150Mi, noise: 0",
        )
    )
    world.resize(memory_limit="120Mi")
    world.step(10)

    assert world.conditions()[IN_PROGRESS]["message"] == (
        'cannot decrease memory limits: attempting to set container "app" memory limit '
        "(125829120) below current usage (314572800)"
    )


def test_a_container_that_uses_little() -> None:
    """What a neighbour uses does not keep a container from shrinking."""
    world = SteppedSandbox()
    load = {"annotations": {"sandbox.plumbline/load.free": "memory: constant 300Mi"}}
    world.run(pod("pod", container(), container("free", limits={}), metadata=load))
    world.resize(memory_limit="120Mi")
    world.step(1)

    assert IN_PROGRESS not in world.conditions()


def crowded() -> SteppedSandbox:
    """A node with two pods that fill it nearly."""
    world = SteppedSandbox(SMALL)
    for name, cpu in (("first", "2"), ("second", "1500m")):
        world.run(pod(name, container(requests={"cpu": cpu}, limits={})))
    return world


def test_no_room_is_deferred() -> None:
    """The message counts in millicores, and nothing is set aside."""
    world = crowded()
    world.resize("second", cpu="2500m")
    world.step(1)
    condition = world.conditions("second")[PENDING]

    assert condition["reason"] == "Deferred"
    assert condition["message"] == (
        "Node didn't have enough resource: cpu, requested: 2500, used: 2000, capacity: 4000"
    )
    assert world.status("second")["allocatedResources"] == {"cpu": "1500m"}
    assert world.pod("second")["status"]["observedGeneration"] == 2


def test_a_newer_wish_takes_the_place_of_a_deferred_one() -> None:
    """It keeps the time of the first, and is granted if there is room for it."""
    world = crowded()
    world.resize("second", cpu="2500m")
    world.step(10)
    first = world.conditions("second")[PENDING]
    world.resize("second", cpu="2400m")
    world.step(1)
    second = world.conditions("second")[PENDING]
    world.resize("second", cpu="1900m")
    world.step(1)

    assert second["observedGeneration"] == 3
    assert second["lastTransitionTime"] == first["lastTransitionTime"]
    assert PENDING not in world.conditions("second")
    assert world.status("second")["resources"]["requests"]["cpu"] == "1900m"


def test_room_that_becomes_free_is_taken_at_once() -> None:
    """Whoever waits is looked at again when another shrinks."""
    world = crowded()
    world.resize("second", cpu="2500m")
    world.step(1)
    world.resize("first", cpu="1")
    world.step(0.5)

    assert PENDING not in world.conditions("second")
    assert world.status("second")["resources"]["requests"]["cpu"] == "2500m"


def test_those_in_need_are_served_in_order() -> None:
    """The more important pod first."""
    world = SteppedSandbox(SMALL)
    for name, priority in (("low", 1), ("high", 2)):
        small = container(requests={"cpu": "500m"}, limits={})
        world.run(pod(name, small, priority=priority))
    world.run(pod("large", container(requests={"cpu": "3"}, limits={})))
    for name in ("low", "high"):
        world.resize(name, cpu="2")
        world.step(1)
    world.resize("large", cpu="1500m")
    world.step(2)

    assert PENDING not in world.conditions("high")
    assert PENDING in world.conditions("low")


POLICIES: list[Json] = [
    {"resourceName": "cpu", "restartPolicy": "NotRequired"},
    {"resourceName": "memory", "restartPolicy": "RestartContainer"},
]


@cases(
    "amounts restarts",
    {
        "memory": ({"memory": "150Mi"}, 1),
        "cpu": ({"cpu": "200m"}, 0),
        "both": ({"cpu": "200m", "memory_limit": "250Mi"}, 1),
    },
)
def test_a_policy_of_restarts(amounts: dict[str, str], restarts: int) -> None:
    """Only a changed resource whose policy says so restarts the container."""
    world = SteppedSandbox()
    world.run(pod("pod", container(more={"resizePolicy": POLICIES})))
    before = world.status()
    world.resize("pod", 0, **amounts)
    world.step(2)
    after = world.status()

    assert after["restartCount"] == restarts
    assert (after["containerID"] != before["containerID"]) is bool(restarts)
    assert after["resources"] == world.pod()["spec"]["containers"][0]["resources"]
    assert world.reasons().count("Killing") == restarts
    assert IN_PROGRESS not in world.conditions()


def test_unscheduled_pods_are_simply_changed() -> None:
    """There is nobody yet to set anything aside."""
    world = SteppedSandbox(SMALL)
    world.run(pod("pod", container(requests={"cpu": "5"}, limits={})))
    world.resize(cpu="1")
    world.step(3)

    assert world.is_ready()
    assert world.status()["resources"]["requests"] == {"cpu": "1"}


def test_a_resize_of_one_container_of_several() -> None:
    """The others stay as they are."""
    world = SteppedSandbox()
    world.run(pod("pod", container("one"), container("two")))
    world.resize("pod", 1, cpu="300m")
    world.step(1)

    assert world.status(index=0)["resources"]["requests"]["cpu"] == "100m"
    assert world.status(index=1)["resources"]["requests"]["cpu"] == "300m"
