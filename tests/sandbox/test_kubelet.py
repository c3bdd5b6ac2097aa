"""How pods fare on their nodes: starts, probes, crashes, ends."""

from __future__ import annotations

from app.sandbox.scheduler import NodeSize
from tests.cases import cases
from tests.sandbox.worlds import SteppedSandbox, container, deployment, pod
from tests.sandbox_objects import events_in, pods_in

NO_NOISE = "noise: 0"


def test_the_stages_of_a_start() -> None:
    """A pod is taken in at once, runs when its containers do, and is Ready with them."""
    world = SteppedSandbox()
    world.run(pod(), seconds=0.5)
    waiting = world.pod()
    assert waiting["status"]["phase"] == "Pending"
    assert world.status()["state"] == {"waiting": {"reason": "ContainerCreating"}}
    assert world.status()["allocatedResources"] == {"cpu": "100m", "memory": "100Mi"}

    world.step(1)
    assert world.pod()["status"]["phase"] == "Running"
    assert world.is_ready()
    assert world.reasons() == ["Scheduled", "Started"]


@cases(
    "load probe ready_after",
    {
        "without a probe long before it is warm": ("startup: 1 20", {}, 2),
        "when it is warm": ("startup: 1 20", {"readinessProbe": {"periodSeconds": 10}}, 22),
        "next probe": ("startup: 1 21", {"readinessProbe": {"periodSeconds": 10}}, 32),
        "held by its limit": ("startup: 4 20", {"readinessProbe": {"periodSeconds": 5}}, 22),
        "after the startup probe": (
            "startup: 1 3",
            {"startupProbe": {"periodSeconds": 5}, "readinessProbe": {"initialDelaySeconds": 7}},
            9,
        ),
        "first probe is late": (NO_NOISE, {"readinessProbe": {"initialDelaySeconds": 4}}, 6),
    },
)
def test_readiness(load: str, probe: dict[str, object], ready_after: float) -> None:
    """A container is ready at the first probe after its startup work is done."""
    world = SteppedSandbox()
    world.run(pod("pod", container(more=probe), load=load), seconds=ready_after - 1.5)
    assert not world.is_ready()
    world.step(1.6)

    assert world.is_ready()


def test_more_cpu_makes_a_start_shorter() -> None:
    """Work that is half done goes on at the new pace."""
    world = SteppedSandbox()
    slow = container(limits={"cpu": "500m"}, more={"readinessProbe": {"periodSeconds": 1}})
    world.run(pod("pod", slow, load="startup: 2 20"), seconds=21)
    world.resize(cpu_limit="2")
    world.step(4)
    assert not world.is_ready()
    world.step(3)

    assert world.is_ready()


def test_back_off() -> None:
    """Later restarts wait longer and longer, with the end of the container as its state."""
    world = SteppedSandbox()
    world.run(pod(load="memory: constant 300Mi"), seconds=2.5)
    seen = []
    for _ in range(5):
        begun = world.sandbox.clock.monotonic()
        restarts = world.status()["restartCount"]
        assert world.status()["state"]["terminated"]["reason"] == "OOMKilled"
        assert not world.is_ready()
        while world.status()["restartCount"] == restarts:
            world.step(0.1)
        seen.append(round(world.sandbox.clock.monotonic() - begun))
        world.step(0.6)

    assert seen == [10, 20, 40, 80, 160]
    assert world.reasons().count("BackOff") == 1


def test_a_good_run_ends_the_back_off() -> None:
    """After ten good minutes a crash is the first again."""
    world = SteppedSandbox()
    world.run(pod(load="memory: leaking 100Mi 600Mi, noise: 0"), seconds=11 * 60)
    assert world.status()["restartCount"] == 1
    world.step(10 * 60 + 20)

    assert world.status()["restartCount"] == 2


def test_a_program_that_ends_well_may_come_again() -> None:
    """The policy `Always` starts it again, also after success."""
    world = SteppedSandbox()
    world.run(pod(load="exit: 5s"), seconds=7)

    assert world.pod()["status"]["phase"] == "Running"
    assert world.status()["restartCount"] == 1


def test_a_node_without_memory_evicts() -> None:
    """The pod that is furthest above its request goes, and its controller makes another."""
    world = SteppedSandbox([NodeSize("small", cpu="4", memory="1Gi")])
    world.run(
        deployment("calm", load="memory: constant 100Mi"),
        deployment(
            "greedy",
            container(requests={"memory": "50Mi"}, limits={}),
            load="memory: leaking 100Mi 6000Mi, noise: 0",
        ),
        seconds=560,
    )
    failed = [found for found in pods_in(world.sandbox) if found["status"]["phase"] == "Failed"]
    (event,) = events_in(world.sandbox, reason="Evicted")

    assert [found["metadata"]["labels"]["app"] for found in failed] == ["greedy"]
    assert failed[0]["status"]["reason"] == "Evicted"
    assert "The node was low on resource: memory" in failed[0]["status"]["message"]
    assert event["message"] == failed[0]["status"]["message"]
    annotations = event["metadata"]["annotations"]
    assert annotations["offending_containers"] == "app"
    assert annotations["starved_resource"] == "memory"
    assert len(pods_in(world.sandbox, selector="app=greedy")) == 2


def test_a_load_that_cannot_be_read() -> None:
    """A pod that nobody knows what to do with is told so, and the others run."""
    world = SteppedSandbox()
    world.run(pod("bad", load="cpu: sometimes"), pod("good"))

    (event,) = events_in(world.sandbox, reason="BadLoad")
    assert "'cpu: sometimes' is no clause of a load" in event["message"]
    assert world.pod("bad")["status"]["phase"] == "Pending"
    assert world.is_ready("good")
